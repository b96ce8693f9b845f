"""A remedy for a waiting pod, and the pod under hypothetical changes.

Actions are passed on as values, and turned into text only for output.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from copy import copy
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import islice
from typing import Any, Final

from vgpu_scheduler.dialects import Dialect
from vgpu_scheduler.engine import SchedulingAlgorithm
from vgpu_scheduler.kube import Object, Pod
from vgpu_scheduler.model import NodeVerdict, Outcome, by_name
from vgpu_scheduler.whatif.advice.admitted import AdmissionVariants
from vgpu_scheduler.whatif.advice.joining import join_needed
from vgpu_scheduler.whatif.objects.amounts import Amount, AmountChange, ResourceStep, amounts_of, is_claim
from vgpu_scheduler.whatif.objects.card_names import asks_for_cards, card_names
from vgpu_scheduler.whatif.objects.objects import InvalidObjectsError
from vgpu_scheduler.whatif.reasons.mismatch import CARD_REASONS
from vgpu_scheduler.whatif.world.queue_order import placing, that_may_gain
from vgpu_scheduler.whatif.world.replacing import objects_replaced
from vgpu_scheduler.whatif.world.simulation import created
from vgpu_scheduler.whatif.world.world import World

MOST_OF_A_KIND: Final = 3
"""The most remedies of one kind that are proposed."""
_MOST_NODES_IN_A_HURRY: Final = 16


class RemedyType(StrEnum):
    """The kind of a remedy, in words for users."""

    CORRECT = "correct a mistake"
    PROVIDE_VOLUME = "provide a volume"
    COMPLETE_GROUP = "complete its group"
    ASK_LESS = "ask for less"
    ASK_OTHERWISE = "ask otherwise"
    DROP_CONSTRAINT = "drop a constraint"
    TOLERATE = "tolerate a taint"
    UNCORDON_NODE = "uncordon a node"
    UNCORDON_CARD = "uncordon a card"
    MANAGE_NODE = "manage a node"
    REPAIR_NODE = "repair a node"
    WAIT = "wait"
    END_PODS = "end pods"
    RAISE_PRIORITY = "raise the priority"
    RAISE_QUOTA = "raise a quota"
    RAISE_LIMIT = "raise a limit"
    CHANGE_POLICY = "change a policy"
    CHANGE_SETTING = "change a setting"
    TOGETHER = "change two things"
    ADD_NODE = "add a node"


@dataclass(frozen=True, slots=True)
class Action:
    """One action of a user.

    Attributes
    ----------
    what
        The action as text.
    responsible
        Who can do it or knows more about it; empty if nobody is named.
    most
        Why no larger amount helps.
    why
        Further explanation of an amount.
    nameless
        The text without pod names, for readers who may not delete these pods.
    is_long
        Whether the text has several sentences, which could be read as part of a preceding action.
    amount
        The amount that the action changes; None if it changes none.
    steps
        The steps to which it sets the amount; None if it does not say how many.
    leaves_out
        What the pod no longer has after the action: resources, or an annotation as the text calls it.
    containers
        The containers in which resources are left out.
    """

    what: str
    responsible: str = ""
    most: tuple[str, ...] = ()
    why: str = ""
    nameless: str = ""
    is_long: bool = False
    amount: Amount | None = None
    steps: int | None = None
    leaves_out: tuple[str, ...] = ()
    containers: tuple[str, ...] = ()

    def __str__(self) -> str:
        said = "; ".join(filter(None, (*self.most, self.why)))
        return f"{self.what} ({said})" if said else self.what


Advice = tuple[Action, ...]
"""Actions that have to be taken together."""


def do(what: str, responsible: str = "") -> Advice:
    """Return advice of a single action."""
    return (Action(what, responsible),)


def ask_for(amount: Amount, steps: int, most: tuple[str, ...] = (), why: str = "") -> Action:
    """Return the action that sets an amount to a number of steps; see :class:`Action`."""
    return Action(amount.request_text(steps), most=most, why=why, amount=amount, steps=steps)


def ask_for_less(amount: Amount, part: ResourceStep, why: str = "") -> Action:
    """Return the action that reduces one resource of an amount, without saying by how much; ``why`` ends its text."""
    return Action(f"{amount.less_of(part)}{why}", amount=replace(amount, parts=(part,)))


def leave_out_resources(names: Sequence[str], containers: Sequence[str]) -> Action:
    """Return the action that leaves resources out in containers."""
    what = f"leave out {' and '.join(names)} in {by_name('container', containers)}"
    return Action(what, leaves_out=tuple(names), containers=tuple(containers))


def say(advice: Sequence[Action]) -> str:
    """Format advice as text; who is responsible for the last action comes last, for others in parentheses."""
    texts = [f"{each} ({each.responsible})" if each.responsible else str(each) for each in advice[:-1]]
    last = [f": {each.responsible}" if each.responsible else "" for each in advice[-1:]]
    return "".join((join_needed([*texts, *map(str, advice[-1:])]), *last))


@dataclass(frozen=True, slots=True)
class Remedy:
    """One change after which a pod fits.

    Attributes
    ----------
    actions
        What to change.
    node
        The pod's node after the change; empty for a necessary first step that does not suffice.
    pod
        The changed pod; None if the pod stays as it is.
    objects
        Other changed objects.
    ended
        UIDs of the pods that would have to end.
    named
        The other pods that the text names, as namespace/name, and that need not end.
    """

    type: RemedyType
    actions: Advice
    node: str
    pod: Object | None = None
    objects: tuple[Object, ...] = ()
    ended: tuple[str, ...] = ()
    named: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The change as one sentence."""
        return say(self.actions)

    def without_names(self) -> Remedy:
        """Return the remedy without pod names, for readers who may not delete these pods."""
        actions = tuple(replace(each, what=each.nameless or each.what) for each in self.actions)
        return replace(self, actions=actions)

    def as_json(self) -> dict[str, Any]:
        """Return the remedy as plain values."""
        return {"kind": self.type.value, "text": self.text, "node": self.node}


def parts_of(advice: Advice) -> tuple[str, ...]:
    """Return the texts of advice in a canonical order, without the bounds of amounts, to find duplicates."""
    return tuple(sorted(say([replace(each, most=())]) for each in advice))


def each_once(found: Iterable[Remedy]) -> list[Remedy]:
    """Return remedies without duplicates, regardless of the order of their actions."""
    said: dict[tuple[str, ...], Remedy] = {}
    for remedy in found:
        said.setdefault(parts_of(remedy.actions), remedy)
    return list(said.values())


class HypotheticalPod:
    """A waiting pod, with questions about where it would go if it or the cluster were changed.

    Parameters
    ----------
    before
        The pods that are ahead of it in the queue and fit nowhere now.
    later
        The pods of its priority that are behind it and fit nowhere either.

    Attributes
    ----------
    most_nodes
        The most nodes that searches try one after the other; None for all.
    together
        Whether it is placed only together with others of its group.
    corrections
        Corrections of its amounts that have been applied.
    """

    together = False
    corrections: Sequence[AmountChange] = ()

    def __init__(self, world: World, pod: Pod, before: Sequence[Pod] = (), later: Sequence[Pod] = ()) -> None:
        self.world = world
        self.pod = pod
        self.before = before
        self.later = later
        self.most_nodes: int | None = None
        self.written = world.written(pod)
        self.ours = created(world, pod, pod.uid)
        self.algorithm: SchedulingAlgorithm = world.engine.algorithm
        self._admitted = AdmissionVariants(world, self.written)
        self._forms: tuple[Pod, ...] = (self.ours,)
        self._names = card_names(world.engine.dialects)

    @property
    def at_once(self) -> Sequence[Pod]:
        """The pods that are placed at once with it, including itself."""
        return (self.ours,)

    @property
    def limited(self) -> bool:
        """Whether a quota limits the cards of its namespace."""
        return bool(self.world.engine.quota_limits.limited({self.pod.namespace}))

    @property
    def is_refused(self) -> bool:
        """Whether the pod is refused on all nodes."""
        return bool(self.refusal)

    @property
    def refusal(self) -> str:
        """Why the pod is refused on all nodes; empty if it is not."""
        decision = self.algorithm.decide(self.ours)
        return decision.message if decision.outcome is Outcome.REFUSED else ""

    def rewritten(self, written: Object, corrections: Sequence[AmountChange] = ()) -> HypotheticalPod:
        """Return another version of the pod; the pod itself if that cannot be read.

        A version that would not be admitted fits nowhere, but may lead to one that would.

        Parameters
        ----------
        corrections
            The amounts that this version corrects.
        """
        ours = self.read(written)
        if ours is None:
            return self
        other = copy(self)
        other.written, other.ours, other._forms = written, ours, self.forms(written)
        other.corrections = (*self.corrections, *corrections)
        return other

    def amounts(self, written: Object | None = None) -> Iterator[Amount]:
        """Yield the amounts of the pod, or of another version of it."""
        claims = self.algorithm.classes.claims(self.ours)
        asked, dialects = self.written if written is None else written, self.world.engine.dialects
        return amounts_of(asked, dialects, self.ours, claims, self.corrections)

    def is_claim(self, dialect: Dialect, written: Object) -> bool:
        """Tell whether a dialect can read the claims of another version of the pod."""
        try:
            return is_claim(dialect, self.world.pod(written, again=True))
        except InvalidObjectsError:
            return False

    def is_let_in(self, written: Object, *, excused: bool = True) -> bool:
        """Tell whether another version of the pod would be admitted; see :meth:`AdmissionVariants.of`."""
        return bool(self._admitted.of(written, excused=excused))

    def forms(self, written: Object) -> tuple[Pod, ...]:
        """Return the forms in which another version of the pod may be stored; see :class:`AdmissionVariants`.

        Forms without cards are left out: they are no remedy for a pod that asks for cards.
        """
        return tuple(form for read in self._admitted.of(written) if (form := self._ours(read)) is not None)

    def with_small_search(self, before: Sequence[Pod]) -> HypotheticalPod:
        """Return the pod with other pods ahead of it, for a search over a few nodes only."""
        other = copy(self)
        other.before, other.most_nodes = before, _MOST_NODES_IN_A_HURRY
        return other

    def with_algorithm(self, algorithm: SchedulingAlgorithm) -> HypotheticalPod:
        """Return the pod as another algorithm would decide it."""
        other = copy(self)
        other.algorithm = algorithm
        return other

    def verdicts(self, written: Object | None = None) -> Mapping[str, NodeVerdict]:
        """Return the verdicts of infeasible nodes about the pod, or about another version of it."""
        ours = self.ours if written is None else self.read(written)
        return {} if ours is None else self.algorithm.decide(ours, explain=True).verdicts

    def closed_by_cards(self) -> list[str]:
        """Return the first nodes that are infeasible because of their cards."""
        verdicts = sorted(self.verdicts().items())
        found = (name for name, verdict in verdicts if not CARD_REASONS.isdisjoint(verdict.reasons))
        return list(islice(found, self.most_nodes))

    def read(self, written: Object) -> Pod | None:
        """Return another version of the pod, decoded.

        Return None if it cannot be read, or has no cards: that is no remedy for a pod that asks for cards.
        """
        try:
            return self._ours(self.world.pod(written, again=True))
        except InvalidObjectsError:
            return None

    def _ours(self, pod: Pod) -> Pod | None:
        read = created(self.world, pod, self.pod.uid)
        return read if asks_for_cards(self._names, read) or not asks_for_cards(self._names, self.pod) else None

    def node(self, written: Object | None = None) -> str:
        """Return the node of the pod, or of another version of it; empty if it fits nowhere.

        Pods ahead in the queue are placed first, if they fit in the cluster as it then is.
        """
        forms = self._forms if written is None else self.forms(written)
        node = self._first_node(forms)
        if node and self.before and written is None:
            with self.before_placed():
                return self._first_node(forms)
        return node

    def node_now(self) -> str:
        """Return the pod's node with all other pods where they are; empty if it fits nowhere."""
        return self._first_node(self._forms)

    def node_before(self, others: Sequence[Pod]) -> str:
        """Return the pod's node if it is tried before some of the pods ahead of it."""
        uids = {pod.uid for pod in others}
        with placing(self.world, [pod for pod in self.before if pod.uid not in uids]):
            return self._first_node(self._forms)

    def before_placed(self, *, made_anew: bool = False) -> AbstractContextManager[list[Pod]]:
        """Place the pods ahead of the pod that fit in the present cluster, for the time of a question.

        Parameters
        ----------
        made_anew
            The pod is recreated, so it comes after all pods of its priority.
        """
        return placing(self.world, [*self.before, *self.later] if made_anew else self.before)

    def node_with(self, changed: Object) -> str:
        """Return the pod's node with an object of the world replaced for the time of the question."""
        with objects_replaced(self.world, (changed,)):
            return self.node()

    def fits_without(self, without: Iterable[Pod], node: str = "") -> bool:
        """Tell whether the pod fits without some pods, once pods ahead in the queue are placed.

        Parameters
        ----------
        node
            The node where it has to fit; empty for any.
        """
        gone = list(without)
        with self.world.engine.state.without(pod.uid for pod in gone):
            if not self.fits_now(node):
                return False
            before = that_may_gain(self.world, self.before, gone, node)
            if not before:
                return True
            with placing(self.world, before):
                return self.fits_now(node)

    def fits_now(self, node: str) -> bool:
        """Tell whether the pod fits on a node, or on any if it is empty, with all other pods where they are."""
        return self.fits_now_on(node) if node else bool(self.node_now())

    def fits_now_on(self, node: str) -> bool:
        """Tell whether the pod fits on a node in all its forms, with all other pods where they are."""
        fits = (self.algorithm.node_fit.fits_without(form, node, ()) is not None for form in self._forms)
        return bool(self._forms) and all(fits)

    def _first_node(self, forms: Sequence[Pod]) -> str:
        """Return the node of the first form; empty unless all forms fit somewhere."""
        nodes = [node for form in forms if (node := self._decided(form))]
        return nodes[0] if nodes and len(nodes) == len(forms) else ""

    def _decided(self, ours: Pod) -> str:
        return self.algorithm.decide(ours).node
