"""Images by node: sizes that are asked for, and when what was made of them holds no longer."""

from __future__ import annotations

import pytest

from vgpu_scheduler.kube import Image
from vgpu_scheduler.state import images as node_images
from vgpu_scheduler.state.images import NodeImages


def image(name: str, size: int = 5) -> tuple[Image, ...]:
    return (Image((name,), size),)


def test_only_what_was_asked_for_raises_the_epoch() -> None:
    images = NodeImages(4)
    assert images.sizes("a").tolist() == [0, 0, 0, 0]
    images.set(1, image("b"))
    assert images.epoch == 0
    images.set(2, image("a"))
    assert images.epoch == 1
    assert images.sizes("a").tolist() == [0, 0, 5, 0]
    images.set(2, image("a"))
    assert images.epoch == 1


def test_sizes_that_were_forgotten_are_asked_for_anew_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_images, "_LEAST", 2**30)  # two are kept of what is as heavy as that
    images = NodeImages(2)
    for name in ("a", "b", "c"):
        images.sizes(name)
    images.set(0, image("x"))
    assert images.epoch == 1, "somebody may know sizes that are kept no more"
    images.sizes("a")
    images.set(0, image("y"))
    images.set(0, image("z"))
    assert images.epoch == 2, "only until all have asked anew and are kept"
