"""Whose a lock is: by its owner, what that has to do still, and its age."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from tests.binding.bench import LOCK, PENDING
from tests.engine.builders import OURS, node, pod

from vgpu_scheduler.dialects import NodeLock
from vgpu_scheduler.dialects.hami import format_lock, format_time, hami_dialect
from vgpu_scheduler.engine import LockJudge, LockStatus, find_lock
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import LAST_ALLOCATED

NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)


WANTS = pod("wants")


DAY = 86_400.0


def judge(value: str | None, owner: Pod | None = None, token: str = "other") -> LockStatus:
    found = node("a", annotations={LAST_ALLOCATED: token} if value is None else {LOCK: value, LAST_ALLOCATED: token})
    side = hami_dialect().node_side
    judge = LockJudge(side, frozenset({OURS}), 5.0, 15.0)
    return judge.status(find_lock(found, NodeLock(LOCK), side), owner, NOW, WANTS)


def lock(age: float, name: str = "owner") -> str:
    return format_lock(NOW - timedelta(seconds=age), "default", name)


def owner(**more: object) -> Pod:
    return pod("owner", **more)


def through(annotations: dict[str, str], *, started: bool) -> Pod:
    """A pod that is bound to the node and whose plugin has nothing more to do."""
    return owner(nodeName="a", annotations=annotations, started=started)


def test_nobody_has_it() -> None:
    assert judge(None) is LockStatus.FREE


@pytest.mark.parametrize(
    "value",
    ["", "now", "2026-03-04T05:06:07Z,default", "2026-03-04T05:06:07Z,default,p,more", "yesterday,default,p",
     "2026-03-04 05:06:07Z,default,p", "2026-02-30T05:06:07Z,default,p"],
)  # fmt: skip
def test_what_is_malformed_is_nobodys_to_take(value: str) -> None:
    assert judge(value) is LockStatus.MALFORMED


def test_a_lock_that_names_the_pod_itself_is_ours_however_old() -> None:
    assert judge(lock(0, "wants")) is LockStatus.OWN
    assert judge(lock(DAY, "wants")) is LockStatus.OWN


@pytest.mark.parametrize(("age", "holder"), [(0, LockStatus.HELD), (299, LockStatus.HELD), (301, LockStatus.ORPHANED)])
def test_a_bare_time_stamp_expires(age: float, holder: LockStatus) -> None:
    assert judge(lock(age).split(",", maxsplit=1)[0]) is holder


@pytest.mark.parametrize("age", [0.0, DAY])
@pytest.mark.parametrize(
    ("of", "holder"),
    [
        (None, LockStatus.ORPHANED),
        (owner(phase="Succeeded", nodeName="a", annotations=PENDING), LockStatus.ORPHANED),
        (owner(phase="Failed"), LockStatus.ORPHANED),
        (owner(nodeName="b", annotations=PENDING), LockStatus.ORPHANED),
        (through({**PENDING, "hami.io/bind-phase": "success"}, started=True), LockStatus.ORPHANED),
        (through({**PENDING, "hami.io/bind-phase": "failed"}, started=True), LockStatus.ORPHANED),
        (through({**PENDING, "hami.io/vgpu-devices-to-allocate": ";;"}, started=True), LockStatus.ORPHANED),
        (owner(nodeName="a", annotations=PENDING), LockStatus.HELD),
        (owner(nodeName="a", annotations=PENDING, deleting=True), LockStatus.HELD),
        (owner(nodeName="a", annotations=PENDING, started=True), LockStatus.HELD),
        (owner(nodeName="a"), LockStatus.HELD),
        (owner(nodeName="a", scheduler="another", annotations=PENDING), LockStatus.HELD),
    ],
    ids=["gone", "succeeded", "failed unbound", "elsewhere", "answered", "answered no", "nothing left",
         "allocating", "allocating, deleting", "allocating, started", "no phase", "allocating, not ours"],
)  # fmt: skip
def test_a_bound_owner_keeps_it_until_it_is_through_however_long_that_takes(
    of: Pod | None, holder: LockStatus, age: float
) -> None:
    assert judge(lock(age), of) is holder


@pytest.mark.parametrize("answer", [{"hami.io/bind-phase": "success"}, {"hami.io/vgpu-devices-to-allocate": ";;"}])
@pytest.mark.parametrize(("age", "holder"), [(0, LockStatus.HELD), (299, LockStatus.HELD), (301, LockStatus.ORPHANED)])
def test_a_plugin_has_time_to_release_it(answer: dict[str, str], age: float, holder: LockStatus) -> None:
    """Hygon's takes away what lock there is, whoever has it."""
    assert judge(lock(age), through({**PENDING, **answer}, started=False)) is holder


@pytest.mark.parametrize(
    ("scheduler", "age", "holder"),
    [
        (OURS, 9, LockStatus.HELD),
        (OURS, 11, LockStatus.ORPHANED),  # a Binding of ours cannot take that long
        ("another", 11, LockStatus.HELD),
        ("another", 299, LockStatus.HELD),
        ("another", 301, LockStatus.ORPHANED),
    ],
)
def test_an_owner_that_was_never_bound(scheduler: str, age: float, holder: LockStatus) -> None:
    assert judge(lock(age), owner(scheduler=scheduler)) is holder
    assert judge(lock(age), owner(scheduler=scheduler, annotations=PENDING)) is holder


def test_locks_from_the_future_are_not_orphaned() -> None:
    assert judge(lock(-DAY), owner()) is LockStatus.HELD
    assert judge(lock(-DAY).split(",", maxsplit=1)[0]) is LockStatus.HELD


def test_a_nameless_lock_beside_our_token_is_ours() -> None:
    bare = format_time(NOW - timedelta(seconds=1))
    assert judge(bare) is LockStatus.HELD
    assert judge(bare, token=WANTS.uid) is LockStatus.OWN
