"""Rights to write claims and volumes: one that is missing is told from a write that is refused, and asked for again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.binding.bench import bench
from tests.binding.claims import selected, wanting

from vgpu_devcluster import Fault
from vgpu_scheduler.apiclient import ApiClient, ApiResponse, ApiUnreachableError
from vgpu_scheduler.binding.rights import VolumeRights
from vgpu_scheduler.kube import API_RESOURCES
from vgpu_scheduler.model import Outcome, VolumePlan

ALLOWED, DENIED = True, False
CLAIM_RESOURCE = API_RESOURCES["PersistentVolumeClaim"].plural


class Reviews:
    """Answers whether we may patch; an answer that is an exception is raised."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *answers: bool | Exception | ApiResponse) -> None:
        self.answers = list(answers)
        self.asked: list[object] = []
        ask = ApiClient.request

        async def request(api: ApiClient, method: str, path: str, body: Any = None, **more: Any) -> ApiResponse:
            if "selfsubjectaccessreviews" not in path:
                return await ask(api, method, path, body, **more)
            self.asked.append(body["spec"]["resourceAttributes"])
            answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
            if isinstance(answer, Exception):
                raise answer
            if isinstance(answer, ApiResponse):
                return answer
            return ApiResponse(201, b'{"status": {"allowed": %s}}' % (b"true" if answer else b"false"))

        monkeypatch.setattr(ApiClient, "request", request)


async def test_a_right_that_comes_back_lets_pods_go_on_whatever_the_answers_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = (
        ApiUnreachableError("gone"),
        *(ApiResponse(*answer) for answer in ((500, b"{}"), (201, b"no"), (201, b"7"))),
    )
    reviews = Reviews(monkeypatch, DENIED, *broken, ValueError("odd"), DENIED, ALLOWED)
    monkeypatch.setattr("vgpu_scheduler.binding.rights._ASK_AGAIN", 0.02)
    async with bench(tmp_path) as made:
        await made.nodes.start()
        await wanting(made)
        fault = made.cluster.inject(Fault(verb="patch", resource="persistentvolumeclaims", status=403))
        uid = (await made.read("trains"))["metadata"]["uid"]
        made.submit()
        await made.until(lambda: made.engine.state.reservation(uid) is None)
        assert made.engine.storage.denial(VolumePlan(provisioned=("default/c",))) == (
            'binding volumes: this scheduler cannot patch resource "persistentvolumeclaims" in the namespace "default"'
        )
        made.cluster.heal(fault)
        await made.until(lambda: len(reviews.asked) >= 8)
        assert reviews.asked[0] == {"verb": "patch", "resource": "persistentvolumeclaims", "namespace": "default"}
        await made.until(lambda: not made.engine.storage.denial(VolumePlan(provisioned=("default/c",))))
        made.clock.ahead += 20.0
        assert made.submit() == 1
        await made.until(lambda: selected(made))


@pytest.mark.parametrize("review", [True, ApiUnreachableError("gone"), ApiResponse(403, b"{}")])
async def test_a_write_that_is_refused_to_one_pod_is_that_pods_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, review: bool | Exception | ApiResponse
) -> None:
    Reviews(monkeypatch, review)
    monkeypatch.setattr("vgpu_scheduler.binding.rights._ASK_AGAIN", 0.02)
    async with bench(tmp_path) as made:
        await wanting(made)
        made.cluster.inject(Fault(verb="patch", resource="persistentvolumeclaims", status=403, times=1))
        uid = (await made.read("trains"))["metadata"]["uid"]
        made.submit()
        await made.until(lambda: made.engine.state.reservation(uid) is None)
        assert not made.engine.storage.denial(VolumePlan(provisioned=("default/c",)))
        assert [reason for reason, _ in await made.events()] == ["BindingFailed"]
        made.clock.ahead += 20.0
        assert made.submit() == 1
        await made.until(lambda: selected(made))


async def test_what_all_pods_say_of_a_right_that_is_missing_names_nobodys_claim(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Reviews(monkeypatch, DENIED)
    async with bench(tmp_path) as made:
        rights = VolumeRights(made.context, 1.0)
        await rights.refused(
            "persistentvolumes",
            'persistentvolumes "secret" is forbidden: User "us" cannot patch resource "persistentvolumes"',
        )
        said = made.engine.storage.denial(VolumePlan({"default/c": "v"}))
        assert said == 'binding volumes: user "us" cannot patch resource "persistentvolumes"'
        await rights.stop()


async def test_a_right_that_is_missing_in_one_namespace_is_asked_for_and_missed_there_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reviews = Reviews(monkeypatch, DENIED, DENIED, ALLOWED)
    monkeypatch.setattr("vgpu_scheduler.binding.rights._ASK_AGAIN", 0.02)
    async with bench(tmp_path) as made:
        rights, storage = VolumeRights(made.context, 1.0), made.engine.storage
        plans = {name: VolumePlan(provisioned=(f"{name}/c",)) for name in ("ours", "theirs")}
        for name, plan in plans.items():
            assert not storage.denial(plan)
            await rights.refused("persistentvolumeclaims", "forbidden", name)
            assert storage.denial(plan).endswith(f'in the namespace "{name}"')
        assert not storage.denial(VolumePlan({"ours/c": "v"})), "volumes are of no namespace"
        await made.until(lambda: not any(storage.denial(plan) for plan in plans.values()))
        asked = {str(each["namespace"]) for each in reviews.asked if isinstance(each, dict)}
        assert asked == {"ours", "theirs"}
        await rights.stop()


async def test_a_pod_of_a_namespace_where_the_right_is_there_is_not_held_up(tmp_path: Path) -> None:
    async with bench(tmp_path) as made:
        await wanting(made)
        made.engine.storage.deny(CLAIM_RESOURCE, "binding volumes: may not patch", "other")
        assert made.submit() == 1
        await made.until(lambda: selected(made))


async def test_a_right_that_is_missing_is_named_and_the_pod_is_tried_when_it_is_there(tmp_path: Path) -> None:
    async with bench(tmp_path) as made:
        await wanting(made)
        made.engine.storage.deny(CLAIM_RESOURCE, "binding volumes: may not patch", "default")
        (decision,) = made.engine.schedule_next(made.clock.monotonic())
        assert decision.outcome is Outcome.REFUSED
        assert decision.message == "0/2 nodes are available: binding volumes: may not patch."
        made.engine.storage.allow(CLAIM_RESOURCE, "default")
        made.clock.ahead += 20.0
        assert made.submit() == 1
        await made.until(lambda: selected(made))
