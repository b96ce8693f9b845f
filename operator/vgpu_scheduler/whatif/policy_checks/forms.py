"""Short forms of nodes and pods, and the Kubernetes objects that they stand for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from vgpu_scheduler.engine import SCHEDULER_NAME
from vgpu_scheduler.kube import AMOUNT_FIELDS, QuantityError, to_int
from vgpu_scheduler.model import MIB, Assignment, Device, Placement, closest, path_of, validation_message
from vgpu_scheduler.whatif.objects.cards import Card, CardShare, card_name
from vgpu_scheduler.whatif.objects.objects import InvalidObjectsError
from vgpu_scheduler.whatif.world.world import World

_MOST_CARDS = 64
_LONG_AGO = "2000-01-01T00:00:00Z"
"""The start time of running pods in short form."""
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_OPERATORS = ("Exists", "Equal", "Lt", "Gt")
_MODES = ("hami-core", "mps")


class StrictForm(BaseModel):
    """A form in a file: its fields are in camelCase, and unknown fields are errors."""

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, populate_by_name=True, frozen=True)
    shorthands: ClassVar[frozenset[str]] = frozenset()
    """Additional fields that a file may use in place of others."""

    @model_validator(mode="before")
    @classmethod
    def _knows_its_fields(cls, value: object) -> object:
        known = cls.shorthands | {field.alias or name for name, field in cls.model_fields.items()}
        names = {*known, *cls.model_fields}
        for key in value if isinstance(value, Mapping) else ():
            if key not in names:
                near = closest(str(key), known)
                hint = f"did you mean {near}?" if near else f"it is one of {', '.join(sorted(known))}"
                raise ValueError(f"there is no field {key!r}: {hint}")
        return value


def problems(error: ValidationError, root: str = "") -> str:
    """Format validation errors as ``cards[1].memory: ...``, separated by semicolons."""
    found = []
    for details in error.errors(include_url=False):
        path = path_of(details, root)
        found.append(f"{path}: {validation_message(details)}" if path else validation_message(details))
    return "; ".join(found)


def _mebibytes(value: object) -> object:
    """Read an amount of memory in MiB from a quantity with a unit, or from a number of MiB."""
    if not isinstance(value, str):
        return value
    if value.strip().isdecimal():
        return int(value)
    try:
        amount = to_int(value)
    except QuantityError as error:
        raise ValueError(str(error)) from None
    if amount % MIB:
        raise ValueError(f"{value} is not a whole number of MiB")
    return amount // MIB


def _one_or_more(value: object) -> object:
    """Accept a single entry in place of a list."""
    return [value] if isinstance(value, str | Mapping) else value


def _cards(value: object) -> object:
    """Accept a number in place of a list, for as many default cards."""
    if isinstance(value, int) and not isinstance(value, bool):
        return [{"count": value}] if value else []
    return _one_or_more(value)


def _taint(value: object) -> object:
    """Read a taint in the format of ``kubectl taint``: ``key=value:Effect``."""
    if not isinstance(value, str):
        return value
    label, colon, effect = value.rpartition(":")
    if not colon:
        raise ValueError(f"{value!r} is not of the form key=value:Effect")
    key, _, given = label.partition("=")
    return {"key": key, "value": given, "effect": effect}


def _known_effect(taint: Mapping[str, str]) -> Mapping[str, str]:
    """Refuse a taint with an unknown effect, which would repel no pod."""
    if taint.get("effect") not in _EFFECTS:
        raise ValueError(f"{taint.get('effect', '')!r} is not an effect of a taint: these are {', '.join(_EFFECTS)}")
    return taint


def _known_toleration(toleration: Mapping[str, Any]) -> Mapping[str, Any]:
    """Refuse a toleration with an unknown effect or operator, which would tolerate nothing."""
    for field, known in (("effect", _EFFECTS), ("operator", _OPERATORS)):
        if toleration.get(field, "") not in ("", *known):
            raise ValueError(f"{toleration[field]!r} is not a toleration's {field}: these are {', '.join(known)}")
    return toleration


def _amounts(value: object) -> object:
    """Accept ``limits`` and ``requests`` as in a container, or a flat map of limits."""
    by_kind = not isinstance(value, Mapping) or set(value) & set(AMOUNT_FIELDS)
    return value if by_kind else {"limits": value}


def _amount(value: object) -> object:
    """Accept a number in place of a quantity."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


Amounts = Mapping[str, Annotated[str, BeforeValidator(_amount)]]
Mebibytes = Annotated[int, BeforeValidator(_mebibytes), Field(ge=0)]
Taint = Annotated[Mapping[str, str], BeforeValidator(_taint), AfterValidator(_known_effect)]
Toleration = Annotated[Mapping[str, Any], AfterValidator(_known_toleration)]


class Resources(StrictForm):
    """The resources that a container asks for."""

    limits: Amounts = {}
    requests: Amounts = {}


def _known_mode(mode: str) -> str:
    """Refuse unknown modes, and MIG: the short form cannot express profiles."""
    if mode == "mig":
        raise ValueError("cards in mode mig have profiles: give the node as a Kubernetes object")
    if mode not in _MODES:
        raise ValueError(f"{mode!r} is not a mode of a card: these are {', '.join(_MODES)}")
    return mode


class Cards(StrictForm):
    """Cards of one kind on a node, named ``<node>-<number>`` unless said otherwise."""

    count: Annotated[int, Field(ge=1, le=_MOST_CARDS)] = 1
    name: str = ""
    model: str = "NVIDIA A100"
    memory: Mebibytes = 40960
    shares: Annotated[int, Field(ge=0)] = 10
    cores: Annotated[int, Field(ge=0)] = 100
    numa: Annotated[int, Field(ge=0)] = 0
    mode: Annotated[str, AfterValidator(_known_mode)] = "hami-core"
    healthy: bool = True


class ShortNode(StrictForm):
    """A node with cards."""

    kind: ClassVar[str] = "Node"

    name: str
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    taints: Annotated[Sequence[Taint], BeforeValidator(_one_or_more)] = ()
    unschedulable: bool = False
    allocatable: Amounts = {}
    cards: Annotated[Sequence[Cards], BeforeValidator(_cards)] = ()

    def objects(self, world: World) -> list[dict[str, Any]]:
        """Return the node, and the objects beside it, as the API would show them."""
        cards: list[Card] = []
        for number, kind in enumerate(self.cards):
            if silent := sorted(kind.model_fields_set & world.cards.silent):
                raise InvalidObjectsError(f"cards[{number}].{silent[0]}: {world.cards.name} does not register it")
            for _ in range(kind.count):
                index = len(cards)
                name = kind.name if kind.name and kind.count == 1 else f"{kind.name or self.name}-{index}"
                details = kind.model_dump(exclude={"count", "name"})
                cards.append(Card(name=name, index=index, **details))
        seen: set[str] = set()
        for card in cards:
            if card.name in seen:
                raise InvalidObjectsError(f"cards: two are named {card.name}")
            seen.add(card.name)
        if world.cards.one_model and len({card.model for card in cards}) > 1:
            raise InvalidObjectsError(f"cards: {world.cards.name} knows one model per node")
        registered = world.cards.register(self.name, cards)
        allocatable = {"cpu": "64", "memory": "256Gi", "pods": "110", **registered.allocatable, **self.allocatable}
        node = {
            "kind": "Node",
            "metadata": {
                "name": self.name,
                "labels": dict(self.labels),
                "annotations": {**registered.annotations, **self.annotations},
            },
            "spec": {"taints": list(self.taints), "unschedulable": self.unschedulable},
            "status": {"capacity": allocatable, "allocatable": allocatable},
        }
        return [*registered.objects, node]


class ShortPod(StrictForm):
    """A pod with one container."""

    kind: ClassVar[str] = "Pod"

    name: str = "pod"
    namespace: str = "default"
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    resources: Annotated[Resources, BeforeValidator(_amounts)] = Resources()
    node_selector: Mapping[str, str] = {}
    tolerations: Sequence[Toleration] = ()
    priority: Annotated[int, Field(ge=-(2**31), lt=2**31)] = 0

    def objects(self, world: World) -> list[dict[str, Any]]:
        """Return the pod as the API would show it."""
        del world
        spec: dict[str, Any] = {
            "schedulerName": SCHEDULER_NAME,
            "containers": [{"name": "main", "resources": self.resources.model_dump()}],
            "nodeSelector": dict(self.node_selector),
            "tolerations": list(self.tolerations),
            "priority": self.priority,
        }
        metadata = {
            "name": self.name,
            "namespace": self.namespace,
            "labels": dict(self.labels),
            "annotations": dict(self.annotations),
        }
        return [{"kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}]


def _piece(value: object) -> object:
    """Accept a card name in place of a share, for the whole card."""
    return {"card": value, "whole": True} if isinstance(value, str) else value


class CardShareForm(StrictForm):
    """A running pod's share of a card."""

    card: str
    memory: Mebibytes = 0
    cores: Annotated[int, Field(ge=0)] = 0
    whole: bool = False


class RunningPod(ShortPod):
    """A running pod, with the cards allocated to it."""

    name: str = "running"
    node: str
    cards: Annotated[Sequence[Annotated[CardShareForm, BeforeValidator(_piece)]], BeforeValidator(_one_or_more)] = ()

    def objects(self, world: World) -> list[dict[str, Any]]:
        """Return the pod as the API would show it."""
        if not world.has_node(self.node):
            raise InvalidObjectsError(f"node: there is no node {self.node}")
        pieces = []
        for number, piece in enumerate(self.cards):
            device = device_of(world, self.node, piece.card)
            if device is None:
                raise InvalidObjectsError(f"cards[{number}].card: node {self.node} has no card {piece.card}")
            pieces.append(CardShare(device, piece.memory, piece.cores, piece.whole))
        (pod,) = super().objects(world)
        asked = world.cards.asked(pieces)
        for amounts in pod["spec"]["containers"][0]["resources"].values():
            amounts.update({name: amount for name, amount in asked.items() if name not in amounts})
        pod["metadata"]["annotations"] |= annotations_of(world, self.node, [world.cards.assignment(p) for p in pieces])
        pod["spec"]["nodeName"] = self.node
        pod["status"] = {
            "phase": "Running",
            "startTime": _LONG_AGO,
            "containerStatuses": [{"name": "main", "state": {"running": {}}}],
        }
        return [pod]


Form = type[ShortNode] | type[ShortPod] | type[RunningPod]


def in_full(listed: Iterable[Mapping[str, Any]], form: Form, world: World, where: str) -> list[Mapping[str, Any]]:
    """Return the Kubernetes objects of a list of objects and short forms; see :func:`one_in_full`."""
    return [obj for number, one in enumerate(listed) for obj in one_in_full(one, form, world, f"{where}[{number}]")]


def one_in_full(obj: Mapping[str, Any], form: Form, world: World, where: str) -> list[Mapping[str, Any]]:
    """Return the Kubernetes objects of a short form; an object with metadata or a spec is returned itself.

    Raises
    ------
    InvalidObjectsError
        If it cannot be understood; the message names it and the field.
    """
    if "metadata" in obj or "spec" in obj:
        _check_words(obj, where)
        return [{"kind": form.kind, "metadata": {"name": form.kind.lower()}, **obj}]
    name = obj.get("name")
    place = where + (f" ({name})" if isinstance(name, str) and name else "")
    try:
        return [*form.model_validate(obj).objects(world)]
    except ValidationError as error:
        raise InvalidObjectsError(problems(error, place)) from None
    except InvalidObjectsError as error:
        raise InvalidObjectsError(f"{place}.{error}") from None


def _check_words(obj: Mapping[str, Any], where: str) -> None:
    """Refuse taints and tolerations that the API server would refuse, since no other code checks them."""
    spec = obj.get("spec")
    spec = spec if isinstance(spec, Mapping) else {}
    for field, known in (("taints", _known_effect), ("tolerations", _known_toleration)):
        listed = spec.get(field)
        for number, each in enumerate(listed if isinstance(listed, list) else ()):
            try:
                known(each if isinstance(each, Mapping) else {})
            except ValueError as error:
                raise InvalidObjectsError(f"{where}.spec.{field}[{number}]: {error}") from None


def device_of(world: World, node: str, name: str) -> Device | None:
    """Return a device of a node by its UUID or display name; None if the node has no such device."""
    found = (each for each in world.devices(node) if name in {each.uuid, card_name(each.vendor, each.uuid)})
    return next(found, None)


def annotations_of(world: World, node: str, assignments: Sequence[Assignment]) -> dict[str, str]:
    """Return the annotations of a single-container pod to which these devices were allocated."""
    placement = Placement(node, (tuple(assignments),), world.cards.name)
    return {**world.engine.dialects.annotations(placement, 0), **world.cards.answer}
