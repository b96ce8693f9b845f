"""Volcano's node side: its device plugin serves the oldest pod of its node that has cards left to allocate."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from vgpu_scheduler.dialects.errors import ClaimError
from vgpu_scheduler.dialects.node_side import LocklessNodeSide, UnservedPod, version_of_image
from vgpu_scheduler.dialects.values import without_count
from vgpu_scheduler.dialects.volcano.claims import regular_containers
from vgpu_scheduler.dialects.volcano.names import (
    BIND_PHASE_ANNOTATION,
    NODE_ANNOTATION,
    PHASE_FAILED,
    PHASE_SUCCESS,
    TIME_ANNOTATION,
    TO_ALLOCATE_ANNOTATION,
    VolcanoRequests,
)
from vgpu_scheduler.kube import Pod, is_zero
from vgpu_scheduler.model import PodClaims, claims_devices, number_of_cards

_NEVER = 2**64 - 1
"""The time that the plugin writes on a pod that it has served."""
_MOST_DIGITS = 20


class PluginVersion(Enum):
    """A version of the device plugin; the first member also stands for older, the last one for newer versions."""

    V1_10 = "v1.10"
    """It counts a pod as served as soon as one of its containers is."""
    V1_11 = "v1.11"
    """It serves the containers of a pod one after the other."""
    V1_12 = "v1.12"
    """It compares the number of cards of all containers of a pod with that of the container that is started."""

    @classmethod
    def of(cls, major: int, minor: int) -> PluginVersion:
        """Return the member for a version."""
        if (major, minor) == (1, 11):
            return cls.V1_11
        return cls.V1_10 if (major, minor) < (1, 11) else cls.V1_12

    @property
    def serves_several_containers(self) -> bool:
        """Whether it serves pods in which several containers claim cards."""
        return self is PluginVersion.V1_11

    @property
    def looks_at_numbers(self) -> bool:
        """Whether it takes the oldest pod with the requested number of cards left, instead of the oldest of all."""
        return self is PluginVersion.V1_12


class VolcanoNodeSide(LocklessNodeSide):
    """The device plugin: it has no lock, and answers on the pod.

    Parameters
    ----------
    requests
        The resource names and their units.
    version
        The version of the plugin.
    """

    def __init__(self, requests: VolcanoRequests, version: PluginVersion) -> None:
        self._requests = requests
        self._version = version

    def serializes(self, claims: PodClaims) -> bool:
        """Tell whether any container claims cards: the plugin takes the oldest pod of its node."""
        return claims_devices(claims)

    def plugin_key(self, claims: PodClaims) -> str:
        """Return the resource of cards, with the number of claimed cards if the plugin compares that."""
        return self._key_of(number_of_cards(claims))

    def unserved_pod(self, pod: Pod) -> UnservedPod | None:
        """Return the node and the key under which the plugin still waits for a pod that started or ended unserved.

        The plugin ignores the phase: it reads only the node and the time on the pod, and the cards left to allocate.
        """
        node = pod.annotations.get(NODE_ANNOTATION, "")
        if not node or not (pod.terminal or pod.started) or _time(pod.annotations.get(TIME_ANNOTATION, "")) >= _NEVER:
            return None
        left = pod.annotations.get(TO_ALLOCATE_ANNOTATION, "").replace(";", ":").split(":")
        cards = sum("," in card for card in left)
        return UnservedPod(node, self._key_of(cards)) if cards or not self._version.looks_at_numbers else None

    def version_problem(self, image: str) -> str | None:
        """Return a message if the plugin's version differs from the configured one; None if unknown."""
        version = version_of_image(image, "volcano-vgpu-device-plugin")
        if version is None:
            return None
        found = PluginVersion.of(*version)
        if found is self._version:
            return ""
        return (
            f"Volcano's device plugin is v{version[0]}.{version[1]} and is taken for {self._version.value}: "
            f"set volcano.plugin_version to {found.value}"
        )

    def _key_of(self, cards: int) -> str:
        return f"{self._requests.count}: {cards}" if self._version.looks_at_numbers else self._requests.count

    def has_answered(self, annotations: Mapping[str, str]) -> bool:
        """Tell whether the plugin has reported success or failure."""
        return annotations.get(BIND_PHASE_ANNOTATION) in {PHASE_SUCCESS, PHASE_FAILED}

    def nothing_left(self, annotations: Mapping[str, str]) -> bool:
        """Tell whether the plugin has consumed every entry of the pod."""
        value = annotations.get(TO_ALLOCATE_ANNOTATION)
        return value is not None and not value.replace(";", "").strip()

    def check(self, pod: Pod, claims: PodClaims) -> None:
        """Check that the kubelet calls the plugin for every container with cards, and that the plugin can serve it.

        Raises
        ------
        ClaimError
            If it is not; the message names the containers, the resource and the fix.
        """
        requests = self._requests
        for container in regular_containers(pod):
            memory, count = (container.limits.get(name, "0") for name in (requests.memory, requests.count))
            if is_zero(count) and not is_zero(memory):
                without = f"{requests.memory} without a limit of {requests.count}"
                not_asked = f"{without}: the device plugin would not be asked for it;"
                raise without_count(container, not_asked, requests.count, in_limits=True)
        claiming = [f'"{container.name}"' for container in claims if container.claims]
        if len(claiming) > 1 and not self._version.serves_several_containers:
            raise ClaimError(
                f"containers {' and '.join(claiming)}: {requests.count} in several containers is not served by the "
                "device plugin: claim all cards in one container (v1.11 serves them: setting volcano.plugin_version)"
            )


def _time(text: str) -> int:
    """Return the time of a pod as the plugin reads it; a text that is not a 64-bit number sorts last."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS else _NEVER
