"""A test double of Volcano's vGPU device plugin.

The functions do what ``docs/node-sides.md`` cites.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from .ecosystems import WHOLE, Amounts, Ecosystem, Object, path_of, sums
from .finding import AllocateError
from .quantities import parse

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_NUMBER, _MEMORY, _CORES = "volcano.sh/vgpu-number", "volcano.sh/vgpu-memory", "volcano.sh/vgpu-cores"
_LEFT, _TIME, _PHASE = "volcano.sh/devices-to-allocate", "volcano.sh/vgpu-time", "volcano.sh/bind-phase"
_NODE, _REGISTER = "volcano.sh/vgpu-node", "volcano.sh/node-vgpu-register"
_HANDSHAKE = "volcano.sh/node-vgpu-handshake"
_TYPE = "NVIDIA"
_LOCK = "hamivgpu"
_NEVER = 2**64 - 1


class VolcanoPlugin(Ecosystem):
    """Volcano's vGPU device plugin, which the kubelet tells a number of cards and never a pod.

    Among all pods that name its node, in whatever state, it takes the oldest one that has that many cards left to
    allocate, over all its containers; then it takes that pod's next entry. It is not called for a container with memory
    or cores but no number of cards: such a container runs with whatever its image can see, and its pod's entry is left
    for others to take. A pod that was given another pod's cards runs with them.

    Parameters
    ----------
    version
        ``v1.12`` or newer, or an older one. Older versions take the oldest pod regardless of how many cards it has
        left, and start with the first pod of the whole cluster, whatever node it names. ``v1.10`` takes each pod only
        once.
    """

    def __init__(self, url: str, *, version: str = "v1.12", **options: Any) -> None:
        super().__init__(url, **options)
        self._by_number = version == "v1.12"
        self._takes_once = version == "v1.10"

    async def register(
        self,
        name: str,
        cards: int = 2,
        memory: int = 24576,
        shares: int = 10,
        groups: Mapping[str, Sequence[int]] = MappingProxyType({}),
    ) -> None:
        """Create a ready node with cards of ``memory`` MiB, in MIG mode if ``groups`` of instances (MiB) are given."""
        ids = [f"GPU-{name}-{index}" for index in range(cards)]
        self._totals[name] = {
            f"{uuid}[{group}-{position}]": (1, size, WHOLE)
            for uuid in ids
            for group, sizes in groups.items()
            for position, size in enumerate(sizes)
        } or dict.fromkeys(ids, (shares, memory, WHOLE))
        card = f"{shares},{memory},NVIDIA-NVIDIA {'A30,true,mig' if groups else 'A10,true,hami-core'}"
        notes = {_REGISTER: "".join(f"{uuid},{card}:" for uuid in ids)}
        if not self._by_number:
            notes[_HANDSHAKE] = "Reported 2026-01-01 00:00:00.0 +0000 UTC"
        amounts = {_NUMBER: cards * shares, _MEMORY: cards * memory, _CORES: cards * WHOLE}
        await self._register(name, notes, {resource: str(amount) for resource, amount in amounts.items()})

    async def _allocate(self, pod: Object) -> list[str]:
        metadata, spec = pod["metadata"], pod["spec"]
        devices: dict[str, Amounts] = {}
        problems = []
        for container in (*(spec.get("initContainers") or ()), *spec["containers"]):
            limits = (container.get("resources") or {}).get("limits") or {}
            number = int(parse(limits.get(_NUMBER, "0")))
            if not number:
                named = next((name for name in (_MEMORY, _CORES) if parse(limits.get(name, "0"))), "")
                if named:
                    problems.append(
                        f"container {container['name']} may see all cards: it has {named} without {_NUMBER}"
                    )
                continue
            found, cards = await self._take(spec["nodeName"], number)
            if found["metadata"]["uid"] != metadata["uid"]:
                problems.append(f"the plugin took the devices of pod {found['metadata']['uid']}")
            for uuid, memory, cores in cards:
                devices[uuid] = sums([devices.get(uuid, (0, 0, 0)), (1, memory, cores)])
        return [*problems, *self._book(pod, devices), *self._of_two_groups(spec["nodeName"])]

    def _of_two_groups(self, node: str) -> list[str]:
        """Return a problem if a card has instances of two groups at a time.

        The plugin gives a card the geometry of an instance's group, and ends what the card had before.
        """
        names = {name for devices in self._held[node].values() for name in devices if name.endswith("]")}
        followed = {(name.partition("[")[0], name.partition("[")[2].rpartition("-")[0]) for name in names}
        cards = [card for card, _ in followed]
        twice = next((card for card in cards if cards.count(card) > 1), None)
        return [] if twice is None else [f"card {twice} has instances of two groups handed out"]

    async def _take(self, node: str, number: int) -> tuple[Object, list[tuple[str, int, int]]]:
        """Take the next entry of the pod that the plugin believes to be the right one; return the pod and the cards."""
        pod = self._oldest((await self._client.request("GET", "/api/v1/pods"))["items"], node, number)
        if pod is None:
            await self._release_lock(node)
            raise AllocateError("the plugin took the devices of pod nobody")
        notes, path = _notes(pod), path_of(pod)
        if self._takes_once:
            await self._annotate(path, {_TIME: str(_NEVER)})
        entries = notes.get(_LEFT, "").split(";")
        found = next((index for index, entry in enumerate(entries) if _cards(entry)), None)
        cards = [] if found is None else _cards(entries[found])
        if found is None or len(cards) != number:
            await self._annotate(path, {_TIME: str(_NEVER), _PHASE: "failed"})
            await self._release_lock(node)
            raise AllocateError(
                f"the plugin took the devices of pod {pod['metadata']['uid']}: {len(cards)} of {number} cards"
            )
        others = ":".join(item for item in entries[found].split(":") if item not in _items(entries[found]))
        left = ";".join((*entries[:found], others, *entries[found + 1 :]))
        await self._annotate(path, {_LEFT: left})
        if "GPU" not in left:
            await self._annotate(path, {_TIME: str(_NEVER), _PHASE: "success"})
            await self._release_lock(node)
        return pod, cards

    def _oldest(self, pods: list[Object], node: str, number: int) -> Object | None:
        here = [pod for pod in pods if _notes(pod).get(_NODE) == node]
        if self._by_number:
            here = [pod for pod in here if _count(_notes(pod).get(_LEFT, "")) == number]
        if not here and (self._by_number or not pods):
            return None
        # Among equally old pods it keeps the one that it starts with, if that is one of them, else the first.
        begins_with = here[-1] if self._by_number else pods[0]
        return min((begins_with, *here), key=lambda pod: _time(_notes(pod)))

    async def _annotate(self, path: str, notes: Mapping[str, str | None]) -> None:
        await self._client.merge(path, {"metadata": {"annotations": notes}})

    async def _release_lock(self, node: str) -> None:
        """Remove the lock of Volcano's scheduler, if there is one."""
        path = f"/api/v1/nodes/{node}"
        if _LOCK in _notes(await self._client.request("GET", path)):
            await self._annotate(path, {_LOCK: None})


def _notes(thing: Object) -> Mapping[str, str]:
    return thing["metadata"].get("annotations") or {}


def _count(left: str) -> int:
    """Return how many cards, of any type, a pod has left to allocate."""
    return sum("," in item for item in left.replace(";", ":").split(":"))


def _items(entry: str) -> list[str]:
    return [item for item in entry.split(":") if item.split(",")[1:2] == [_TYPE]]


def _cards(entry: str) -> list[tuple[str, int, int]]:
    """Return the cards of the plugin's type in a container's entry: UUID, memory, cores."""
    fields = [item.split(",") for item in _items(entry)]
    return [(uuid, int(memory), int(cores)) for uuid, _, memory, cores, *_ in fields]


def _time(notes: Mapping[str, str]) -> int:
    """Return the time by which pods are ordered; a missing or unreadable one sorts last."""
    text = notes.get(_TIME, "")
    return int(text) if text.isascii() and text.isdigit() and int(text) <= _NEVER else _NEVER
