"""Label and field selectors, parsed once per request and matched against an object's labels and selectable fields.

A watch matches both the old and the new state of an object, so a selector is a plain predicate. Malformed selectors are
refused with the API server's 400.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .status import bad_request

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .resources import Resource

_KEY = r"[A-Za-z0-9](?:[-A-Za-z0-9_./]*[A-Za-z0-9])?"
_SET = re.compile(rf"({_KEY})\s+(in|notin)\s*\(\s*([^()]*?)\s*\)")
_EQUAL = re.compile(rf"({_KEY})\s*(==|=|!=)\s*([-A-Za-z0-9_.]*)")
_ORDER = re.compile(rf"({_KEY})\s*([<>])\s*(-?\d+)")
_EXISTS = re.compile(rf"(!?)\s*({_KEY})")
_FIELD = re.compile(r"([^=!]+?)(==|!=|=)(.*)")


@dataclass(frozen=True, slots=True)
class Requirement:
    """One term: ``key`` is (not) one of ``values``, or is (not) there when ``values`` is ``None``."""

    key: str
    values: frozenset[str] | None
    positive: bool

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Tell whether the labels fulfil this term; an absent label differs from every value."""
        value = labels.get(self.key)
        if self.values is None:
            return (value is not None) is self.positive
        return (value in self.values) is self.positive


@dataclass(frozen=True, slots=True)
class Comparison:
    """A term that compares a label with a number; a label that is not a number does not match."""

    key: str
    bound: int
    greater: bool

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Tell whether the label is on the right side of the bound."""
        try:
            value = int(labels.get(self.key, ""))
        except ValueError:
            return False
        return value > self.bound if self.greater else value < self.bound


@dataclass(frozen=True, slots=True)
class Selector:
    """All terms of a request: required labels and fields, and the namespace ("" for any)."""

    namespace: str = ""
    labels: tuple[Requirement | Comparison, ...] = ()
    fields: tuple[Requirement, ...] = ()

    @property
    def everything(self) -> bool:
        """Whether every object matches."""
        return not (self.namespace or self.labels or self.fields)

    def matches(self, namespace: str, labels: Mapping[str, str], fields: Mapping[str, str]) -> bool:
        """Tell whether an object is selected."""
        if self.namespace and namespace != self.namespace:
            return False
        return all(term.matches(fields) for term in self.fields) and all(term.matches(labels) for term in self.labels)


def parse_labels(text: str) -> tuple[Requirement | Comparison, ...]:
    """Parse a label selector: equality, sets, existence and comparisons, joined by commas."""
    return tuple(_label_term(term.strip()) for term in _split(text)) if text.strip() else ()


def parse_fields(resource: Resource, text: str) -> tuple[Requirement, ...]:
    """Parse a field selector; it knows ``=``, ``==`` and ``!=`` and the fields that the kind makes selectable."""
    terms = []
    for term in filter(None, text.split(",")):
        match = _FIELD.fullmatch(term)
        if match is None:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{term}'")
        field, operator, value = match.groups()
        if field not in resource.selectable:
            raise bad_request(f"field label not supported: {field}")
        terms.append(Requirement(field, frozenset((value,)), operator != "!="))
    return tuple(terms)


def _split(text: str) -> list[str]:
    terms, depth, start = [], 0, 0
    for position, char in enumerate(text):
        if char == "(":
            depth += 1
        elif char == ")":
            depth -= 1
        elif char == "," and depth == 0:
            terms.append(text[start:position])
            start = position + 1
    return [*terms, text[start:]]


def _label_term(term: str) -> Requirement | Comparison:
    if match := _SET.fullmatch(term):
        key, operator, values = match.groups()
        return Requirement(key, frozenset(value.strip() for value in values.split(",")), operator == "in")
    if match := _EQUAL.fullmatch(term):
        key, operator, value = match.groups()
        return Requirement(key, frozenset((value,)), operator != "!=")
    if match := _ORDER.fullmatch(term):
        key, operator, number = match.groups()
        return Comparison(key, int(number), operator == ">")
    if match := _EXISTS.fullmatch(term):
        negation, key = match.groups()
        return Requirement(key, None, not negation)
    raise bad_request(f"unable to parse requirement: found '{term}', expected: a label requirement")
