"""Volumes are bound before their pod: what is written, what is waited for, and what is given up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.binding.bench import Bench, bench
from tests.engine.builders import asks
from tests.kube import storage_objects as storage

from vgpu_scheduler.devcluster import Fault
from vgpu_scheduler.engine.storage import CLAIMS as CLAIM_RESOURCE
from vgpu_scheduler.kube import BOUND_BY_CONTROLLER, SELECTED_NODE, ClaimReference
from vgpu_scheduler.model import Outcome

CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
MERGE = {"content_type": "application/merge-patch+json"}

Object = dict[str, Any]


def new(obj: Object) -> Object:
    """Leave to the server what the server decides."""
    obj["metadata"] = {k: v for k, v in obj["metadata"].items() if k not in {"uid", "resourceVersion", "namespace"}}
    return obj


async def wanting(made: Bench, name: str = "trains", **more: Any) -> None:
    """Create a class, a claim ``c`` and a pod that mounts it; have the engine know."""
    for path, obj in ((CLASSES, storage.storage_class()), (CLAIMS, storage.claim())):
        answer = await made.call("POST", path, new(obj))
        assert answer.ok, answer.message
    await made.create(name, asks(1), volumes=[storage.claim_volume()], **more)
    await made.learn()
    made.watch()


async def claim(made: Bench) -> Object:
    return dict((await made.call("GET", f"{CLAIMS}/c")).json())


async def selected(made: Bench) -> str:
    return str((await claim(made))["metadata"].get("annotations", {}).get(SELECTED_NODE, ""))


async def complete(made: Bench, volume: str = "made") -> None:
    """Bind the claim, as provisioner and volume controller do together."""
    found = await claim(made)
    body = storage.volume(volume, bound_to=found, csi=storage.csi(volume))
    del body["status"]
    if not (await made.call("GET", f"{VOLUMES}/{volume}")).ok:
        assert (await made.call("POST", VOLUMES, new(body))).ok
    done = {"metadata": {"annotations": {storage.BIND_COMPLETED: "yes"}}, "spec": {"volumeName": volume}}
    assert (await made.call("PATCH", f"{CLAIMS}/c", done, **MERGE)).ok


async def bound(made: Bench) -> str:
    return str((await made.read("trains"))["spec"].get("nodeName", ""))


async def test_the_claim_names_the_node_and_the_pod_follows_once_it_is_bound(tmp_path: Path) -> None:
    async with bench(tmp_path) as made:
        await made.nodes.start()
        await wanting(made)
        made.submit()
        await made.until(lambda: selected(made))
        held = made.engine.state.reservation((await made.read("trains"))["metadata"]["uid"])
        assert held is not None
        assert held.uses_devices, "the cards are kept meanwhile"
        assert made.binder.depth == 0, "no lane is held up"
        assert not await bound(made)
        await complete(made)
        await made.until(lambda: bound(made))
        assert await bound(made) == await selected(made)
        assert made.sent("patch", "persistentvolumeclaims") == 1
        assert made.sent("patch", "persistentvolumes") == 0


async def test_a_volume_that_exists_is_kept_for_the_claim(tmp_path: Path) -> None:
    async with bench(tmp_path) as made:
        await made.nodes.start()
        free = new(storage.volume("disk", csi=storage.csi("disk")))
        assert (await made.call("POST", VOLUMES, free)).ok
        available = {"status": {"phase": "Available"}}
        assert (await made.call("PATCH", f"{VOLUMES}/disk/status", available, **MERGE)).ok
        await wanting(made)
        made.submit()

        async def kept() -> Object:
            return dict((await made.call("GET", f"{VOLUMES}/disk")).json()["spec"].get("claimRef", {}))

        await made.until(kept)
        found = await claim(made)
        assert (await kept()) == {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": "default",
            "name": "c",
            "uid": found["metadata"]["uid"],
        }
        annotations = (await made.call("GET", f"{VOLUMES}/disk")).json()["metadata"]["annotations"]
        assert annotations[BOUND_BY_CONTROLLER] == "yes"
        assert made.sent("patch", "persistentvolumeclaims") == 0
        await complete(made, "disk")
        await made.until(lambda: bound(made))


async def test_a_volume_that_was_taken_since_is_left_to_the_claim_that_has_it(tmp_path: Path) -> None:
    async with bench(tmp_path) as made:
        await made.nodes.start()
        assert (await made.call("POST", VOLUMES, new(storage.volume("disk", csi=storage.csi("disk"))))).ok
        available = {"status": {"phase": "Available"}}
        assert (await made.call("PATCH", f"{VOLUMES}/disk/status", available, **MERGE)).ok
        await wanting(made)
        made.submit()  # decides on the volume as it was known; nothing is written before the loop turns
        found = made.engine.state.volumes.objects.volumes["disk"]
        theirs = ClaimReference("default", "theirs", "u-theirs")
        newer = msgspec.structs.replace(found, claim=theirs, resource_version=found.resource_version + 1)
        made.engine.kinds["PersistentVolume"].observe(newer, made.clock.monotonic())
        uid = (await made.read("trains"))["metadata"]["uid"]
        await made.until(lambda: made.engine.state.reservation(uid) is None)
        assert made.sent("patch", "persistentvolumes") == 0


async def test_what_the_provisioner_takes_back_is_decided_anew(tmp_path: Path) -> None:
    async with bench(tmp_path) as made:
        await made.nodes.start()
        await wanting(made)
        made.submit()
        await made.until(lambda: selected(made))
        undone = {"metadata": {"annotations": {SELECTED_NODE: None}}}
        assert (await made.call("PATCH", f"{CLAIMS}/c", undone, **MERGE)).ok
        uid = (await made.read("trains"))["metadata"]["uid"]
        await made.until(lambda: made.engine.state.reservation(uid) is None)
        notes = [note for reason, note in await made.events() if reason == "BindingFailed"]
        assert notes == [f"binding volumes: no volume could be made for persistentvolumeclaim 'default/c' on {node}"
                         for node in ("node-a", "node-b") if node in notes[0]]  # fmt: skip
        made.clock.ahead += 20.0
        made.submit()
        await made.until(lambda: selected(made))
        await complete(made)
        await made.until(lambda: bound(made))


async def test_volumes_that_take_too_long_give_the_cards_back_and_pin_the_next_decision(tmp_path: Path) -> None:
    async with bench(tmp_path, volume_wait=30.0) as made:
        await made.nodes.start()
        await wanting(made)
        made.submit()
        await made.until(lambda: selected(made))
        node, uid = await selected(made), (await made.read("trains"))["metadata"]["uid"]
        made.clock.ahead += 31.0
        await made.until(lambda: made.engine.state.reservation(uid) is None)
        assert await selected(made) == node, "what was written is not undone"
        made.clock.ahead += 20.0
        assert made.submit() == 1
        held = made.engine.state.reservation(uid)
        assert held is not None
        assert held.node == node
        await complete(made)
        await made.until(lambda: bound(made))
        assert made.sent("patch", "persistentvolumeclaims") == 1


async def test_a_claim_that_changed_since_is_not_overwritten(tmp_path: Path) -> None:
    async with bench(tmp_path) as made:
        await wanting(made)
        uid = (await made.read("trains"))["metadata"]["uid"]
        known = made.engine.state.volumes.objects.claims["default/c"]
        patch = {"metadata": {"annotations": {SELECTED_NODE: "somewhere-else"}}}
        made.submit()  # decides on the claim as it was known
        answer = await made.call("PATCH", f"{CLAIMS}/c", patch, **MERGE)
        assert answer.ok
        assert known.selected_node is None
        await made.until(lambda: made.engine.state.reservation(uid) is None)
        assert await selected(made) == "somewhere-else"


@pytest.mark.parametrize("after", [False, True])
async def test_a_write_without_an_answer_is_followed_by_what_the_claim_says(tmp_path: Path, after: bool) -> None:
    async with bench(tmp_path) as made:
        await made.nodes.start()
        await wanting(made)
        made.cluster.inject(
            Fault(verb="patch", resource="persistentvolumeclaims", times=1, lose_answer=after, drop=not after)
        )
        made.submit()
        uid = (await made.read("trains"))["metadata"]["uid"]
        await made.until(lambda: made.engine.state.reservation(uid) is None)
        made.clock.ahead += 20.0
        made.submit()
        await made.until(lambda: selected(made))
        await complete(made)
        await made.until(lambda: bound(made))


async def test_without_the_lease_nothing_is_written(tmp_path: Path) -> None:
    async with bench(tmp_path) as made:
        await wanting(made)
        made.leads = False
        made.submit()
        uid = (await made.read("trains"))["metadata"]["uid"]
        await made.until(lambda: made.engine.state.reservation(uid) is None)
        assert made.sent("patch", "persistentvolumeclaims") == 0


async def test_a_pod_that_is_deleted_while_its_volume_is_made_gives_its_cards_back(tmp_path: Path) -> None:
    async with bench(tmp_path) as made:
        await wanting(made)
        made.submit()
        await made.until(lambda: selected(made))
        uid = (await made.read("trains"))["metadata"]["uid"]
        assert (await made.call("DELETE", "/api/v1/namespaces/default/pods/trains", {"gracePeriodSeconds": 0})).ok
        await made.until(lambda: made.engine.state.reservation(uid) is None)
        await made.until(lambda: not made.binder._tasks)


async def test_a_right_that_is_missing_is_named_and_the_pod_is_tried_when_it_is_there(tmp_path: Path) -> None:
    async with bench(tmp_path) as made:
        await wanting(made)
        made.engine.storage.deny(CLAIM_RESOURCE, "binding volumes: may not patch")
        (decision,) = made.engine.attempt_unit(made.clock.monotonic())
        assert decision.outcome is Outcome.REFUSED
        assert decision.message == "0/2 nodes are available: binding volumes: may not patch."
        made.engine.storage.allow(CLAIM_RESOURCE)
        made.clock.ahead += 20.0
        assert made.submit() == 1
        await made.until(lambda: selected(made))
