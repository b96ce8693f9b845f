"""The demo checks its own numbers; here it has to come to the end, and a kept cluster has to end without a trace."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest
from click.testing import CliRunner
from rich.console import Console
from tests.cli.test_cli_ui import read

from vgpu_devcluster.demo.fleet import CardUse, Fleet, WaitingPod
from vgpu_devcluster.demo.output import Output
from vgpu_devcluster.demo.page import COMMAND as PAGE
from vgpu_devcluster.demo.page import DemoPage
from vgpu_devcluster.demo.tenants import WAITING
from vgpu_devcluster.demo.terminal import TerminalOutput, drawn
from vgpu_devcluster.demo.walkthrough import STEPS
from vgpu_scheduler.cli.main import main

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "vgpu_scheduler", "demo"]


@pytest.mark.parametrize("pods", [30, pytest.param(200, marks=pytest.mark.long)])
def test_the_demo_keeps_its_promises(tmp_path: Path, pods: int) -> None:
    log = tmp_path / "operator.log"
    command = [*COMMAND, "--once", "--pods", str(pods), "--keep-log", str(log)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, cwd=tmp_path)
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-1000:]
    assert result.stdout.rstrip().endswith("OK 6/6")
    assert "Traceback" not in log.read_text()
    assert "\x1b" not in result.stdout


# ---------------------------------------------------------------------------------------------------- a kept cluster


class Kept:
    """A demo that goes on, as a process with a folder of its own for everything temporary."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.folder = folder / "tmp"
        self.folder.mkdir()
        self.log = folder / "operator.log"
        self.kubeconfig = folder / "kubeconfig"
        known = {**os.environ, "TMPDIR": str(self.folder)}
        wanted = ["--keep", "--kubeconfig", str(self.kubeconfig), "--keep-log", str(self.log), *arguments]
        self.process = subprocess.Popen(
            [*COMMAND, *wanted], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=known
        )

    def until(self, text: str) -> str:
        """Return what is printed up to a line with a text."""
        assert self.process.stdout is not None
        said = ""
        for line in self.process.stdout:
            said += line
            if text in line:
                return said
        raise AssertionError(said)

    def end(self, number: int) -> int:
        """Send a signal, and return how it ends."""
        self.process.send_signal(number)
        return self.process.wait(30)

    def started(self, command: str) -> list[int]:
        """Return the processes that this demo started for a command."""
        listed = subprocess.run(["ps", "-eo", "pid,ppid,args"], capture_output=True, text=True, check=True).stdout
        rows = [line.split(None, 2) for line in listed.splitlines()[1:]]
        return [int(pid) for pid, parent, args in rows if int(parent) == self.process.pid and command in args.split()]

    def get(self, path: str) -> Any:
        config = json.loads(self.kubeconfig.read_text())
        with urllib.request.urlopen(config["clusters"][0]["cluster"]["server"] + path, timeout=10) as answer:
            return json.load(answer)


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    running = Kept(tmp_path, "--pods", "20")
    yield running
    if running.process.poll() is None:
        running.end(signal.SIGTERM)  # a demo that is killed ends nothing that it has started


@pytest.mark.long
def test_a_kept_cluster_goes_on_until_it_is_ended(kept: Kept) -> None:
    said = kept.until("ends the cluster and removes its files")
    assert f"OK {len(STEPS)}/{len(STEPS)}\n" in said
    assert f"export KUBECONFIG={kept.kubeconfig}\n" in said
    assert f"kubectl describe pod -n {WAITING[0].replace('/', ' ')}\n" in said
    waiting = [pod for pod in kept.get("/api/v1/pods")["items"] if not pod["spec"].get("nodeName")]
    reasons = {
        f"{pod['metadata']['namespace']}/{pod['metadata']['name']}": pod["status"]["conditions"][0]["message"]
        for pod in waiting
    }
    assert sorted(reasons) == sorted(WAITING)
    for pod, said_of_it in zip(WAITING, ("CardInsufficientMemory", "CardTypeMismatch", "serving-limits"), strict=True):
        assert said_of_it in reasons[pod]
    settings = kept.get("/api/v1/namespaces/vgpu-system/configmaps/vgpu-scheduler")
    assert "scheduler_names" in settings["data"]["settings.yaml"]
    operators = kept.started("run")
    pages = kept.started("ui")
    assert (len(operators), len(pages)) == (1, 1)
    _create_and_wait(kept)
    assert kept.end(signal.SIGINT) == 0
    assert list(kept.folder.iterdir()) == []
    assert not kept.kubeconfig.exists()
    for process in (*operators, *pages):
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)
    assert "Traceback" not in kept.log.read_text()


def _create_and_wait(kept: Kept) -> None:
    """A user's pod is placed, and runs on its simulated node."""
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "1024"}
    spec = {
        "schedulerName": "vgpu-scheduler",
        "containers": [{"name": "main", "image": "example", "resources": {"limits": limits}}],
    }
    server = json.loads(kept.kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
    request = urllib.request.Request(
        f"{server}/api/v1/namespaces/default/pods",
        data=json.dumps({"metadata": {"name": "mine"}, "spec": spec}).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=10):
        pass
    deadline = time.monotonic() + 30
    while kept.get("/api/v1/namespaces/default/pods/mine")["status"]["phase"] != "Running":
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.long
def test_a_kept_cluster_is_shown_in_a_browser_as_the_tutorial_says(kept: Kept) -> None:
    said = kept.until("ends the cluster and removes its files")
    found = re.search(r"see it in a browser: (http://127\.0\.0\.1:\d+/\?key=\S+)\n", said)
    assert found is not None, said
    address = found[1]
    smaller = kept.get("/api/v1/namespaces/research/pods/needs-memory")
    smaller["metadata"].pop("managedFields", None)  # as kubectl leaves them out
    manifest = json.dumps({"apiVersion": "v1", "kind": "Pod", **smaller}).replace('"40960"', '"32407"')
    waiting = read(address, "/waiting")
    assert [pod for pod in WAITING if f'<a href="/pods/{pod}">' not in waiting] == []
    edit = urlencode({"edit": "yes", "ask/main/nvidia.com/gpu": "1", "ask/main/nvidia.com/gpumem": "32407"})
    asked = json.loads(read(address, f"/pods/research/needs-memory?{edit}&format=json"))
    assert asked["node"] == "reserved-0"
    question = urlencode({"manifest": manifest, "count": "max"})
    assert "<b>2</b> of research/needs-memory fit: 2 on reserved-0." in read(address, f"/what-if?{question}")
    assert "serving-limits" in read(address, "/policies")


async def test_a_page_that_cannot_be_served_says_why(tmp_path: Path) -> None:
    for command, trouble in (
        ((*PAGE, "--port", "70000"), "70000 is not in the range 0<=x<=65535"),
        (PAGE, "none"),
        (("/nonexistent/command",), "No such file or directory"),
        ((sys.executable, "-c", ""), "it ended without any output"),
        ((sys.executable, "-c", "import signal; signal.pause()"), "it has not started within 2 s"),
    ):
        within = 2.0 if "pause" in command[-1] else 60.0
        async with DemoPage(tmp_path / "none", command, within) as page:
            await page.start()
        assert page.address == ""
        assert trouble in page.trouble


@pytest.mark.long
def test_a_signal_in_the_middle_leaves_nothing_either(kept: Kept) -> None:
    kept.until("[2/6]")
    operators = kept.started("run")
    assert len(operators) == 1
    assert kept.end(signal.SIGTERM) == 130
    assert list(kept.folder.iterdir()) == []
    for operator in operators:
        with pytest.raises(ProcessLookupError):
            os.kill(operator, 0)


def test_a_file_of_somebody_is_not_overwritten(tmp_path: Path) -> None:
    mine = tmp_path / "config"
    mine.write_text("mine")
    refused = CliRunner().invoke(main, ["demo", "--keep", "--kubeconfig", str(mine)])
    assert (refused.exit_code, mine.read_text()) == (2, "mine")
    assert "the file exists already" in refused.output
    for arguments in (["--kubeconfig", "new"], ["--keep", "--kubeconfig", str(tmp_path / "none" / "new")]):
        assert CliRunner().invoke(main, ["demo", *arguments]).exit_code == 2


# ---------------------------------------------------------------------------------------------------- what is shown

FLEET = Fleet(
    {"n1": [CardUse("A100", 1000, used) for used in (0, 1, 250, 251, 500, 750, 751, 1000)], "n2": []},
    running=7,
    waiting=[WaitingPod("ns/a", "no card has room"), WaitingPod("ns/b", "")],
)
CELLS = "  ░░░░▒▒▒▒▓▓████"


def test_cells_are_as_dark_as_their_cards_are_full(capsys: pytest.CaptureFixture[str]) -> None:
    Output().heat_map(FLEET)
    assert f"n1         [{CELLS}] A100\n" in capsys.readouterr().out
    assert [card.level for card in FLEET.cards["n1"]] == [0, 1, 1, 2, 2, 3, 4, 4]
    assert FLEET.percent == 43
    assert Fleet().percent == 0


def test_plain_lines_tell_what_changes_once(capsys: pytest.CaptureFixture[str]) -> None:
    output = Output()
    for fleet in (FLEET, FLEET, Fleet()):
        output.watch(fleet)
    told = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert told == [
        "7 pods run, 2 wait; 43 % of the cards' memory is in use",
        "0 pods run, 0 wait; 0 % of the cards' memory is in use",
    ]


@pytest.mark.parametrize("colour", [True, False])
def test_a_terminal_has_colours_unless_it_wants_none(monkeypatch: pytest.MonkeyPatch, *, colour: bool) -> None:
    if colour:
        monkeypatch.delenv("NO_COLOR", raising=False)
    else:
        monkeypatch.setenv("NO_COLOR", "1")
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=100, color_system="standard")
    console.print(drawn(FLEET))
    painted = file.getvalue()
    assert (re.search(r"\x1b\[3[0-9]m", painted) is not None) is colour
    plain = re.sub(r"\x1b\[[0-9;]*m", "", painted)
    assert f"[{CELLS}]" in plain
    assert "ns/a waits: no card has room" in plain
    assert "ns/b waits: not tried yet" in plain


def test_the_map_follows_below_what_is_told() -> None:
    file = io.StringIO()
    output = TerminalOutput(Console(file=file, force_terminal=True, width=100), live=True)
    output.follow(Fleet())  # nothing to draw yet
    assert file.getvalue() == ""
    output.follow(FLEET)
    output.say("told above")
    output.close()
    painted = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", file.getvalue())
    assert painted.rindex(CELLS) > painted.index("told above")


def test_the_picture_is_of_this_demo() -> None:
    """The numbers in it are those of some run; what it tells is what the demo tells now."""
    picture = ET.parse(ROOT / "docs" / "demo.svg")
    text = "".join(picture.getroot().itertext()).replace("\N{NO-BREAK SPACE}", " ")
    for number, title in enumerate(STEPS, start=1):
        assert f"[{number}/{len(STEPS)}] {title}" in text
    raw = (ROOT / "docs" / "demo.svg").read_text()
    assert re.findall(r"https?://[^\"' )]*", raw) == ["http://www.w3.org/2000/svg"]  # it fetches nothing
    assert "docs/demo.svg" in (ROOT / "README.md").read_text()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--pods", "0"], "0 is not in the range x>=1"),
        (["--keep-log", "/nonexistent/log"], "--keep-log /nonexistent/log: there is no folder /nonexistent"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: list[str], says: str) -> None:
    result = CliRunner().invoke(main, ["demo", "--once", *options])
    assert result.exit_code == 2
    assert says in result.stderr
