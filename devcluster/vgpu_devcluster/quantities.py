"""Resource quantities in the API server's canonical form: ``10000`` becomes ``10k``, ``1024Mi`` becomes ``1Gi``.

The rules are those of apimachinery's ``resource.Quantity``: the notation (decimal, binary, exponent) is kept, there is
no fraction, and the suffix is as large as possible.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from math import ceil

_PATTERN = re.compile(r"([+-]?)(\d+\.?\d*|\.\d+)(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|[eE][+-]?\d{1,2}|)")
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DECIMAL = {-9: "n", -6: "u", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P", 18: "E"}
_EXPONENT = {suffix: exponent for exponent, suffix in _DECIMAL.items()}
_NANO = 10**9

REFUSAL = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


@lru_cache(maxsize=8192)
def parse(text: str) -> Fraction:
    """Return the exact value of a quantity.

    Raises
    ------
    ValueError
        With the API server's words for a malformed quantity.
    """
    match = _PATTERN.fullmatch(text)
    if match is None:
        raise ValueError(REFUSAL)
    sign, digits, suffix = match.groups()
    value = Fraction(digits) * _factor(suffix)
    return -value if sign == "-" else value


@lru_cache(maxsize=8192)
def canonical(text: str) -> str:
    """Return an amount as the API server prints it in resource lists, rounded up to a thousandth."""
    value = parse(text)
    suffix = text.lstrip("+-0123456789.")
    nanos = ceil(abs(value) * 1000) * (_NANO // 1000)
    sign = "-" if value < 0 else ""
    if nanos == 0:
        return "0"
    if suffix.endswith("i") and nanos >= 1024 * _NANO:
        return sign + _binary(ceil(Fraction(nanos, _NANO)))
    exponent, mantissa = -9, nanos
    while exponent < 18 and mantissa % 1000 == 0:
        mantissa //= 1000
        exponent += 3
    if suffix[:1] in {"e", "E"} and suffix != "E":
        return f"{sign}{mantissa}e{exponent}" if exponent else f"{sign}{mantissa}"
    return f"{sign}{mantissa}{_DECIMAL[exponent]}"


def _factor(suffix: str) -> Fraction:
    if suffix.endswith("i"):
        return Fraction(1024 ** _BINARY.index(suffix))
    exponent = _EXPONENT[suffix] if suffix in _EXPONENT else int(suffix[1:])
    return Fraction(10) ** exponent


def _binary(value: int) -> str:
    power = 0
    while power < len(_BINARY) - 1 and value % 1024 == 0:
        value //= 1024
        power += 1
    return f"{value}{_BINARY[power]}"
