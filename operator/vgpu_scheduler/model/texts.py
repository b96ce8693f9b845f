"""Formatting of messages: truncated, quoted and suggested texts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher, get_close_matches
from typing import Any, Final

from pydantic_core import ErrorDetails

QUOTED: Final = 100
"""Maximum bytes of a text that a message quotes."""
MESSAGE: Final = 1024
"""Maximum bytes of a message about user input; events hold this much."""
_CUT: Final = " ..."
_DIGITS: Final = re.compile(r"\d+")
_OBJECTS: Final = 0.75
"""How similar the names of two objects must be for one to be suggested for the other."""


def cut(text: str, most: int) -> str:
    """Return a text truncated to a number of bytes in UTF-8; a truncated text ends with ``...``.

    It is never cut inside a character. Lone surrogates, which JSON can contain, are kept.
    """
    if len(text) <= most // 4:  # whatever its characters are
        return text
    encoded = text[: most + 1].encode(errors="surrogatepass")
    if len(encoded) <= most:
        return text
    end = most - len(_CUT)
    while end > 0 and encoded[end] & 0xC0 == 0x80:  # inside a character
        end -= 1
    return encoded[: max(end, 0)].decode(errors="surrogatepass") + _CUT[: max(most, 0)]


def quoted(value: object) -> str:
    """Return user input for a message: in quotation marks, and truncated to :data:`QUOTED` bytes.

    Unprintable characters are written as escapes, of up to four times that size.
    """
    return repr(cut(value, QUOTED)) if isinstance(value, str) else cut(repr(value), QUOTED)


def counted(number: int, noun: str) -> str:
    """Return a number with a noun whose plural ends in s: 1 card, 2 cards."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def by_name(noun: str, names: Sequence[str]) -> str:
    """Return a noun whose plural ends in s with names: card a, cards a, b."""
    return f"{noun}{'' if len(names) == 1 else 's'} {', '.join(names)}"


def first_of(names: Sequence[str], most: int, separator: str = ", ") -> str:
    """Return at most a number of names for a message, and how many more there are: a, b and 3 more."""
    more = len(names) - most
    return separator.join(names[:most]) + (f" and {more} more" if more > 0 else "")


def namespaced_name(namespace: str, name: str) -> str:
    """Return ``namespace/name``, or the name alone of what has no namespace."""
    return f"{namespace}/{name}" if namespace else name


def shown_pod(reader: str, key: str, uid: str) -> str:
    """Name a pod to those who read of it in a namespace: its UID if it is in another one, whose names they may not see.

    Parameters
    ----------
    reader
        The namespace; empty for readers of the whole cluster.
    key
        ``namespace/name`` of the pod.
    """
    return key if reader in {"", key.partition("/")[0]} else uid


def worded_pod(reader: str, key: str, uid: str = "") -> str:
    """Return "pod" and what :func:`shown_pod` returns; "another pod" if that is a UID that is unknown or of no use."""
    shown = shown_pod(reader, key, uid)
    return f"pod {shown}" if shown else "another pod"


def internal_error(error: Exception) -> str:
    """Return the message for an internal error; it may quote user input."""
    return cut(f"internal error: {error!r}", MESSAGE)


class InputError(ValueError):
    """Invalid user input; the message is truncated to :data:`MESSAGE` bytes."""

    def __init__(self, message: str) -> None:
        super().__init__(cut(message, MESSAGE))


def closest(name: str, known: Iterable[str], least: float = 0.6) -> str:
    """Return the known name that is most similar to a name, ignoring case; empty if none is similar enough.

    Parameters
    ----------
    least
        The minimum similarity, from 0 to 1.
    """
    by_lower_case = {other.lower(): other for other in sorted(known)}
    found = get_close_matches(name.lower(), by_lower_case, 1, least)
    return by_lower_case[found[0]] if found else ""


def closest_names(name: str, known: Iterable[str], least: float = 0.6) -> list[tuple[float, str]]:
    """Return similar known names, ignoring case, with their similarity, the most similar first."""
    wanted = SequenceMatcher(b=name.lower())
    found = []
    for other in sorted(known):
        wanted.set_seq1(other.lower())
        if wanted.real_quick_ratio() >= least and wanted.quick_ratio() >= least and wanted.ratio() >= least:
            found.append((wanted.ratio(), other))
    return sorted(found, key=lambda each: (-each[0], each[1]))


def did_you_mean(name: str, known: Iterable[str], least: float = 0.6) -> str:
    """Return the end of a sentence that suggests a similar known name; empty if there is none (see :func:`closest`)."""
    meant = closest(name, known, least)
    return f", did you mean {meant}?" if meant else ""


def did_you_mean_object(name: str, known: Iterable[str]) -> str:
    """Return the end of a sentence that suggests an object with a similar name; empty if there is none.

    Names that differ by numbers alone are those of other parts of the same thing, not misspelt.
    """
    unnumbered = _DIGITS.sub("", name)
    return did_you_mean(name, (other for other in known if _DIGITS.sub("", other) != unnumbered), _OBJECTS)


_NUMBER, _WHOLE, _TEXT, _MAP, _LIST = "a number", "a whole number", "a text", "a map", "a list"
_MUST_BE: Final[Mapping[str, str]] = {
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "dict_type": _MAP,
    "enum": "one of {expected}",
    "finite_number": _NUMBER,
    "float_parsing": _NUMBER,
    "float_type": _NUMBER,
    "greater_than": "more than {gt}",
    "greater_than_equal": "{ge} or more",
    "int_from_float": _WHOLE,
    "int_parsing": _WHOLE,
    "int_parsing_size": _WHOLE,
    "int_type": _WHOLE,
    "is_instance_of": _LIST,
    "less_than": "less than {lt}",
    "less_than_equal": "{le} or less",
    "list_type": _LIST,
    "literal_error": "one of {expected}",
    "mapping_type": _MAP,
    "model_attributes_type": _MAP,
    "model_type": _MAP,
    "path_type": "the name of a file",
    "string_type": _TEXT,
    "tuple_type": _LIST,
}
"""What a value must be, by the type of pydantic's error."""

_ABOUT_FIELDS: Final[Mapping[str, str]] = {
    "extra_forbidden": "there is no such field",
    "missing": "is required",
    "string_too_short": "it is empty",
    "too_long": "it has more than {max_length} entries",
    "too_short": "it is empty",
}
"""Messages that do not mention the value, by the type of pydantic's error."""


def validation_message(error: ErrorDetails, *, with_value: bool = True) -> str:
    """Return what is wrong with a value, without the name of its field.

    Parameters
    ----------
    with_value
        Whether to quote the value; set it to False if the readers are not the authors of the value.
    """
    kind, context = error["type"], error.get("ctx", {})
    if kind == "value_error":
        return str(context["error"])
    if kind in _ABOUT_FIELDS:
        return _ABOUT_FIELDS[kind].format(**context)
    if not with_value:
        return f"must be {_MUST_BE[kind].format(**context)}" if kind in _MUST_BE else error["msg"]
    given = _given(error["input"])
    if kind in _MUST_BE:
        return f"{given} is not {_MUST_BE[kind].format(**context)}"
    if kind == "string_pattern_mismatch":
        return f"{given} does not match {context['pattern']}"
    return f"{given}: {error['msg']}"


def path_of(error: ErrorDetails, root: str = "") -> str:
    """Return the field of an error, below a root: ``cards[1].memory``; for an error in a key, the field of the map."""
    path = root
    for part in error["loc"]:
        if part != "[key]":
            path += f"[{part}]" if isinstance(part, int) else f".{part}"
    return path.lstrip(".")


def _given(value: Any) -> str:
    if value is None:
        return "nothing"
    return str(value).lower() if isinstance(value, bool) else quoted(value)
