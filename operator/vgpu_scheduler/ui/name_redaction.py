"""Redaction of names in what a visitor with restricted visibility receives.

Pages already leave out what the visitor may not see. This is the second layer: messages of the engine, conditions and
labels may contain names, and a name that belongs only to hidden namespaces is replaced by a fixed word.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, Final

from vgpu_scheduler.model.untyped import mapping_of, mappings_in
from vgpu_scheduler.reading.page import OTHERS
from vgpu_scheduler.ui.visibility import Visibility

Object = Mapping[str, Any]
NAMESPACE: Final = "Namespace"
_VOLUME: Final = "PersistentVolume"
_NUMBERED: Final = frozenset({"ReplicaSet", "Job"})
"""Owners whose names are their own owner's name plus a suffix."""
_SAYS_NAMES: Final = re.compile(r"(name|group|app|instance|queue)$")
"""Endings of label and annotation keys whose values are names of groups, jobs, queues or applications."""
_NAME: Final = "[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?"
_SLASH: Final = "(?:/|%2[Ff])"
_NAMES: Final = re.compile(f"{_NAME}(?:{_SLASH}{_NAME})*|%[0-9A-Fa-f]{{2}}")
_PARTS: Final = re.compile(f"({_SLASH})")
_WORD: Final = re.compile("[a-z]+")
_JOINED: Final = re.compile("[a-z]+(?:-[a-z]+)+")
_DOCSTRING: Final = re.compile(r'"""(?s:.*?)"""')
_LITERAL: Final = re.compile(r'"([^"\n]*)"')
_MOST: Final = 500_000
"""The number of names above which those of deleted objects are forgotten."""


class Names:
    """The names in use, by namespace; names of deleted objects are remembered for a while."""

    def __init__(self) -> None:
        self._homes: dict[str, str | frozenset[str]] = {}
        self._open: set[str] = set()
        self._most = _MOST

    def note(self, obj: Object) -> None:
        """Note the names in an object."""
        metadata = mapping_of(obj.get("metadata"))
        name, home = str(metadata.get("name") or ""), str(metadata.get("namespace") or "")
        kind = obj.get("kind")
        if kind == NAMESPACE:
            home = name
        elif kind == _VOLUME:
            home = str(mapping_of(mapping_of(obj.get("spec")).get("claimRef")).get("namespace") or "")
        if not home:
            self._open.add(name)
            return
        for each in (home, name, *_named_by(obj, metadata)):
            self._add(each, home)

    def note_all(self, objects: Iterable[Object]) -> None:
        """Note the names in several objects."""
        for obj in objects:
            self.note(obj)

    @property
    def are_many(self) -> bool:
        """Whether the names of deleted objects should be forgotten; see :meth:`renew`."""
        return len(self._homes) + len(self._open) > self._most

    def renew(self, objects: Iterable[Object]) -> None:
        """Forget all names except those in the given objects, which are all that exist."""
        fresh = Names()
        fresh.note_all(objects)
        self._homes, self._open = fresh._homes, fresh._open
        self._most = max(_MOST, 2 * (len(self._homes) + len(self._open)))

    def _add(self, name: str, home: str) -> None:
        known = self._homes.get(name)
        if known is None:
            self._homes[name] = home
        elif known != home:
            self._homes[name] = _all(known) | {home}

    def is_namespace(self, name: str) -> bool:
        """Tell whether a namespace has this name."""
        return name in _all(self._homes.get(name, frozenset()))

    def are_hidden(self, name: str, visibility: Visibility) -> bool:
        """Tell whether a name is known only from objects that the visitor may not see."""
        known = self._homes.get(name)
        return known is not None and name not in self._open and not any(map(visibility.sees, _all(known)))


class NameRedactor:
    """Replaces names that a visitor may not see.

    Parameters
    ----------
    own
        Texts that the visitor wrote: names in them are kept, except after the name of a namespace that the visitor may
        not see.
    echoed
        Texts of the request that are returned unchanged as a whole. In any other text a name is replaced even if the
        request contains it, so that nobody can find names by guessing.
    refused
        Texts of a refused request, which the refusal repeats without showing anything of the cluster: names in them
        are kept.
    words
        Returns the words of messages, which are not taken for names when they stand alone.
    """

    def __init__(
        self,
        names: Names,
        visibility: Visibility,
        own: Iterable[str] = (),
        echoed: Iterable[str] = (),
        refused: Iterable[str] = (),
        words: Callable[[], frozenset[str]] | None = None,
    ) -> None:
        self._names = names
        self._visibility = visibility
        self._refused = _names_in(refused)
        self._own = _names_in(own) | self._refused
        self._words = (words or words_of_messages)()
        self._told: dict[str, str] = {text: text for text in echoed}  # and a cache: pages repeat many texts
        self._found: dict[str, str] = {}

    def text(self, text: str) -> str:
        """Return a text with hidden names replaced."""
        told = self._told.get(text)
        if told is None:
            told = self._told[text] = _NAMES.sub(self._replaced, text)
        return told

    def values(self, value: Any) -> Any:
        """Return plain values, also nested, with hidden names replaced."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.values(key): self.values(inner) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return [self.values(inner) for inner in value]
        return value

    def _replaced(self, found: re.Match[str]) -> str:
        whole = found[0]
        told = self._found.get(whole)
        if told is None:
            told = self._found[whole] = self._without(whole)
        return told

    def _without(self, whole: str) -> str:
        if whole.startswith("%"):
            return whole
        *parts, last = _PARTS.split(whole)
        told: list[str] = []
        inside = mine = False  # whether the previous part was a hidden, or a visible, namespace
        for name, slash in zip(parts[::2], parts[1::2], strict=True):
            is_namespace = not inside and self._names.is_namespace(name)
            now = is_namespace and not self._visibility.sees(name) and name not in self._refused
            hides = inside or (not mine and self._hides(name))
            told += ["", ""] if now else [OTHERS if hides else name, slash]
            inside, mine = now, is_namespace and not now
        return "".join([*told, OTHERS if inside or (not mine and self._hides(last)) else last])

    def _hides(self, name: str) -> bool:
        if name.isdecimal() or name in self._words or name in self._own:
            return False
        return self._names.are_hidden(name, self._visibility)


def _names_in(texts: Iterable[str]) -> frozenset[str]:
    return frozenset(name for text in texts for found in _NAMES.findall(text) for name in _PARTS.split(found))


def _named_by(obj: Object, metadata: Object) -> Iterator[str]:
    """Yield the names of things related to an object: owners, volume claims, service account and groups."""
    for owner in mappings_in(metadata.get("ownerReferences")):
        name = str(owner.get("name") or "")
        yield name
        if owner.get("kind") in _NUMBERED and "-" in name:
            yield name.rpartition("-")[0]
    for texts in (metadata.get("labels"), metadata.get("annotations")):
        yield from (value for key, value in mapping_of(texts).items() if _is_name_key(key) and _is_name(value))
    spec = mapping_of(obj.get("spec"))
    for volume in mappings_in(spec.get("volumes")):
        yield str(mapping_of(volume.get("persistentVolumeClaim")).get("claimName") or "")
    yield str(spec.get("serviceAccountName") or "")
    yield str(spec.get("schedulerName") or "")  # visible to anybody who sees a pod that names it
    yield str(mapping_of(spec.get("schedulingGroup")).get("podGroupName") or "")


def _is_name_key(key: object) -> bool:
    return isinstance(key, str) and _SAYS_NAMES.search(key) is not None


def _is_name(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(_NAME, value) is not None


def _all(homes: str | frozenset[str]) -> frozenset[str]:
    return homes if isinstance(homes, frozenset) else frozenset({homes})


@cache
def words_of_messages() -> frozenset[str]:
    """Return the words that occur in the program's own messages and templates, not in docstrings.

    A pod may be called ``memory``. Such a word is kept where it stands alone, so that one tenant cannot blacken the
    pages of all others; after its namespace's name it is replaced.
    """
    package = files("vgpu_scheduler")
    said = [literal for text in _texts(package, ".py") for literal in _LITERAL.findall(_DOCSTRING.sub("", text))]
    said += _texts(package / "ui" / "templates", ".html")
    return frozenset(word for text in said for kind in (_WORD, _JOINED) for word in kind.findall(text))


def _texts(folder: Traversable, ending: str) -> Iterator[str]:
    for each in folder.iterdir():
        if each.is_dir():
            yield from _texts(each, ending)
        elif each.name.endswith(ending):
            yield each.read_text(encoding="utf-8")
