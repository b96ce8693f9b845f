"""Container images: what nodes have and what pods run."""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, Final

import msgspec

from vgpu_scheduler.kube.wire import WireImage, WirePodSpec

__all__ = ["Image", "image_name", "node_images", "pod_images"]


class Image(msgspec.Struct, frozen=True):
    """An image that a node has: the names that it goes by, and its size in bytes. Equal images are one object."""

    names: tuple[str, ...]
    size: int


_LONGEST: Final = 2048
"""Characters of an image's names; images with more are not remembered, so that they do not fill the memory."""


@lru_cache(maxsize=16384)
def _image(names: tuple[str, ...], size: int) -> Image:
    return Image(names, size)


def node_images(images: Iterable[WireImage]) -> tuple[Image, ...]:
    """Return the images of a node; nodes list the 50 largest."""
    return tuple(
        (_image if sum(map(len, image.names or ())) <= _LONGEST else Image)(tuple(image.names or ()), image.size_bytes)
        for image in images
    )


def image_name(name: str) -> str:
    """Return an image's name with its tag, ``latest`` if there is none; a digest counts as one."""
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"


def pod_images(wire: WirePodSpec) -> Iterator[str]:
    """Yield the names of the images that a pod needs: of each container, then of volumes; init containers first."""
    for container in (*(wire.init_containers or ()), *wire.containers):
        yield image_name(container.image or "")
    for volume in wire.volumes or ():
        reference = _reference(volume.get("image"))
        if reference is not None:
            yield image_name(reference)


def _reference(source: Any) -> str | None:
    reference = source.get("reference", "") if isinstance(source, dict) else None
    return reference if isinstance(reference, str) else None
