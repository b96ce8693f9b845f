"""How Go's library reads a quantity: in 64 bits, and not at all where it has more digits than they surely hold."""

from __future__ import annotations

import re

from vgpu_scheduler.kube import QuantityError

_GRAMMAR = re.compile(r"([+-]?)(?=\.?[0-9])0*([0-9]*)(?:\.([0-9]*))?([KMGTPE]i|[numkMGTPE]?|[eE][+-]?[0-9]+)")
_DECIMAL = {"": 0, "n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DIGITS = 18
"""Decimal digits that are counted in 64 bits, with those of a fraction; of binary units 14, less those of the unit."""


def as_int64(text: str) -> int | None:
    """Go's ``Quantity.AsInt64``: ``None`` for what is not kept as a whole number of 64 bits.

    Raises
    ------
    QuantityError
        If the text is no quantity.
    """
    match = _GRAMMAR.fullmatch(text)
    if match is None:
        raise QuantityError(text)
    sign, whole, fraction, unit = match[1], match[2] or "0", match[3] or "", match[4]
    if text == "0":
        return 0
    digits = len(whole) + len(fraction)
    if unit in _BINARY:
        if fraction or digits > 14 - _BINARY[unit] * 3 // 10:
            return None
        value = int(whole) << _BINARY[unit]
    else:
        power = (int(unit[1:]) if unit[:1] in {"e", "E"} and len(unit) > 1 else _DECIMAL[unit]) - len(fraction)
        if digits > _DIGITS or power < 0:
            return None
        value = int(whole + fraction) * 10 ** min(power, _DIGITS + 1)
    return (-value if sign == "-" else value) if value < 2**63 else None
