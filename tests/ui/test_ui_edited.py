"""A pod that asks for something else: the page says what ``explain`` would say of it."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import urlencode

import pytest
import yaml
from tests.cli.live_cluster import run
from tests.ui.browsers import served
from tests.whatif.test_whatif_remedies import CORES, GPU, MEMORY, node, pod, running

OURS = "vgpu-scheduler"
AMOUNTS = {f"ask/main/{GPU}": "1", f"ask/main/{MEMORY}": "20000", f"ask/main/{CORES}": "10"}
OBJECTS = [
    node("a"),
    running("x", "a", "GPU-a-0", 9000),
    running("z", "a", "GPU-a-1", 9000),
    {**pod("w", {GPU: 1, MEMORY: 20000, CORES: 10}, schedulerName=OURS)},
]


@pytest.mark.parametrize("memory", ["7000", "8000", "30000", ""])
async def test_it_gets_what_explain_says_of_such_a_pod(
    memory: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vgpu_scheduler.reading.settings.os.environ", {})
    limits = {GPU: 1, CORES: 10} | ({MEMORY: memory} if memory else {})
    note = {"nvidia.com/use-gputype": "A100"}
    asks = pod("w", limits, schedulerName=OURS, metadata={"annotations": note})
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump_all([*OBJECTS[:3], asks]))
    wanted = json.loads(run("explain", "default/w", "--cluster", str(file), "-o", "json").stdout)
    query = AMOUNTS | {f"ask/main/{MEMORY}": memory, "annotations": "nvidia.com/use-gputype=A100", "edit": "yes"}
    async with served(OBJECTS) as browser:
        found = await browser.get(f"/pods/default/w?{urlencode({**query, 'format': 'json'})}")
        assert found.body == wanted
        assert (found.body["node"] == "a") is (memory == "7000")
        fields = {**query, f"ask/main/{MEMORY}": memory}
        posted = await browser.get("/pods/default/w", method="POST", data=fields, headers={"Origin": browser.home})
        assert posted.status == 303
        text = (await browser.get(posted.headers["Location"])).text
        assert "As if it were created now and asked for what is below" in text
        assert f'name="ask/main/{MEMORY}" value="{memory}"' in text
        as_it_is = (await browser.get("/pods/default/w")).text
        assert f'name="ask/main/{MEMORY}" value="20000"' in as_it_is  # nothing is left of the question


async def test_a_bound_pod_is_asked_about_as_if_it_were_created_now() -> None:
    query = {f"ask/main/{GPU}": "1", f"ask/main/{MEMORY}": "16000", "edit": "yes", "format": "json"}
    async with served(OBJECTS) as browser:
        assert (await browser.get(f"/pods/default/x?{urlencode(query)}")).body["node"] == "a"
        assert [card["memory"]["used"] for card in (await browser.get("/cards?format=json")).body] == [9000, 9000]


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ({f"ask/main/{MEMORY}": "much"}, "gpumem"),
        ({"ask/other/x": "1"}, "there is no container or resource of its cards other/x"),
        ({"annotations": "nothing"}, "is not of the form NAME=TEXT"),
    ],
)
async def test_what_cannot_be_asked_for_is_said(query: dict[str, str], told: str) -> None:
    async with served(OBJECTS) as browser:
        answer = await browser.get(f"/pods/default/w?{urlencode(AMOUNTS | query | {'edit': 'yes'})}")
        assert told in answer.text
        assert answer.status in {200, 400}
        missing = await browser.get("/pods/default/nobody?edit=yes")
        assert missing.status == 404
