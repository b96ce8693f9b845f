"""Plugins that are made for each pod, and kept for pods that ask the same."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Final, Generic, Protocol, TypeVar

from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import BoundedCache
from vgpu_scheduler.state import State

__all__ = ["PodPlugins"]


_MOST_BYTES: Final = 8 * 2**20
"""What is made of each plugin may take."""
_MADE: Final = 16 * 2**10
"""What one takes beside the terms of its pod, which is about eight bytes per node and term."""


class Closing(Protocol):
    """What a plugin makes."""

    def close(self) -> None:
        """Give back what is kept for this one alone."""


_Plugin = TypeVar("_Plugin")
_Made = TypeVar("_Made", bound=Closing)
_Entry = tuple[_Plugin, Callable[[Pod, State], Hashable | None], Callable[[Pod, State], _Made]]


class PodPlugins(Generic[_Plugin, _Made]):
    """Some plugins, and what was made of each for the pods that were asked about last.

    Parameters
    ----------
    plugins
        Each plugin with what says on what of a pod its answers depend (None where it has nothing to say about the pod
        now), and with what makes them.
    state
        What is known.
    """

    def __init__(self, plugins: Iterable[_Entry[_Plugin, _Made]], state: State) -> None:
        self._state = state
        self._plugins = [(*entry, BoundedCache[Hashable, _Made](_MOST_BYTES, forgotten=_close)) for entry in plugins]

    def of(self, pod: Pod) -> list[tuple[_Plugin, _Made]]:
        """Return the plugins that have something to say about a pod now, each with what answers for it."""
        found = []
        for plugin, key_of, make, remembered in self._plugins:
            key = key_of(pod, self._state)
            if key is None:
                continue
            made = remembered.get(key)
            if made is None:
                made = make(pod, self._state)
                remembered.put(key, made, pod.spec.size + _MADE)
            found.append((plugin, made))
        return found


def _close(unused: Closing) -> None:
    unused.close()
