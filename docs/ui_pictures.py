"""Draws what a browser shows of the page: the pictures in ``docs/ui``.

The cluster is that of the demo with its tenants, as ``vgpu-scheduler demo --keep`` leaves it: the operator has placed
all pods. It takes Playwright and Debian's chromium (``apt-get install chromium``).
"""

from __future__ import annotations

import asyncio
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from playwright.async_api import Page, async_playwright
from yarl import URL

from vgpu_devcluster.demo.cluster import open_demo_cluster
from vgpu_devcluster.demo.page import DemoPage
from vgpu_devcluster.demo.tenants import WAITING, create_tenants

FOLDER: Final = Path(__file__).parent / "ui"
_SUPPOSED: Final = {"pod": WAITING[0], "add": "reserved-0", "waiting": "all"}


@dataclass(frozen=True, slots=True)
class Picture:
    """What is drawn.

    Attributes
    ----------
    name
        Of its file.
    address
        The page.
    size
        Width and height of the browser's window.
    scheme
        Which colours the browser asks for.
    below
        The heading that is scrolled to; empty for the top of the page.
    """

    name: str
    address: URL
    size: tuple[int, int] = (1280, 720)
    scheme: Literal["light", "dark"] = "light"
    below: str = ""

    @property
    def file(self) -> str:
        """The name of its file."""
        return f"{self.name}.png"


PICTURES: Final = (
    Picture("cards", URL("/cards"), (1120, 520)),
    Picture("cards-dark", URL("/cards"), (1120, 520), "dark"),
    Picture("cards-narrow", URL("/cards"), (320, 700), below="Cards"),
    Picture("cards-wide", URL("/cards"), (2560, 360)),
    Picture("now", URL("/"), (1120, 552)),
    Picture("waiting", URL("/waiting"), (1000, 430)),
    Picture("pod", URL(f"/pods/{WAITING[0]}"), (1000, 580)),
    Picture("what-if", URL("/what-if").with_query(_SUPPOSED), (1120, 760), below="Before and after"),
)


async def draw(folder: Path) -> None:
    """Draw all pictures into a folder.

    Raises
    ------
    RuntimeError
        If there is no chromium, or the page cannot be served.
    """
    path = shutil.which("chromium")
    if path is None:
        raise RuntimeError("there is no chromium: apt-get install chromium")
    async with open_demo_cluster(None) as cluster, DemoPage(cluster.kubeconfig) as served:
        await cluster.start_fleet()
        await cluster.start_operator()
        await create_tenants(cluster)
        await served.start()
        if served.trouble:
            raise RuntimeError(f"there is no page: {served.trouble}")
        async with async_playwright() as driver:
            browser = await driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
            for picture in PICTURES:
                page = await browser.new_page(color_scheme=picture.scheme)
                await page.goto(served.address)
                await _draw(page, picture, folder)
                await page.close()
            await browser.close()


async def _draw(page: Page, picture: Picture, folder: Path) -> None:
    width, height = picture.size
    await page.set_viewport_size({"width": width, "height": height})
    answer = await page.goto(str(URL(page.url).origin().join(picture.address)))
    if answer is None or not answer.ok:
        raise RuntimeError(f"{picture.address}: {await page.inner_text('main')}")
    if picture.below:
        heading = page.get_by_role("heading", name=picture.below, exact=True)
        await heading.evaluate("heading => heading.scrollIntoView()")
    await page.screenshot(path=folder / picture.file)


def main() -> None:
    """Draw all pictures."""
    try:
        asyncio.run(draw(FOLDER))
    except RuntimeError as error:
        raise SystemExit(str(error)) from None
    for picture in PICTURES:
        size = (FOLDER / picture.file).stat().st_size
        sys.stdout.write(f"{picture.file} is drawn: {size // 1024} KiB\n")


if __name__ == "__main__":
    main()
