"""The content of this version's manifests; ``make manifests`` renders it into ``shipped.json``."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import msgspec

from vgpu_scheduler.doctor.objects import Rule


class ShippedRole(msgspec.Struct, frozen=True, kw_only=True):
    """A role of the scheduler's account.

    Attributes
    ----------
    name
        Its name.
    file
        Its file under ``manifests``.
    namespaced
        Whether it applies only in the namespace of the Lease.
    rules
        Its rules.
    """

    name: str
    file: str
    namespaced: bool = False
    rules: list[Rule]


class Writer(msgspec.Struct, frozen=True):
    """A service account that may write allocations."""

    name: str
    namespace: str


class ShippedPolicy(msgspec.Struct, frozen=True, rename="camel"):
    """A ValidatingAdmissionPolicy and its failure policy."""

    name: str
    failure_policy: str


class ShippedManifests(msgspec.Struct, frozen=True, kw_only=True):
    """The content of the manifests.

    Attributes
    ----------
    roles
        The roles of the scheduler's account.
    writer
        The rule of the role whose subjects may write allocations.
    writers
        The subjects of that role in the base.
    policies
        The admission policies of the base.
    """

    roles: list[ShippedRole]
    writer: Rule
    writers: list[Writer]
    policies: list[ShippedPolicy]


@cache
def shipped() -> ShippedManifests:
    """Return the content of the shipped manifests."""
    return msgspec.json.decode((files(__package__) / "shipped.json").read_bytes(), type=ShippedManifests)
