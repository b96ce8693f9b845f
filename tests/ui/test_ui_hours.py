"""What namespaces have held in the last day: as Prometheus says it, or as far as the pods that run now tell it."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.cli.live_cluster import run
from tests.ui.browsers import NOW, Browser, current_of, served
from tests.whatif.test_whatif_remedies import node, running

from vgpu_scheduler.ui import PageSetup
from vgpu_scheduler.ui.pages.namespaces import NamespaceQuery, NamespacesPage, namespaces_page
from vgpu_scheduler.ui.prometheus_polling import BEING_ASKED, DAY, PrometheusReading
from vgpu_scheduler.ui.visibility import Visibility
from vgpu_scheduler.whatif import HeldHours, InvalidObjectsError

Object = dict[str, Any]
ADDRESS = "/namespaces"


def objects() -> list[Object]:
    held = running("x", "a", "GPU-a-0", 2048)
    held["metadata"]["creationTimestamp"] = "2026-01-01T11:00:00Z"
    held["status"] = {"phase": "Running", "startTime": "2026-01-01T12:00:00Z"}
    return [node("a"), held]


def saying(*answers: Sequence[HeldHours] | Exception) -> Callable[[PageSetup], PageSetup]:
    """Have a Prometheus answer, and then no more."""
    left = list(answers)

    async def held(seconds: int) -> Sequence[HeldHours]:
        assert seconds == DAY
        answer = left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return lambda window: replace(window, held=held)


async def shown(browser: Browser, path: str = ADDRESS) -> str:
    """Return the page once Prometheus has been asked."""
    while "is being queried" in (text := (await browser.get(ADDRESS)).text):
        pass
    return text if path == ADDRESS else (await browser.get(path)).text


async def test_without_prometheus_it_is_what_pods_that_run_have_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vgpu_scheduler.reading.settings.os.environ", {})
    async with served(objects()) as browser:
        text = (await browser.get(ADDRESS)).text
        assert "<td>24.0</td><td>1.50</td>" in text  # 2 GiB and an eighth of a card for 12 hours
        assert "those that have ended are only in Prometheus" in text
        hours = (await browser.get(f"{ADDRESS}?values=hours&format=json")).body
        assert hours == [{"namespace": "default", "gibHours": 24.0, "cardHours": 1.5}]
        (row,) = csv.DictReader((await browser.get(f"{ADDRESS}?format=csv")).text.splitlines())
        assert (row["gib_hours_24h"], row["card_hours_24h"]) == ("24.000", "1.500")
        file = tmp_path / "cluster.yaml"
        later = {
            "kind": "Pod",
            "metadata": {"name": "t", "namespace": "z", "creationTimestamp": NOW.isoformat()},
            "spec": {},
        }
        file.write_text(yaml.safe_dump_all([*objects(), later]))
        assert json.loads(run("usage", "--cluster", str(file), "-o", "json").stdout) == hours


async def test_prometheus_knows_those_that_have_ended() -> None:
    told = [HeldHours("default", "A", 3.0, 0.5), HeldHours("default", "B", 4.0, 1.0), HeldHours("gone", "A", 1.0, 0.25)]
    async with served(objects(), change=saying(told)) as browser:
        text = await shown(browser)
        assert "<td>7.0</td><td>1.50</td>" in text
        assert '<th scope="row">gone</th><td>0</td><td>0</td>' in text
        assert "as Prometheus has added them up" in text
        assert (await browser.get(f"{ADDRESS}?values=hours&format=json&namespace=go")).body == [
            {"namespace": "gone", "gibHours": 1.0, "cardHours": 0.25}
        ]
        held_now = (await browser.get(f"{ADDRESS}?format=json")).body
        assert [row["namespace"] for row in held_now] == ["default"]


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            InvalidObjectsError("--prometheus http://p: it answers 500"),
            "is not known: --prometheus http://p: it answers 500.",
        ),
        (RuntimeError("secret"), "Prometheus could not be queried; the log says why"),
    ],
)
async def test_a_prometheus_that_does_not_answer_is_said_and_takes_nothing_else_along(
    error: Exception, told: str
) -> None:
    async with served(objects(), change=saying(error)) as browser:
        text = await shown(browser)
        assert told in text
        assert "<td>2048 MiB</td>" in text
        assert "secret" not in text
        (row,) = csv.DictReader((await browser.get(f"{ADDRESS}?format=csv")).text.splitlines())
        assert (row["gib_hours_24h"], row["memory_mib"]) == ("", "2048")


async def test_a_tenant_sees_its_own_hours_and_no_address() -> None:
    told = PrometheusReading([HeldHours("default", "A", 3.0, 0.5), HeldHours("other", "A", 1.0, 0.25)])
    current = current_of(objects())

    async def page_for(visibility: Visibility) -> NamespacesPage:
        return await current.ask(lambda world, _: namespaces_page(world, "", visibility, NamespaceQuery(NOW, told)))

    for visibility, seen in ((Visibility(), ["default", "other"]), (Visibility(frozenset({"default"})), ["default"])):
        page = await page_for(visibility)
        assert [each.namespace for each in page.hours] == seen
        assert [row.namespace for row, _ in page.whole] == seen
    broken = NamespaceQuery(NOW, PrometheusReading(trouble="--prometheus http://internal: no"))
    page = await current.ask(lambda world, _: namespaces_page(world, "", Visibility(frozenset({"default"})), broken))
    assert page.trouble == "Prometheus does not answer"
    current.close()


@pytest.mark.parametrize("namespaces", [None, frozenset({"default"})])
async def test_everybody_is_told_that_prometheus_is_being_asked(namespaces: frozenset[str] | None) -> None:
    current = current_of(objects())
    asked = NamespaceQuery(NOW, BEING_ASKED, "usage")
    page = await current.ask(lambda world, _: namespaces_page(world, "", Visibility(namespaces), asked))
    assert page.as_json() == {"metered": True, "trouble": "Prometheus is being queried", "pending": True, "hours": []}
    current.close()
