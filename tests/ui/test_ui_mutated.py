"""Whatever somebody sends to a page that is deployed, the answer is a clear page, and tells a tenant nothing."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import aiohttp
import pytest
from tests.seeds import seeds
from tests.ui.browsers import Answer
from tests.ui.doors import ADMIN, EVERYTHING, HOST, Deployed, People, deployed, seeing
from tests.whatif.test_whatif_remedies import GPU, MEMORY, node, pod, running

from vgpu_scheduler.ui.access.deployed import COOKIE
from vgpu_scheduler.ui.access.limits import FailureLimiter

OURS = "vgpu-scheduler"
SECRET = "qsecretspace"
HIDDEN = (SECRET, "qhiddenpod", "qwaitingpod")
EACH = 1000
PIECES = (
    *("..", "%2e%2e", "%00", "%ff", "mine", "x", "w", "a", "GPU-a-0", "%2F", "<script>", "é", "%", "a" * 300, "", " "),
    *("{{7*7}}", "'", '"', "-1", "9" * 400, "\ud800", "%0d%0aX: y", "json", "csv", "max", "yes", "namespace", "all"),
)
PARAMETERS = (
    *("by", "group", "node", "model", "state", "format", "namespace", "key", "to", "token", "edit", "annotations"),
    *("pod", "count", "add", "without", "manifest", "policy", "waiting", "compare", "with", "edited", "__class__"),
    *(f"ask/main/{MEMORY}", f"ask/main/{GPU}", "ask/x"),
)
PATHS = (
    *("/", "/cards", "/waiting", "/what-if", "/namespaces", "/policies", "/events/x", "/static/x", "/login", "/logout"),
    *("/pods/mine/x", "/pods/mine/w", "/cards/a/GPU-a-0", "/livez", "/%2e%2e/login", "//login", "/pods/mine%2Fx"),
)
MANIFEST = """
apiVersion: v1
kind: Pod
metadata: {name: new, namespace: mine}
spec: {containers: [{name: main, resources: {limits: {nvidia.com/gpu: 1, nvidia.com/gpumem: 4000}}}]}
"""


def cluster() -> list[dict[str, Any]]:
    objects = [node("a", labels={"team": SECRET})]
    for name, home in (("x", "mine"), ("qhiddenpod", SECRET)):
        held = running(name, "a", "GPU-a-0", 3000)
        held["metadata"]["namespace"] = home
        objects.append(held)
    for name, home in (("w", "mine"), ("qwaitingpod", SECRET)):
        waits = pod(name, {GPU: 1, MEMORY: 99999}, schedulerName=OURS)
        waits["metadata"]["namespace"] = home
        objects.append(waits)
    return objects


def mutated(chance: random.Random, text: str) -> str:
    """Return a text with some of it changed."""
    for _ in range(chance.randrange(3)):
        at = chance.randrange(len(text) + 1)
        text = text[:at] + chance.choice(PIECES) + text[at + chance.randrange(4) :]
    return text


def address(chance: random.Random) -> str:
    path = mutated(chance, chance.choice(PATHS)) if chance.random() < 0.5 else chance.choice(PATHS)
    fields = [f"{chance.choice(PARAMETERS)}={chance.choice(PIECES)}" for _ in range(chance.randrange(4))]
    query = "&".join(fields)
    return quote(f"/{path.lstrip('/')}{'?' if query else ''}{query}", safe="/?&=%.", errors="replace")


def header(text: str) -> str:
    """Return a text as a header can have it: HTTP clients refuse others before they are sent."""
    return "".join(each for each in text if each.isascii() and each.isprintable()).strip()


def requests(chance: random.Random, cookie: str) -> Iterator[tuple[str, str, dict[str, str], dict[str, str] | None]]:
    while True:
        headers = {"Authorization": "Bearer token-of-tenant"}
        way = chance.random()
        if way < 0.15:
            headers = {"Cookie": header(f"{COOKIE}={mutated(chance, cookie)}")}
        elif way < 0.3:
            headers = {"Authorization": header(mutated(chance, "Bearer token-of-tenant"))}
        elif way < 0.45:
            name = chance.choice(
                ["Host", "Origin", "Accept", "Sec-Fetch-Site", "X-Remote-User", "Cookie", "Content-Type"]
            )
            headers[name] = header(
                mutated(chance, chance.choice([HOST, f"https://{HOST}", "text/html", "same-origin"]))
            )
        if chance.random() < 0.7:
            yield "GET", address(chance), headers, None
            continue
        names = [chance.choice([*PARAMETERS, "manifest", "token"]) for _ in range(chance.randrange(5))]
        texts = [*PIECES[:12], MANIFEST, mutated(chance, MANIFEST), "x: &a [*a]", "[" * 3000, "token-of-tenant"]
        form = {name: chance.choice(texts).encode(errors="replace").decode() for name in names}
        yield "POST", address(chance), {"Origin": f"https://{HOST}", **headers}, form


async def sent(page: Deployed, method: str, path: str, headers: dict[str, str], form: dict[str, str] | None) -> Answer:
    try:
        return await page.browser.get(path, method=method, headers=headers, data=form, skip_auto_headers=["User-Agent"])
    except aiohttp.ClientResponseError as error:  # of a status line that is none
        raise AssertionError(f"{method} {path}: {error}") from error


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", seeds(3, 10))
async def test_mutated_requests_get_a_clear_page_and_tell_nothing(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    people = People()
    people.add(ADMIN, *EVERYTHING)
    people.add("tenant", *seeing("mine"))
    seen: dict[int, int] = {}
    async with deployed(cluster(), people) as page:
        monkeypatch.setattr(FailureLimiter, "may", lambda *_: True)  # there are more than anybody may have
        answer = await page.browser.get(
            "/login", method="POST", data={"token": "token-of-tenant"}, headers={"Origin": f"https://{HOST}"}
        )
        cookie = answer.headers["Set-Cookie"].partition(";")[0].partition("=")[2]
        source = requests(chance, cookie)
        for number in range(EACH):
            method, path, headers, form = next(source)
            if path.startswith("/events?") or path == "/events":
                continue
            answer = await sent(page, method, path, headers, form)
            seen[answer.status] = seen.get(answer.status, 0) + 1
            where = f"{number}: {method} {path} {headers} {form}"
            assert answer.status < 500, where
            assert "Traceback" not in answer.text, where
            told = f"{answer.headers}\n{answer.text}"
            assert not [name for name in HIDDEN if name in told], where
    assert {200, 303, 400, 401, 403, 404, 421} <= seen.keys()
