"""The script of the page asks again at a pace that leaves the server its time."""

from __future__ import annotations

import json
import subprocess
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import unavailable

import vgpu_scheduler.ui

SCRIPT = Path(vgpu_scheduler.ui.__file__).parent / "static" / "live.js"
AROUND = """
const fs = require("fs"), vm = require("vm");
const [script, took, status] = [process.argv[1], Number(process.argv[2]), Number(process.argv[3])];
let now = 0, timers = [], asked = [], read = [], events;
const main = { querySelectorAll: () => [], replaceChildren: () => {}, innerHTML: "" };
const document = {
  body: { dataset: { generation: "1" } }, hidden: false, activeElement: null, addEventListener: () => {},
  querySelector: () => main, querySelectorAll: () => [],
};
const setTimeout = (work, wait) => timers.push({ at: now + wait, work });
const context = {
  document, setTimeout, location: { href: "/" }, performance: { now: () => now },
  EventSource: function () { events = this; },
  DOMParser: function () { this.parseFromString = () => document; },
  fetch: () => new Promise((resolve) => {
    asked.push(now);
    setTimeout(() => resolve({ status, text: async () => { read.push(asked.length); return ""; } }), took);
  }),
};
vm.runInNewContext(fs.readFileSync(script, "utf8"), context);
(async () => {
  for (let generation = 1; now < 60000; generation += 1) {  // something changes every 100 ms
    events.onmessage({ data: String(generation) });
    for (const until = now + 100; now < until; now += 10) {
      const due = timers.filter((timer) => timer.at <= now);
      timers = timers.filter((timer) => timer.at > now);
      due.forEach((timer) => timer.work());
      await new Promise((resolve) => setImmediate(resolve));
    }
  }
  console.log(JSON.stringify({ asked, read }));
})();
"""


def minute_of_changes(took: int, status: int = 200) -> dict[str, list[int]]:
    """Return when the page asks, and which answers it shows, in a minute in which answers take some milliseconds."""
    try:
        node: Any = import_module("playwright._impl._driver").compute_driver_executable()[0]
    except ImportError:
        unavailable("Playwright, whose Node.js runs the script, is not installed: pip install playwright")
    done = subprocess.run(
        [node, "-e", AROUND, str(SCRIPT), str(took), str(status)], capture_output=True, text=True, check=True
    )
    return dict(json.loads(done.stdout))


@pytest.mark.parametrize(
    ("took", "pause", "status"),
    [(10, 250, 200), (200, 800, 200), (2000, 8000, 200), (9000, 30000, 200), (10, 2000, 503)],
)
def test_the_pause_follows_how_long_an_answer_took(took: int, pause: int, status: int) -> None:
    found = minute_of_changes(took, status)
    times, first_shown = found["asked"], found["read"][0]
    assert times[0] < 200
    assert first_shown == (1 if status == 200 else 4)  # one that is busy for a moment keeps what it shows
    between = [later - earlier for earlier, later in pairwise(times)]
    assert between
    assert all(took + pause <= each <= took + pause + 130 for each in between)
