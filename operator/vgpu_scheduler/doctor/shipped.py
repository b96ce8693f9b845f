"""What the manifests that come with this version say; ``make manifests`` renders it into ``shipped.json``."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import msgspec

from vgpu_scheduler.doctor.objects import Rule


class ShippedRole(msgspec.Struct, frozen=True, kw_only=True):
    """A role that the scheduler's account is given.

    Attributes
    ----------
    name
        Its name.
    file
        Where it is, under ``manifests``.
    namespaced
        Whether it holds in the namespace of the Lease only.
    rules
        What it allows.
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
    """A ValidatingAdmissionPolicy, and how it fails."""

    name: str
    failure_policy: str


class ShippedManifests(msgspec.Struct, frozen=True, kw_only=True):
    """All of it.

    Attributes
    ----------
    roles
        What the scheduler's account is given.
    writer
        The rule of the role that lets its subjects write allocations.
    writers
        To whom the base gives that role.
    policies
        The admission policies of the base.
    """

    roles: list[ShippedRole]
    writer: Rule
    writers: list[Writer]
    policies: list[ShippedPolicy]


@cache
def shipped() -> ShippedManifests:
    """Return what is shipped."""
    return msgspec.json.decode((files(__package__) / "shipped.json").read_bytes(), type=ShippedManifests)
