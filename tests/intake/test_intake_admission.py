"""The admission webhook as kopf serves it: answers, certificates that come late or change, and mistakes."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.apiserver.certificates import Authority
from tests.intake.watching import Watcher, until

from vgpu_scheduler.admission import AdmissionRules
from vgpu_scheduler.dialects import Dialects
from vgpu_scheduler.dialects.hami import hami_dialect
from vgpu_scheduler.intake import supervised
from vgpu_scheduler.intake.admission import AdmissionEndpoint, AdmissionServer
from vgpu_scheduler.model import PodClaims

Obj = dict[str, Any]
RULES = AdmissionRules(Dialects([hami_dialect()]), ("vgpu-scheduler",))


class Served:
    """A webhook with its files, and an API server's part."""

    def __init__(self, watcher: Watcher, folder: Path, *, clients: bool) -> None:
        self.authority = Authority(folder)
        self.files = folder / "tls.crt", folder / "tls.key"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.restarts = 0
        self.over_quota: Callable[[str, PodClaims], str | None] = lambda namespace, claims: None
        endpoint = AdmissionEndpoint(
            self.port, *self.files, ca_file=self.authority.file if clients else None, reload_interval=0.05
        )
        self.server = AdmissionServer(
            watcher.api.credentials,
            endpoint,
            RULES,
            self._over_quota,
            after_spawn=lambda: None,
            restarted=self._restarted,
        )

    def _over_quota(self, namespace: str, claims: PodClaims) -> str | None:
        return self.over_quota(namespace, claims)

    def _restarted(self) -> None:
        self.restarts += 1

    async def ask(self, pod: Obj, *, certificate: tuple[Path, Path] | None = None) -> Obj:
        """Ask for a review as an API server does; raises if there is no answer."""
        context = ssl.create_default_context(cafile=str(self.authority.file))
        if certificate:
            context.load_cert_chain(*certificate)
        body = {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {
                "uid": "u-1",
                "operation": "CREATE",
                "resource": {"group": "", "version": "v1", "resource": "pods"},
                "userInfo": {"username": "somebody"},
                "object": pod,
            },
        }
        url = f"https://127.0.0.1:{self.port}/webhook"
        connector = aiohttp.TCPConnector(ssl=context)
        async with aiohttp.ClientSession(connector=connector) as http, http.post(url, json=body) as answer:
            answer.raise_for_status()
            review = await answer.json()
        assert (review["kind"], review["response"]["uid"]) == ("AdmissionReview", "u-1")
        return dict(review["response"])

    async def certificate(self) -> bytes | None:
        """Return the certificate that is served."""
        context = ssl.create_default_context(cafile=str(self.authority.file))
        _, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=context)
        found: bytes | None = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        return found

    async def answers(self, **options: Any) -> bool:
        """Tell whether there is an answer."""
        with contextlib.suppress(aiohttp.ClientError, ssl.SSLError):
            return bool((await self.ask(pod(), **options))["allowed"])
        return False


def pod(**limits: str) -> Obj:
    resources = {"limits": {f"nvidia.com/{name}": amount for name, amount in limits.items()}}
    metadata = {"generateName": "p-", "namespace": "team-a"}
    return {"metadata": metadata, "spec": {"containers": [{"name": "c", "resources": resources}]}}


async def eventually(condition: Callable[[], Any], within: float = 20.0) -> None:
    async with asyncio.timeout(within):
        while not await condition():
            await asyncio.sleep(0.02)


@contextlib.asynccontextmanager
async def running(watcher: Watcher, folder: Path, *, clients: bool = False) -> AsyncIterator[Served]:
    served = Served(watcher, folder, clients=clients)
    task = asyncio.create_task(served.server.run())
    try:
        yield served
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@pytest.fixture
async def served(watcher: Watcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Served]:
    """A webhook that answers."""
    monkeypatch.setattr(supervised, "_RESTART_DELAY", 0.05)
    monkeypatch.setattr(supervised, "_LONGEST_RESTART_DELAY", 0.1)
    async with running(watcher, tmp_path) as made:
        made.authority.sign(*made.files)
        await eventually(made.answers)
        yield made


async def test_a_pod_is_completed_by_a_patch(served: Served) -> None:
    response = await served.ask(pod(gpumem="16Gi"))
    assert (response["allowed"], response["patchType"]) == (True, "JSONPatch")
    patch = {op["path"]: (op["op"], op["value"]) for op in json.loads(base64.b64decode(response["patch"]))}
    assert patch == {
        "/spec/schedulerName": ("add", "vgpu-scheduler"),
        "/spec/containers/0/resources/limits/nvidia.com~1gpu": ("add", "1"),
    }
    assert "16Gi is more than any card has" in response["warnings"][0]


async def test_a_pod_that_is_as_it_should_be_gets_no_patch(served: Served) -> None:
    response = await served.ask(pod())
    assert response["allowed"]
    assert response.keys().isdisjoint({"patch", "warnings", "status"})


async def test_a_refusal_has_its_code_and_words(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    served.over_quota = lambda namespace, claims: "" if namespace == "team-a" else None
    response = await served.ask(pod(gpu="1"))
    assert not response["allowed"]
    assert response["status"] == {"message": "exceeding resource quota", "code": 403}
    assert not [record for record in caplog.records if record.levelname == "ERROR"], "it is an answer, not an error"


async def test_a_mistake_lets_the_pod_in(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    def broken(namespace: str, claims: PodClaims) -> bool:
        raise RuntimeError("a mistake")

    served.over_quota = broken
    response = await served.ask(pod(gpu="1"))
    assert response["allowed"]
    assert "patch" not in response
    assert "could not be reviewed" in caplog.text
    assert served.server.stats.results["failed"] == 1


async def test_a_certificate_that_changes_is_read_again(served: Served) -> None:
    old = await served.certificate()
    served.authority.sign(*served.files)

    async def renewed() -> bool:
        with contextlib.suppress(OSError):
            return await served.certificate() != old
        return False

    await eventually(renewed)
    await eventually(served.answers)
    assert served.restarts <= 1, "once, if it looked between the two files"


async def test_a_certificate_that_comes_late_is_waited_for(
    watcher: Watcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervised, "_RESTART_DELAY", 0.05)
    monkeypatch.setattr(supervised, "_LONGEST_RESTART_DELAY", 0.1)
    async with running(watcher, tmp_path) as made:
        await until(lambda: made.restarts > 1)
        assert not await made.answers()
        made.authority.sign(*made.files)
        await eventually(made.answers)


async def test_only_those_with_a_certificate_may_ask_where_that_is_set(
    watcher: Watcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervised, "_RESTART_DELAY", 0.05)
    client = tmp_path / "client.crt", tmp_path / "client.key"
    async with running(watcher, tmp_path, clients=True) as made:
        made.authority.sign(*client)
        made.authority.sign(*made.files)
        await eventually(lambda: made.answers(certificate=client))
        assert not await made.answers()
