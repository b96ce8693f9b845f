"""The page of a pod says how long the pod will wait, as the command line does, where somebody asks."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.cli.test_cli_forecast import run, snapshot
from tests.forecast.snapshots import NOW, ended
from tests.ui.browsers import Browser, served, view_of

from vgpu_scheduler.forecast import Forecast
from vgpu_scheduler.reading import make_world
from vgpu_scheduler.ui import PageSetup
from vgpu_scheduler.ui.errors import NotFoundError
from vgpu_scheduler.ui.pages import WhatIfQuery, what_if
from vgpu_scheduler.ui.pages.pod import forecast_page
from vgpu_scheduler.ui.visibility import EVERYTHING, Visibility

PATH = "/pods/default/new"


@pytest.fixture
def known(tmp_path: Path) -> str:
    """Return a snapshot in which ten pods have run for 20 minutes."""
    return snapshot(tmp_path, *(ended(f"old-{n}", 3000.0, 1200.0) for n in range(10)))


def items(file: str) -> list[dict[str, Any]]:
    return list(json.loads(Path(file).read_text())["items"])


@asynccontextmanager
async def page_of(file: str) -> AsyncIterator[Browser]:
    """Serve a snapshot as it was when it was read."""

    def then(setup: PageSetup) -> PageSetup:
        return replace(setup, fresh=lambda: replace(setup.current.view, read_at=NOW))

    async with served(items(file), change=then) as browser:
        yield browser


async def test_it_says_what_explain_forecasts(known: str) -> None:
    wanted = json.loads(run("explain", "new", "--forecast", "--cluster", known, "-o", "json").stdout)["forecast"]
    assert wanted["leastSeconds"] == 600

    async with page_of(known) as browser:
        told = (await browser.get(f"{PATH}?forecast=yes&format=json")).body
        page = (await browser.get(f"{PATH}?forecast=yes")).text
        text = (await browser.get(f"{PATH}?forecast=yes&format=text")).text

    assert {**told["forecast"], "draws": 0} == {**wanted, "draws": 0}
    rests = "(run times are those of 10 pods of the same namespace that ask for the same)"
    sentence = f"It waits about 10 minutes more, in 8 of 10 cases {rests}."
    assert sentence in page
    assert sentence in text.splitlines()


async def test_nothing_is_forecast_unless_somebody_asks(known: str) -> None:
    async with page_of(known) as browser:
        page = await browser.get(PATH)
        plain = (await browser.get(f"{PATH}?format=json")).body

    assert 'href="?forecast=yes">How long will it wait?</a>' in page.text
    assert "waits about" not in page.text
    assert "forecast" not in plain


async def test_where_nothing_is_known_it_says_so(tmp_path: Path) -> None:
    async with page_of(snapshot(tmp_path)) as browser:
        page = await browser.get(f"{PATH}?forecast=yes")

    assert page.status == 200
    assert "How long it will wait cannot be estimated: it does not fit now, and the run time of no pod is known." in (
        page.text
    )


async def test_of_a_pod_that_runs_there_is_nothing_to_ask(known: str) -> None:
    async with page_of(known) as browser:
        for query in ("", "?forecast=yes"):
            page = await browser.get(f"/pods/default/first{query}")
            assert page.status == 200
            assert "How long" not in page.text


def test_who_sees_one_namespace_learns_of_no_other_what_its_pods_do(known: str) -> None:
    view = replace(view_of(items(known)), read_at=NOW)
    seen = {
        whole: forecast_page(make_world(view), view, "default/new", "", visibility)
        for whole, visibility in ((True, EVERYTHING), (False, Visibility(frozenset({"default"}))))
    }

    for page in seen.values():
        assert isinstance(page.waits, Forecast)
        assert (page.waits.least, page.waits.most) == (600.0, 600.0)
    assert seen[True].as_json()["forecast"]["durations"] == {"class": "request", "pods": 10}
    assert seen[False].as_json()["forecast"]["durations"] is None
    assert "10 pods" not in seen[False].as_text()
    with pytest.raises(NotFoundError):
        forecast_page(make_world(view), view, "default/new", "", Visibility(frozenset({"other"})))


async def test_a_forecast_that_takes_too_long_ends(known: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vgpu_scheduler.ui.what_if_thread._SECONDS", -1.0)
    async with page_of(known) as browser:
        page = await browser.get(f"{PATH}?forecast=yes")
        plain = await browser.get(PATH)

    assert page.status == 422
    assert "vgpu-scheduler explain --forecast" in page.text
    assert plain.status == 200


async def test_pods_that_wait_are_forecast_as_simulate_does(known: str) -> None:
    (wanted,) = json.loads(run("simulate", "--pending", "--forecast", "--cluster", known, "-o", "json").stdout)

    async with page_of(known) as browser:
        (told,) = (await browser.get("/what-if?waiting=namespace&forecast=yes&format=json")).body
        (alone,) = (await browser.get("/what-if?waiting=namespace&format=json")).body
        page = (await browser.get("/what-if?waiting=all&forecast=yes")).text
        refused = await browser.get("/what-if?without=node/a&forecast=yes")

    assert {**told["forecast"], "draws": 0} == {**wanted["forecast"], "draws": 0}
    assert "forecast" not in alone
    assert "It waits about 10 minutes more" in page
    assert (refused.status, "it is for pods that wait" in refused.text) == (400, True)


def test_what_if_tells_who_sees_one_namespace_of_no_other_what_its_pods_do(known: str) -> None:
    view = replace(view_of(items(known)), read_at=NOW)
    supposed = WhatIfQuery(waiting="namespace", forecast=True)
    for visibility in (EVERYTHING, Visibility(frozenset({"default"}))):
        (told,) = what_if(make_world(view), view, supposed, visibility).as_json()
        assert told["forecast"]["leastSeconds"] == 600
        assert (told["forecast"]["durations"] is None) is not visibility.is_whole
