"""CEL rules of custom resources: the part of the language that the rules of policies use.

It supports comparisons, arithmetic, ``in``, ``?:``, lists, selections, indexes, the macros ``has``, ``all``, ``exists``
and ``exists_one``, and the string and quantity functions in :data:`_METHODS` and :data:`_FUNCTIONS`. A definition whose
rules use anything else is refused when it is created, so no rule is silently ignored.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Final

from . import quantities

Names = Mapping[str, Any]
Evaluate = Callable[[Names], Any]

_TOKENS: Final = re.compile(
    r"""\s*(?:(?P<number>\d+)|(?P<text>'[^'\\]*'|"[^"\\]*")|(?P<name>[A-Za-z_]\w*)"""
    r"""|(?P<mark>\|\||&&|[=!<>]=|[-+!<>?:.,()\[\]]))""",
    re.ASCII,
)
_SPACE: Final = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
_UPPER: Final = {number: number + 32 for number in range(ord("A"), ord("Z") + 1)}


class CelError(Exception):
    """A rule that cannot be parsed, or that has no result for a value."""


@dataclass(frozen=True, slots=True)
class _Type:
    name: str


def _type_of(value: Any) -> _Type:
    kinds = ((bool, "bool"), (int, "int"), (float, "double"), (str, "string"), (dict, "map"), (list, "list"))
    return next((_Type(name) for kind, name in kinds if isinstance(value, kind)), _Type("dyn"))


@lru_cache(maxsize=1024)
def _pattern(text: str) -> re.Pattern[str]:
    """Compile an RE2 expression, in which ``$`` matches only at the very end."""
    return re.compile(re.sub(r"(?<!\\)\$", r"\\Z", text), re.ASCII)


def _is_quantity(text: str) -> bool:
    try:
        quantities.parse(text)
    except ValueError:
        return False
    return True


def _compare(first: Any, second: Any) -> int:
    return int(first > second) - int(first < second)


def _equal(first: Any, second: Any) -> bool:
    """Tell whether two values are equal in CEL; in Python ``True == 1``."""
    return bool(first == second) and isinstance(first, bool) == isinstance(second, bool)


_METHODS: Final[Mapping[str, Callable[..., Any]]] = {
    "compareTo": _compare,
    "indexOf": str.find,
    "lowerAscii": lambda text: text.translate(_UPPER),
    "matches": lambda text, pattern: _pattern(pattern).search(text) is not None,
    "size": len,
    "split": str.split,
    "startsWith": str.startswith,
    "trim": lambda text: text.strip(_SPACE),
}
_FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "isQuantity": _is_quantity,
    "quantity": quantities.parse,
    "size": len,
    "string": str,
    "type": _type_of,
}
_CONSTANTS: Final = {
    "true": True,
    "false": False,
    **{name: _Type(name) for name in ("int", "string", "bool", "double")},
}
_OPERATORS: Final[tuple[Mapping[str, Callable[[Any, Any], Any]], ...]] = (
    {
        "==": _equal,
        "!=": lambda first, second: not _equal(first, second),
        "<": operator.lt,
        "<=": operator.le,
        ">": operator.gt,
        ">=": operator.ge,
        "in": lambda item, where: any(_equal(item, one) for one in where),
    },
    {"+": operator.add, "-": operator.sub},
)


@lru_cache(maxsize=1024)
def compiled(rule: str) -> Evaluate:
    """Return a function that evaluates a rule for names and their values.

    Raises
    ------
    CelError
        If the rule uses something that is not supported.
    """
    reader = _Reader(rule)
    evaluate = reader.ternary()
    reader.expect("")
    return evaluate


def holds(rule: str, value: Any) -> bool:
    """Tell whether a rule holds for a value.

    Raises
    ------
    CelError
        If the rule has no result.
    """
    try:
        found = compiled(rule)({"self": value})
    except (TypeError, ValueError, AttributeError, KeyError, IndexError) as error:
        raise CelError(str(error)) from error
    if not isinstance(found, bool):
        raise CelError(f"{rule} is {_type_of(found).name}, not bool")
    return found


class _Reader:
    """Parses a rule, starting with the weakest operator."""

    def __init__(self, rule: str) -> None:
        self._rule = rule
        self._tokens: list[tuple[str, str]] = []
        at = 0
        while rule[at:].strip():
            match = _TOKENS.match(rule, at)
            if match is None:
                raise CelError(f"cannot read {rule[at : at + 20]!r} of the rule {rule}")
            self._tokens.append((str(match.lastgroup), match[match.lastgroup or ""]))
            at = match.end()
        self._tokens.append(("end", ""))
        self._at = 0

    def _next(self) -> tuple[str, str]:
        self._at += 1
        return self._tokens[self._at - 1]

    def _met(self, *words: str) -> str:
        kind, word = self._tokens[self._at]
        if kind in {"mark", "name"} and word in words:
            self._at += 1
            return word
        return ""

    def expect(self, word: str) -> None:
        """Read a token that must come next; the empty token is the end."""
        found = self._next()[1]
        if found != word:
            raise CelError(f"{found or 'the end'!r} where {word or 'the end'!r} is expected in the rule {self._rule}")

    def ternary(self) -> Evaluate:
        """Read an expression."""
        condition = self._either(0)
        if not self._met("?"):
            return condition
        then = self.ternary()
        self.expect(":")
        other = self.ternary()
        return lambda names: then(names) if condition(names) else other(names)

    def _either(self, level: int) -> Evaluate:
        """Read operands of ``||``, and on the next level of ``&&``."""
        mark, decides = (("||", True), ("&&", False))[level]
        parts = [self._part(level)]
        while self._met(mark):
            parts.append(self._part(level))
        if len(parts) == 1:
            return parts[0]
        return lambda names: _aggregate([partial(part, names) for part in parts], decides=decides)

    def _part(self, level: int) -> Evaluate:
        return self._either(1) if level == 0 else self._binary(0)

    def _binary(self, level: int) -> Evaluate:
        if level == len(_OPERATORS):
            return self._unary()
        left = self._binary(level + 1)
        while word := self._met(*_OPERATORS[level]):
            left = _applied(_OPERATORS[level][word], left, self._binary(level + 1))
        return left

    def _unary(self) -> Evaluate:
        if self._met("!"):
            inner = self._unary()
            return lambda names: not inner(names)
        if self._met("-"):
            inner = self._unary()
            return lambda names: -inner(names)
        return self._selected()

    def _selected(self) -> Evaluate:
        value = self._primary()
        while word := self._met(".", "["):
            if word == "[":
                value = _applied(operator.getitem, value, self.ternary())
                self.expect("]")
                continue
            name = self._next()[1]
            value = self._called(value, name) if self._met("(") else _field(value, name)
        return value

    def _called(self, value: Evaluate, name: str) -> Evaluate:
        if name in _MACROS:
            variable = self._next()[1]
            self.expect(",")
            inner, macro = self.ternary(), _MACROS[name]
            self.expect(")")
            return lambda names: macro([partial(inner, {**names, variable: item}) for item in value(names)])
        return self._function(_METHODS, name, [value])

    def _function(self, known: Mapping[str, Callable[..., Any]], name: str, first: list[Evaluate]) -> Evaluate:
        if name not in known:
            raise CelError(f"there is no function {name} here, which the rule {self._rule} calls")
        function, arguments = known[name], [*first, *self._listed(")")]
        return lambda names: function(*(argument(names) for argument in arguments))

    def _listed(self, end: str) -> list[Evaluate]:
        found: list[Evaluate] = []
        while not self._met(end):
            found.append(self.ternary())
            if not self._met(","):
                self.expect(end)
                break
        return found

    def _primary(self) -> Evaluate:
        kind, word = self._next()
        if kind in {"number", "text"}:
            literal = int(word) if kind == "number" else word[1:-1]
            return lambda _names: literal
        if word == "(":
            inner = self.ternary()
            self.expect(")")
            return inner
        if word == "[":
            items = self._listed("]")
            return lambda names: [item(names) for item in items]
        if kind != "name":
            raise CelError(f"{word or 'the end'!r} where a value is expected in the rule {self._rule}")
        return self._named(word)

    def _named(self, word: str) -> Evaluate:
        if self._met("("):
            return self._has() if word == "has" else self._function(_FUNCTIONS, word, [])
        return lambda names: names[word] if word in names else _CONSTANTS[word]

    def _has(self) -> Evaluate:
        """Read the rest of ``has(a.b)``: whether the map ``a`` has ``b``."""
        closing = next(at for at in range(self._at, len(self._tokens)) if self._tokens[at][1] == ")")
        *rest, (_, dot), (_, name) = self._tokens[self._at : closing]
        if dot != ".":
            raise CelError(f"has() takes a field, in the rule {self._rule}")
        reader = object.__new__(_Reader)
        reader._rule, reader._tokens, reader._at = self._rule, [*rest, ("end", "")], 0
        owner = reader._selected()
        self._at = closing + 1
        return lambda names: name in owner(names)


def _applied(function: Callable[[Any, Any], Any], first: Evaluate, second: Evaluate) -> Evaluate:
    return lambda names: function(first(names), second(names))


def _field(value: Evaluate, name: str) -> Evaluate:
    return lambda names: value(names)[name]


def _aggregate(parts: Iterable[Callable[[], Any]], *, decides: bool) -> bool:
    """Combine conditions: a condition that decides does so even if another one has an error."""
    failed: Exception | None = None
    for part in parts:
        try:
            if bool(part()) is decides:
                return decides
        except (CelError, TypeError, ValueError, AttributeError, KeyError, IndexError) as error:
            failed = error
    if failed is not None:
        raise CelError(str(failed)) from failed
    return not decides


_MACROS: Final[Mapping[str, Callable[[Sequence[Callable[[], Any]]], bool]]] = {
    "all": lambda parts: _aggregate(parts, decides=False),
    "exists": lambda parts: _aggregate(parts, decides=True),
    "exists_one": lambda parts: sum(part() is True for part in parts) == 1,
}
