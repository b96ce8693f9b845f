"""LimitRanges: the defaults that they give to new pods, and the pods and volume claims that they refuse.

The facts are those of kube-apiserver 1.36, from its admission plugin ``plugin/pkg/admission/limitranger/admission.go``,
and for the defaults of a LimitRange itself from ``SetDefaults_LimitRangeItem`` (``pkg/apis/core/v1/defaults.go``):

* A LimitRange gives defaults to each container by the name of the resource: a limit where the container has none, and a
  request where it has none. Before that, the API server makes a request of each limit, so a container that names only a
  limit gets no default request.
* What a LimitRange does not say follows from the rest of it: the default limit is the maximum, the default request is
  the default limit, or else the minimum.
* A minimum needs a request, a maximum needs a limit, and a ratio needs both; limit and request must each keep to them.
* Those of type Pod are about the sums: the larger of app containers with sidecars, and of each init container with the
  sidecars that started before it. Requests and limits of the pod itself replace the sums of cpu and memory.
* After the defaults, the API server refuses pods whose request is above the limit, or of a resource that cannot be
  overcommitted, differs from it (``validateResourceRequirements`` in ``pkg/apis/core/validation/validation.go``).

Not known here is what the API server makes of defaults of containers beside requests of the pod itself that are only in
part written: it may refuse a pod whose containers then ask for more than the pod.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec

from vgpu_scheduler.kube.containers import AMOUNT_FIELDS, CONTAINER_FIELDS, typed_containers
from vgpu_scheduler.kube.decoding import Decode, Object, decoder_of
from vgpu_scheduler.kube.quantities import (
    CPU,
    HUGE_PAGES,
    MAX_INT64,
    MEMORY,
    NANO,
    QuantityError,
    in_binary_units,
    nano_to_int,
    nano_to_milli,
    to_nano,
)
from vgpu_scheduler.kube.wire import FieldError, Quantities, Wire, WireMeta
from vgpu_scheduler.model import moments
from vgpu_scheduler.model.untyped import mapping_of

_CONTAINER: Final = "Container"
_POD: Final = "Pod"
_CLAIM: Final = "PersistentVolumeClaim"
_LARGEST_IN_MILLI: Final = MAX_INT64 // 1000
"""Larger amounts are compared in whole units."""
_LIMITS, _REQUESTS = AMOUNT_FIELDS
_Texts = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class LimitRangeItem:
    """What a LimitRange says about one type of objects; amounts are as they were written, by resource name.

    Attributes
    ----------
    type
        ``Container``, ``Pod`` or ``PersistentVolumeClaim``; others have no effect.
    least, most
        The minimum and the maximum.
    limits, requests
        The default limits and the default requests, with those that follow from the rest.
    ratios
        The largest ratios of limit to request.
    """

    type: str
    least: _Texts
    most: _Texts
    limits: _Texts
    requests: _Texts
    ratios: _Texts


@dataclass(frozen=True, slots=True)
class LimitRange:
    """A LimitRange of a namespace."""

    namespace: str
    name: str
    items: tuple[LimitRangeItem, ...]
    uid: str = ""
    resource_version: int = 0

    @property
    def title(self) -> str:
        """Kind, namespace and name."""
        return f"LimitRange {self.namespace}/{self.name}"


class DefaultAmount(NamedTuple):
    """An amount that a container takes from a LimitRange.

    Attributes
    ----------
    place
        ``limits`` or ``requests``.
    """

    container: str
    place: str
    resource: str
    amount: str


class Refusal(NamedTuple):
    """Why the API server refuses an object, in its own words.

    Attributes
    ----------
    container
        The container that is the reason; empty for the whole object.
    """

    text: str
    container: str = ""

    def __str__(self) -> str:
        """Return the reason, with the container."""
        return f"container {self.container}: {self.text}" if self.container else self.text


class _WireItem(Wire):
    """``LimitRangeItem``."""

    type: str = ""
    least: Quantities | None = msgspec.field(default=None, name="min")
    most: Quantities | None = msgspec.field(default=None, name="max")
    default: Quantities | None = None
    default_request: Quantities | None = None
    max_limit_request_ratio: Quantities | None = None


class _WireSpec(Wire):
    """``LimitRangeSpec``."""

    limits: list[_WireItem] | None = None


class _WireLimitRange(Wire):
    """``LimitRange``."""

    metadata: WireMeta
    spec: _WireSpec | None = None


def _limit_range(wire: _WireLimitRange) -> LimitRange:
    meta, items = wire.metadata, ((wire.spec and wire.spec.limits) or ())
    made = tuple(_item(item, f"spec.limits[{index}]") for index, item in enumerate(items))
    return LimitRange(meta.namespace or "default", meta.name, made, meta.uid, meta.version)


def _item(wire: _WireItem, field: str) -> LimitRangeItem:
    least, most = _checked(wire.least, f"{field}.min"), _checked(wire.most, f"{field}.max")
    limits = _checked(wire.default, f"{field}.default")
    requests = _checked(wire.default_request, f"{field}.defaultRequest")
    ratios = _checked(wire.max_limit_request_ratio, f"{field}.maxLimitRequestRatio")
    if wire.type == _CONTAINER:
        limits = {**most, **limits}
        requests = {**least, **limits, **requests}
    return LimitRangeItem(wire.type, least, most, limits, requests, ratios)


def _checked(quantities: Quantities | None, field: str) -> dict[str, str]:
    """Return amounts as texts.

    Raises
    ------
    FieldError
        If an entry is not a quantity; it names the entry.
    """
    for name, text in (quantities or {}).items():
        try:
            to_nano(text)
        except QuantityError as error:
            raise FieldError(f"{field}[{name}]", str(error)) from error
    return {name: str(text) for name, text in (quantities or {}).items()}


decode_limit_range: Final[Decode[LimitRange]] = decoder_of("LimitRange", _WireLimitRange, _limit_range)
"""Reads a LimitRange."""


# Defaults ------------------------------------------------------------------------------------------------------------


def with_range_defaults(pod: Object, limit_range: LimitRange) -> tuple[Object, list[DefaultAmount]]:
    """Return a pod with the defaults of a LimitRange, and which these are; a pod without any stays the same object.

    Parameters
    ----------
    pod
        A well-formed pod as it is written, in which limits are requests already where it has no other.
    """
    limits: dict[str, str] = {}
    requests: dict[str, str] = {}
    for item in limit_range.items:
        if item.type == _CONTAINER:
            limits.update(item.limits)
            requests.update(item.requests)
    taken: list[DefaultAmount] = []
    spec = dict(mapping_of(pod.get("spec")))
    for field in CONTAINER_FIELDS:
        if spec.get(field):
            spec[field] = [_with_defaults(each, limits, requests, taken) for each in spec[field]]
    return ({**pod, "spec": spec} if taken else pod), taken


def _with_defaults(container: Object, limits: _Texts, requests: _Texts, taken: list[DefaultAmount]) -> Object:
    resources, name = dict(mapping_of(container.get("resources"))), str(container.get("name", ""))
    for place, defaults in zip(AMOUNT_FIELDS, (limits, requests), strict=True):
        there = mapping_of(resources.get(place))
        added = {resource: amount for resource, amount in defaults.items() if resource not in there}
        if added:
            resources[place] = {**there, **added}
            taken += (DefaultAmount(name, place, resource, amount) for resource, amount in sorted(added.items()))
    return {**container, "resources": resources} if resources else container


# Refusals ------------------------------------------------------------------------------------------------------------


class _Amount(NamedTuple):
    """An amount in nanos, and as it is shown."""

    nanos: int
    text: str


_Amounts = Mapping[str, _Amount]
_NOTHING: Final = _Amount(0, "0")


def pod_refusals(pod: Object, limit_range: LimitRange) -> Iterator[Refusal]:
    """Yield why a LimitRange refuses a pod.

    Parameters
    ----------
    pod
        A well-formed pod as it is written, with all defaults.

    Raises
    ------
    QuantityError
        If an amount of the pod is not a quantity.
    """
    for item in limit_range.items:
        if item.type == _CONTAINER:
            for _, each in typed_containers(pod):
                for text in _problems(item, _amounts(each, _REQUESTS), _amounts(each, _LIMITS)):
                    yield Refusal(text, str(each.get("name", "")))
        elif item.type == _POD:
            yield from map(Refusal, _problems(item, _sums(pod, _REQUESTS), _sums(pod, _LIMITS)))


def claim_refusals(claim: Object, limit_range: LimitRange) -> Iterator[Refusal]:
    """Yield why a LimitRange refuses a volume claim: only its requests count.

    Raises
    ------
    QuantityError
        If an amount of the claim is not a quantity.
    """
    requests = _amounts(mapping_of(claim.get("spec")), _REQUESTS)
    for item in limit_range.items:
        if item.type == _CLAIM:
            for name, bound in item.least.items():
                yield from map(Refusal, _below(_CLAIM, name, bound, requests, {}))
            for name, bound in item.most.items():
                yield from map(Refusal, _above(_CLAIM, name, bound, {"request": requests}))


def default_refusals(pod: Object, taken: Iterable[DefaultAmount]) -> Iterator[Refusal]:
    """Yield why the API server refuses a pod for what defaults have made of it.

    Parameters
    ----------
    pod
        A well-formed pod as it is written, with all defaults.
    taken
        The defaults that it took.
    """
    containers = {str(each.get("name", "")): each for _, each in typed_containers(pod)}
    for name, resource in dict.fromkeys((each.container, each.resource) for each in taken):
        request = _amounts(containers[name], _REQUESTS).get(resource)
        limit = _amounts(containers[name], _LIMITS).get(resource)
        if request is None or (limit is None and _may_be_overcommitted(resource)):
            continue
        if limit is None:
            yield Refusal(f"{resource} has no limit: it must be set for non overcommitable resources", name)
        elif request.nanos != limit.nanos and not _may_be_overcommitted(resource):
            yield Refusal(f"request {request.text} must be equal to {resource} limit of {limit.text}", name)
        elif request.nanos > limit.nanos:
            yield Refusal(
                f"request {request.text} must be less than or equal to {resource} limit of {limit.text}", name
            )


def _may_be_overcommitted(resource: str) -> bool:
    return ("/" not in resource or "kubernetes.io/" in resource) and not resource.startswith(HUGE_PAGES)


def _problems(item: LimitRangeItem, requests: _Amounts, limits: _Amounts) -> Iterator[str]:
    for name, bound in item.least.items():
        yield from _below(item.type, name, bound, requests, limits)
    for name, bound in item.most.items():
        yield from _above(item.type, name, bound, {"limit": limits, "request": requests})
    for name, bound in item.ratios.items():
        yield from _steep(item.type, name, bound, requests, limits)


def _below(kind: str, name: str, bound: str, requests: _Amounts, limits: _Amounts) -> Iterator[str]:
    told, request, limit = f"minimum {name} usage per {kind} is {bound}", requests.get(name), limits.get(name)
    if request is None:
        yield f"{told}.  No request is specified"
        return
    asked, allowed, least = _comparable(request.nanos, (limit or _NOTHING).nanos, to_nano(bound))
    if asked < least:
        yield f"{told}, but request is {request.text}"
    elif limit is not None and allowed < least:
        yield f"{told}, but limit is {limit.text}"


def _above(kind: str, name: str, bound: str, given: Mapping[str, _Amounts]) -> Iterator[str]:
    """Yield what is above a maximum; the first of the given amounts is required."""
    told, found = f"maximum {name} usage per {kind} is {bound}", [amounts.get(name) for amounts in given.values()]
    if found[0] is None:
        yield f"{told}.  No {next(iter(given))} is specified"
        return
    *values, most = _comparable(*((each or _NOTHING).nanos for each in found), to_nano(bound))
    for place, amount, value in zip(given, found, values, strict=True):
        if amount is not None and value > most:
            yield f"{told}, but {place} is {amount.text}"
            return


def _steep(kind: str, name: str, bound: str, requests: _Amounts, limits: _Amounts) -> Iterator[str]:
    told = f"{name} max limit to request ratio per {kind} is {bound}, but "
    asked, allowed, _ = _comparable(
        requests.get(name, _NOTHING).nanos, limits.get(name, _NOTHING).nanos, to_nano(bound)
    )
    if not asked or not allowed:
        yield f"{told}no {'limit' if asked else 'request'} is specified or {'limit' if asked else 'request'} is 0"
        return
    ratio, in_milli = allowed / asked, nano_to_int(to_nano(bound)) <= _LARGEST_IN_MILLI
    if (ratio * 1000 > nano_to_milli(to_nano(bound))) if in_milli else (ratio > nano_to_int(to_nano(bound))):
        yield f"{told}provided ratio is {ratio:f}"


def _comparable(*nanos: int) -> list[int]:
    """Return amounts in thousandths, or in whole units if one of them is very large; rounded up."""
    whole = list(map(nano_to_int, nanos))
    return list(map(nano_to_milli, nanos)) if max(whole) <= _LARGEST_IN_MILLI else whole


def _amounts(holder: Object, place: str) -> dict[str, _Amount]:
    """Return the amounts of a container, a claim or a pod itself."""
    given = mapping_of(mapping_of(holder.get("resources")).get(place))
    return {name: _Amount(to_nano(str(text)), str(text)) for name, text in given.items()}


def _sums(pod: Object, place: str) -> dict[str, _Amount]:
    """Return what a pod requests, or its limits: the largest sum of containers that run at the same time."""
    found: dict[str, _Amount] = {}
    for running in moments((kind, _amounts(each, place)) for kind, each in typed_containers(pod)):
        for name in dict.fromkeys(name for amounts in running for name in amounts):
            total = _total(amounts[name] for amounts in running if name in amounts)
            if name not in found or total.nanos > found[name].nanos:
                found[name] = total
    own = _amounts(mapping_of(pod.get("spec")), place)
    return found | {name: own[name] for name in (CPU, MEMORY) if name in own}


def _total(amounts: Iterable[_Amount]) -> _Amount:
    first, *more = amounts
    if not more:
        return first
    nanos = first.nanos + sum(each.nanos for each in more)
    whole, rest = divmod(nanos, NANO)
    if rest:
        return _Amount(nanos, f"{nano_to_milli(nanos)}m")
    return _Amount(nanos, in_binary_units(whole) if first.text.endswith("i") else str(whole))
