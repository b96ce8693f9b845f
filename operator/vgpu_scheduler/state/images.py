"""Which nodes have an image, and how large it is there."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kube import Image
from vgpu_scheduler.model import BoundedCache, bytes_of

_MOST_BYTES: Final = 16 * 2**20
"""Bytes that cached image sizes may take: enough for 256 images on up to 8,000 nodes."""
_LEAST: Final = 64 * 2**10
"""Minimum cost of one cached image; high, because each event of a node looks at all of them."""


class NodeImages:
    """The images of nodes, by node row; sizes per row are cached for the images that were asked about.

    Parameters
    ----------
    rows
        Number of rows.

    Attributes
    ----------
    epoch : int
        Raised when a cached image was added to or removed from a node, or a node was added or removed. The image score
        of a node depends on how many nodes have the image, so cached scores of all nodes are then stale.
    """

    __slots__ = ("_forgotten", "_images", "_rows", "_sizes", "epoch")

    def __init__(self, rows: int) -> None:
        self.epoch = 0
        self._rows = rows
        self._images: dict[int, tuple[Image, ...]] = {}
        self._sizes: BoundedCache[str, NDArray[np.int64]] = BoundedCache(_MOST_BYTES, forgotten=self._forget)
        self._forgotten = False  # whether callers may have used sizes that are no longer cached

    def sizes(self, name: str) -> NDArray[np.int64]:
        """Return the bytes of an image on each node, 0 where it is absent; shape (rows,); do not write to it."""
        sizes = self._sizes.get(name)
        if sizes is None:
            sizes = np.zeros(self._rows, dtype=np.int64)
            for row, images in self._images.items():
                sizes[row] = _size(images, name)
            self._keep(name, sizes)
        return sizes

    def _keep(self, name: str, sizes: NDArray[np.int64]) -> None:
        self._sizes.put(name, sizes, max(bytes_of(name) + sizes.nbytes, _LEAST))

    def _forget(self, _: NDArray[np.int64]) -> None:
        self._forgotten = True

    def set(self, row: int, images: tuple[Image, ...]) -> None:
        """Set the images of a row's node; empty when the node is gone."""
        if self._images.get(row, ()) == images:
            return
        if images:
            self._images[row] = images
        else:
            del self._images[row]
        listed = {name: image.size for image in images for name in image.names}
        changed = self._forgotten
        for name, sizes in self._sizes.items():
            size = listed.get(name, 0)
            changed = changed or size != sizes[row]
            sizes[row] = size
        if changed:
            self.counted_anew()

    def counted_anew(self) -> None:
        """Raise the epoch, so that callers read image sizes again."""
        self.epoch += 1
        self._forgotten = False

    def grow(self, rows: int) -> None:
        """Make room for more rows, without images."""
        for name, sizes in list(self._sizes.items()):
            self._keep(name, np.pad(sizes, (0, rows - self._rows)))
        self._rows = rows


def _size(images: tuple[Image, ...], name: str) -> int:
    return next((image.size for image in images if name in image.names), 0)
