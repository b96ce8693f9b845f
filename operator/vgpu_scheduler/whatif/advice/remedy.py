"""One change that would help a pod that waits, and the pod of which it is asked.

What is to be done is passed on as values; words are made of them where somebody is told.
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
from vgpu_scheduler.model import NodeVerdict, Outcome
from vgpu_scheduler.whatif.advice.admitted import AdmissionVariants
from vgpu_scheduler.whatif.objects.amounts import Amount, AmountChange, amounts_of, is_claim
from vgpu_scheduler.whatif.objects.card_names import asks_for_cards, card_names
from vgpu_scheduler.whatif.objects.objects import WorldError
from vgpu_scheduler.whatif.reasons.mismatch import CARD_REASONS
from vgpu_scheduler.whatif.world.queue_order import placed
from vgpu_scheduler.whatif.world.replacing import objects_replaced
from vgpu_scheduler.whatif.world.simulation import created
from vgpu_scheduler.whatif.world.world import World

__all__ = [
    "MOST_OF_A_KIND",
    "Action",
    "Advice",
    "HypotheticalPod",
    "Remedy",
    "RemedyKind",
    "ask_for",
    "do",
    "each_once",
    "parts_of",
    "say",
]


MOST_OF_A_KIND: Final = 3
"""Remedies of a kind that are told."""
_MOST_NODES_IN_A_HURRY: Final = 16


class RemedyKind(StrEnum):
    """What somebody would have to do."""

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
    RAISE_QUOTA = "raise a quota"
    RAISE_LIMIT = "raise a limit"
    CHANGE_POLICY = "change a policy"
    CHANGE_SETTING = "change a setting"
    TOGETHER = "change two things"
    ADD_NODE = "add a node"


@dataclass(frozen=True, slots=True)
class Action:
    """One thing that somebody does.

    Attributes
    ----------
    what
        What it is, in words.
    whoever
        Who can say more of it, or does it; empty where nobody is named.
    most
        By what it is known to be the most that may be asked.
    why
        What else is said of an amount.
    nameless
        The words for somebody who must not end the pods that these name: how many there are is enough.
    is_long
        Whether it takes more than one sentence, which would be taken to be about what is said before it.
    amount
        What a container asks otherwise then; None where it asks no other amount.
    """

    what: str
    whoever: str = ""
    most: tuple[str, ...] = ()
    why: str = ""
    nameless: str = ""
    is_long: bool = False
    amount: Amount | None = None

    def __str__(self) -> str:
        said = "; ".join(filter(None, (*self.most, self.why)))
        return f"{self.what} ({said})" if said else self.what


Advice = tuple[Action, ...]
"""What is to be done together."""


def do(what: str, whoever: str = "") -> Advice:
    """Return one thing that somebody does."""
    return (Action(what, whoever),)


def ask_for(amount: Amount, steps: int, most: tuple[str, ...] = (), why: str = "") -> Action:
    """Return that a container asks so many steps of an amount, and what is said of that; see :class:`Action`."""
    return Action(amount.worded(steps), most=most, why=why, amount=amount)


def say(advice: Sequence[Action]) -> str:
    """Word what is to be done together: who can say more of it is said last, or in parentheses."""
    texts = [f"{each} ({each.whoever})" if each.whoever else str(each) for each in advice[:-1]]
    texts += [f"{each}: {each.whoever}" if each.whoever else str(each) for each in advice[-1:]]
    return " and ".join(texts)


@dataclass(frozen=True, slots=True)
class Remedy:
    """One change after which a pod fits.

    Attributes
    ----------
    actions
        What is to be changed.
    node
        Where the pod would go then; empty for what has to be done first, and does not suffice.
    pod
        The pod as it would have to be written; None where it stays.
    objects
        Other objects as they would have to be.
    ended
        UIDs of the pods that would have to end.
    """

    kind: RemedyKind
    actions: Advice
    node: str
    pod: Object | None = None
    objects: tuple[Object, ...] = ()
    ended: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """What is to be changed, as one sentence."""
        return say(self.actions)

    def without_names(self) -> Remedy:
        """Return it for somebody who must not end the pods that it names."""
        actions = tuple(replace(each, what=each.nameless or each.what) for each in self.actions)
        return replace(self, actions=actions)

    def as_json(self) -> dict[str, Any]:
        """Return the remedy as plain values."""
        return {"kind": self.kind.value, "text": self.text, "node": self.node}


def parts_of(advice: Advice) -> tuple[str, ...]:
    """Return what advice says, in an order that is the same however its actions stand, without what is the most."""
    return tuple(sorted(say([replace(each, most=())]) for each in advice))


def each_once(found: Iterable[Remedy]) -> list[Remedy]:
    """Return remedies without those that say what one before them says, in whatever order."""
    said: dict[tuple[str, ...], Remedy] = {}
    for remedy in found:
        said.setdefault(parts_of(remedy.actions), remedy)
    return list(said.values())


class HypotheticalPod:
    """A pod that waits, and the engine that says where it would go if it or the cluster were otherwise.

    Parameters
    ----------
    before
        The pods that wait, too, are served before it, and fit nowhere as the cluster is.
    later
        Those of its priority that are served after it, and fit nowhere either.

    Attributes
    ----------
    most_nodes
        How many nodes are looked at in a search that tries one after the other; None for all.
    together
        Whether it is placed together with others of its group, or not at all.
    corrections
        The amounts of it that were mistakes, and are written as they are meant.
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
        """The pods that are placed at once with it, or none is; itself among them."""
        return (self.ours,)

    @property
    def limited(self) -> bool:
        """Whether a quota counts the cards of its namespace."""
        return bool(self.world.engine.quota_limits.limited({self.pod.namespace}))

    @property
    def is_refused(self) -> bool:
        """Whether the pod cannot be placed whatever the nodes are."""
        return bool(self.refusal)

    @property
    def refusal(self) -> str:
        """Why the pod cannot be placed whatever the nodes are; empty where it can be."""
        decision = self.algorithm.decide(self.ours)
        return decision.message if decision.outcome is Outcome.REFUSED else ""

    def rewritten(self, written: Object, corrections: Sequence[AmountChange] = ()) -> HypotheticalPod:
        """Return the pod as it would be if it were written so; itself where that cannot be read.

        One that would not be let in goes nowhere, but may be a step on the way to one that would.

        Parameters
        ----------
        corrections
            The amounts that are corrected by that.
        """
        ours = self.read(written)
        if ours is None:
            return self
        other = copy(self)
        other.written, other.ours, other._forms = written, ours, self.forms(written)
        other.corrections = (*self.corrections, *corrections)
        return other

    def amounts(self, written: Object | None = None) -> Iterator[Amount]:
        """Yield the amounts of the pod, or those that it would have if it were written so."""
        claims = self.algorithm.classes.claims(self.ours)
        asked, dialects = self.written if written is None else written, self.world.engine.dialects
        return amounts_of(asked, dialects, self.ours, claims, self.corrections)

    def is_claim(self, dialect: Dialect, written: Object) -> bool:
        """Tell whether a dialect understands what the pod would ask if it were written so."""
        try:
            return is_claim(dialect, self.world.pod(written, again=True))
        except WorldError:
            return False

    def is_let_in(self, written: Object, *, excused: bool = True) -> bool:
        """Tell whether the pod would be let in if it were written so; see :meth:`AdmissionVariants.of`."""
        return bool(self._admitted.of(written, excused=excused))

    def forms(self, written: Object) -> tuple[Pod, ...]:
        """Return the pod as it may be stored if it were written so; see :class:`AdmissionVariants`.

        Empty, too, where it would have no card any more: that is no remedy for a pod of cards.
        """
        return tuple(form for read in self._admitted.of(written) if (form := self._ours(read)) is not None)

    def with_small_search(self, before: Sequence[Pod]) -> HypotheticalPod:
        """Return the pod with others that are served before it, for a search that looks at a few nodes alone."""
        other = copy(self)
        other.before, other.most_nodes = before, _MOST_NODES_IN_A_HURRY
        return other

    def verdicts(self, written: Object | None = None) -> Mapping[str, NodeVerdict]:
        """Return what nodes say of the pod, or would say if it were written so."""
        ours = self.ours if written is None else self.read(written)
        return {} if ours is None else self.algorithm.decide(ours, explain=True).verdicts

    def closed_by_cards(self) -> list[str]:
        """Return the nodes, of those that are looked at, that keep the pod away by what is the matter with cards."""
        verdicts = sorted(self.verdicts().items())
        found = (name for name, verdict in verdicts if not CARD_REASONS.isdisjoint(verdict.reasons))
        return list(islice(found, self.most_nodes))

    def read(self, written: Object) -> Pod | None:
        """Return the pod as it would be if it were written so.

        None where that cannot be read, and where it would have no card any more: that is no remedy for a pod of cards.
        """
        try:
            return self._ours(self.world.pod(written, again=True))
        except WorldError:
            return None

    def _ours(self, pod: Pod) -> Pod | None:
        read = created(self.world, pod, self.pod.uid)
        return read if asks_for_cards(self._names, read) or not asks_for_cards(self._names, self.pod) else None

    def node(self, written: Object | None = None) -> str:
        """Return the node that the pod goes to, or would go to if it were written so; empty where it fits nowhere.

        As the cluster is then, those that are served before it have their places first.
        """
        forms = self._forms if written is None else self.forms(written)
        node = self._first_node(forms)
        if node and self.before and written is None:
            with self.before_placed():
                return self._first_node(forms)
        return node

    def node_now(self) -> str:
        """Return the node that the pod goes to while all others are where they are; empty where it fits nowhere."""
        return self._first_node(self._forms)

    def node_before(self, others: Sequence[Pod]) -> str:
        """Return where the pod goes if it is served before some of those that are served before it otherwise."""
        uids = {pod.uid for pod in others}
        with placed(self.world, [pod for pod in self.before if pod.uid not in uids]):
            return self._first_node(self._forms)

    def before_placed(self, *, made_anew: bool = False) -> AbstractContextManager[list[Pod]]:
        """Have those that are served before the pod have their places, where they fit as the cluster is.

        Parameters
        ----------
        made_anew
            The pod is another one, which comes after all of its priority.
        """
        return placed(self.world, [*self.before, *self.later] if made_anew else self.before)

    def node_with(self, changed: Object) -> str:
        """Return where the pod goes if an object of the world is another for the time of the question."""
        with objects_replaced(self.world, (changed,)):
            return self.node()

    def fits_on(self, node: str, without: Iterable[Pod]) -> bool:
        """Tell whether the pod fits on a node if some pods there were gone and those before it had their places."""
        with self.world.engine.state.without(pod.uid for pod in without):
            if not self.fits_now_on(node):
                return False
            if not self.before:
                return True
            with self.before_placed():
                return self.fits_now_on(node)

    def fits_now_on(self, node: str) -> bool:
        """Tell whether the pod fits on a node while all others are where they are, however it may be stored."""
        fits = (self.algorithm.on_node.fits_without(form, node, ()) is not None for form in self._forms)
        return bool(self._forms) and all(fits)

    def _first_node(self, forms: Sequence[Pod]) -> str:
        """Return where the first of some forms of the pod goes; empty where one of them fits nowhere."""
        nodes = [node for form in forms if (node := self._decided(form))]
        return nodes[0] if nodes and len(nodes) == len(forms) else ""

    def _decided(self, ours: Pod) -> str:
        decision = self.algorithm.decide(ours)
        return decision.placement.node if decision.outcome is Outcome.PLACED and decision.placement else ""
