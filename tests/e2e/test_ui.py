"""The page as it is installed in a cluster: an administrator sees all, a tenant its own, and nothing is written."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from tests.apiserver.certificates import Authority
from tests.apiserver.control_plane import free_ports
from tests.apiserver.rights import PAGE, granted
from tests.e2e.conftest import MANIFESTS, OLDER, Cluster
from tests.ui.browsers import Answer, Browser
from tests.ui.test_ui_access import cookie
from tests.whatif.test_whatif_remedies import GPU, MEMORY, node, pod, running
from yarl import URL

from vgpu_scheduler.reading.page import OTHERS

Object = dict[str, Any]
ACCOUNT = "system:serviceaccount:vgpu-system:vgpu-scheduler-ui"
TEAMS = ("blue", "green")
NOT_USED_HERE = {"daemonsets", "devices", "services", "replicationcontrollers", "replicasets", "statefulsets"}
"""What other settings have the page read, or nothing here has."""
pytestmark = [
    pytest.mark.apiserver,
    pytest.mark.skipif(OLDER, reason="what is tested differs on the older API server"),
]


@dataclass
class Page:
    """The page that is served.

    Attributes
    ----------
    tokens
        By the account that has it.
    """

    browser: Browser
    tokens: dict[str, str]
    authority: Path

    async def get(self, path: str, who: str) -> Answer:
        return await self.browser.get(path, headers={"Authorization": f"Bearer {self.tokens[who]}"})

    async def until(self, path: str, who: str, text: str) -> Answer:
        async with asyncio.timeout(20):
            while text not in (answer := await self.get(path, who)).text:
                await asyncio.sleep(0.05)
        return answer


async def created(cluster: Cluster, path: str, obj: Object) -> Object:
    async with cluster.http.post(path, json=obj) as answer:
        assert answer.status in {200, 201, 409}, await answer.text()
        return dict(await answer.json())


async def token_of(cluster: Cluster, namespace: str, name: str) -> str:
    """Return a token of a service account, as ``kubectl create token`` does."""
    account = {"metadata": {"name": name}}
    await created(cluster, f"/api/v1/namespaces/{namespace}/serviceaccounts", account)
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
    return str((await created(cluster, path, request))["status"]["token"])


def arguments() -> list[str]:
    """Return what the Deployment runs."""
    spec = yaml.safe_load((MANIFESTS / "ui" / "deployment.yaml").read_text())["spec"]["template"]["spec"]
    return list(spec["containers"][0]["args"])


@asynccontextmanager
async def page_of(cluster: Cluster, folder: Path) -> AsyncIterator[Page]:
    """Serve the page as its Deployment does, under its account."""
    plane = cluster.plane
    plane.kubectl("apply", "-k", str(MANIFESTS / "ui"))
    plane.tokens[ACCOUNT] = await token_of(cluster, "vgpu-system", "vgpu-scheduler-ui")
    authority = Authority(folder)
    cert, key = folder / "tls.crt", folder / "tls.key"
    authority.sign(cert, key)
    (port,) = free_ports(1)
    given = {"--listen": f"127.0.0.1:{port}", "--tls-cert": str(cert), "--tls-key": str(key)}
    flags = [f"{name}={given.get(name, value)}" for name, _, value in (each.partition("=") for each in arguments()[1:])]
    config = shutil.copy(plane.kubeconfig(ACCOUNT), folder / "kubeconfig")  # a colon in a name separates files
    log = folder / "ui.log"
    with log.open("wb") as written:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "vgpu_scheduler", "ui", *flags),
            *("--kubeconfig", str(config)),
            stderr=written,
            stdout=written,
        )
    try:
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=authority.file)),
            cookie_jar=aiohttp.DummyCookieJar(),
        ) as session:
            browser = Browser(session, f"https://127.0.0.1:{port}/")
            async with asyncio.timeout(60):
                while not await answers(browser):
                    assert process.returncode is None, log.read_text()
                    await asyncio.sleep(0.1)
            yield Page(browser, {"administrator": plane.token}, authority.file)
            assert process.returncode is None, log.read_text()
    finally:
        if process.returncode is None:
            process.terminate()
        assert await asyncio.wait_for(process.wait(), 20) == 0, log.read_text()
        assert "Traceback" not in log.read_text()


async def answers(browser: Browser) -> bool:
    try:
        async with browser.session.get(URL(f"{browser.home}/readyz")) as answer:
            return answer.status == 200
    except aiohttp.ClientError:
        return False


async def installed_teams(cluster: Cluster) -> None:
    """Have there be two teams with a pod that runs and one that waits each, and what they may do."""
    await created(cluster, "/api/v1/nodes", node("a"))
    async with cluster.http.put("/api/v1/nodes/a", json=node("a")) as answer:  # a new one has a taint
        assert answer.status == 200, await answer.text()
    for number, team in enumerate(TEAMS):
        cluster.plane.create_namespace(team, exist_ok=True)
        home = f"/api/v1/namespaces/{team}"
        await created(cluster, f"{home}/serviceaccounts", {"metadata": {"name": "default"}})
        await created(cluster, f"{home}/serviceaccounts", {"metadata": {"name": "scientist"}})
        cluster.plane.kubectl(
            *("create", "rolebinding", "views", "-n", team, "--clusterrole=reads-pods"),
            f"--serviceaccount={team}:scientist",
            check=False,  # it is there
        )
        held = running(f"{team}-runs", "a", f"GPU-a-{number}", 3000)
        held["metadata"]["namespace"] = team
        waits = pod(f"{team}-waits", {GPU: 1, MEMORY: 99999}, schedulerName="vgpu-scheduler")
        waits["metadata"]["namespace"] = team
        for obj in (held, waits):
            obj["spec"]["containers"][0]["image"] = "example"
            node_name = obj["spec"].pop("nodeName", "")
            notes = obj["metadata"].pop("annotations", {})
            await created(cluster, f"{home}/pods", obj)
            if node_name:
                binding = {
                    "metadata": {"name": obj["metadata"]["name"], "annotations": notes},
                    "target": {"kind": "Node", "name": node_name},
                }
                await created(cluster, f"{home}/pods/{obj['metadata']['name']}/binding", binding)


async def removed_teams(cluster: Cluster) -> None:
    for team in TEAMS:
        path = f"/api/v1/namespaces/{team}/pods"
        async with cluster.http.delete(path, params={"gracePeriodSeconds": "0"}) as answer:
            assert answer.status == 200, await answer.text()


@pytest.fixture
async def page(cluster: Cluster, tmp_path: Path) -> AsyncIterator[Page]:
    """The page of a cluster with two teams."""
    cluster.plane.kubectl("create", "clusterrole", "reads-pods", "--verb=get,list", "--resource=pods", check=False)
    await installed_teams(cluster)
    try:
        async with page_of(cluster, tmp_path) as found:
            for team in TEAMS:
                found.tokens[team] = await token_of(cluster, team, "scientist")
            yield found
    finally:
        await removed_teams(cluster)


async def test_everybody_sees_what_they_may_and_nothing_is_written(cluster: Cluster, page: Page) -> None:
    cards = (await page.get("/cards?format=json", "administrator")).body
    assert [card["pods"] for card in cards] == [["blue/blue-runs"], ["green/green-runs"]]
    for team, other in (TEAMS, TEAMS[::-1]):
        seen = (await page.get("/cards?format=json", team)).body
        assert [card["memory"]["used"] for card in seen] == [3000, 3000]
        assert [card["pods"] for card in seen if f"{team}/{team}-runs" not in card["pods"]] == [[OTHERS]]
        for path in ("/", "/cards", "/waiting", "/namespaces?format=csv", f"/pods/{team}/{team}-waits", "/what-if"):
            answer = await page.get(path, team)
            assert (answer.status, other in answer.text) == (200, False), path
        assert (await page.get(f"/pods/{team}/{team}-runs", team)).status == 200
        assert (await page.get(f"/pods/{other}/{other}-runs", team)).status == 404
        assert (await page.get(f"/what-if?pod={other}/{other}-waits", team)).status == 403
        assert (await page.get("/policies", team)).status == 403
    assert (await page.get("/policies", "administrator")).status == 200
    found = await page.until("/?format=json", "administrator", '"findings"')
    assert not [each for each in found.body["doctor"]["skipped"] if "you may not" in each["reason"]]
    done = [record for record in cluster.plane.audit() if record.user == ACCOUNT]
    refused = {f"{record.verb} {record.uri}: {record.code}" for record in done if record.code in {401, 403, 422}}
    assert not refused
    written = {record.resource for record in done if record.verb not in {"get", "list", "watch"}}
    assert written == {"tokenreviews", "subjectaccessreviews"}
    beside = {
        f"{record.verb} {record.uri}"
        for record in done
        if record.resource and not any(right.allows(record) for right in granted(PAGE))
    }
    assert not beside
    unused = {right.resource for right in granted(PAGE) if not any(right.allows(record) for record in done)}
    assert unused <= NOT_USED_HERE | {"podgroups", "leases"}, "rights that nothing needs"


async def test_a_session_lives_as_long_as_its_token_and_a_right_as_long_as_its_role(
    cluster: Cluster, page: Page
) -> None:
    host = page.browser.home
    form = {"token": page.tokens["blue"], "to": "/waiting"}
    answer = await page.browser.get("/login", method="POST", data=form, headers={"Origin": host})
    assert (answer.status, answer.headers["Location"]) == (303, "/waiting")
    session = cookie(answer)
    shown = await page.browser.get("/waiting", headers=session)
    assert "blue/blue-waits" in shown.text
    wrong = {"token": page.tokens["blue"][:-8] + "AAAAAAAA", "to": "/"}
    assert (await page.browser.get("/login", method="POST", data=wrong, headers={"Origin": host})).status == 401
    await created(cluster, "/api/v1/namespaces/blue/pods", later())
    await page.until("/waiting", "blue", "blue/later")
    out = await page.browser.get("/logout", method="POST", headers={**session, "Origin": host})
    assert out.status == 303
    assert (await page.browser.get("/waiting", headers=session)).status == 401


async def test_a_tenant_asks_the_page_by_the_command_line(cluster: Cluster, page: Page, tmp_path: Path) -> None:
    cluster.plane.tokens["blue"] = page.tokens["blue"]
    config = shutil.copy(cluster.plane.kubeconfig("blue", "blue"), tmp_path / "blue")

    async def said(*words: str) -> tuple[int | None, str]:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "vgpu_scheduler", *words, "--kubeconfig", str(config)),
            *("--ui", page.browser.home, "--ui-ca", str(page.authority)),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        told, _ = await process.communicate()
        return process.returncode, told.decode()

    status, told = await said("explain", "blue-waits")
    assert (status, "CardInsufficientMemory" in told, "Its place in the queue" in told) == (1, True, True), told
    status, told = await said("top", "cards")
    assert (status, "GPU-a-1" in told, "green" in told) == (0, True, False), told
    status, told = await said("explain", "green/green-waits")
    assert (status, "or you may not see it" in told) == (2, True), told


def later() -> Object:
    found = pod("later", {GPU: 1, MEMORY: 99999}, schedulerName="vgpu-scheduler")
    found["metadata"]["namespace"] = "blue"
    found["spec"]["containers"][0]["image"] = "example"
    return found
