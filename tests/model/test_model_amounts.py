"""Amounts are shown so that nothing seems to fit which does not."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from vgpu_scheduler.model import (
    MIB,
    WHOLE,
    Compute,
    Device,
    Shortage,
    mib_free,
    mib_needed,
    percent_free,
    percent_needed,
    percent_used,
)

amounts = st.integers(0, 2**45)


@given(amounts, amounts)
def test_what_does_not_fit_is_not_shown_as_if_it_did(free: int, asked: int) -> None:
    text = Shortage("memory", "bytes", free, asked).amounts
    shown_free, shown_asked = (int(each) for each in text.removesuffix(" MiB memory").split(" of "))
    assert (shown_free, shown_asked) == (mib_free(free), mib_needed(asked))
    assert shown_free * MIB <= free
    assert shown_asked * MIB >= asked
    assert asked <= free or shown_asked > shown_free


@given(st.integers(1, 200), st.data())
def test_compute_is_shown_in_percent_that_it_does_not_exceed(units: int, data: st.DataObject) -> None:
    asked, free = (data.draw(st.integers(0, units)) for _ in range(2))
    card = Device("uuid", "vendor", "type", (1, 1, units), compute=Compute.UNITS)
    assert percent_used(card, asked, 2) == percent_needed(asked, units)
    assert percent_free(card, free, 2) == free * WHOLE // units
    assert asked <= free or percent_used(card, asked, 2) > percent_free(card, free, 2)
