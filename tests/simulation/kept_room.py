"""What must hold of the room that is kept for pods, and of the evictions that make it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import zip_longest
from typing import TYPE_CHECKING

from tests.engine.builders import OURS
from tests.simulation.cluster import SimApi, SimPod
from tests.simulation.records import check_records
from tests.simulation.vendors import total_of

from vgpu_scheduler.engine import Engine, QueueName
from vgpu_scheduler.kube import MANAGER
from vgpu_scheduler.model import Amounts, Placement, Preemption, add
from vgpu_scheduler.policy import PolicyKey, VictimScope

if TYPE_CHECKING:
    from tests.simulation.preemption import PreemptionMachine

Card = tuple[str, str]
_NOTHING: Amounts = (0, 0, 0)
_QUIET = 3
_TRIED = (QueueName.ACTIVE, QueueName.BACKOFF)


def check_kept_room(api: SimApi, under_way: Iterable[tuple[str, Preemption]], odd: Collection[Card]) -> None:
    """Check on the API's objects that what victims left is there for whom they left it, card by card.

    What pods hold now, and what each pod is to get beyond what its victims hold still, is no more than there is.

    Parameters
    ----------
    odd
        Cards that something befell that no leader can see to.
    """
    held: dict[Card, Amounts] = {}
    for node, uuid, amounts in api.held():
        held[node, uuid] = add(held.get((node, uuid), _NOTHING), amounts)
    kept: dict[Card, Amounts] = {}
    for claims, leaving in _claims(api, under_way):
        there = (api.pods.get(uid) for uid in leaving)
        victims = [one for one in there if one and not one.terminal]
        for card, amounts in claims.items():
            left = amounts
            for victim in victims:
                theirs = on_cards(victim.placement).get(card, _NOTHING) if victim.node == card[0] else _NOTHING
                left = tuple(mine - other for mine, other in zip_longest(left, theirs, fillvalue=0))
            kept[card] = add(kept.get(card, _NOTHING), tuple(max(amount, 0) for amount in left))
    for card, amounts in kept.items():
        if card not in odd:
            used = add(held.get(card, _NOTHING), amounts)
            assert all(have <= most for have, most in zip_longest(used, total_of(card[1]), fillvalue=0)), (
                f"{card}: {held.get(card)} are in use, and {amounts} are kept"
            )


def _claims(
    api: SimApi, under_way: Iterable[tuple[str, Preemption]]
) -> Iterator[tuple[dict[Card, Amounts], list[str]]]:
    """Yield what pods get of cards with those that leave it; of those that get it together, all in one."""
    together: dict[tuple[str, ...], list[tuple[str, Preemption]]] = {}
    for uid, preemption in under_way:
        together.setdefault(preemption.gang or (uid,), []).append((uid, preemption))
    for members in together.values():
        claims: dict[Card, Amounts] = {}
        for uid, preemption in members:
            pod = api.pods.get(uid)
            if pod is None or pod.node or pod.terminal or pod.deleting or pod.nominated != preemption.node:
                continue
            for card, amounts in on_cards(preemption.placement).items():
                claims[card] = add(claims.get(card, _NOTHING), amounts)
        yield claims, [victim.uid for _, preemption in members for victim in preemption.victims]


def on_cards(placement: Placement | None) -> dict[Card, Amounts]:
    """Return what a placement takes of each card."""
    found: dict[Card, Amounts] = {}
    for container in placement.containers if placement else ():
        for assignment in container:
            where = (placement.node if placement else "", assignment.uuid)
            found[where] = add(found.get(where, _NOTHING), assignment.amounts)
    return found


def check_sent(machine: PreemptionMachine, engine: Engine, victim: str) -> tuple[tuple[PolicyKey, int], ...]:
    """Check an eviction that is being sent, as its leader knows things; return the limits under which it is.

    For which of several pods it is sent nobody can tell: then it is under the limits that are those of all of them.
    """
    state, wanted, quotas = engine.state, [], list[tuple[tuple[PolicyKey, int], ...]]()
    for uid, preemption in engine.preemptions.under_way():
        if victim in {one.uid for one in preemption.victims}:
            wanted.append((uid, preemption))
    assert wanted, f"{victim} is evicted for nobody"
    problems: list[str] = []
    for uid, preemption in wanted:
        pod, evicted = state.pod(uid), state.pod(victim)
        assert pod is not None, f"{victim} is evicted for a pod that is gone"
        assert evicted is not None
        found = _problems(machine, engine, uid, victim, preemption)
        if _is_nominated_by_others(machine, engine, uid):
            found.append("somebody else nominated it, and no leader of ours has decided that")
        if not found:
            quotas.append(engine.preemptions.rules_of(uid).eviction_limits)
        problems += found
    assert quotas, f"{victim} is evicted for {wanted}: {problems}"
    return tuple(quota for quota in quotas[0] if all(quota in others for others in quotas))


def _is_nominated_by_others(machine: PreemptionMachine, engine: Engine, uid: str) -> bool:
    """Tell whether a leader found the nomination of a pod that another program wrote, and none of its own."""
    pod = machine.api.pods.get(uid)
    leaders = [each for each in (machine.leader, machine.former) if each is not None and each.engine is engine]
    return pod is not None and pod.nominated_by != MANAGER and not any(uid in each.decided for each in leaders)


def _problems(machine: PreemptionMachine, engine: Engine, uid: str, victim: str, preemption: Preemption) -> list[str]:
    """Say what is wrong with the eviction of a pod for another one."""
    state, found = engine.state, []
    pod, evicted = state.pod(uid), state.pod(victim)
    assert pod is not None
    assert evicted is not None
    if not engine.unbound_pods.needs_scheduling(pod):
        found.append("it does not wait any more")
    known = machine.api.pods.get(uid)
    is_late = uid in machine.nominated_late and pod.nominated_node_name == preemption.node  # of which no event has come
    if known is not None and known.nominated != preemption.node and not is_late:
        found.append("it is not nominated")
    hold = state.holds.get(uid)
    if hold is None or engine.preemptions.evaluator.disruption.with_group_priority(evicted).priority >= hold.priority:
        found.append("its priority is not higher")
    if evicted.is_static or evicted.namespace in engine.options.protected_namespaces:
        found.append("the victim is protected")
    rules, own = engine.preemptions.rules_of(uid), engine.policies.resolve(evicted).preemption
    if not rules.may_preempt:
        found.append("no policy lets it preempt others")
    if not own.preemptible:
        found.append("a policy protects the victim")
    if own.min_runtime and (evicted.start_time is None or machine.now - evicted.start_time < own.min_runtime):
        found.append("the victim has not run for so long yet")
    if rules.victims is VictimScope.OWN and evicted.scheduler_name != OURS:
        found.append("the victim is another scheduler's")
    return found


def check_settled(machine: PreemptionMachine) -> None:
    """Let all victims end and all answers come, and check that nothing is left of it.

    Who waits then could not get anybody's room; nothing is kept, nobody is nominated to a node without room of its own.
    """
    machine.relist_again()
    quiet = 0  # rounds after which nothing was left to be done: nominations are cleared in the next one
    for _ in range(300):
        machine.now += 61.0  # at first: whoever may do something only later was tried when it might
        machine.loop.turn()
        machine.answers_come()
        machine.departed_pods_are_read(50)
        machine.everybody_is_tried()
        machine.all_goes_well(50)
        machine.evictions_go_on(6)
        ending = [pod for pod in machine.api.pods.values() if pod.deleting]
        for pod in ending:
            machine.api.delete_pod(pod.uid)
        machine.books_are_right()
        if quiet == 1:  # who waited before trying again has seen that it is not wanted any more
            check_records(machine)
        places = machine.engine.queue.counts()
        busy = any(places[place] for place in _TRIED) or machine.under_way() or machine.in_flight
        quiet = 0 if busy or ending or machine.requests() or machine.api.events else quiet + 1
        if quiet == _QUIET:
            break
    else:
        raise AssertionError(f"it does not come to rest: {machine.under_way()}, {machine.requests()}")
    engine = machine.engine
    assert not engine.state.holds, f"room is kept for {[hold.reservation.pod for hold in engine.state.holds]}"
    waiting = [pod for pod in machine.api.pods.values() if _waits(pod)]
    for pod in waiting:
        known = engine.state.pod(pod.uid)
        assert known is not None
        assert engine.unbound_pods.needs_scheduling(known), f"{pod.name} is not waiting"
        found = machine.could_preempt(known)
        assert found is None, f"{pod.name} waits, and could preempt {found}"
        others = pod.uid in machine.nominated_late or pod.nominated_by != MANAGER
        assert others or not pod.nominated, f"{pod.name} is nominated to {pod.nominated}, and nothing is kept for it"


def _waits(pod: SimPod) -> bool:
    return pod.ours and not (pod.node or pod.terminal or pod.deleting or pod.gated)
