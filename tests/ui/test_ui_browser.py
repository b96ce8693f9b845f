"""The page in a real browser: Debian's chromium, driven by Playwright. Skipped where one of the two is missing."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.ui.clusters import PODS, lived
from tests.ui.test_ui_live import waiting
from tests.whatif.test_whatif_remedies import node, running

playwright = pytest.importorskip("playwright.async_api", reason="pip install playwright")
CHROMIUM = shutil.which("chromium")
PICTURES = os.environ.get("VGPU_PICTURES", "")
"""A folder where the pictures are kept."""
SIZES = ((320, 700), (1280, 800), (2560, 1440))
SCHEMES = ("light", "dark")
PATHS = {
    "now": "/",
    "cards": "/cards",
    "groups": "/cards?group=rack&by=pods",
    "card": "/cards/node-a1/GPU-node-a1-0",
    "waiting": "/waiting",
    "pod": "/pods/default/large",
    "bound": "/pods/default/t-0-0",
    "missing": "/pods/default/nobody",
}
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="apt-get install chromium"),
    pytest.mark.timeout(300),
]


def objects() -> list[dict[str, Any]]:
    """Return a cluster with something of everything."""
    found: list[dict[str, Any]] = []
    for number in range(12):
        name = f"node-{'abc'[number % 3]}{number}" if number else "node-a1"
        found.append(node(name, cards=8, labels={"rack": f"r{number % 3}"}, cordoned=(7,) if number == 4 else ()))
        if number == 2:
            notes = found[-1]["metadata"]["annotations"]
            notes["hami.io/node-nvidia-register"] = notes["hami.io/node-nvidia-register"].replace("true", "false", 2)
    for number, each in enumerate(list(found)):
        name = each["metadata"]["name"]
        for card in range((number * 5) % 8):
            memory = 1000 + 1900 * ((number + card) % 8)
            found.append(running(f"t-{number}-{card}", name, f"GPU-{name}-{card}", memory, 10 * (card + 1)))
    found.append(running("t-0-0", "node-a1", "GPU-node-a1-0", 5000, 30))
    return [*found, waiting("large", 99999), waiting("larger", 99999), waiting("fits", 500)]


@asynccontextmanager
async def chromium() -> AsyncIterator[Any]:
    async with playwright.async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            await browser.close()


class Watched:
    """What a page says and asks for that it should not."""

    def __init__(self, page: Any, home: str) -> None:
        self.said: list[str] = []
        self.elsewhere: list[str] = []
        page.on("console", lambda message: self.said.append(message.text) if message.type != "log" else None)
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("request", lambda sent: None if sent.url.startswith(home) else self.elsewhere.append(sent.url))


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_every_page_fits_every_width_and_asks_nobody_else(scheme: str, tmp_path: Path) -> None:
    async with lived(tmp_path, *objects()) as cluster, chromium() as browser:
        for width, height in SIZES:
            context = await browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
            page = await context.new_page()
            watched = Watched(page, cluster.browser.home)
            await page.goto(cluster.browser.address)
            assert "key=" not in page.url
            for name, path in PATHS.items():
                await page.goto(f"{cluster.browser.home}{path}")
                overflow = await page.evaluate("document.scrollingElement.scrollWidth - window.innerWidth")
                assert overflow <= 0, f"{name} at {width}"
                if PICTURES:
                    await page.screenshot(path=Path(PICTURES) / f"{name}-{width}-{scheme}.png", full_page=width < 2000)
            assert [text for text in watched.said if "404" not in text] == []
            assert watched.elsewhere == []
            await context.close()


async def test_a_pod_that_is_bound_appears_within_a_second_and_focus_stays(tmp_path: Path) -> None:
    async with lived(tmp_path, *objects()) as cluster, chromium() as browser:
        page = await browser.new_page()
        watched = Watched(page, cluster.browser.home)
        await page.goto(cluster.browser.address)
        await page.goto(f"{cluster.browser.home}/cards")
        cards = await cluster.cards()
        told = await page.locator(".map .tile").evaluate_all("tiles => tiles.map(tile => tile.title)")
        wanted = [f"{card['node']}/{card['card']}" for card in cards]
        assert [text.partition(",")[0] for text in told] == wanted
        tile = page.locator('a[href="/cards/node-a1/GPU-node-a1-7"]')
        assert "h0" in await tile.get_attribute("class")
        await tile.focus()
        await cluster.bind("fits", running("x", "node-a1", "GPU-node-a1-7", 500))
        await page.wait_for_selector('a.h1[href="/cards/node-a1/GPU-node-a1-7"]', timeout=1000)
        assert await page.evaluate("document.activeElement.getAttribute('href')") == "/cards/node-a1/GPU-node-a1-7"
        await page.keyboard.press("Enter")
        await page.wait_for_selector('a[href="/pods/default/fits"]')
        await page.click('a[href="/pods/default/fits"]')
        await page.wait_for_selector('a[href="/cards/node-a1/GPU-node-a1-7"]')
        await cluster.write("DELETE", f"{PODS}/fits", {"gracePeriodSeconds": 0})
        await page.wait_for_selector("text=there is no pod default/fits that waits or runs", timeout=3000)
        assert [text for text in watched.said if "404" not in text] == []


async def test_what_is_typed_is_not_lost_when_something_happens(tmp_path: Path) -> None:
    async with lived(tmp_path, *objects()) as cluster, chromium() as browser:
        page = await browser.new_page()
        await page.goto(cluster.browser.address)
        await page.goto(f"{cluster.browser.home}/cards")
        await page.fill("input[name=node]", "node-")
        await cluster.bind("fits", running("x", "node-a1", "GPU-node-a1-7", 500))
        await cluster.until(lambda text: "default/fits" not in text, "/waiting")
        await asyncio.sleep(1.0)
        assert await page.input_value("input[name=node]") == "node-"
        await page.locator("h1").click()
        await page.wait_for_selector('a.h1[href="/cards/node-a1/GPU-node-a1-7"]', timeout=3000)


async def test_a_key_that_is_wrong_shows_why(tmp_path: Path) -> None:
    async with lived(tmp_path, node("a")) as cluster, chromium() as browser:
        page = await browser.new_page()
        await page.goto(f"{cluster.browser.home}/?key=x")
        assert "the key in this address is wrong" in await page.inner_text("main")
