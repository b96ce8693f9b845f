"""Label selectors and node selectors, compiled once and matched often.

The rules are those of apimachinery's ``labels.Requirement`` and of component-helpers' ``nodeaffinity``.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from typing import Any, Final, TypeVar

import msgspec

from vgpu_scheduler.kube.quantities import MAX_INT64
from vgpu_scheduler.model import InputError, quoted

_Wire = TypeVar("_Wire")
_Compiled = TypeVar("_Compiled")

NODE_NAME_FIELD: Final = "metadata.name"

_VALUE: Final = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_NAME: Final = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")


class SelectorError(InputError):
    """A selector that apimachinery cannot compile."""


class Operator(StrEnum):
    """The operator of a requirement, with the API's spelling."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"


_OPERATORS: Final = {str(operator): operator for operator in Operator}
_LABEL_SELECTOR_OPERATORS: Final = frozenset({"In", "NotIn", "Exists", "DoesNotExist"})


class RawRequirement(msgspec.Struct, frozen=True, omit_defaults=True):
    """A requirement as the API writes it, not yet validated."""

    key: str
    operator: str
    values: list[str] | None = None


class Requirement(msgspec.Struct, frozen=True):
    """A condition on one label.

    Attributes
    ----------
    key
        The label.
    operator
        The operator.
    values
        The values for In and NotIn.
    bound
        The bound for Gt and Lt.
    """

    key: str
    operator: Operator
    values: frozenset[str] = frozenset()
    bound: int = 0

    def matches(self, value: str | None) -> bool:
        """Tell whether a label with this value (None: no such label) satisfies the requirement."""
        match self.operator:
            case Operator.IN:
                return value in self.values
            case Operator.NOT_IN:
                return value not in self.values
            case Operator.EXISTS:
                return value is not None
            case Operator.DOES_NOT_EXIST:
                return value is None
        number = None if value is None else _int64(value)
        if number is None:
            return False
        return number > self.bound if self.operator is Operator.GT else number < self.bound


class LabelSelector(msgspec.Struct, frozen=True):
    """A compiled label selector: all requirements must hold, so an empty selector matches everything."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Tell whether an object with these labels is selected."""
        return all(requirement.matches(labels.get(requirement.key)) for requirement in self.requirements)


class FieldRequirement(msgspec.Struct, frozen=True):
    """A ``matchFields`` requirement. The only field of a node is ``metadata.name``; any other reads as empty."""

    key: str
    negated: bool
    value: str

    def matches(self, name: str) -> bool:
        """Tell whether the node of this name satisfies the requirement."""
        return ((name if self.key == NODE_NAME_FIELD else "") == self.value) != self.negated


class NodeSelectorTerm(msgspec.Struct, frozen=True):
    """One alternative of a node selector: all its expressions and fields must match."""

    expressions: tuple[Requirement, ...]
    fields: tuple[FieldRequirement, ...]

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        """Tell whether the node satisfies the whole term."""
        return all(e.matches(labels.get(e.key)) for e in self.expressions) and all(f.matches(name) for f in self.fields)


class NodeSelector(msgspec.Struct, frozen=True):
    """A compiled required node affinity.

    Attributes
    ----------
    terms
        The alternatives, without empty and invalid terms, which match nothing as in kube-scheduler. Without terms no
        node matches.
    names
        The only nodes to try, if every term names some by ``metadata.name``; empty if the names conflict; None if some
        term names none.
    """

    terms: tuple[NodeSelectorTerm, ...]
    names: frozenset[str] | None

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        """Tell whether the node satisfies one of the terms."""
        return any(term.matches(name, labels) for term in self.terms)


def _int64(text: str) -> int | None:
    """Parse like Go's ``strconv.ParseInt(text, 10, 64)``; None if it fails."""
    if not _INTEGER.fullmatch(text) or len(text) > 64:
        return None
    number = int(text)
    return number if -MAX_INT64 - 1 <= number <= MAX_INT64 else None


def _check_key(key: str) -> None:
    prefix, slash, name = key.rpartition("/")
    if slash and (len(prefix) > 253 or not _SUBDOMAIN.fullmatch(prefix)):
        raise SelectorError(f"{quoted(key)} is not a label key: its prefix is not a DNS subdomain")
    if len(name) > 63 or not _NAME.fullmatch(name):
        raise SelectorError(f"{quoted(key)} is not a label key")


def compile_requirement(key: str, operator: str, values: Sequence[str] = ()) -> Requirement:
    """Compile one label requirement.

    Raises
    ------
    SelectorError
        If ``labels.NewRequirement`` fails: a bad key, operator, value or number of values.
    """
    _check_key(key)
    op = _OPERATORS.get(operator)
    if op is None:
        raise SelectorError(f"{quoted(operator)} is not a valid label selector operator")
    for value in values:
        if len(value) > 63 or not _VALUE.fullmatch(value):
            raise SelectorError(f"{quoted(value)} is not a label value (key {quoted(key)})")
    if op in (Operator.EXISTS, Operator.DOES_NOT_EXIST):
        if values:
            raise SelectorError(f"operator {operator} takes no values (key {quoted(key)})")
        return Requirement(key, op)
    if op in (Operator.IN, Operator.NOT_IN):
        if not values:
            raise SelectorError(f"operator {operator} needs values (key {quoted(key)})")
        return Requirement(key, op, frozenset(values))
    bound = _int64(values[0]) if len(values) == 1 else None
    if bound is None:
        raise SelectorError(f"operator {operator} needs one integer (key {quoted(key)}), not {quoted(list(values))}")
    return Requirement(key, op, bound=bound)


def label_equals(labels: Mapping[str, str]) -> tuple[Requirement, ...]:
    """Compile a plain ``nodeSelector`` map: each label must have this value; values are not validated."""
    return tuple(Requirement(key, Operator.IN, frozenset((value,))) for key, value in sorted(labels.items()))


def same_labels(
    labels: Mapping[str, str], keys: Iterable[str], operator: Operator = Operator.IN
) -> tuple[Requirement, ...]:
    """Return requirements that labels equal their values in ``labels`` (or, with NotIn, differ), for existing keys."""
    return tuple(Requirement(key, operator, frozenset((labels[key],))) for key in keys if key in labels)


def compile_label_selector(selector: Mapping[str, Any] | msgspec.Struct | None) -> LabelSelector | None:
    """Compile a ``LabelSelector`` in its API form.

    Parameters
    ----------
    selector
        A mapping with ``matchLabels`` and ``matchExpressions``, or its typed form.

    Returns
    -------
    LabelSelector or None
        None for no selector at all, which selects nothing. An empty selector selects everything.

    Raises
    ------
    SelectorError
        If a part of it is invalid.
    """
    if selector is None:
        return None
    read: Mapping[str, Any] = msgspec.to_builtins(selector) if isinstance(selector, msgspec.Struct) else selector
    if unknown := read.keys() - {"matchLabels", "matchExpressions"}:
        raise SelectorError(f"a label selector has no {', '.join(sorted(unknown))}")
    requirements = [
        compile_requirement(key, "In", [value]) for key, value in sorted((read.get("matchLabels") or {}).items())
    ]
    for expression in read.get("matchExpressions") or ():
        operator = expression.get("operator", "")
        if operator not in _LABEL_SELECTOR_OPERATORS:
            raise SelectorError(f"{quoted(operator)} is not a valid label selector operator")
        requirements.append(compile_requirement(expression.get("key", ""), operator, expression.get("values") or ()))
    return LabelSelector(tuple(requirements))


_TERM: Final = re.compile(
    r"\s*(?:(?P<absent>!)\s*(?P<gone>[^\s,!=()]+)|(?P<key>[^\s,!=()]+)\s*"
    r"(?:(?P<equals>==|=|!=)\s*(?P<value>[^\s,!=()]*)|(?P<set>in|notin)\s*\((?P<values>[^()]*)\))?)\s*"
)


def parse_label_selector(text: str) -> LabelSelector | None:
    """Compile a label selector in its text form (``pool=shared,tier in (a, b),!spare``).

    Returns
    -------
    LabelSelector or None
        None for an empty text.

    Raises
    ------
    SelectorError
        If a part of it is not understood.
    """
    if not text.strip():
        return None
    requirements: list[Requirement] = []
    position = 0
    while position < len(text) or not requirements:
        term = _TERM.match(text, position)
        if term is None or (term.end() < len(text) and text[term.end()] != ","):
            raise SelectorError(f"{quoted(text[position:].strip())} is not part of a label selector")
        position = term.end() + 1
        if position == len(text):
            raise SelectorError(f"{quoted(text)} ends with a comma")
        requirements.append(_text_requirement(term))
    return LabelSelector(tuple(requirements))


def _text_requirement(term: re.Match[str]) -> Requirement:
    if term["absent"]:
        return compile_requirement(term["gone"], "DoesNotExist", [])
    if term["equals"]:
        return compile_requirement(term["key"], "NotIn" if term["equals"] == "!=" else "In", [term["value"]])
    if term["set"]:
        values = [value.strip() for value in term["values"].split(",")]
        return compile_requirement(term["key"], "In" if term["set"] == "in" else "NotIn", values)
    return compile_requirement(term["key"], "Exists", [])


def _compile_field(raw: RawRequirement) -> FieldRequirement:
    if raw.operator not in ("In", "NotIn") or len(raw.values or ()) != 1:
        raise SelectorError(
            f"matchFields takes In or NotIn with one value, not {quoted(raw.operator)} with {quoted(raw.values)}"
        )
    return FieldRequirement(raw.key, raw.operator == "NotIn", (raw.values or [""])[0])


def _term_names(fields: Sequence[RawRequirement]) -> frozenset[str] | None:
    """Return the node names that a term allows by ``metadata.name In``; None if it names none."""
    names: frozenset[str] | None = None
    for raw in fields:
        if raw.key == NODE_NAME_FIELD and raw.operator == "In":
            values = frozenset(raw.values or ())
            names = values if names is None else names & values
    return names


def compile_node_term(expressions: Sequence[RawRequirement], fields: Sequence[RawRequirement]) -> NodeSelectorTerm:
    """Compile one term of a node affinity; it must have expressions or fields, because an empty term matches nothing.

    Raises
    ------
    SelectorError
        If a part of it is not understood.
    """
    return NodeSelectorTerm(
        tuple(compile_requirement(raw.key, raw.operator, raw.values or ()) for raw in expressions),
        tuple(_compile_field(raw) for raw in fields),
    )


def compile_node_selector(
    terms: Iterable[tuple[Sequence[RawRequirement], Sequence[RawRequirement]]],
) -> NodeSelector:
    """Compile the terms of a required node affinity.

    Parameters
    ----------
    terms
        For each term its ``matchExpressions`` and its ``matchFields``.

    Returns
    -------
    NodeSelector
        It never raises: as in kube-scheduler, an invalid term matches nothing, and its error is dropped.
    """
    compiled: list[NodeSelectorTerm] = []
    names: frozenset[str] | None = frozenset()
    any_term = False
    for expressions, fields in terms:
        any_term = True
        named = _term_names(fields)
        names = None if names is None or named is None else names | named
        if not expressions and not fields:
            continue
        with suppress(SelectorError):
            compiled.append(compile_node_term(expressions, fields))
    return NodeSelector(tuple(compiled), names if any_term else None)


def compile_each(
    wires: Sequence[_Wire], compile_one: Callable[[_Wire], _Compiled], field: str
) -> tuple[tuple[_Compiled, ...], str]:
    """Compile the valid entries of a list.

    Parameters
    ----------
    field
        The path of an entry, with ``{}`` for its index.

    Returns
    -------
    compiled : tuple
        The valid entries.
    problem : str
        The problem of the first invalid entry, naming the field; empty if there is none.
    """
    compiled, problem = [], ""
    for index, wire in enumerate(wires):
        try:
            compiled.append(compile_one(wire))
        except SelectorError as error:
            problem = problem or f"{field.format(index)}: {error}"
    return tuple(compiled), problem
