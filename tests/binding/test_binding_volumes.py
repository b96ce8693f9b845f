"""Volumes are bound before their pod: what is written, what is waited for, and what is given up."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.binding.bench import bench
from tests.binding.claims import CLAIMS, MERGE, VOLUMES, bound, claim, complete, free_volume, kept, selected, wanting

from vgpu_devcluster import Fault
from vgpu_scheduler.intake import VOLUMES as VOLUME_KIND
from vgpu_scheduler.kube import BOUND_BY_CONTROLLER, SELECTED_NODE, decode_volume


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
        await free_volume(made)
        await wanting(made)
        made.submit()
        await made.until(lambda: kept(made))
        found = await claim(made)
        assert (await kept(made)) == {
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


async def test_a_claim_that_is_seen_bound_before_its_volume_is_seen_is_waited_for(tmp_path: Path) -> None:
    async with bench(tmp_path) as made:
        await made.nodes.start()
        await wanting(made, unwatched="PersistentVolume")
        uid = (await made.read("trains"))["metadata"]["uid"]
        made.submit()
        await made.until(lambda: selected(made))
        await complete(made)
        await made.until(lambda: made.engine.state.volumes.objects.claims["default/c"].bound)
        await asyncio.sleep(0.35)  # some looks at the claim
        assert made.engine.state.reservation(uid) is not None
        assert not await bound(made)
        await made.learn()
        await made.until(lambda: bound(made))
        assert not [reason for reason, _ in await made.events() if reason == "BindingFailed"]


async def test_the_wait_ends_as_soon_as_the_volume_is_seen(tmp_path: Path) -> None:
    async with bench(tmp_path, poll_interval=60.0) as made:
        await made.nodes.start()
        await wanting(made, unwatched="PersistentVolume")
        made.submit()
        await made.until(lambda: selected(made))
        await complete(made)
        await made.until(lambda: made.engine.state.volumes.objects.claims["default/c"].bound)
        volume = decode_volume((await made.call("GET", f"{VOLUMES}/made")).body)
        made.observer.observe(VOLUME_KIND, volume)
        await made.until(lambda: bound(made))


async def test_a_pod_that_goes_while_its_volume_was_not_seen_is_not_waited_for(tmp_path: Path) -> None:
    async with bench(tmp_path) as made:
        await wanting(made, unwatched="PersistentVolume")
        made.submit()
        await made.until(lambda: selected(made))
        await complete(made)
        await made.until(lambda: made.engine.state.volumes.objects.claims["default/c"].bound)
        assert (await made.call("DELETE", "/api/v1/namespaces/default/pods/trains", {"gracePeriodSeconds": 0})).ok
        await made.until(lambda: not made.binder._tasks)


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
        (note,) = notes
        wanted = "binding volumes: no volume could be provisioned for persistentvolumeclaim 'default/c' on"
        assert note in {f"{wanted} node-a", f"{wanted} node-b"}
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
        decisions = made.engine.schedule_next(made.clock.monotonic())
        patch = {"metadata": {"annotations": {SELECTED_NODE: "somewhere-else"}}}
        assert (await made.call("PATCH", f"{CLAIMS}/c", patch, **MERGE)).ok
        await made.until(lambda: made.engine.state.volumes.objects.claims["default/c"].selected_node)
        made.binder.submit(*decisions)
        await made.until(lambda: made.engine.state.reservation(uid) is None)
        assert await selected(made) == "somewhere-else"
        assert made.sent("patch", "persistentvolumeclaims") == 0
        assert not await made.events(), "that somebody was first is nothing to warn of"


async def test_a_write_that_came_too_late_is_nothing_to_warn_of(tmp_path: Path) -> None:
    async with bench(tmp_path) as made:
        await wanting(made)
        made.cluster.inject(Fault(verb="patch", resource="persistentvolumeclaims", status=409, times=1))
        made.submit()
        uid = (await made.read("trains"))["metadata"]["uid"]
        await made.until(lambda: made.engine.state.reservation(uid) is None)
        assert not await made.events()
        made.clock.ahead += 20.0
        made.submit()
        await made.until(lambda: selected(made))


@pytest.mark.parametrize("status", [429, 503])
async def test_a_busy_server_is_asked_again_and_the_cards_are_kept(tmp_path: Path, status: int) -> None:
    async with bench(tmp_path) as made:
        await made.nodes.start()
        await wanting(made)
        made.cluster.inject(Fault(verb="patch", resource="persistentvolumeclaims", status=status, times=2))
        made.submit()
        uid = (await made.read("trains"))["metadata"]["uid"]
        kept_for = made.engine.state.reservation(uid)
        await made.until(lambda: selected(made))
        assert made.engine.state.reservation(uid) is kept_for
        assert made.sent("patch", "persistentvolumeclaims") == 3
        await complete(made)
        await made.until(lambda: bound(made))
        assert "BindingFailed" not in {reason for reason, _ in await made.events()}


async def test_a_server_that_stays_busy_gives_the_cards_back_in_the_end(tmp_path: Path) -> None:
    async with bench(tmp_path, volume_wait=1.5) as made:
        await wanting(made)
        made.cluster.inject(Fault(verb="patch", resource="persistentvolumeclaims", status=429))
        made.submit()
        uid = (await made.read("trains"))["metadata"]["uid"]
        await made.until(lambda: made.engine.state.reservation(uid) is None)
        notes = [note for reason, note in await made.events() if reason == "BindingFailed"]
        assert notes == ["binding volumes: the API server took no write within 1.5 s"]


@pytest.mark.parametrize("ends", [False, True])
async def test_a_busy_server_is_not_asked_for_a_pod_that_is_gone(tmp_path: Path, *, ends: bool) -> None:
    async with bench(tmp_path) as made:
        await wanting(made)
        made.cluster.inject(Fault(verb="patch", resource="persistentvolumeclaims", status=429, times=1))
        made.submit()
        await made.until(lambda: made.sent("patch", "persistentvolumeclaims"))
        if ends:
            await made.binder.stop(0.5)
        else:
            assert (await made.call("DELETE", "/api/v1/namespaces/default/pods/trains", {"gracePeriodSeconds": 0})).ok
        await made.until(lambda: not made.binder._tasks)
        assert made.sent("patch", "persistentvolumeclaims") == 1


async def test_a_volume_that_somebody_else_got_since_is_not_taken_away(tmp_path: Path) -> None:
    async with bench(tmp_path) as made:
        await free_volume(made)
        await wanting(made)
        uid = (await made.read("trains"))["metadata"]["uid"]
        decisions = made.engine.schedule_next(made.clock.monotonic())
        others = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "other", "name": "x", "uid": "u"}
        assert (await made.call("PATCH", f"{VOLUMES}/disk", {"spec": {"claimRef": others}}, **MERGE)).ok
        await made.until(lambda: made.engine.state.volumes.objects.volumes["disk"].claim)
        made.binder.submit(*decisions)
        await made.until(lambda: made.engine.state.reservation(uid) is None)
        assert await kept(made) == others
        assert made.sent("patch", "persistentvolumes") == 0
        assert not await selected(made)


async def test_a_volume_of_a_claim_that_got_another_one_since_stays_free(tmp_path: Path) -> None:
    async with bench(tmp_path) as made:
        await free_volume(made)
        await wanting(made)
        uid = (await made.read("trains"))["metadata"]["uid"]
        decisions = made.engine.schedule_next(made.clock.monotonic())
        await complete(made, "another")
        await made.until(lambda: made.engine.state.volumes.objects.claims["default/c"].bound)
        made.binder.submit(*decisions)
        await made.until(lambda: made.engine.state.reservation(uid) is None)
        assert not await kept(made)


@pytest.mark.parametrize("after", [False, True])
async def test_a_write_without_an_answer_is_followed_by_what_the_claim_says(tmp_path: Path, *, after: bool) -> None:
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


async def test_a_pod_whose_volumes_are_awaited_leaves_for_a_preemptor_at_once(tmp_path: Path) -> None:
    async with bench(tmp_path, volume_wait=600.0) as made:
        await wanting(made)
        uid = (await made.read("trains"))["metadata"]["uid"]
        made.submit()
        await made.until(lambda: selected(made))
        assert made.binder.cancel_unsent(uid)
        assert made.engine.state.reservation(uid) is None
        assert not made.binder.cancel_unsent(uid)
        await made.until(lambda: not made.binder._tasks, within=20.0)
        assert not await made.tells("BindingFailed")
        assert made.binder.stats.failed == 0
        made.clock.ahead += 20.0
        made.submit()
        await complete(made)
        await made.nodes.start()
        await made.until(lambda: bound(made))


async def test_the_old_wait_ends_where_the_pod_is_decided_anew_meanwhile(tmp_path: Path) -> None:
    async with bench(tmp_path, volume_wait=600.0, poll_interval=60.0) as made:
        await wanting(made)
        uid = (await made.read("trains"))["metadata"]["uid"]
        made.submit()
        await made.until(lambda: selected(made))
        assert made.binder.cancel_unsent(uid)
        made.clock.ahead += 20.0
        made.submit()
        assert made.engine.state.reservation(uid) is not None
        await complete(made)
        await made.nodes.start()
        await made.until(lambda: bound(made))
        await made.until(lambda: not made.binder._tasks)
        assert made.sent("create", "pods/binding") == 1


async def test_the_old_wait_ends_even_if_the_pod_is_decided_anew_for_the_same_node(tmp_path: Path) -> None:
    async with bench(tmp_path, volume_wait=600.0) as made:
        await wanting(made)
        uid = (await made.read("trains"))["metadata"]["uid"]
        made.submit()
        await made.until(lambda: selected(made))
        (old,) = (task for task in asyncio.all_tasks() if task.get_name() == "volumes-of-default/trains")
        assert made.binder.cancel_unsent(uid)
        made.clock.ahead += 20.0
        assert made.submit() == 1
        await made.until(old.done)
        held = made.engine.state.reservation(uid)
        assert held is not None
        assert held.node == await selected(made)
        assert made.binder._tasks, "the new wait goes on"
