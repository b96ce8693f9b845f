"""Building blocks of the policy models: field types, and rules that both the API server and the operator check.

Each rule is written twice, side by side: in CEL for the API server, and in Python for the operator, which may meet
resources stored under an older schema. Both have the same message and name the same field.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    GetPydanticSchema,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, ErrorDetails, PydanticCustomError, core_schema

from vgpu_scheduler.kube import LabelSelector, QuantityError, SelectorError, compile_label_selector, to_int
from vgpu_scheduler.model import MIB, path_of, validation_message

PIB: Final = 1 << 50
_MOST_ERRORS: Final = 8
_LONGEST_ERROR: Final = 512  # the keys of maps are part of paths, and may be very long
_BROKEN: Final = "broken_rules"


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule beyond types and bounds, for a value (in ``Annotated``) or for a section (in ``Section.rules``).

    Attributes
    ----------
    cel
        The rule in CEL, where ``self`` is the section or the value.
    message
        What is wrong and how to correct it.
    holds
        The same rule in Python.
    field
        The field of the section that the message is about, as written in YAML.
    """

    cel: str
    message: str
    holds: Callable[[Any], bool]
    field: str = ""

    def as_schema(self) -> dict[str, str]:
        """Return an entry for ``x-kubernetes-validations``."""
        entry = {"rule": self.cel, "message": self.message}
        return {**entry, "fieldPath": f".{self.field}"} if self.field else entry

    def _checked(self, value: object) -> object:
        if not self.holds(value):
            raise PydanticCustomError(
                _BROKEN, "{text}", {"text": self.message, "broken": ((self.field, self.message),)}
            )
        return value

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._checked, handler(source))

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        schema = handler(core)
        return {**schema, "x-kubernetes-validations": [*schema.get("x-kubernetes-validations", ()), self.as_schema()]}


@dataclass(frozen=True, slots=True)
class Keyword:
    """Further keywords for the schema of a field, to be put into ``Annotated``."""

    values: Mapping[str, object] = field(hash=False)

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {**handler(core), **self.values}


@dataclass(frozen=True, slots=True)
class Unique:
    """A list without duplicates: a set, or with ``key`` a map whose entries that field identifies."""

    key: str = ""

    def _checked(self, value: tuple[Hashable, ...]) -> tuple[Hashable, ...]:
        seen = set()
        for item in value:
            identity = getattr(item, self.key) if self.key else item
            if identity in seen:
                raise PydanticCustomError("duplicate", "{text}", {"text": f"{identity} is listed twice"})
            seen.add(identity)
        return value

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._checked, handler(source))

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        kind = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [self.key]}
        return {**handler(core), **(kind if self.key else {"x-kubernetes-list-type": "set"})}


class Section(BaseModel):
    """A part of a policy: immutable, hashable, without fields that nobody knows."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        use_attribute_docstrings=True,
    )
    rules: ClassVar[tuple[Rule, ...]] = ()

    @model_validator(mode="after")
    def _follows_its_rules(self) -> Self:
        broken = tuple((rule.field, rule.message) for rule in self.rules if not rule.holds(self))
        if broken:
            raise PydanticCustomError(_BROKEN, "{text}", {"text": broken[0][1], "broken": broken})
        return self

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        reference = handler(core)
        if cls.rules:
            handler.resolve_ref_schema(reference)["x-kubernetes-validations"] = [rule.as_schema() for rule in cls.rules]
        return reference


def any_field_is_set(section: BaseModel) -> bool:
    """Tell whether any field has a value: the rule of sections that must not be empty."""
    return any(value is not None for _, value in section)


def explain(error: ValidationError, root: str) -> str:
    """Return the errors of a resource as text such as ``spec.nodes.scorers[1].weight: ...``, separated by semicolons.

    Values are left out, because the pods of all tenants that the policy may select show its errors. A list that is too
    short only because entries in it are wrong is no error of its own.
    """
    found = [line for details in _listed(error) for line in _lines(details, root)]
    more = len(found) - _MOST_ERRORS
    return "; ".join(map(_cut, found[:_MOST_ERRORS])) + (f"; and {more} more" if more > 0 else "")


def wrong_fields(error: ValidationError, root: str) -> list[tuple[str | int, ...]]:
    """Return the paths of the fields with errors, as names and indexes."""
    found = [field for details in _listed(error) for field in _fields(details, root)]
    return found[:_MOST_ERRORS]


def _listed(error: ValidationError) -> Iterator[ErrorDetails]:
    errors = error.errors(include_url=False)
    wrong_inside = {each["loc"][:length] for each in errors for length in range(len(each["loc"]))}
    return (each for each in errors if each["type"] != "too_short" or each["loc"] not in wrong_inside)


def _fields(details: ErrorDetails, root: str) -> list[tuple[str | int, ...]]:
    path = (root, *(part for part in details["loc"] if part != "[key]"))
    if details["type"] == _BROKEN:
        return [(*path, *filter(None, name.split("."))) for name, _ in details["ctx"]["broken"]]
    return [path]


def _cut(line: str) -> str:
    return line if len(line) <= _LONGEST_ERROR else f"{line[:_LONGEST_ERROR]}..."


def _lines(details: ErrorDetails, root: str) -> list[str]:
    path = path_of(details, root)
    if details["type"] == _BROKEN:
        return [f"{path}{'.' if name else ''}{name}: {text}" for name, text in details["ctx"]["broken"]]
    return [f"{path}: {validation_message(details, with_value=False)}"]


# ------------------------------------------------------------------------------------------------------ field types


def frozen_map(values: Any, *, most: int) -> GetPydanticSchema:
    """Return the field type of a map with at most ``most`` keys, stored as pairs sorted by key."""
    form = dict[str, values]

    def schema(_source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        inner = handler.generate_schema(Annotated[form, Field(max_length=most)])
        return core_schema.no_info_after_validator_function(lambda found: tuple(sorted(found.items())), inner)

    return GetPydanticSchema(schema)


_LONGEST_TEXT: Final = 4096


def _scalar(value: object) -> int | str:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise PydanticCustomError("scalar", "must be an integer or a string")
    if isinstance(value, str) and len(value) > _LONGEST_TEXT:
        raise PydanticCustomError("scalar", "must have at most {most} characters", {"most": _LONGEST_TEXT})
    return value


def _bytes(value: object) -> int:
    written = _scalar(value)
    if _QUANTITY.fullmatch(str(written)):
        with suppress(QuantityError):
            return to_int(written)
    raise PydanticCustomError(_BROKEN, "{text}", {"text": _NO_MEMORY, "broken": (("", _NO_MEMORY),)})


# API servers parse quantities digit by digit: 1e99999999999 would keep one busy until the request times out.
_QUANTITY: Final = re.compile("^[+]?[0-9]{0,19}([.][0-9]{0,9})?([mkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,2})?$")

_NO_MEMORY: Final = "must be a quantity of bytes between 1Mi and 1Pi, such as 4Gi (a plain 4096 is bytes: write 4096Mi)"

MOST: Final = 1_000_000
"""The bound of priorities and weights: far beyond any use, and sums of them are exact in a double."""
Weight = Annotated[int, Field(strict=True, ge=0, le=MOST)]
Memory = Annotated[
    int,
    GetPydanticSchema(lambda _source, _handler: core_schema.no_info_plain_validator_function(_bytes)),
    WithJsonSchema({"x-kubernetes-int-or-string": True, "maxLength": 32}),
    Rule(
        cel=f"string(self).matches('{_QUANTITY.pattern}') && isQuantity(string(self))"
        " && quantity(string(self)).compareTo(quantity('1Mi')) >= 0"
        " && quantity(string(self)).compareTo(quantity('1Pi')) <= 0",
        message=_NO_MEMORY,
        holds=lambda amount: MIB <= amount <= PIB,
    ),
]
"""An amount of memory in bytes, written as a quantity.

The lower bound rejects ``4096`` (meant as MiB, as in ``nvidia.com/gpumem``) and ``400m``.
"""


# The format of Gateway API durations: Go's, without fractions and signs, so that no rounding is needed.
_DURATION: Final = re.compile("^([0-9]{1,5}(h|m|s|ms)){1,4}$")
_LONGEST_DURATION: Final = 32
_NO_DURATION: Final = "must be a duration in h, m, s and ms, such as 30s, 5m or 1h30m"
_SECONDS_OF: Final = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}


def _seconds(value: object) -> float:
    if not isinstance(value, str):
        raise PydanticCustomError("duration", "must be a string, such as 30s")
    if len(value) > _LONGEST_DURATION:
        raise PydanticCustomError("duration", "must have at most {most} characters", {"most": _LONGEST_DURATION})
    if _DURATION.fullmatch(value):
        return sum(int(number) * _SECONDS_OF[unit] for number, unit in re.findall("([0-9]+)(ms|h|m|s)", value))
    raise PydanticCustomError(_BROKEN, "{text}", {"text": _NO_DURATION, "broken": (("", _NO_DURATION),)})


Duration = Annotated[
    float,
    GetPydanticSchema(lambda _source, _handler: core_schema.no_info_plain_validator_function(_seconds)),
    WithJsonSchema({"type": "string", "maxLength": _LONGEST_DURATION}),
    Rule(cel=f"self.matches('{_DURATION.pattern}')", message=_NO_DURATION, holds=lambda seconds: seconds >= 0),
]
"""A time span in seconds, written as a Kubernetes duration."""


Scalar = Annotated[
    int | str,
    GetPydanticSchema(lambda _source, _handler: core_schema.no_info_plain_validator_function(_scalar)),
    WithJsonSchema({"x-kubernetes-int-or-string": True, "maxLength": _LONGEST_TEXT}),
]
"""An integer or a string."""

LABEL_VALUE: Final = "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$"
QUALIFIED_NAME: Final = (
    "^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
    "([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]$"
)
_LabelValue = Annotated[str, Field(max_length=63, pattern=LABEL_VALUE)]


def is_qualified_name(text: str) -> bool:
    """Tell whether a text is a label key or resource name: ``name`` or ``prefix.example.com/name``."""
    try:
        compile_label_selector({"matchExpressions": [{"key": text, "operator": "Exists"}]})
    except SelectorError:
        return False
    return True


def qualified_name(message: str) -> Rule:
    """Return the rule that a text is a qualified name, with a prefix of at most 253 characters."""
    return Rule(f"self.indexOf('/') <= 253 && self.matches('{QUALIFIED_NAME}')", message, is_qualified_name)


def qualified_keys(message: str) -> Rule:
    """Return the rule that the keys of a map, or of its pairs, are qualified names."""
    return Rule(
        f"self.all(key, key.indexOf('/') <= 253 && key.matches('{QUALIFIED_NAME}'))",
        message,
        lambda pairs: all(is_qualified_name(key) for key, _ in (pairs.items() if isinstance(pairs, dict) else pairs)),
    )


class Expression(Section):
    """A condition on one label."""

    key: Annotated[
        str,
        Field(min_length=1, max_length=317),
        qualified_name("must be a label key, such as pool or example.com/pool"),
    ]
    """The key of the label."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    """How to compare: In and NotIn with the values, Exists and DoesNotExist without any."""
    values: Annotated[tuple[_LabelValue, ...], Field(max_length=64), Keyword({"x-kubernetes-list-type": "atomic"})] = ()
    """The values to compare with; required for In and NotIn, and not allowed otherwise."""

    rules = (
        Rule(
            cel="!(self.operator in ['In', 'NotIn']) || (has(self.values) && size(self.values) > 0)",
            message="operators In and NotIn need at least one entry in values",
            holds=lambda it: it.operator not in ("In", "NotIn") or bool(it.values),
            field="values",
        ),
        Rule(
            cel="self.operator in ['In', 'NotIn'] || !has(self.values) || size(self.values) == 0",
            message="operators Exists and DoesNotExist take no values; remove them",
            holds=lambda it: it.operator in ("In", "NotIn") or not it.values,
            field="values",
        ),
    )


class SelectorForm(Section):
    """A label selector as written; both parts must match, and an empty selector matches everything."""

    match_labels: Annotated[
        dict[str, _LabelValue],
        Field(max_length=32),
        qualified_keys("keys must be label keys, such as pool or example.com/pool"),
    ] = Field(default_factory=dict)
    """Required labels and their values."""
    match_expressions: Annotated[
        tuple[Expression, ...], Field(max_length=16), Keyword({"x-kubernetes-list-type": "atomic"})
    ] = ()
    """Conditions on labels; all must hold."""


def _compiled(form: SelectorForm) -> LabelSelector:
    try:
        found = compile_label_selector(form.model_dump(by_alias=True))
    except SelectorError as error:
        raise PydanticCustomError("selector", "{text}", {"text": str(error)}) from None
    return found or LabelSelector()


def _selector_schema(_source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
    parsed = core_schema.no_info_after_validator_function(_compiled, handler.generate_schema(SelectorForm))
    return core_schema.no_info_wrap_validator_function(
        lambda value, parse: value if isinstance(value, LabelSelector) else parse(value), parsed
    )


Selector = Annotated[LabelSelector, GetPydanticSchema(_selector_schema), Keyword({"x-kubernetes-map-type": "atomic"})]
"""A label selector, compiled."""
