"""Claims and volumes: who asks for them, and the controllers and provisioners that bind late, give up, or never do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from tests.kube.objects import Obj
from tests.kube.storage_objects import (
    BIND_COMPLETED,
    SELECTED_NODE,
    attachment,
    claim,
    csi,
    csi_driver,
    csi_node,
    storage_capacity,
    storage_class,
    volume,
)
from tests.simulation.asking import CLAIM_NAMES, HOST, ZONE
from tests.simulation.binder import noted
from tests.simulation.cluster import SimApi
from tests.simulation.things import ATTACHMENTS, CAPACITIES, CLASSES, CSI_DRIVERS, CSI_NODES, SimThing

from vgpu_scheduler.intake import VOLUME_CLAIMS, VOLUMES

RWOP: Final = "ReadWriteOncePod"
CLASS_OF: Final = dict(zip(CLAIM_NAMES, ("local", "local", "made", "made", "local", "now", "made"), strict=True))
"""Two kinds of claims wait for their first consumer: for volumes that are there, and for some that are made."""
EXCLUSIVE: Final = ("c3", "c4")
"""The claims that one pod has for itself."""
ANOTHER_DRIVER: Final = "csi.other.com"

Work = tuple[str, SimThing, tuple[Any, ...]]
"""What is to be done with an object, and with what else."""


class Storage:
    """The storage objects of the simulated API, and what others do to them."""

    def __init__(self, api: SimApi) -> None:
        self._api = api

    def begin(self) -> None:
        """Have the classes."""
        for name in ("local", "made", "now"):
            self._api.put(CLASSES, _class(name))

    # What users and nodes do -----------------------------------------------------------------------------------------

    def make_claim(self, name: str, size: int, bound_at: Obj | None = None) -> None:
        """Make a claim that is not there; bound to a volume that is reached from some nodes, or not bound."""
        if self._api.get(VOLUME_CLAIMS, f"default/{name}"):
            return
        modes = [RWOP] if name in EXCLUSIVE else ["ReadWriteOnce"]
        more: Obj = {"size": f"{size}Gi", "storage_class": CLASS_OF[name], "accessModes": modes}
        if bound_at is None:
            self._api.put(VOLUME_CLAIMS, claim(name, "default", **more))
            return
        pv = f"pv-{self._api.serial()}"
        found = self._api.put(VOLUME_CLAIMS, claim(name, "default", volume=pv, **more))
        self._api.put(VOLUMES, _made(pv, found, bound_at))

    def make_own_claim(self, pod: str, uid: str) -> None:
        """Make the claim of a pod's ephemeral volume."""
        owner = {"ownerReferences": [{"uid": uid, "controller": True}]}
        if not self._api.get(VOLUME_CLAIMS, f"default/{pod}-own"):
            self._api.put(VOLUME_CLAIMS, claim(f"{pod}-own", "default", storage_class="made", meta=owner))

    def make_volume(self, name: str, size: int, nodes: Obj | None, kept_for: str = "") -> None:
        """Make a volume of the class of local ones; it may be kept for a claim by name."""
        if self._api.get(VOLUMES, name):
            return
        more: Obj = {"claimRef": {"namespace": "default", "name": kept_for}} if kept_for else {}
        modes = ["ReadWriteOnce", RWOP]
        content = volume(name, size=f"{size}Gi", storage_class="local", nodes=nodes, accessModes=modes, **more)
        self._api.put(VOLUMES, {**content, "spec": {**content["spec"], "local": {"path": "/x"}}})

    def take_volume(self, name: str) -> None:
        """Have somebody else's claim take a free volume."""
        found = self._api.get(VOLUMES, name)
        if found is not None and "claimRef" not in found.spec:
            about = {"namespace": "other", "name": "theirs", "uid": "theirs"}
            self._put(found, phase="Bound", claimRef=about)

    def say(self, what: str, node: str, number: int) -> None:
        """Have somebody say something else of a class, a driver, a node, or what is attached to it."""
        if what == "class":
            found = self._api.get(CLASSES, "made")
            if found is not None and number == 0:
                self._api.delete(found)
            else:
                places = [None, [{ZONE: ["a"]}], [{HOST: [node]}, {ZONE: ["b"]}]][number % 3]
                self._api.put(CLASSES, _class("made", topologies=places))
        elif what == "limit":
            limits: dict[str, int | None] = {"csi.example.com": number - 1, ANOTHER_DRIVER: 1} if number else {}
            self._api.put(CSI_NODES, csi_node(node, limits=limits))
        elif what == "driver":
            self._api.put(CSI_DRIVERS, csi_driver(storage_capacity=bool(number % 2)))
        elif what == "room":
            where = [None, {}, {"matchLabels": {ZONE: "a"}}, {"matchLabels": {HOST: node}}][number % 4]
            room = storage_capacity(f"room-{number % 2}", storage_class="made", nodes=where, capacity=f"{number}Gi")
            self._api.put(CAPACITIES, room)
        else:
            volumes = self._api.of(VOLUMES)
            named = volumes[number % len(volumes)].key if volumes else "gone"
            self._api.put(ATTACHMENTS, attachment(f"at-{node}", node=node, volume=named))

    def delete(self, pick: int) -> None:
        """Delete something."""
        found = [
            thing
            for kind in (VOLUME_CLAIMS, VOLUMES, CSI_NODES, CAPACITIES, ATTACHMENTS)
            for thing in self._api.of(kind)
        ]
        if found:
            self._api.delete(found[pick % len(found)])

    # What controllers and provisioners do ----------------------------------------------------------------------------

    def work(self, pick: int) -> str:
        """Have a controller or a provisioner do one of the things that are to be done; return which."""
        due = self.due()
        if not due:
            return "nothing"
        what, thing, more = due[pick % len(due)]
        getattr(self, f"_{what}")(thing, *more)
        return what

    def due(self) -> list[Work]:
        """Return what is to be done."""
        return list(self._due())

    def _due(self) -> Iterator[Work]:
        claims = {thing.key: thing for thing in self._api.of(VOLUME_CLAIMS)}
        for found in self._api.of(VOLUMES):
            reference = found.spec.get("claimRef")
            if reference is None or reference["namespace"] == "other":
                continue
            about = claims.get(f"{reference['namespace']}/{reference['name']}")
            if about is None or reference.get("uid") not in (None, about.uid):
                if reference.get("uid"):
                    yield ("release" if found.content["status"]["phase"] != "Released" else "reclaim"), found, ()
            elif about.spec.get("volumeName", "") in ("", found.key) and BIND_COMPLETED not in about.notes:
                yield "bind", about, (found,)
        for key in sorted(claims):
            yield from self._due_of(claims[key])

    def _due_of(self, about: SimThing) -> Iterator[Work]:
        if BIND_COMPLETED in about.notes:
            if self._api.get(VOLUMES, about.spec["volumeName"]) is None and about.content["status"]["phase"] != "Lost":
                yield "lose", about, ()
            return
        node = about.notes.get(SELECTED_NODE)
        if node or about.spec["storageClassName"] == "now":
            yield "provision", about, (node,)
        if node:
            yield "give_up", about, ()

    def _bind(self, about: SimThing, found: SimThing) -> None:
        reference = {"namespace": "default", "name": about.content["metadata"]["name"], "uid": about.uid}
        self._put(found, phase="Bound", claimRef=reference)
        bound = noted(about, {BIND_COMPLETED: "yes"})
        self._api.put(
            VOLUME_CLAIMS, {**bound, "spec": {**about.spec, "volumeName": found.key}, "status": {"phase": "Bound"}}
        )

    def _provision(self, about: SimThing, node: str | None) -> None:
        pv = f"pv-{self._api.serial()}"
        self._api.put(VOLUMES, _made(pv, about, {HOST: [node]} if node else {ZONE: ["a", "b"]}))

    def _give_up(self, about: SimThing) -> None:
        self._api.put(VOLUME_CLAIMS, noted(about, {SELECTED_NODE: None}))

    def _release(self, found: SimThing) -> None:
        self._put(found, phase="Released")

    def _reclaim(self, found: SimThing) -> None:
        self._put(found, phase="Available", claimRef=None)

    def _lose(self, about: SimThing) -> None:
        self._api.put(VOLUME_CLAIMS, {**about.content, "status": {"phase": "Lost"}})

    def _put(self, found: SimThing, phase: str, **spec: Any) -> None:
        merged = {key: value for key, value in {**found.spec, **spec}.items() if value is not None}
        self._api.put(VOLUMES, {**found.content, "spec": merged, "status": {"phase": phase}})


def _class(name: str, topologies: list[Obj] | None = None) -> Obj:
    provisioner = "kubernetes.io/no-provisioner" if name == "local" else "csi.example.com"
    return storage_class(name, provisioner=provisioner, wait=name != "now", topologies=topologies)


def _made(name: str, about: SimThing, nodes: Obj) -> Obj:
    """A volume that was made for a claim; some are of another driver than their class says."""
    size, modes = about.spec["resources"]["requests"]["storage"], about.spec["accessModes"]
    named, bound = about.spec["storageClassName"], about.as_object()
    source = csi(name, ANOTHER_DRIVER) if int(name.removeprefix("pv-")) % 3 == 0 else csi(name)
    return volume(name, size=size, storage_class=named, bound_to=bound, nodes=nodes, accessModes=modes, csi=source)
