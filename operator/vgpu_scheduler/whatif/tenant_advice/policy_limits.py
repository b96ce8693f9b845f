"""The amounts that a pod may ask for within the policy limits that it exceeds, or that deny it cards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from vgpu_scheduler.dialects import Dialect
from vgpu_scheduler.engine import LIMITED_SUMS, ExceededLimit, PodSums, pod_sums
from vgpu_scheduler.kube import in_binary_units, to_int
from vgpu_scheduler.model import PodClaims, mib_free
from vgpu_scheduler.policy import LimitField, UpperBound
from vgpu_scheduler.whatif.advice.limits import most_at_once, only_shares_more
from vgpu_scheduler.whatif.advice.remedy import Action, Advice, do, leave_out_resources
from vgpu_scheduler.whatif.objects.amounts import Amount
from vgpu_scheduler.whatif.objects.containers import amounts_asked, containers_of, without_resources
from vgpu_scheduler.whatif.reasons.namespace_objects import hidden_policy
from vgpu_scheduler.whatif.tenant_advice.needs import ClaimConstraint, PodRequest, amounts_instead_of_percent
from vgpu_scheduler.whatif.tenant_advice.nodes import is_of
from vgpu_scheduler.whatif.tenant_advice.pieces import least_of
from vgpu_scheduler.whatif.tenant_advice.quotas import ON_A_NODE, QuotasOfPod


def amounts_within_limits(asked: PodRequest, message: str, quotas: QuotasOfPod) -> Iterator[Advice]:
    """Yield the largest amounts that all exceeded policy limits allow, and the proposal to raise these limits.

    For a limit, an unspecified amount counts as that of the whole cards. A limit of memory that is exceeded on larger
    cards alone is kept, too: it is no reason until the pod keeps the others.
    """
    exceeded = ExceededLimit.found_in(message)
    needs = [_need_of_limit(asked, field, to_int(most), _limit_text(field, of, most)) for field, of, most in exceeded]
    if exceeded:
        fields = {field for field, _, _ in exceeded}
        memory = None if fields & {LimitField.MEMORY, LimitField.DEVICES} else memory_limit_of(asked)
        why = ""
        if memory is not None:
            why = denies_larger_cards(memory)
            needs.append(_need_of_limit(asked, LimitField.MEMORY, memory.most, ""))
        devices = [to_int(most) for field, _, most in exceeded if field == LimitField.DEVICES]
        least = (_least_memory(asked) if LimitField.MEMORY in fields else None) or 0
        if any(field == LimitField.MEMORY and to_int(most) < least for field, _, most in exceeded):
            pass  # no request keeps that limit
        elif devices and _fewest_devices(asked) > min(devices):
            yield from _in_fewer_containers(asked, exceeded, min(devices), quotas)
        else:
            hidden = _of_hidden_limits(asked) if asked.corrected else ()  # the scheduler names the lowest limits
            for way in quotas.met_with(needs):
                bounded = (each if each.steps is None else replace(each, most=(*each.most, *hidden)) for each in way)
                yield tuple(_bounded(asked, each, (), why) for each in bounded)
        raised = " and ".join(_raised(asked, least, *each) for each in exceeded)
        yield from quotas.raised_beside([(Action(f"have {raised}", why=why),)])


def _raised(asked: PodRequest, least: int, field: str, source: str, most: str) -> str:
    """Describe the limit to raise for a pod that cannot ask for less memory than some bytes."""
    if field != LimitField.MEMORY or least <= to_int(most):
        return f"limits.{field} of {source} raised (it is {most})"
    now = in_binary_units(_memory_of(asked, asked.claims) or least)
    why = f"it is {most}, and the pod cannot ask for less than {in_binary_units(least)}"
    return f"limits.{field} of {source} raised to {now} ({why})"


def _least_memory(asked: PodRequest) -> int | None:
    """Return the fewest bytes of memory that a pod can ask for: a piece of a card at least; None if cards tell."""
    return _memory_of(asked, least_of(asked, lambda claims: _sums_of(asked, claims))) if asked.claims else None


def _memory_of(asked: PodRequest, claims: PodClaims) -> int | None:
    """Return how many bytes of memory claims are for at most at once; None if that depends on the card."""
    sums, unit = _sums_of(asked, claims), asked.dialects[asked.claims[0].dialect].inventory.memory_unit
    return None if sums.percent else LIMITED_SUMS[LimitField.MEMORY](sums, unit)


def _sums_of(asked: PodRequest, claims: PodClaims) -> PodSums:
    return most_at_once(pod_sums(claims, asked.dialects[asked.claims[0].dialect]))


def memory_limit_of(asked: PodRequest) -> UpperBound | None:
    """Return the known limit of a pod's memory if it depends on the card whether the pod exceeds it, else None.

    It does if a container asks for a percentage of a card's memory, or does not say how much.
    """
    claimed = asked.world.engine.algorithm.classes.claimed(asked.world.pod(asked.written, again=True))
    if claimed is None or not claimed.dialect:
        return None
    depends = any(sums.percent for sums in pod_sums(claimed.claims, asked.dialects[claimed.dialect]))
    return claimed.policy.limits.memory if depends else None


def denies_larger_cards(limit: UpperBound) -> str:
    """Say what a memory limit means for a pod whose memory depends on the card."""
    return f"{limit.source} limits the memory of a pod, and denies larger cards"


def amounts_for_any_card(asked: PodRequest, quotas: QuotasOfPod) -> Iterator[Advice]:
    """Yield the largest amounts of memory that a known limit allows on any card, within the quotas.

    Yield none if the memory of the pod does not depend on the card, or cannot be asked for in an amount. No card need
    have as much if none was denied yet, which is the case of a pod with corrected mistakes.
    """
    limit = memory_limit_of(asked)
    if limit is None:
        return
    caveats = _of_hidden_limits(asked)
    if asked.corrected:
        caveats = (*caveats, f"at most: {ON_A_NODE}")
    need = _need_of_limit(asked, LimitField.MEMORY, limit.most, "")
    for way in quotas.met_with([need]):
        if any(_is_memory(asked, each) for each in way):
            yield tuple(_bounded(asked, each, caveats, denies_larger_cards(limit)) for each in way)


def _of_hidden_limits(asked: PodRequest) -> tuple[str, ...]:
    """Return the caveat about lower limits of policies that the reader may not see; empty if all were read."""
    hidden = hidden_policy(asked.world.unread)
    return (f"at most: {hidden}, may allow less",) if hidden else ()


def _bounded(asked: PodRequest, action: Action, caveats: tuple[str, ...], why: str) -> Action:
    """Return an action on an amount of memory with its caveats and an explanation; another action as it is."""
    if not _is_memory(asked, action):
        return action
    return replace(action, most=(*action.most, *caveats), why="; ".join(filter(None, (why, action.why))))


def _is_memory(asked: PodRequest, action: Action) -> bool:
    """Tell whether an action sets an amount of memory."""
    amount = action.amount
    return amount is not None and any(is_of(asked, amount, each, each.inventory.memory) for each in asked.owners)


def _fewest_devices(asked: PodRequest) -> int:
    """Return the fewest devices that a pod can ask for at once: one in each container that has any."""
    claims = tuple(
        replace(each, claims=tuple(replace(claim, count=1) for claim in each.claims)) for each in asked.claims
    )
    return most_at_once(pod_sums(claims, asked.dialects[claims[0].dialect])).devices if claims else 0


def _in_fewer_containers(
    asked: PodRequest, exceeded: Sequence[tuple[str, str, str]], most: int, quotas: QuotasOfPod
) -> Iterator[Advice]:
    """Yield ways to leave cards out in one container, so that the others keep all limits, or say in how many to ask."""
    found = False
    known = {name for dialect in asked.owners for name in dialect.inventory.device_resources}
    for container in (each.name for each in asked.claims if each.claims):
        named = next(each for _, _, each in containers_of(asked.written) if each.get("name") == container)
        names = sorted(known.intersection(amounts_asked(named)))
        other = PodRequest(asked.world, without_resources(asked.written, names, [container]))
        if other.claims and other.is_let_in(other.written) and _fewest_devices(other) <= most:
            found = True
            needs = [_need_of_limit(other, field, to_int(m), _limit_text(field, of, m)) for field, of, m in exceeded]
            left = leave_out_resources(names, [container])
            ways = list(quotas.if_written(other.written).met_with(needs))
            yield from ((left, *way) for way in ways or [()])
    if not found:
        source = next(of for field, of, _ in exceeded if field == LimitField.DEVICES)
        yield do(
            f"ask for cards in no more containers than limits.{LimitField.DEVICES} of {source} allows cards ({most})"
        )


def _limit_text(field: str, source: str, most: str) -> str:
    """Propose to keep a limit, if no amount is known to keep it."""
    if field == LimitField.EXCLUSIVE_CARDS:
        return (
            f"ask for no more cards for itself than limits.{field} of {source} allows ({most}): a card is "
            "shared if neither all of its compute nor all of its memory nor an idle card is requested"
        )
    return f"ask for no more than limits.{field} of {source} allows ({most})"


def _need_of_limit(asked: PodRequest, field: str, most: int, otherwise: str) -> ClaimConstraint:
    sums_of = LIMITED_SUMS.get(field)
    claimed = asked.world.engine.algorithm.classes.claimed(asked.world.pod(asked.written, again=True))
    idle = claimed is not None and bool(claimed.dialect) and claimed.choice.takes_idle_cards

    def sums(claims: PodClaims) -> PodSums:
        return most_at_once(pod_sums(claims, asked.dialects[claims[0].dialect], idle=idle))

    def fits(claims: PodClaims) -> bool:
        if sums_of is None or not claims or not asked.claims:
            return False
        less = sums(claims)
        if field == LimitField.EXCLUSIVE_CARDS and only_shares_more(sums(asked.claims), less):
            return False  # it would have as many cards as before, which only evades the limit
        if field == LimitField.MEMORY and less.percent:
            return False  # unspecified memory, and a percentage, count by the size of the card
        return sums_of(less, asked.dialects[claims[0].dialect].inventory.memory_unit) <= most

    def concerns(amount: Amount) -> bool:
        return sums_of is not None and not (field == LimitField.EXCLUSIVE_CARDS and amount.unsaid)

    def is_of_limit(amount: Amount) -> bool:
        inventories = [(dialect, dialect.inventory) for dialect in asked.owners]
        of: dict[str, list[tuple[Dialect, int]]] = {
            LimitField.CORES: [(d, about.cores) for d, about in inventories],
            LimitField.MEMORY: [(d, about.memory) for d, about in inventories],
        }
        return any(is_of(asked, amount, dialect, dimension) for dialect, dimension in of.get(field, ()))

    instead = _instead_of_percent(asked, mib_free(most)) if field == LimitField.MEMORY else ()
    return ClaimConstraint(fits, concerns, otherwise, shared_by=is_of_limit, instead=instead)


def _instead_of_percent(asked: PodRequest, most: int) -> list[Amount]:
    """Return absolute amounts for the containers that ask for a percentage of their cards' memory."""
    memories = [
        name
        for dialect in asked.owners
        for name, about in dialect.inventory.device_resources.items()
        if about.dimension == dialect.inventory.memory and not about.percent and name in dialect.claims.resources
    ]
    return [amount for name in memories for amount in amounts_instead_of_percent(asked, name, most)]
