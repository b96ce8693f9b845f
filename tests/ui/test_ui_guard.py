"""Who is shown the page, what every answer tells the browser, and that no address and no object breaks it."""

from __future__ import annotations

import asyncio
import html
import random
from html.parser import HTMLParser
from typing import Any
from urllib.parse import quote

import aiohttp
import pytest
from tests.ui.browsers import Browser, served
from tests.whatif.test_whatif_remedies import GPU, MEMORY, node, pod, running

from vgpu_scheduler.ui.streams import MOST

OURS = "vgpu-scheduler"
OBJECTS = [
    node("a"),
    running("x", "a", "GPU-a-0", 3000),
    pod("w", {GPU: 1, MEMORY: 99999}, schedulerName=OURS),
]
PATHS = (
    "/",
    "/cards",
    "/waiting",
    "/what-if",
    "/what-if?pod=default/w&add=a",
    "/pods/default/x",
    "/pods/default/w",
    "/cards/a/GPU-a-0",
    "/static/live.js",
)
REFUSED = ("/nothing", "/pods/default/nobody", "/cards/a/none", "/cards?by=x", "/cards?node=b", "/?x=1", "/?format=xml")


@pytest.mark.parametrize("path", [*PATHS, *REFUSED, "/events"])
async def test_without_the_key_nothing_is_shown(path: str) -> None:
    async with served(OBJECTS, entered=False) as browser:
        refused = await browser.get(path)
        assert refused.status == 401
        assert "open the whole address that vgpu-scheduler ui has printed" in refused.text
        wrong = await browser.get(f"{path}{'&' if '?' in path else '?'}key=wrong")
        assert (wrong.status, "the key in this address is wrong" in wrong.text) == (401, True)
        assert "Set-Cookie" not in wrong.headers


async def test_the_key_is_given_for_a_cookie_and_leaves_the_address() -> None:
    async with served(OBJECTS, entered=False) as browser:
        answer = await browser.enter()
        assert (answer.status, answer.headers["Location"]) == (303, "/")
        assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(answer.headers["Set-Cookie"].split("; "))
        assert (await browser.get("/")).status == 200
    key = browser.address.partition("=")[2]
    assert len(key) >= 40
    async with served(OBJECTS, entered=False) as other:
        assert (await other.get(f"/?key={key}")).status == 401  # that of another process


async def test_whoever_has_a_link_gets_there_with_the_key() -> None:
    async with served(OBJECTS, entered=False) as browser:
        key = browser.address.partition("=")[2]
        answer = await browser.get(f"/cards?by=pods&key={key}")
        assert answer.headers["Location"] == "/cards?by=pods"


async def test_the_key_leads_to_no_other_host() -> None:
    async with served(OBJECTS, entered=False) as browser:
        answer = await browser.get(f"//evil.example/?key={browser.address.partition('=')[2]}")
        assert answer.headers["Location"] == "/evil.example/"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Host": "127.0.0.1"}, 421),
        ({"Host": ""}, 421),
        ({"Host": "127.0.0.1:{port}.evil.example"}, 421),
        ({"Host": "localhost:{port}"}, 200),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://127.0.0.1:{port}"}, 200),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
        ({"Sec-Fetch-Site": "none"}, 200),
    ],
)
async def test_other_sites_are_refused(headers: dict[str, str], status: int) -> None:
    async with served(OBJECTS) as browser:
        port = browser.home.rpartition(":")[2]
        answer = await browser.get("/", headers={name: text.format(port=port) for name, text in headers.items()})
        assert answer.status == status


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "http://127.0.0.1:{port}", "Sec-Fetch-Site": "cross-site"}, 403),
        ({"Origin": "http://127.0.0.1:{port}", "Host": "evil.example"}, 421),
        ({"Origin": "http://127.0.0.1:{port}", "Sec-Fetch-Site": "same-origin"}, 303),
    ],
)
async def test_forms_have_to_be_the_pages_own(headers: dict[str, str], status: int) -> None:
    async with served(OBJECTS) as browser:
        port = browser.home.rpartition(":")[2]
        sent = {name: text.format(port=port) for name, text in headers.items()}
        answer = await browser.get("/what-if", method="POST", headers=sent, data={"count": ""})
        assert answer.status == status


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PURGE"])
async def test_nothing_can_be_written(method: str) -> None:
    async with served(OBJECTS) as browser:
        if method == "CONNECT":
            return  # asks for another server, which the HTTP client itself refuses
        assert (await browser.get("/", method=method)).status == 405


async def test_every_answer_tells_the_browser_what_it_may_do() -> None:
    async with served(OBJECTS) as browser:
        answers = [await browser.get(path, method=method) for path in (*PATHS, *REFUSED) for method in ("GET", "HEAD")]
        answers += [await browser.get("/", method="POST"), await browser.get("/", headers={"Host": "evil"})]
        async with browser.session.get(f"{browser.home}/events") as events:
            headers = [*(answer.headers for answer in answers), events.headers]
        for each in headers:
            assert each["Content-Security-Policy"].startswith("default-src 'none'; script-src 'self'; style-src 'self'")
            assert "frame-ancestors 'none'" in each["Content-Security-Policy"]
            assert each["X-Content-Type-Options"] == "nosniff"
            assert each["Referrer-Policy"] == "same-origin"
            assert each["Cache-Control"] == "no-store"
        statuses = {path: (await browser.get(path)).status for path in REFUSED}
        assert statuses == {path: 400 if "=" in path and "node" not in path else 404 for path in REFUSED}


def mutated(chance: random.Random) -> str:
    """Return an address that somebody might write who means no good."""
    parts = [
        "..",
        "%2e%2e",
        "%00",
        "%ff",
        "a",
        "x",
        "default",
        "w",
        "GPU-a-0",
        "%2F",
        "<script>",
        "é",
        "%",
        "a" * 300,
        "",
        " ",
    ]
    names = ["by", "group", "node", "model", "state", "format", "namespace", "key", "x", "__class__", "node[]"]
    names += ["pod", "count", "add", "without", "manifest", "policy"]
    values = [*parts, "memory", "json", "html", "{{7*7}}", "'", '"', "-1", "9" * 400, "\ud800", "%0d%0aX: y"]
    start = chance.choice(
        ["/", "/cards", "/pods", "/waiting", "/what-if", "/cards/a", "/pods/default", "/static", "/events/x"]
    )
    path = "/".join([start.rstrip("/"), *(chance.choice(parts) for _ in range(chance.randrange(4)))])
    query = "&".join(f"{chance.choice(names)}={chance.choice(values)}" for _ in range(chance.randrange(4)))
    return quote(f"{path or '/'}{'?' if query else ''}{query}", safe="/?&=%.", errors="replace")


@pytest.mark.long
@pytest.mark.timeout(120)
async def test_mutated_addresses_get_a_clear_page() -> None:
    chance = random.Random(29)
    seen: dict[int, int] = {}
    async with served(OBJECTS) as browser:
        for number in range(5000):
            path = mutated(chance)
            answer = await browser.get(path)
            seen[answer.status] = seen.get(answer.status, 0) + 1
            assert answer.status < 500, f"{number}: {path}"
            assert "Traceback" not in answer.text
    assert {200, 400, 404} <= seen.keys()


async def test_lines_and_headers_are_bounded() -> None:
    async with served(OBJECTS) as browser:
        assert (await browser.get("/?model=" + "a" * 5000)).status == 400
        assert (await browser.get("/", headers={"X": "a" * 20000})).status == 400
        assert (await browser.get("/", data=b"x" * 100000)).status in {200, 413}


async def test_streams_are_bounded() -> None:
    async with (
        served(OBJECTS) as browser,
        aiohttp.ClientSession(
            cookie_jar=browser.session.cookie_jar, connector=aiohttp.TCPConnector(limit=0)
        ) as session,
    ):
        streams = [await session.get(f"{browser.home}/events") for _ in range(MOST)]
        assert {stream.status for stream in streams} == {200}
        more = await Browser(session, browser.address).get("/events")
        assert (more.status, f"{MOST} pages are open already" in more.text) == (503, True)
        streams.pop().close()
        async with asyncio.timeout(30):
            while True:
                async with session.get(f"{browser.home}/events") as again:
                    if again.status == 200:
                        break
                await asyncio.sleep(0.05)
        for stream in streams:
            stream.close()


HOSTILE = "<b></td><script>alert(1)</script><img src=x onerror=alert(1)>\" onclick='alert(1)' {{7*7}} &lt;"


LIVE = {"src": "/static/live.js", "defer": None}
NAME = HOSTILE.replace("/", "")  # a part of a path, as names of Kubernetes are


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))


def hostile(obj: Any) -> Any:
    """Return an object that says something hostile wherever people may write a text."""
    obj["metadata"]["labels"] = {HOSTILE: HOSTILE}
    obj["metadata"].setdefault("annotations", {})[HOSTILE] = HOSTILE
    obj["metadata"]["annotations"]["vgpu-scheduler.io/decision"] = (
        '{"nodes": "<script>x</script>", "score": "<b>", "policy": {"<i>": "<img src=x>"}}'
    )
    return obj


async def test_what_objects_say_is_text_and_nothing_else() -> None:
    machine = hostile(node(NAME))
    registered = "<b>,10,16384,100,NVIDIA-<script>,0,true,0,hami-core:"
    machine["metadata"]["annotations"]["hami.io/node-nvidia-register"] = registered
    waits = hostile(pod(NAME, {GPU: 1, MEMORY: 99999}, schedulerName=HOSTILE))
    condition = {"type": "PodScheduled", "status": "False", "reason": HOSTILE, "message": HOSTILE}
    waits["status"] = {"phase": "Pending", "conditions": [condition]}
    waits["spec"]["containers"][0]["name"] = HOSTILE
    held = hostile(running(f"held{NAME}", NAME, "<b>", 3000))
    held["metadata"]["namespace"] = NAME
    name, said = quote(NAME, safe=""), quote(HOSTILE, safe="")
    shown = [f"/pods/default/{name}", f"/pods/{name}/held{name}", f"/cards/{name}/%3Cb%3E", "/", "/waiting", "/cards"]
    shown += [f"/cards?group={said}", f"/what-if?pod=default/{name}&namespace={said}"]
    refused = {f"/{said}": 404, f"/cards?by={said}": 400, f"/cards?{said}=x": 400, f"/pods/{name}/{name}": 404}
    async with served([machine, waits, held]) as browser:
        answers = {path: await browser.get(path) for path in (*shown, *refused)}
    assert {path: answer.status for path, answer in answers.items()} == dict.fromkeys(shown, 200) | refused
    for path, answer in answers.items():
        tags = _Tags()
        tags.feed(answer.text)
        assert [attributes for tag, attributes in tags.seen if tag == "script"] in ([LIVE], []), path
        assert not {"img", "i"} & {tag for tag, _ in tags.seen}, path
        assert not {"onclick", "onerror", "style"} & {name for _, attributes in tags.seen for name in attributes}, path
        assert "&lt;" in answer.text, path
    assert html.escape(HOSTILE, quote=False)[:20] in answers["/waiting"].text
