"""Find fields of pods in files that the API does not know: an API server drops them, at best with a warning."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Any, Final

from vgpu_scheduler.model import did_you_mean

_ALIKE: Final = 0.7
_FROM: Final = ("metadata", "spec")
"""The fields that users write; the API server writes the status."""

Types = Mapping[str, Mapping[str, str]]


def unknown_fields(pod: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for each field that the API does not know.

    Parameters
    ----------
    pod
        The pod as written; values of a wrong type are left to the decoder.
    """
    types = _types()
    for name in pod:
        if name not in types["Pod"]:
            yield _unknown_field_message("", str(name), types["Pod"])
    for part in _FROM:
        yield from _unknown(pod.get(part), types["Pod"][part], part, types)


def _unknown(value: object, kind: str, path: str, types: Types) -> Iterator[str]:
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _unknown(item, kind, f"{path}[{index}]", types)
    elif isinstance(value, Mapping):
        known = types[kind]
        for name, inner in value.items():
            if name not in known:
                yield _unknown_field_message(path, str(name), known)
            elif known[name]:
                yield from _unknown(inner, known[name], f"{path}.{name}", types)


def _unknown_field_message(path: str, name: str, known: Mapping[str, str]) -> str:
    hint = did_you_mean(name, known, _ALIKE)
    return f"{path}{'.' if path else ''}{name}: there is no such field, and it has no effect{hint}"


@lru_cache(1)
def _types() -> Types:
    found: Types = json.loads(files("vgpu_scheduler.whatif.objects").joinpath("pod_fields.json").read_text())
    return found
