"""The quantity grammar and its rounding, as apimachinery has them."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vgpu_scheduler.kube import QuantityError, parse_quantity, to_exact_int, to_int, to_milli

MAX = 2**63 - 1


@pytest.mark.parametrize(
    ("text", "value", "milli", "whole"),
    [
        ("0", 0, 0, 0),
        ("1", 1, 1000, 1),
        ("+1", 1, 1000, 1),
        ("-1", -1, -1000, -1),
        ("100m", Fraction(1, 10), 100, 1),
        ("0.1", Fraction(1, 10), 100, 1),
        (".5", Fraction(1, 2), 500, 1),
        ("5.", 5, 5000, 5),
        ("1.5Gi", 1610612736, 1610612736000, 1610612736),
        ("0.5Ki", 512, 512000, 512),
        ("976562.5Ki", 1000000000, 10**12, 10**9),
        ("1.G", 10**9, 10**12, 10**9),
        ("12E6", 12 * 10**6, 12 * 10**9, 12 * 10**6),
        ("12e6", 12 * 10**6, 12 * 10**9, 12 * 10**6),
        ("1e+3", 1000, 10**6, 1000),
        ("1e-3", Fraction(1, 1000), 1, 1),
        ("2E", 2 * 10**18, MAX, 2 * 10**18),
        ("1k", 1000, 10**6, 1000),
        ("1u", Fraction(1, 10**6), 1, 1),
        ("1n", Fraction(1, 10**9), 1, 1),
        ("0.1n", Fraction(1, 10**9), 1, 1),
        ("-0.1n", Fraction(-1, 10**9), -1, -1),
        ("1e-999999999", Fraction(1, 10**9), 1, 1),
        ("0e999999999", 0, 0, 0),
        ("1001m", Fraction(1001, 1000), 1001, 2),
        ("1.0001", Fraction(10001, 10000), 1001, 2),
        ("16Ei", MAX, MAX, MAX),
        ("9999999999999999999Ei", MAX, MAX, MAX),
        ("007", 7, 7000, 7),
        ("000.1000000000000000000001", Fraction(100000001, 10**9), 101, 1),
        # ParseQuantity strips the sign and the leading zeros and takes what is left of the digits, be it nothing.
        ("+", 0, 0, 0),
        (".", 0, 0, 0),
        ("Ki", 0, 0, 0),
    ],
)
def test_value(text: str, value: Fraction | int, milli: int, whole: int) -> None:
    assert parse_quantity(text) == value
    assert to_milli(text) == milli
    assert to_int(text) == whole


@pytest.mark.parametrize(
    "text",
    [
        "", " 1", "1 ", "1 Gi", "1_000", "NaN", "Inf", "1K", "1ki", "1KI", "1g", "1Zi", "1e", "1Ee5", "1m5", "1.2.3",
        "--1", "+-1", "0x10", "1e5k", "1,5", "١", "1\n", "1e99999999999999999999", "1i", "eE",
    ],
)  # fmt: skip
def test_refused(text: str) -> None:
    with pytest.raises(QuantityError) as caught:
        parse_quantity(text)
    assert repr(text) in str(caught.value)
    for function in (to_milli, to_int, to_exact_int):
        with pytest.raises(QuantityError):
            function(text)


@pytest.mark.parametrize("sign", ["", "+", "-"])
def test_zeros_before_an_exponent_are_no_digits(sign: str) -> None:
    """``int()`` refuses thousands of them with another error."""
    assert parse_quantity(f"2e{sign}{'0' * 5000}1") == parse_quantity(f"2e{sign}1")
    assert parse_quantity(f"2e{sign}{'0' * 5000}") == 2


def test_numbers_of_yaml_files() -> None:
    assert to_int(4) == 4
    assert to_milli(0.5) == 500
    assert to_int(1e22) == MAX
    for bad in (True, float("nan"), float("inf")):
        with pytest.raises(QuantityError):
            to_int(bad)
    with pytest.raises(QuantityError):
        to_int(None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "value"),
    [("4k", 4000), ("0.5", None), ("100m", None), ("16Gi", 17179869184), ("1e3", 1000), ("-3", -3), ("16E", None)],
)
def test_exact_int(text: str, value: int | None) -> None:
    assert to_exact_int(text) == value


@pytest.mark.parametrize("text", ["1" * 100_000, "1e2000000000", "0." + "0" * 100_000 + "1", "1" + "0" * 9999 + "Ei"])
def test_absurd_lengths_are_quick(text: str) -> None:
    assert to_int(text) in (MAX, 1)


def test_a_digit_far_behind_still_rounds_up() -> None:
    assert parse_quantity("1." + "0" * 500 + "1") == 1 + Fraction(1, 10**9)
    assert parse_quantity("1." + "0" * 500) == 1
    assert parse_quantity("3" * 40 + "." + "0" * 200 + "1") == int("3" * 40) + Fraction(1, 10**9)


SUFFIXES = {
    "": Fraction(1), "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "k": Fraction(10**3),
    "M": Fraction(10**6), "G": Fraction(10**9), "T": Fraction(10**12), "Ki": Fraction(2**10), "Mi": Fraction(2**20),
    "Gi": Fraction(2**30), "Ti": Fraction(2**40), "e3": Fraction(1000), "E-2": Fraction(1, 100), "e+0": Fraction(1),
}  # fmt: skip


@given(
    st.sampled_from(["", "+", "-"]),
    st.integers(0, 10**6),
    st.text("0123456789", max_size=12),
    st.sampled_from(sorted(SUFFIXES)),
)
def test_agrees_with_fractions(sign: str, whole: int, decimals: str, suffix: str) -> None:
    exact = (whole + Fraction(int(decimals or "0"), 10 ** len(decimals))) * SUFFIXES[suffix]
    nanos = -(-exact * 10**9 // 1)
    value = Fraction(int(nanos), 10**9) * (-1 if sign == "-" else 1)
    text = f"{sign}{whole}.{decimals}{suffix}"
    assert parse_quantity(text) == value
    if value >= 0:
        assert to_int(text) == -(-value // 1)
        assert to_milli(text) == min(-(-value * 1000 // 1), MAX)
        assert to_exact_int(text) == (value if value.denominator == 1 else None)


@given(st.text("+-0123456789.eEKMGTPinumk ", max_size=8))
def test_never_crashes(text: str) -> None:
    try:
        value = parse_quantity(text)
    except QuantityError:
        return
    assert value.denominator == 1 or 10**9 % value.denominator == 0
