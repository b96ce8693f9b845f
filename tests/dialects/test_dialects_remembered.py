"""Decoded registrations are remembered, and what is remembered is bounded by bytes."""

from __future__ import annotations

import tracemalloc

import pytest
from tests.engine.builders import cards, node

from vgpu_scheduler.dialects.hami import hami_dialect
from vgpu_scheduler.dialects.inventory import RememberedDevices
from vgpu_scheduler.model import Device


def listed(name: str, number: int = 8) -> tuple[Device, ...]:
    return hami_dialect().inventory.devices(node(name, cards(name, number)))


def test_the_same_registration_is_decoded_once() -> None:
    remembered, decoded = RememberedDevices(), []

    def decode() -> tuple[Device, ...]:
        decoded.append(1)
        return listed("a")

    first = remembered.get(("NVIDIA", "text"), decode)
    assert remembered.get(("NVIDIA", "text"), decode) is first
    assert len(decoded) == 1
    remembered.get(("NVIDIA", "another"), decode)
    assert len(decoded) == 2


def test_the_oldest_go_when_the_bytes_are_used_up() -> None:
    remembered = RememberedDevices(400_000)
    for number in range(100):
        remembered.get("x" * 4000 + str(number), lambda: listed("a", 1))
        assert remembered.bytes <= 400_000
    assert remembered.bytes > 200_000
    assert remembered.get("x" * 30_000, lambda: listed("a", 1)) == listed("a", 1)  # heavy
    assert 200_000 < remembered.bytes <= 400_000


def test_what_fails_is_not_remembered() -> None:
    remembered = RememberedDevices()

    def fail() -> tuple[Device, ...]:
        raise ValueError("unreadable")

    for _ in range(2):
        with pytest.raises(ValueError, match="unreadable"):
            remembered.get("text", fail)
    assert remembered.bytes == 0


def test_the_bytes_are_about_what_the_memory_holds() -> None:
    remembered, nvidia = RememberedDevices(), hami_dialect().claims.vendors[0]
    nodes = [node(f"n{number}", cards(f"n{number}", 8)) for number in range(200)]
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for found in nodes:
            facts = nvidia.cards.facts(found)
            remembered.get(facts, lambda facts=facts: nvidia.cards.decode(nvidia.key, facts))  # type: ignore[misc]
        held = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    texts = sum(len(str(found.annotations)) for found in nodes)  # allocated before
    assert 0.5 < (held + texts) / remembered.bytes < 2.0
