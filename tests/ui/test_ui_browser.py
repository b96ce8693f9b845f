"""The page in a real browser: Debian's chromium, driven by Playwright. All tests share one browser and one cluster."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml
from tests.conftest import unavailable
from tests.ui.clusters import PODS, Lived, define, lived
from tests.ui.test_ui_live import POLICIES, waiting
from tests.ui.test_ui_policies import SMALL, SPREAD
from tests.whatif.test_whatif_remedies import node, running

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
    "edited": "/pods/default/large?edit=yes&ask/main/nvidia.com/gpu=1&ask/main/nvidia.com/gpumem=500",
    "bound": "/pods/default/t-0-0",
    "namespaces": "/namespaces",
    "policies": "/policies",
    "edited-policy": "/policies?compare=ClusterVGPUPolicy%2Fsmall",
    "compared": "/policies?compare=ClusterVGPUPolicy%2Fsmall&with=VGPUPolicy%2Fdefault%2Fspread",
    "what-if": "/what-if?pod=default%2Flarge&add=node-a1&without=node%2Fnode-b1&waiting=all",
    "question": "/what-if",
    "missing": "/pods/default/nobody",
}
RULES = {"resultTypes": ["violations"]}
"""All rules of axe-core: those of WCAG 2.2 A and AA, and what else it calls best practice."""
pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(120)]


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
    return [*found, waiting("large", 99999), waiting("larger", 99999)]


def needed(module: str) -> Any:
    """Return a module without which there is no browser."""
    try:
        return import_module(module)
    except ImportError:
        unavailable("Playwright is not installed: pip install playwright axe-playwright-python")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def chromium() -> AsyncIterator[Any]:
    path = shutil.which("chromium")
    if path is None:
        unavailable("there is no chromium: apt-get install chromium")
    async with needed("playwright.async_api").async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        await browser.close()


async def with_policies(cluster: Lived) -> None:
    await define(cluster)
    await cluster.write("POST", POLICIES, SMALL)
    await cluster.write("POST", "/apis/vgpu-scheduler.io/v1alpha1/namespaces/default/vgpupolicies", SPREAD)


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def cluster(chromium: Any) -> AsyncIterator[Lived]:
    with tempfile.TemporaryDirectory() as folder:
        async with lived(Path(folder), *objects(), prepare=with_policies) as found:
            yield found


class Shown:
    """A page of a browser that was let in, and what it says and asks for that it should not."""

    def __init__(self, page: Any, home: str) -> None:
        self.page = page
        self.home = home
        self.said: list[str] = []
        self.elsewhere: list[str] = []
        page.on("console", lambda message: self.said.append(message.text) if message.type != "log" else None)
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("request", lambda sent: None if sent.url.startswith(home) else self.elsewhere.append(sent.url))

    async def goto(self, path: str) -> None:
        await self.page.goto(f"{self.home}{path}")

    def check(self) -> None:
        """Check that it has said nothing, and has asked no other host."""
        assert [text for text in self.said if "404" not in text] == []
        assert self.elsewhere == []


async def shown(chromium: Any, cluster: Lived, **options: Any) -> Shown:
    context = await chromium.new_context(**options)
    found = Shown(await context.new_page(), cluster.browser.home)
    await found.page.goto(cluster.browser.address)
    assert "key=" not in found.page.url
    return found


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_every_page_fits_every_width_is_accessible_and_asks_nobody_else(
    scheme: str, chromium: Any, cluster: Lived
) -> None:
    axe = needed("axe_playwright_python.async_playwright").Axe()
    browser = await shown(chromium, cluster, color_scheme=scheme)
    for name, path in PATHS.items():
        await browser.goto(path)
        for width, height in SIZES:
            await browser.page.set_viewport_size({"width": width, "height": height})
            overflow = await browser.page.evaluate("document.scrollingElement.scrollWidth - window.innerWidth")
            assert overflow <= 0, f"{name} at {width}"
            if PICTURES:
                file = Path(PICTURES) / f"{name}-{width}-{scheme}.png"
                await browser.page.screenshot(path=file, full_page=width < 2000)
        found = await axe.run(browser.page, options=RULES)
        assert found.response["violations"] == [], f"{name}: {found.generate_report()}"
    browser.check()
    await browser.page.context.close()


async def test_a_pod_that_is_bound_appears_within_a_second_and_focus_stays(chromium: Any, cluster: Lived) -> None:
    await cluster.create(waiting("fits", 500))
    browser = await shown(chromium, cluster)
    page = browser.page
    await browser.goto("/cards")
    told = await page.locator(".map .tile").evaluate_all("tiles => tiles.map(tile => tile.title)")
    wanted = [f"{card['node']}/{card['card']}" for card in await cluster.cards()]
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
    browser.check()
    await page.context.close()


async def test_what_is_typed_is_not_lost_when_something_happens(chromium: Any, cluster: Lived) -> None:
    await cluster.create(waiting("typed", 500))
    browser = await shown(chromium, cluster)
    page = browser.page
    await browser.goto("/cards")
    await page.fill("input[name=node]", "node-")
    await cluster.bind("typed", running("x", "node-a1", "GPU-node-a1-6", 500))
    await cluster.until(lambda text: "default/typed" not in text, "/waiting")
    await asyncio.sleep(1.0)
    assert await page.input_value("input[name=node]") == "node-"
    await page.locator("h1").click()
    await page.wait_for_selector('a.h1[href="/cards/node-a1/GPU-node-a1-6"]', timeout=3000)
    browser.check()
    await page.context.close()


async def test_a_question_is_asked_by_keyboard_and_its_answer_has_an_address(chromium: Any, cluster: Lived) -> None:
    browser = await shown(chromium, cluster)
    page = browser.page
    await browser.goto("/what-if")
    await page.fill("textarea[name=manifest]", yaml.safe_dump(waiting("asked", 16000)))
    await page.fill("input[name=count]", "max")
    await page.keyboard.press("Enter")
    await page.wait_for_selector("text=of default/asked fit")
    assert "manifest=" in page.url
    assert await page.locator(".both section[aria-label=After] .marked").count() > 1
    answer = await page.inner_text("main")
    await page.goto(page.url)
    assert (await page.inner_text("main")).partition(" of ")[0] == answer.partition(" of ")[0]
    await page.fill("textarea[name=manifest]", "a: b: c")
    await page.click("button:text-is('Show')")
    await page.wait_for_selector("text=the manifest:1: not valid YAML")
    assert [text for text in browser.said if "400" not in text] == []
    assert browser.elsewhere == []
    await page.context.close()


async def test_a_key_that_is_wrong_shows_why(chromium: Any, cluster: Lived) -> None:
    page = await chromium.new_page()
    await page.goto(f"{cluster.browser.home}/?key=x")
    assert "the key in this address is wrong" in await page.inner_text("main")
    await page.context.close()
