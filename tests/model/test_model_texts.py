"""What others wrote is cut where it enters messages, at a stated number of bytes and never inside a character."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vgpu_scheduler.model import MESSAGE, QUOTED, InputError, cut, internal_error, quoted, shown_pod, worded_pod


@given(st.text(), st.integers(0, 60))
def test_a_text_takes_no_more_than_its_bytes(text: str, most: int) -> None:
    found = cut(text, most)
    encoded = found.encode()  # it is Unicode still
    assert len(encoded) <= most
    if len(text.encode()) <= most:
        assert found is text or found == text
    elif most >= 4:
        assert found.endswith(" ...")
        assert text.startswith(found.removesuffix(" ..."))
        assert len(encoded) > most - 4  # no character more would fit


@pytest.mark.parametrize("text", ["a" * 9, "é" * 9, "日" * 9, "🙂" * 9, "a🙂" * 9, "\ud83d" * 9])
@pytest.mark.parametrize("most", range(13))
def test_characters_of_each_length_stay_whole(text: str, most: int) -> None:
    found = cut(text, most)
    assert len(found.encode(errors="surrogatepass")) <= most
    assert text.startswith(found.removesuffix(" ...")) or most < 4


def test_messages_quote_so_much_and_no_more() -> None:
    assert quoted("a'b") == repr("a'b")
    assert quoted("x" * QUOTED) == repr("x" * QUOTED)
    assert quoted("x" * 200_000) == repr("x" * (QUOTED - 4) + " ...")
    assert len(quoted("\x00" * 200_000)) <= 4 * QUOTED + 2
    assert len(quoted(["x" * 200_000])) == QUOTED
    assert quoted(5) == "5"


def test_errors_about_what_somebody_wrote_are_no_longer_than_events() -> None:
    assert len(str(InputError("é" * 5000)).encode()) in range(MESSAGE - 4, MESSAGE + 1)
    assert len(internal_error(KeyError("x" * 5000))) == MESSAGE
    assert internal_error(KeyError("x")) == "internal error: KeyError('x')"


@pytest.mark.parametrize(
    ("reader", "uid", "shown"),
    [("a", "u", "pod a/p"), ("a", "", "pod a/p"), ("", "u", "pod a/p"), ("b", "u", "pod u"), ("b", "", "another pod")],
)
def test_the_name_of_a_pod_is_for_readers_of_its_namespace_and_of_the_whole_cluster(
    reader: str, uid: str, shown: str
) -> None:
    assert worded_pod(reader, "a/p", uid) == shown
    assert shown_pod(reader, "a/p", uid) == (uid if reader == "b" else "a/p")
