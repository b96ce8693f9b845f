"""Kubernetes quantities, exactly.

The grammar and the rounding are those of apimachinery's ``resource.Quantity``: a sign, decimal digits with an optional
point, and one of the suffixes ``n u m k M G T P E Ki Mi Gi Ti Pi Ei`` or a decimal exponent. The finest unit is a
billionth (finer digits round away from zero), so an integer number of *nanos* represents every quantity exactly, and
sums are exact until they are rounded once at the end, as in kube-scheduler.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from functools import lru_cache, wraps
from typing import Final, TypeVar

from vgpu_scheduler.model import ContainerType, moments, quoted

NANO: Final = 10**9
MAX_INT64: Final = 2**63 - 1

_GRAMMAR: Final = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?(?:([KMGTPE]i|[numkMGTPE])|[eE]([+-]?[0-9]+))?")
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}

# Values with more digits are far outside int64 or below one nano. The limit keeps "1e2000000000" from becoming a number
# with two billion digits.
_MOST_DIGITS: Final = 60
_SATURATED: Final = 10**_MOST_DIGITS * NANO

_CACHE: Final = 1 << 14
_LONGEST: Final = 64
"""Longer texts are not cached, because users could fill the memory with them."""

_Read = TypeVar("_Read")


def _remembered(read: Callable[[str | float], _Read]) -> Callable[[str | float], _Read]:
    """Cache the results for texts of usual length."""
    recent = lru_cache(maxsize=_CACHE, typed=True)(read)

    @wraps(read)
    def look_up(q: str | float) -> _Read:
        return read(q) if isinstance(q, str) and len(q) > _LONGEST else recent(q)

    return look_up


def in_binary_units(amount: int) -> str:
    """Format an amount with the largest binary suffix, up to ``Ti``, that leaves no remainder."""
    fitting = (unit for unit in ("Ti", "Gi", "Mi", "Ki") if amount and amount % (1 << _BINARY[unit]) == 0)
    unit = next(fitting, "")
    return f"{amount >> _BINARY.get(unit, 0)}{unit}"


class QuantityError(ValueError):
    """A text that is not a quantity: the API server would reject it.

    Parameters
    ----------
    text
        The invalid text.
    """

    def __init__(self, text: object) -> None:
        super().__init__(f"{quoted(text)} is not a quantity")
        self.text = text


def parse_quantity(text: str | float) -> Fraction:
    """Return the value of a quantity as an exact number.

    Parameters
    ----------
    text
        A quantity as the API server writes it, or a number as a YAML file may have it.

    Returns
    -------
    Fraction
        The value, a whole number of nanos; above 2**63-1 for binary suffixes it is 2**63-1, as in apimachinery.

    Raises
    ------
    QuantityError
        If apimachinery's ``ParseQuantity`` would reject the text.
    """
    return Fraction(to_nano(text), NANO)


@_remembered
def to_nano(q: str | float) -> int:
    """Return a quantity in billionths, for sums that are rounded once at the end.

    Raises
    ------
    QuantityError
        If the text is not a quantity.
    """
    match = _GRAMMAR.fullmatch(str(q))
    if match is None or not match[0]:
        raise QuantityError(q)
    sign, whole, fraction, suffix, exponent = match.groups()
    power = _exponent(exponent, q) if exponent else _DECIMAL.get(suffix or "", 0)
    nanos = _magnitude(whole.lstrip("0"), fraction or "", power, _BINARY.get(suffix or "", 0))
    return -nanos if sign == "-" else nanos


def _exponent(text: str, q: object) -> int:
    """Return the exponent after ``e``; as in apimachinery, it must fit int64."""
    digits = text.lstrip("+-").lstrip("0")  # int() refuses thousands of digits, leading zeros included
    if len(digits) > 19 or int(digits or "0") > MAX_INT64:
        raise QuantityError(q)
    return int(f"{text[0] if text[0] in '+-' else ''}{digits or '0'}")


def _magnitude(whole: str, fraction: str, power: int, shift: int) -> int:
    """Return the nanos of ``whole.fraction * 10**power * 2**shift``, rounded up to a whole nano."""
    digits = (whole + fraction).lstrip("0")
    if not digits:
        return 0
    scale = power - len(fraction) + 9  # the digits times 10**scale are nanos
    if len(digits) + scale > _MOST_DIGITS:
        return _SATURATED if not shift else MAX_INT64 * NANO
    if len(digits) + scale < -_MOST_DIGITS:
        return 1
    if len(digits) > 2 * _MOST_DIGITS:
        # Of the remaining digits only matters whether any is non-zero, for rounding up.
        rest = digits[2 * _MOST_DIGITS :].strip("0")
        scale += len(digits) - 2 * _MOST_DIGITS - 1
        digits = digits[: 2 * _MOST_DIGITS] + ("1" if rest else "0")
    nanos = int(digits) << shift
    factor: int = 10 ** abs(scale)
    nanos = nanos * factor if scale >= 0 else -(-nanos // factor)
    return min(nanos, MAX_INT64 * NANO) if shift else nanos


def _ceil_int64(nanos: int, unit: int) -> int:
    """Convert nanos to multiples of ``unit``, rounded away from zero and limited to int64."""
    amount = min(-(-abs(nanos) // unit), MAX_INT64)
    return amount if nanos >= 0 else -amount


def nano_to_milli(nanos: int) -> int:
    """Convert nanos to thousandths, rounded up, at most 2**63-1: ``Quantity.MilliValue``."""
    return _ceil_int64(nanos, NANO // 1000)


def nano_to_int(nanos: int) -> int:
    """Convert nanos to whole units, rounded up, at most 2**63-1: ``Quantity.Value``."""
    return _ceil_int64(nanos, NANO)


@_remembered
def to_milli(q: str | float) -> int:
    """Return a quantity in thousandths, rounded up, as kube-scheduler compares ``cpu``.

    Raises
    ------
    QuantityError
        If the text is not a quantity.
    """
    return nano_to_milli(to_nano(q))


@_remembered
def to_int(q: str | float) -> int:
    """Return a quantity in whole units, rounded up, as kube-scheduler compares all resources but ``cpu``.

    Raises
    ------
    QuantityError
        If the text is not a quantity.
    """
    return nano_to_int(to_nano(q))


def is_zero(q: str | float) -> bool:
    """Tell whether a quantity is 0.

    Raises
    ------
    QuantityError
        If the text is not a quantity.
    """
    return to_nano(q) == 0


def has_unit(q: str | float) -> bool:
    """Tell whether a quantity has a suffix: for some resources plain digits are in another unit."""
    return not str(q).strip().lstrip("+").isdigit()


@_remembered
def to_exact_int(q: str | float) -> int | None:
    """Return a quantity as an integer if it is exactly an int64, else None.

    HAMi reads device claims this way (``AsInt64`` of quantities in the API server's canonical form).

    Raises
    ------
    QuantityError
        If the text is not a quantity.
    """
    value, rest = divmod(to_nano(q), NANO)
    return value if rest == 0 and -MAX_INT64 - 1 <= value <= MAX_INT64 else None


CPU: Final = "cpu"
MEMORY: Final = "memory"
EPHEMERAL_STORAGE: Final = "ephemeral-storage"
PODS: Final = "pods"

NATIVE_RESOURCES: Final = frozenset({CPU, MEMORY, EPHEMERAL_STORAGE})
"""The resources of containers without a domain, apart from huge pages."""
QUOTA_LIMITS: Final = "limits."
"""The prefix of a quota's keys that limit what containers have as limits."""
QUOTA_REQUESTS: Final = "requests."
"""The prefix of a quota's keys that limit what containers request."""
HUGE_PAGES: Final = "hugepages-"
"""The prefix of huge page resources."""
_EXTENDED: Final = re.compile(
    r"[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
)
_LEAST: Final = {CPU: NANO // 10, MEMORY: (200 << 20) * NANO}
"""The requests (nanos) that kube-scheduler's scores assume for containers without requests."""


def is_extended_resource(name: str) -> bool:
    """Tell whether a name is a valid extended resource: ``example.com/name``."""
    return _EXTENDED.fullmatch(name) is not None


def is_schedulable(name: str) -> bool:
    """Tell whether kube-scheduler compares a resource: the native three, huge pages, volumes and qualified names."""
    if name in NATIVE_RESOURCES or name.startswith((HUGE_PAGES, "attachable-volumes-")):
        return True
    return "/" in name and ("kubernetes.io/" in name or not name.startswith(QUOTA_REQUESTS))


def is_pod_level(name: str) -> bool:
    """Tell whether ``spec.resources`` of a pod may set a resource."""
    return name in (CPU, MEMORY) or name.startswith(HUGE_PAGES)


def amount(name: str, nanos: int) -> int:
    """Convert nanos of a resource to its unit of comparison: milli for ``cpu``, else whole units; rounded up."""
    return nano_to_milli(nanos) if name == CPU else nano_to_int(nanos)


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for name, nanos in more.items():
        total[name] = total.get(name, 0) + nanos


def _raise(total: dict[str, int], other: Mapping[str, int]) -> None:
    for name, nanos in other.items():
        if nanos > total.get(name, 0):
            total[name] = nanos


def unrequested(
    containers: Iterable[tuple[ContainerType, Mapping[str, int]]],
    pod_level: Mapping[str, int],
    overhead: Mapping[str, int],
) -> tuple[int, int]:
    """Return the cpu (milli) and memory (bytes) that kube-scheduler's scores add to what a pod requests.

    Containers without a cpu request count as 100m, and those without a memory request as 200Mi, so that pods without
    requests do not all go to one node. For pods with pod-level requests this applies only to resources that neither
    the pod nor its containers request. Parameters are those of :func:`pod_requests`.
    """
    asked = list(containers)
    requested = pod_requests(asked, pod_level, overhead)
    as_whole = any(map(is_pod_level, pod_level))
    least = {name: nanos for name, nanos in _LEAST.items() if not (as_whole and name in requested)}
    taken = pod_requests([(kind, {**least, **requests}) for kind, requests in asked], pod_level, overhead)
    return taken.get(CPU, 0) - requested.get(CPU, 0), taken.get(MEMORY, 0) - requested.get(MEMORY, 0)


def pod_requests(
    containers: Iterable[tuple[ContainerType, Mapping[str, int]]],
    pod_level: Mapping[str, int],
    overhead: Mapping[str, int],
) -> dict[str, int]:
    """Return the effective request of a pod.

    ``max(apps + sidecars, max over init containers of (it + the sidecars declared before it)) + overhead``; pod-level
    requests replace the containers' for cpu, memory and huge pages.

    Parameters
    ----------
    containers
        Kind and requests (nanos) of each container, init containers first, in the order of the pod.
    pod_level
        ``spec.resources.requests`` in nanos; empty if there are none.
    overhead
        ``spec.overhead`` in nanos.

    Returns
    -------
    dict of str to int
        Amount per resource, cpu in milli and all others in whole units; only resources that kube-scheduler compares and
        only amounts above zero.
    """
    total = peak_amounts(containers, pod_level)
    _add(total, overhead)
    return {name: amount(name, nanos) for name, nanos in total.items() if nanos > 0 and is_schedulable(name)}


def peak_amounts(
    containers: Iterable[tuple[ContainerType, Mapping[str, int]]], pod_level: Mapping[str, int]
) -> dict[str, int]:
    """Return the effective requests, or limits, of a pod in nanos, without its overhead.

    Parameters are those of :func:`pod_requests`.
    """
    total: dict[str, int] = {}
    for running in moments(containers):
        at_once: dict[str, int] = {}
        for amounts in running:
            _add(at_once, amounts)
        _raise(total, at_once)
    total.update((name, nanos) for name, nanos in pod_level.items() if is_pod_level(name))
    return total
