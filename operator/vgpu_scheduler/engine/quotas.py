"""Namespace quotas on devices: the limits, and what they leave to a pod.

The rules are HAMi's with two exceptions: of several ResourceQuotas of a namespace the smallest limit counts (HAMi takes
the one that it saw last), and an unreadable limit admits no pod (HAMi ignores it). Usage may equal a limit, but not
exceed it; a limit of 0 admits no pod; scopes are ignored, so that a quota with scopes limits all pods.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from vgpu_scheduler.allocators import QuotaRemainder, QuotaRemainders
from vgpu_scheduler.dialects import Dialects
from vgpu_scheduler.engine.problems import Problem
from vgpu_scheduler.engine.quota_reports import QuotaReport, used_by
from vgpu_scheduler.engine.request_warnings import RequestWarnings
from vgpu_scheduler.kernels import UNLIMITED
from vgpu_scheduler.kube import QUOTA_LIMITS, QuantityError, ResourceQuota, VersionedStore, has_unit, to_exact_int
from vgpu_scheduler.model import (
    WHOLE,
    Claim,
    ContainerClaims,
    EventReason,
    PendingEvents,
    PodClaims,
    QuotaResource,
    VendorKey,
    dialect_of,
    moments,
    percent_needed,
    vendors_of,
)
from vgpu_scheduler.state import State

Key = tuple[str, str]
"""Namespace and name of a ResourceQuota."""


class _WrittenLimit(NamedTuple):
    """A limit in a quota.

    Attributes
    ----------
    limit
        In the unit of reports, rounded down; None if the text is not a whole number of 0 or more.
    exact
        Whether the limit is what the text says, neither unreadable nor rounded.
    """

    quota: str
    resource: str
    text: str
    limit: int | None
    exact: bool


class QuotaLimits:
    """The limits of namespaces.

    Parameters
    ----------
    dialects
        Define the limited resources; a name belongs to the first dialect that knows it.
    request_warnings
        Finds suspicious names.
    pending_events
        Records the namespaces whose limits changed.
    """

    def __init__(
        self,
        dialects: Dialects,
        request_warnings: RequestWarnings,
        pending_events: PendingEvents,
    ) -> None:
        self._pending_events = pending_events
        self._suspicions = request_warnings
        self._resources = dialects.quota_resources
        self._cores = {dialect.name: dialect.inventory.cores for dialect in dialects}
        self._store: VersionedStore[Key, ResourceQuota] = VersionedStore()
        self._names: dict[str, set[str]] = {}  # of the quotas of each namespace
        self._limits: dict[str, dict[str, int]] = {}  # in the dimensions' units
        self._rounded: dict[str, dict[str, str]] = {}  # as written, the limits of a namespace that count as less
        self.version = 0
        """Rises whenever a limit changes."""

    # Observations ----------------------------------------------------------------------------------------------------

    def observe(self, quota: ResourceQuota) -> tuple[Problem, ...]:
        """Take in a quota; return its problems: limits that cannot be read, and suspicious names."""
        known = self._store.get(quota_key(quota))
        if known is not None and 0 < quota.resource_version == known.resource_version:
            return ()  # relists show everything again
        if not self._store.put(quota_key(quota), quota):
            return ()
        self._names.setdefault(quota.namespace, set()).add(quota.name)
        self._recompute(quota.namespace)
        return tuple(
            Problem("ResourceQuota", quota.namespace, quota.name, quota.uid, EventReason.QUOTA_UNREADABLE, text)
            for text in self._unreadable(quota)
        ) + tuple(
            Problem("ResourceQuota", quota.namespace, quota.name, quota.uid, EventReason.QUOTA_SUSPICIOUS, text)
            for text in self._suspicions.of_quota(quota)
        )

    def remove(self, quota: ResourceQuota, version: int | None = None) -> None:
        """Note that a quota is gone, as of a version (by default its own); other quotas stay in force."""
        if self._store.remove(quota_key(quota), quota.uid, quota.resource_version if version is None else version):
            self._names[quota.namespace].discard(quota.name)
            self._recompute(quota.namespace)
            if not self._names[quota.namespace]:
                del self._names[quota.namespace]

    @property
    def store(self) -> VersionedStore[Key, ResourceQuota]:
        """The known quotas."""
        return self._store

    def _recompute(self, namespace: str) -> None:
        """Take the smallest limit of each resource over all quotas of a namespace."""
        limits: dict[str, int] = {}
        rounded: dict[str, str] = {}
        for written in sorted(self._written(namespace), key=lambda each: each.limit or 0, reverse=True):
            limits[written.resource] = written.limit or 0  # an unreadable limit admits no pod
            rounded[written.resource] = "" if written.exact else written.text
        if limits != self._limits.get(namespace, {}):
            self._pending_events.quotas.add(namespace)
            self.version += 1
        if limits:
            self._limits[namespace], self._rounded[namespace] = limits, rounded
        else:
            self._limits.pop(namespace, None)
            self._rounded.pop(namespace, None)

    def _unreadable(self, quota: ResourceQuota) -> Iterator[str]:
        for written in self._written(quota.namespace, quota.name):
            if written.limit is None:
                yield (
                    f"spec.hard[{QUOTA_LIMITS}{written.resource}]: {written.text} is not a whole number of 0 or more: "
                    "it counts as 0, so no pod of the namespace that would get some of it is placed"
                )

    def _written(self, namespace: str, called: str = "") -> Iterator[_WrittenLimit]:
        """Yield the limits in all quotas of a namespace, by name, or in one of them."""
        for name in (called,) if called else sorted(self._names.get(namespace, ())):
            quota = self._store.get((namespace, name))
            hard = {} if quota is None else quota.hard
            for resource, limited in self._resources.items():
                text = hard.get(QUOTA_LIMITS + resource)
                if text is not None:
                    yield _WrittenLimit(name, resource, text, *_limit(text, limited.resource))

    # Questions -------------------------------------------------------------------------------------------------------

    def refuses(self, namespace: str, claims: PodClaims, state: State) -> bool:
        """Tell whether a pod asks for more than its namespace has left, on whichever node it is placed.

        Requests in percent or for whole cards count as 0 where the limit is in another unit, since their amount depends
        on the card. Of init containers the largest counts (beside the sidecars started before it), if it exceeds the
        sum of the others.
        """
        limits = self._limits.get(namespace) if claims else None
        for name, limit in (limits or {}).items():
            asked = self.asked(name, claims)
            if asked and self.used(state, namespace, name) + asked > limit:
                return True
        return False

    def exceeded_by(self, namespace: str, claims: PodClaims, state: State) -> str | None:
        """Say by how much a pod asks for more than its namespace has left; None if :meth:`refuses` does not hold."""
        if not self.refuses(namespace, claims, state):
            return None
        asked = {report: self.asked(report.resource, claims) for report in self.reports(namespace, state)}
        beyond = {report: amount for report, amount in asked.items() if amount and report.used + amount > report.limit}
        wanted = ", ".join(f"{amount} {report.unit} of {report.key}" for report, amount in beyond.items())
        return f"the pod asks for {wanted}, and {used_by(namespace, beyond)}"

    def _peak(self, claims: PodClaims, resource: QuotaResource) -> int:
        def asked(container: ContainerClaims) -> int:
            ours = (claim for claim in container.claims if claim.vendor == resource.vendor)
            return sum(claim.count * self._asked(claim, resource, container.dialect) for claim in ours)

        return max(map(sum, moments((container.type, asked(container)) for container in claims)))

    def _asked(self, claim: Claim, resource: QuotaResource, dialect: str) -> int:
        """Return what a claim asks of each device; cores are capped at one card."""
        asked = (claim.percent if resource.of_card else claim.amounts)[resource.dimension]
        return min(asked, WHOLE) if resource.dimension == self._cores[dialect] else asked

    def remainders(self, namespace: str, claims: PodClaims, state: State) -> QuotaRemainders:
        """Return what is left to a pod, without remainders that it could not exceed on any existing device.

        A remainder too small for any pick is reduced to 0 (or -1 if it is negative), so that pods which fit nowhere
        share a class whatever small remainder their namespace has.
        """
        limits = self._limits.get(namespace)
        if not limits or not claims:
            return ()
        vendors = vendors_of(claims)
        found: dict[tuple[str, int], int] = {}
        for name, limit in limits.items():
            resource, dialect, _ = self._resources[name]
            if resource.vendor not in vendors or dialect != dialect_of(claims):
                continue
            left = limit - self.used(state, namespace, name)
            least, most = self._bounds(claims, resource, state)
            if left < most:
                left = min(max(left, -1), 0) if left < least else left
                where = (resource.vendor, resource.dimension)
                found[where] = min(found.get(where, left), left)
        return tuple(QuotaRemainder(vendor, dimension, left) for (vendor, dimension), left in sorted(found.items()))

    def _bounds(self, claims: PodClaims, resource: QuotaResource, state: State) -> tuple[int, int]:
        """Return a lower bound of the smallest pick of a resource, and an upper bound of all picks of a pod together.

        Picks that take nothing of the resource are ignored in the first. A piece is booked with its own amounts, which
        may be less than what was asked for.
        """
        dimension = resource.dimension
        largest, piece = state.matrix(dialect_of(claims)).largest(resource.vendor, dimension)
        least, most = UNLIMITED, 0
        for container in claims:
            for claim in container.claims:
                if claim.vendor == resource.vendor:
                    amount, percent = self._asked(claim, resource, container.dialect), claim.percent[dimension]
                    if resource.of_card:
                        amount = WHOLE if percent else 0  # where units are few, one may be more than was asked for
                    most += claim.count * max(amount or largest * percent // 100, piece)
                    if percent or piece:
                        least = 1
                    elif amount:
                        least = min(least, amount)
        return least, most

    def limited(self, namespaces: set[str]) -> set[str]:
        """Return those of the namespaces that have a limit."""
        return namespaces & self._limits.keys()

    def exceeded(self, namespace: str, state: State) -> bool:
        """Tell whether a namespace uses more than its limits."""
        return any(report.used > report.limit for report in self.reports(namespace, state))

    def describe(self, namespace: str, state: State) -> str:
        """Word the usage of a namespace for an event; empty where nothing is limited."""
        return used_by(namespace, self.reports(namespace, state))

    def asked(self, resource: str, claims: PodClaims) -> int:
        """Return how much a pod counts for in a limited resource on any node, in the unit of reports.

        Requests in percent or for whole cards count as 0, since their amount depends on the card.
        """
        about = self._resources.get(resource)
        ours = about is not None and bool(claims) and about.dialect == dialect_of(claims)
        return self._peak(claims, about.resource) if about is not None and ours else 0

    def written(self, resource: str, amount: int) -> int:
        """Return an amount of reports in the unit in which a quota limits the resource, rounded up."""
        return -(-amount // self._resources[resource].resource.unit)

    def limits_of(self, namespace: str, resource: str) -> dict[str, int]:
        """Return what each quota of a namespace that limits a resource allows, by name, in the unit of reports."""
        return {each.quota: each.limit or 0 for each in self._written(namespace) if each.resource == resource}

    def unreadable_limits_of(self, namespace: str, resource: str) -> dict[str, str]:
        """Return the limits of a resource that count as 0 because they are no whole numbers of 0 or more, by quota."""
        limits = (each for each in self._written(namespace) if each.resource == resource)
        return {each.quota: each.text for each in limits if each.limit is None}

    def concerns(self, resource: str, claims: PodClaims) -> bool:
        """Tell whether a pod asks for devices of the vendor that a resource is about.

        Where its namespace exceeds the resource's limit, such a pod gets nothing, whether or not it asks for that
        resource.
        """
        about = self._resources.get(resource)
        return about is not None and any(
            claim.vendor == about.resource.vendor and container.dialect == about.dialect
            for container in claims
            for claim in container.claims
        )

    def depends_on_card(self, resource: str, claims: PodClaims) -> bool:
        """Tell whether the amount that a pod counts for in a limited resource depends on the card."""
        limited = self._resources.get(resource)
        if limited is None or not self.concerns(resource, claims):
            return False
        about = limited.resource
        number = about.dimension
        ours = [claim for each in claims for claim in each.claims if claim.vendor == about.vendor]
        named = [(claim.percent[number], claim.amounts[number]) for claim in ours]
        return any(amount and not percent if about.of_card else percent and not amount for percent, amount in named)

    def report(self, state: State) -> Iterator[QuotaReport]:
        """Yield the usage of each namespace with a limit, for metrics."""
        for namespace in sorted(self._limits):
            yield from self.reports(namespace, state)

    def reports(self, namespace: str, state: State) -> Iterator[QuotaReport]:
        """Yield the usage of each limit of a namespace."""
        limits = self._limits.get(namespace, _NO_LIMITS)
        for name in self._resources if limits else ():
            limit = limits.get(name)
            if limit is None:
                continue
            used, unit = self.used(state, namespace, name), self._resources[name].unit
            yield QuotaReport(namespace, name, used, limit, unit, self._rounded[namespace][name])

    def used(self, state: State, namespace: str, name: str) -> int:
        """Return how much of a limited resource a namespace uses, in the unit of reports."""
        resource, dialect, _ = self._resources[name]
        vendor = (dialect, resource.vendor)
        if not resource.of_card:
            return state.quota_usage.used(namespace, vendor, resource.dimension)
        cards = state.quota_usage.on_cards(namespace, vendor, resource.dimension)
        return sum(_percent(state, dialect, where, amount, resource) for where, amount in cards.items())


_NO_LIMITS: Mapping[str, int] = {}


def quota_key(quota: ResourceQuota) -> Key:
    """Return the key of a quota."""
    return quota.namespace, quota.name


def counted_by_card(dialects: Dialects) -> frozenset[tuple[VendorKey, int]]:
    """Return the (vendor, dimension) pairs for which the usage of a namespace depends on the card."""
    return frozenset(
        ((dialect.name, r.vendor), r.dimension)
        for dialect in dialects
        for r in dialect.allocation.quota_resources.values()
        if r.of_card
    )


def _limit(text: str, resource: QuotaResource) -> tuple[int | None, bool]:
    """Read a limit as the amounts of claims are read; None unless it is a whole number of 0 or more.

    Return also whether it is neither unreadable nor rounded down.
    """
    try:
        limit = to_exact_int(text)
    except QuantityError:
        return None, False
    if limit is None or limit < 0:
        return None, False
    if resource.bytes and has_unit(text):
        return limit // resource.bytes, limit % resource.bytes == 0
    return min(limit * resource.unit, UNLIMITED), True


def _percent(state: State, dialect: str, where: tuple[str, str], amount: int, resource: QuotaResource) -> int:
    """Return an amount in percent of its card; a card that is not listed counts as the largest one of its vendor."""
    node, uuid = where
    listed = state.devices_on(node, dialect)
    total = next((device.total[resource.dimension] for device in listed if device.uuid == uuid), 0)
    total = total or state.matrix(dialect).largest(resource.vendor, resource.dimension)[0]
    return min(percent_needed(amount, total), WHOLE) if total else WHOLE
