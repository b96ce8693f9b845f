"""The page in the cluster in a real browser: two tenants log in, and see what they may."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.apiserver.certificates import Authority
from tests.ui.doors import ADMIN, EVERYTHING, Deployed, People, deployed, seeing
from tests.ui.test_ui_browser import PICTURES, RULES, SCHEMES, SIZES, Shown, chromium, needed
from tests.whatif.test_whatif_remedies import GPU, MEMORY, node, pod, running

from vgpu_scheduler.reading.page import OTHERS
from vgpu_scheduler.ui.access import Certificate

__all__ = ["chromium"]

TEAMS = ("blue", "green")
PATHS = {"tenant-now": "/", "tenant-cards": "/cards", "tenant-card": "/cards/a/GPU-a-0", "tenant-waiting": "/waiting"}
PATHS |= {"tenant-namespaces": "/namespaces", "tenant-pod": "/pods/blue/blue-waits", "tenant-what-if": "/what-if"}
pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(120)]


@asynccontextmanager
async def served(folder: Path) -> AsyncIterator[Deployed]:
    """Serve the page of two teams over TLS."""
    objects = [node("a"), node("b")]
    people = People()
    people.add(ADMIN, *EVERYTHING)
    for number, team in enumerate(TEAMS):
        held = running(f"{team}-runs", "a", f"GPU-a-{number}", 3000 + 5000 * number)
        waits = pod(f"{team}-waits", {GPU: 1, MEMORY: 99999}, schedulerName="vgpu-scheduler")
        for obj in (held, waits):
            obj["metadata"]["namespace"] = team
        objects += [held, waits]
        people.add(team, *seeing(team))
    cert, key = folder / "tls.crt", folder / "tls.key"
    Authority(folder).sign(cert, key)
    async with deployed(objects, people, tls=Certificate(cert, key).context) as page:
        yield page


async def logged_in(chromium: Any, page: Deployed, who: str, to: str = "/", **options: Any) -> Shown:
    context = await chromium.new_context(ignore_https_errors=True, **options)
    found = Shown(await context.new_page(), page.browser.home)
    await found.goto(to)
    await found.page.fill("input[name=token]", f"token-of-{who}")
    await found.page.keyboard.press("Enter")
    await found.page.wait_for_selector("nav")
    found.said.clear()  # the browser tells of the 401 that the login page is
    return found


async def test_two_tenants_see_their_own_pods_and_amounts_of_others(chromium: Any, tmp_path: Path) -> None:
    async with served(tmp_path) as page:
        for team, other in (TEAMS, TEAMS[::-1]):
            browser = await logged_in(chromium, page, team, "/cards?by=memory")
            assert browser.page.url == f"{browser.home}/cards?by=memory"
            tiles = browser.page.locator(".map .tile")
            told = await tiles.evaluate_all("tiles => tiles.map(tile => tile.title)")
            assert [OTHERS in text for text in told] == [team == "green", team == "blue", False, False]
            classes = await tiles.evaluate_all("tiles => tiles.map(tile => tile.className)")
            assert classes == ["tile h2", "tile h5", "tile h0", "tile h0"]
            links = await browser.page.locator("nav a").all_inner_texts()
            assert links == ["Now", "Cards", "Waiting", "Namespaces", "What if"]
            for link in links:
                await browser.page.click(f"nav a:text-is('{link}')")
                assert other not in await browser.page.content()
            await browser.page.goto(f"{browser.home}/pods/{team}/{team}-waits")
            assert f"{team}/{team}-waits" in await browser.page.inner_text("h1")
            browser.check()
            await browser.page.goto(f"{browser.home}/pods/{other}/{other}-waits")
            assert "or you may not see it" in await browser.page.inner_text("main")
            await browser.page.context.close()


async def test_a_page_that_is_open_asks_to_log_in_once_its_session_has_ended(chromium: Any, tmp_path: Path) -> None:
    async with served(tmp_path) as page:
        browser = await logged_in(chromium, page, "blue")
        cookies = await browser.page.context.cookies()
        assert [(one["httpOnly"], one["secure"], one["sameSite"]) for one in cookies] == [(True, True, "Strict")]
        assert await browser.page.evaluate("document.cookie") == ""
        async with browser.page.expect_response("**/events"):  # it is followed
            await browser.goto("/")
        del page.people.users["token-of-blue"]
        page.clock.now += 61
        await page.current.start_generation()
        await browser.page.wait_for_selector("text=your session has ended because its token expired", timeout=5000)
        assert browser.elsewhere == []
        await browser.page.context.close()


async def test_a_page_whose_session_ended_before_it_was_followed_asks_to_log_in(chromium: Any, tmp_path: Path) -> None:
    async with served(tmp_path) as page:
        ended = asyncio.Event()

        async def later(route: Any) -> None:
            await ended.wait()
            await route.continue_()

        browser = await logged_in(chromium, page, "blue", to="/login")
        await browser.page.route("**/events", later)
        await browser.goto("/")
        del page.people.users["token-of-blue"]
        page.clock.now += 61
        ended.set()
        await browser.page.wait_for_selector("main input[name=token]", timeout=5000)
        await browser.page.context.close()


async def test_logging_out_is_a_button(chromium: Any, tmp_path: Path) -> None:
    async with served(tmp_path) as page:
        browser = await logged_in(chromium, page, ADMIN)
        await browser.page.click("button:text-is('Log out')")
        await browser.page.wait_for_url(f"{browser.home}/login")
        await browser.goto("/cards")
        assert await browser.page.locator("input[name=token]").count() == 1
        await browser.page.context.close()


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_what_a_tenant_sees_fits_every_width_and_is_accessible(
    scheme: str, chromium: Any, tmp_path: Path
) -> None:
    axe = needed("axe_playwright_python.async_playwright").Axe()
    async with served(tmp_path) as page:
        browser = await logged_in(chromium, page, "blue", color_scheme=scheme)
        for name, path in {**PATHS, "login": "/login"}.items():
            await browser.goto(path)
            for width, height in SIZES:
                await browser.page.set_viewport_size({"width": width, "height": height})
                overflow = await browser.page.evaluate("document.scrollingElement.scrollWidth - window.innerWidth")
                assert overflow <= 0, f"{name} at {width}"
                if PICTURES:
                    await browser.page.screenshot(path=Path(PICTURES) / f"{name}-{width}-{scheme}.png")
            found = await axe.run(browser.page, options=RULES)
            assert found.response["violations"] == [], f"{name}: {found.generate_report()}"
        browser.check()
        await browser.page.context.close()
