"""Who is let in to a page that is deployed, for how long, and what is asked of the API server for it."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import threading
from collections import Counter
from collections.abc import Mapping
from itertools import islice
from typing import Any

import pytest
from tests.ui.browsers import Answer, view_of
from tests.ui.doors import ADMIN, ALL, EVERYTHING, HOST, Deployed, People, deployed, seeing
from tests.whatif.test_whatif_remedies import node, running

from vgpu_scheduler.doctor import DoctorInput
from vgpu_scheduler.reading import doctor_input_of_view
from vgpu_scheduler.ui.access import User
from vgpu_scheduler.ui.access.deployed import COOKIE
from vgpu_scheduler.ui.access.limits import FailureLimiter
from vgpu_scheduler.ui.access.sessions import Sessions, expiry_of

OBJECTS = [node("a"), running("x", "a", "GPU-a-0", 3000)]
ORIGIN = {"Origin": f"https://{HOST}"}
PATHS = (
    "/",
    "/cards",
    "/waiting?format=json",
    "/namespaces?format=csv",
    "/what-if",
    "/pods/default/x",
    "/events",
    "/no",
)


def jwt(expires: object) -> str:
    """Return a token that says until when it holds."""
    parts = ({"alg": "none"}, {"exp": expires})
    encoded = (base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts)
    return ".".join([*encoded, "signature"])


def people() -> People:
    found = People()
    found.add(ADMIN, *EVERYTHING)
    found.add("tenant", *seeing("default"))
    found.add("nobody")
    return found


async def nothing_wrong() -> DoctorInput:
    return doctor_input_of_view(view_of(OBJECTS), "vgpu-system")


async def log_in(page: Deployed, token: str, to: str = "/") -> Answer:
    return await page.browser.get("/login", method="POST", data={"token": token, "to": to}, headers=ORIGIN)


def cookie(answer: Answer) -> dict[str, str]:
    """Return what a browser sends from then on."""
    return {"Cookie": answer.headers["Set-Cookie"].partition(";")[0]}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": "Basic YTpi"},
        {"Cookie": f"{COOKIE}=wrong"},
        {"X-Remote-User": ADMIN, "X-Remote-Group": "system:masters"},
    ],
)
async def test_whoever_is_not_recognised_sees_nothing(path: str, headers: Mapping[str, str]) -> None:
    async with deployed(OBJECTS, people()) as page:
        answer = await page.browser.get(path, headers=headers)
        assert (answer.status, "GPU-a-0" in answer.text, "3000" in answer.text) == (401, False, False)
        if "Authorization" not in headers:
            assert answer.headers["WWW-Authenticate"] == "Bearer"
            assert 'action="/login"' in answer.text


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("more", [{}, {"Authorization": "Bearer wrong"}, {"Cookie": f"{COOKIE}=wrong"}])
async def test_a_program_is_told_in_json_that_it_needs_a_token(path: str, more: Mapping[str, str]) -> None:
    async with deployed(OBJECTS, people()) as page:
        answer = await page.browser.get(path, headers={"Accept": "application/json", **more})
        assert (answer.status, answer.headers["Content-Type"]) == (401, "application/json; charset=utf-8")
        assert answer.headers["WWW-Authenticate"] == "Bearer"
        told = json.loads(answer.text)
        assert (told["code"], "token" in told["message"]) == (401, True)


async def test_a_browser_gets_a_session_for_a_token_which_goes_nowhere_else(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with deployed(OBJECTS, people()) as page:
        answer = await log_in(page, "token-of-tenant", "/cards?by=pods")
        assert (answer.status, answer.headers["Location"]) == (303, "/cards?by=pods")
        told = answer.headers["Set-Cookie"].split("; ")
        assert {"HttpOnly", "Secure", "SameSite=Strict", "Path=/"} <= set(told)
        assert told[0].startswith("__Host-")
        assert len(told[0].partition("=")[2]) >= 43  # 256 bits
        assert "Domain" not in answer.headers["Set-Cookie"]
        shown = await page.browser.get("/pods/default/x", headers=cookie(answer))
        assert shown.status == 200
        assert "Log out" in shown.text
        for text in (repr(answer), repr(shown), caplog.text, repr(vars(page.guard.sessions))):
            assert "token-of-tenant" not in text


async def test_logging_out_ends_the_session_and_takes_the_cookie(caplog: pytest.LogCaptureFixture) -> None:
    async with deployed(OBJECTS, people()) as page:
        session = cookie(await log_in(page, "token-of-tenant"))
        assert (await page.browser.get("/logout", headers=session)).status == 405
        answer = await page.browser.get("/logout", method="POST", headers={**session, **ORIGIN})
        assert (answer.status, answer.headers["Location"]) == (303, "/login")
        assert "Max-Age=0" in answer.headers["Set-Cookie"]
        assert (await page.browser.get("/", headers=session)).status == 401


async def test_another_login_ends_the_session_before() -> None:
    async with deployed(OBJECTS, people()) as page:
        before = cookie(await log_in(page, "token-of-tenant"))
        answer = await page.browser.get(
            "/login", method="POST", data={"token": f"token-of-{ADMIN}"}, headers={**ORIGIN, **before}
        )
        assert (await page.browser.get("/", headers=before)).status == 401
        assert (await page.browser.get("/", headers=cookie(answer))).status == 200


async def test_a_session_ends_with_its_token() -> None:
    known = people()
    async with deployed(OBJECTS, known) as page:
        token = known.add("short", *seeing("default"), token=jwt(page.clock() + 1e9 + 30))
        session = cookie(await log_in(page, token))
        assert (await page.browser.get("/", headers=session)).status == 200
        page.clock.now += 31
        answer = await page.browser.get("/", headers=session)
        assert (answer.status, "your session has ended" in answer.text) == (401, True)


async def test_a_token_that_is_revoked_ends_its_session_within_a_minute() -> None:
    known = people()
    async with deployed(OBJECTS, known) as page:
        session = cookie(await log_in(page, "token-of-tenant"))
        del known.users["token-of-tenant"]
        page.clock.now += 61
        program = await page.browser.get("/", headers={**session, "Accept": "application/json"})
        assert (program.status, json.loads(program.text)["code"]) == (401, 401)
        answer = await page.browser.get("/", headers=session)
        assert (answer.status, "your session has ended" in answer.text) == (401, True)
        known.users["token-of-tenant"] = "tenant"
        page.clock.now += 61
        assert (await page.browser.get("/", headers=session)).status == 401  # it does not come back


async def test_a_session_outlasts_other_groups_of_its_user_and_goes_by_them() -> None:
    known = people()
    known.groups = ["b", "a"]
    async with deployed(OBJECTS, known) as page:
        session = cookie(await log_in(page, "token-of-tenant"))
        page.clock.now += 61
        known.groups = ["a", "b"]  # a webhook that gives no order tells nothing new
        assert (await page.browser.get("/", headers=session)).status == 200
        page.clock.now += 61
        known.groups = ["a", "c"]
        assert (await page.browser.get("/", headers=session)).status == 200
        asked = [spec["groups"] for spec in known.specs if "resourceAttributes" in spec]
        assert (asked[0], asked[-1]) == (["a", "b"], ["a", "c"])


async def test_a_session_ends_where_its_token_is_somebody_elses() -> None:
    known = people()
    async with deployed(OBJECTS, known) as page:
        session = cookie(await log_in(page, "token-of-tenant"))
        known.users["token-of-tenant"] = ADMIN
        page.clock.now += 61
        assert (await page.browser.get("/", headers=session)).status == 401


async def test_a_session_lasts_half_a_day_at_most() -> None:
    async with deployed(OBJECTS, people()) as page:
        session = cookie(await log_in(page, "token-of-tenant"))
        page.clock.now += 12 * 3600 - 1
        assert (await page.browser.get("/", headers=session)).status == 200
        page.clock.now += 2
        assert (await page.browser.get("/", headers=session)).status == 401


async def test_a_right_that_is_taken_away_is_gone_within_a_minute() -> None:
    known = people()
    async with deployed(OBJECTS, known) as page:
        headers = page.headers("token-of-tenant")
        assert "default/x" in (await page.browser.get("/cards?format=json", headers=headers)).text
        known.rights["tenant"].clear()
        page.clock.now += 61
        answer = await page.browser.get("/cards?format=json", headers=headers)
        assert (answer.status, "the pods of any namespace" in answer.text) == (403, True)


async def test_who_sees_nothing_is_told_so() -> None:
    async with deployed(OBJECTS, people()) as page:
        answer = await page.browser.get("/", headers=page.headers("token-of-nobody"))
        assert (answer.status, "you may not list the pods of any namespace" in answer.text) == (403, True)
        assert (await log_in(page, "token-of-nobody")).status == 403


async def test_rights_decide_how_much_is_seen() -> None:
    known = people()
    known.add("pods-only", ("list", "pods", ALL))
    known.add("no-roles", ("list", "pods", ALL), ("list", "nodes", ALL))
    async with deployed(OBJECTS, known, look=nothing_wrong) as page:
        await page.browser.get("/", headers=page.headers(f"token-of-{ADMIN}"))
        await page.current.wait_for_generation_after(1)  # the doctor has looked
        for who, policies in (("pods-only", 403), ("no-roles", 200), (ADMIN, 200), ("tenant", 403)):
            headers = page.headers(f"token-of-{who}")
            assert (await page.browser.get("/policies", headers=headers)).status == policies, who
            await page.browser.get("/", headers=headers)
            found = (await page.browser.get("/?format=json", headers=headers)).body["doctor"]
            assert (found is not None) is (who == ADMIN), who


async def test_reviews_name_the_user_as_the_api_server_does() -> None:
    known = people()
    async with deployed(OBJECTS, known) as page:
        await page.browser.get("/", headers=page.headers("token-of-tenant"))
    first, *rights = known.specs
    assert first == {"token": "token-of-tenant"}  # and the audiences are those of the API server
    for spec in rights:
        assert {**spec, "resourceAttributes": None} == {
            "user": "tenant",
            "groups": ["people"],
            "uid": "1",
            "extra": {"x": ["y"]},
            "resourceAttributes": None,
        }
    asked = [spec["resourceAttributes"] for spec in rights]
    assert asked[0] == {"verb": "list", "resource": "pods", "group": ""}
    assert {"verb": "list", "resource": "pods", "group": "", "namespace": "default"} in asked


async def test_answers_are_kept_for_a_minute_and_asked_once() -> None:
    known = people()
    async with deployed(OBJECTS, known) as page:
        headers = page.headers("token-of-tenant")
        await asyncio.gather(*(page.browser.get("/", headers=headers) for _ in range(20)))
        assert known.asked == {"token": 1, "rights": 2}
        page.clock.now += 59
        await page.browser.get("/", headers=headers)
        assert known.asked == {"token": 1, "rights": 2}
        page.clock.now += 2
        await page.browser.get("/", headers=headers)
        assert known.asked == {"token": 2, "rights": 4}


@pytest.mark.parametrize("broken", [{"answers": False}, {"status": 403}, {"status": 500}])
async def test_without_an_answer_of_the_api_server_nobody_is_let_in(broken: dict[str, Any]) -> None:
    known = people()
    async with deployed(OBJECTS, known) as page:
        session = cookie(await log_in(page, "token-of-tenant"))
        page.clock.now += 61
        for name, value in broken.items():
            setattr(known, name, value)
        for headers in (session, page.headers(f"token-of-{ADMIN}")):
            answer = await page.browser.get("/cards", headers=headers)
            assert (answer.status, "GPU-a-0" in answer.text) == (503, False)
        known.answers, known.status = True, 201
        assert (await page.browser.get("/cards", headers=session)).status == 200  # the session is still there


async def test_failed_attempts_are_bounded() -> None:
    known = people()
    async with deployed(OBJECTS, known) as page:
        for number in range(10):
            assert (await log_in(page, f"guess-{number}")).status == 401
        asked = known.asked["token"]
        assert (await log_in(page, "guess")).status == 429
        assert (await page.browser.get("/", headers=page.headers("guess"))).status == 429
        assert known.asked["token"] == asked
        page.clock.now += 3.1
        assert (await log_in(page, "token-of-tenant")).status == 303


def test_attempts_of_other_addresses_are_not_counted_and_few_are_remembered() -> None:
    now = 0.0
    attempts = FailureLimiter(2, 1.0, lambda: now)
    for number in range(10_000):
        attempts.failed(f"{number}")
    assert len(attempts._buckets) == 4096
    attempts.failed("9999")
    assert (attempts.may("9999"), attempts.may("9998"), attempts.may("new")) == (False, True, True)


@pytest.mark.parametrize("token", ["", " ", "a b", "é", "x" * 20_000, "a\nb", "\0"])
async def test_what_is_no_token_is_not_asked_about(token: str) -> None:
    known = people()
    async with deployed(OBJECTS, known) as page:
        assert (await log_in(page, token)).status == 401
        assert not known.specs


@pytest.mark.parametrize(
    ("to", "where"),
    [
        ("/cards?by=pods", "/cards?by=pods"),
        ("https://evil.example/", "/"),
        ("//evil.example/", "/"),
        ("/\\evil.example", "/"),
        ("\\\\evil.example", "/"),
        ("javascript:alert(1)", "/"),
        ("/login?to=/x", "/"),
        ("cards", "/"),
        ("/a\r\nX: y", "/"),
        ("//[", "/"),
        ("", "/"),
    ],
)
async def test_a_login_leads_to_this_page_alone(to: str, where: str) -> None:
    async with deployed(OBJECTS, people()) as page:
        assert (await log_in(page, "token-of-tenant", to)).headers["Location"] == where


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": f"http://{HOST}"}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({**ORIGIN, "Sec-Fetch-Site": "cross-site"}, 403),
        ({**ORIGIN, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}, 403),
        ({**ORIGIN, "Host": "evil.example"}, 421),
        (ORIGIN, 303),
    ],
)
async def test_no_other_site_logs_anybody_in_or_out(headers: dict[str, str], status: int) -> None:
    async with deployed(OBJECTS, people()) as page:
        data = {"token": "token-of-tenant"}
        assert (await page.browser.get("/login", method="POST", data=data, headers=headers)).status == status
        assert (await page.browser.get("/logout", method="POST", headers=headers)).status == status


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Host": "127.0.0.1"}, 421),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}, 200),
    ],
)
async def test_a_link_leads_here_and_nothing_else_of_another_site(headers: dict[str, str], status: int) -> None:
    async with deployed(OBJECTS, people()) as page:
        answer = await page.browser.get("/", headers={**page.headers(f"token-of-{ADMIN}"), **headers})
        assert answer.status == status


async def test_every_answer_tells_browsers_to_come_by_tls_alone_and_to_keep_nothing() -> None:
    async with deployed(OBJECTS, people()) as page:
        for path in ("/", "/login", "/livez", "/static/live.js", "/none"):
            for headers in ({}, page.headers(f"token-of-{ADMIN}"), {"Host": "evil"}):
                answer = await page.browser.get(path, headers=headers)
                assert answer.headers["Strict-Transport-Security"] == "max-age=31536000"
                assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
                assert answer.headers["Cache-Control"] == "no-store"


async def test_other_servers_of_the_same_machine_are_reached_without_tls_after_a_port_forward() -> None:
    async with deployed(OBJECTS, people()) as page:
        for host in ("localhost", f"localhost:{page.browser.home.rpartition(':')[2]}"):
            answer = await page.browser.get("/login", headers={"Host": host})
            assert answer.status == 200
            assert "Strict-Transport-Security" not in answer.headers
            assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]


async def test_pages_of_one_user_that_are_made_at_a_time_are_bounded() -> None:
    async with deployed(OBJECTS, people()) as page:
        mine, others = page.headers("token-of-tenant"), page.headers(f"token-of-{ADMIN}")
        assert (await page.browser.get("/", headers=others)).status == 200
        until = threading.Event()
        held = asyncio.create_task(page.current.ask(lambda _, __: until.wait(30)))
        paths = [f"/pods/default/x-{number}" for number in range(20)]
        asked = [asyncio.create_task(page.browser.get(path, headers=mine)) for path in paths]
        refused = [await each for each in islice(asyncio.as_completed(asked), 4)]
        theirs = asyncio.create_task(page.browser.get("/pods/default/x", headers=others))
        until.set()
        assert await held
        told = {(answer.status, "16 pages of yours are being rendered" in answer.text) for answer in refused}
        assert told == {(503, True)}
        assert Counter([(await each).status for each in asked]) == {503: 4, 404: 16}
        assert (await theirs).status == 200
        assert (await page.browser.get("/pods/default/x", headers=mine)).status == 200


async def test_probes_are_answered_to_everybody_by_any_name_and_say_nothing() -> None:
    async with deployed(OBJECTS, people()) as page:
        for path in ("/livez", "/readyz"):
            answer = await page.browser.get(path, headers={"Host": "10.0.0.1:8443"})
            assert (answer.status, answer.text) == (200, "ok\n")
            assert (await page.browser.get(path, method="POST")).status == 405


# Sessions -------------------------------------------------------------------------------------------------------------


def test_sessions_are_bounded() -> None:
    now = 0.0
    sessions = Sessions(lambda: now, lambda: now)
    first = [sessions.begin(User("one"), "t") for _ in range(9)]
    assert [sessions.find(each) is not None for each in first] == [False, *[True] * 8]
    for number in range(3000):
        sessions.begin(User(f"user-{number}"), "t")
    assert len(sessions) == 2000
    now = 13 * 3600.0
    sessions.begin(User("late"), "t")
    assert len(sessions) == 1


@pytest.mark.parametrize(
    ("token", "expiry"),
    [
        (jwt(12.5), 12.5),
        (jwt("12"), 12.0),
        (jwt(None), None),
        (jwt("soon"), None),
        (jwt(float("nan")), None),
        (jwt(float("inf")), None),
        (jwt({}), None),
        ("a.b.c", None),
        ("opaque", None),
        (f"a.{base64.urlsafe_b64encode(b'[1]').decode()}.c", None),
        (f"a.{base64.urlsafe_b64encode(b'[' * 9000).decode()}.c", None),
    ],
)
def test_until_when_a_token_holds_is_read_and_whatever_it_says_is_no_error(token: str, expiry: float | None) -> None:
    assert expiry_of(token) == expiry
