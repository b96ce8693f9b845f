"""What pods ask of more than one node: labels and terms, spread, ports and claims. Few names, so that they meet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tests.kube.objects import Obj
from tests.kube.storage_objects import claim_volume, ephemeral_volume
from tests.naive.predicates import REQUIRED

HOST: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
ZONES: Final = ("a", "b", "")
"""Nodes are in one of these, or say nothing."""
CLAIM_NAMES: Final = tuple(f"c{number}" for number in range(7))
VOLUME_NAMES: Final = tuple(f"v{number}" for number in range(4))
DISK: Final = {"name": "d", "gcePersistentDisk": {"pdName": "pd"}}

Terms = tuple[Obj, ...]


def term(app: str | None, key: str = ZONE, **more: Any) -> Obj:
    """A term about the pods with a label; None is about all pods."""
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app} if app else {}}, **more}


def spreads(skew: int = 1, key: str = ZONE, **more: Any) -> Obj:
    """A hard constraint over the pods of web."""
    selector = {"matchLabels": {"app": "web"}}
    rule = {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
    return {**rule, **more}


@dataclass(frozen=True, slots=True)
class Asking:
    """What a pod asks for.

    Attributes
    ----------
    near, away
        Required affinity and anti-affinity.
    spread
        Its constraints.
    ports
        Of the node.
    volumes
        Of the pod.
    gpu
        Cards, of 3000 MiB each.
    """

    app: str = ""
    near: Terms = ()
    away: Terms = ()
    spread: Terms = ()
    ports: tuple[Mapping[str, Any], ...] = ()
    volumes: Terms = ()
    namespace: str = "default"
    cpu: int = 1
    gpu: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)

    def spec(self) -> Obj:
        """Return this as a part of a pod's spec."""
        affinity = {
            kind: {REQUIRED: list(terms)}
            for kind, terms in (("podAffinity", self.near), ("podAntiAffinity", self.away))
            if terms
        }
        found: Obj = {}
        if affinity:
            found["affinity"] = affinity
        if self.spread:
            found["topologySpreadConstraints"] = list(self.spread)
        if self.volumes:
            found["volumes"] = list(self.volumes)
        return found


def using(*names: str, **more: Any) -> Asking:
    """A pod that uses claims."""
    return Asking(volumes=tuple(map(claim_volume, names)), **more)


TEAM: Final = {"namespaceSelector": {"matchLabels": {"team": "x"}}}
PORT: Final = {"containerPort": 80, "hostPort": 80}

NEIGHBOURS: Final = (
    Asking("web"),
    Asking("web", cpu=3),
    Asking("db", gpu=1),
    Asking("web", namespace="other"),
    Asking("web", away=(term("web", HOST),)),
    Asking("web", away=(term("web"),), gpu=1),
    Asking("db", away=(term("web", HOST),)),
    Asking("db", away=(term("web", HOST, **TEAM),)),
    Asking("db", away=(term(None, HOST, namespaces=["default", "other"]),), namespace="other"),
    Asking("db", near=(term("web"),)),
    Asking("web", near=(term("web"),)),
    Asking("db", near=(term("web", HOST), term("db")), gpu=1),
    Asking("db", near=(term("web", **TEAM),)),
    Asking("web", near=(term("db", HOST, matchLabelKeys=["rev"]),), labels={"rev": "1"}),
    Asking("web", away=(term("web", HOST, matchLabelKeys=["rev"]),), labels={"rev": "1"}),
    Asking("web", spread=(spreads(),)),
    Asking("web", spread=(spreads(), spreads(2, HOST))),
    Asking("web", spread=(spreads(1, HOST, minDomains=3),), gpu=1),
    Asking("db", spread=(spreads(nodeTaintsPolicy="Honor"),)),
    Asking("web", spread=(spreads(matchLabelKeys=["rev"]),), labels={"rev": "2"}),
    Asking(ports=(PORT,)),
    Asking("web", ports=({**PORT, "hostIP": "10.0.0.1"},)),
    Asking("web", ports=({**PORT, "protocol": "UDP"}, {"containerPort": 81, "hostPort": 81}), gpu=1),
)
CLAIMING: Final = (
    using("c0"),
    using("c1"),
    using("c0", "c1"),
    using("c2"),
    using("c2", gpu=1),
    using("c3"),
    using("c3", app="web"),
    using("c4"),
    using("c5"),
    using("c6"),
    using("c2", "c6"),
    using("c0", "c3", gpu=1),
    using("c1", app="web", away=(term("web", HOST),)),
    using("c2", app="web", spread=(spreads(),)),
    Asking(volumes=(ephemeral_volume("own"),)),
    Asking(volumes=(DISK,)),
    Asking(volumes=({**DISK, "gcePersistentDisk": {"pdName": "pd", "readOnly": True}}, claim_volume("c0"))),
)
