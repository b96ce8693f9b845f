"""What others wrote, as far as messages show it: bounded in bytes, because API servers count these, and memory does."""

from __future__ import annotations

from typing import Final

QUOTED: Final = 100
"""Bytes of one text that a message quotes."""
MESSAGE: Final = 1024
"""Bytes of a sentence about something that somebody wrote; events hold as much."""
_CUT: Final = " ..."


def cut(text: str, most: int) -> str:
    """Return a text that takes no more than so many bytes in UTF-8; one that is cut says so at its end.

    It is never cut inside a character. What is no Unicode (half of a surrogate pair, which JSON can hold) stays.
    """
    if len(text) <= most // 4:  # whatever its characters are
        return text
    encoded = text[: most + 1].encode(errors="surrogatepass")
    if len(encoded) <= most:
        return text
    end = most - len(_CUT)
    while end > 0 and encoded[end] & 0xC0 == 0x80:  # inside a character
        end -= 1
    return encoded[: max(end, 0)].decode(errors="surrogatepass") + _CUT[: max(most, 0)]


def quoted(value: object) -> str:
    """Return how a message shows what somebody wrote: in quotation marks, and no more than :data:`QUOTED` bytes of it.

    What cannot be printed is written as escapes, of up to four times that.
    """
    return repr(cut(value, QUOTED)) if isinstance(value, str) else cut(repr(value), QUOTED)


def counted(number: int, noun: str) -> str:
    """Return how many there are of what a noun names whose plural ends in s: 1 card, 2 cards."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def internal_error(error: Exception) -> str:
    """Return what is said of an error of ours; it may quote what somebody wrote."""
    return cut(f"internal error: {error!r}", MESSAGE)


class InputError(ValueError):
    """Something that somebody wrote cannot be understood; the message is no longer than :data:`MESSAGE` bytes."""

    def __init__(self, message: str) -> None:
        super().__init__(cut(message, MESSAGE))
