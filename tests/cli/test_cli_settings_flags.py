"""The command line of ``run``: flags, those of HAMi, the environment, and what is listened on."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import combinations
from pathlib import Path
from socket import socket
from typing import Any

import numpy as np
import pytest
import yaml
from click.testing import CliRunner
from tests.cli.settings_files import written

from vgpu_scheduler.cli import main
from vgpu_scheduler.settings import Settings, SettingsError, load, unknown_variables

pytestmark = pytest.mark.usefixtures("no_settings")


@pytest.mark.parametrize(
    ("arguments", "environment", "says"),
    [
        (["--http-port", "70000"], {}, "http_port: "),
        ([], {"VGPU_LEASE__DURATION": "soon"}, "lease.duration: "),
        (["--config", "none.yaml"], {}, "settings file none.yaml: "),
        (["--kubeconfig", "none"], {}, "the API server cannot be reached: "),
    ],
)
def test_bad_settings_end_it_with_one_line(arguments: list[str], environment: dict[str, Any], says: str) -> None:
    result = CliRunner().invoke(main, ["run", *arguments], env={"VGPU_HTTP_PORT": "0", **environment})
    assert result.exit_code == 2
    lines = [line for line in result.stderr.splitlines() if line.startswith("vgpu-scheduler: ")]
    assert len(lines) == 1
    assert says in lines[0]
    assert "Traceback" not in result.output


def test_unknown_flags_are_refused() -> None:
    assert CliRunner().invoke(main, ["run", "--no-such-flag"]).exit_code == 2


def test_settings_are_shown_as_a_file_that_changes_nothing(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["settings"])
    assert result.exit_code == 0
    assert "\n# Port of the health and metrics endpoints; 0 takes any free one. Values: 0 to 65535.\n" in result.output
    assert "\n# VGPU_HTTP_PORT\nhttp_port: 8080\n" in result.output
    assert "\nlease:\n" in result.output
    shown = yaml.safe_load(result.output)
    assert load(written(tmp_path, result.output), {}).model_dump() == Settings().model_dump()
    assert set(shown) == set(Settings.model_fields)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("profil: HAMi210\n", "profil: there is no such setting, did you mean profile?"),
        ("lease: {durations: 3}\n", "lease.durations: there is no such setting, did you mean duration?"),
        ("zebra: 1\n", "zebra: there is no such setting\n"),
        ("kind: ConfigMap\nmetadata: {name: x}\n", "a ConfigMap; give the text in its data, under settings.yaml"),
        ("http_port: many\n", "http_port: "),
        ("5: x\n", "5: the name of a setting is a string"),
        ("lease: {1: x}\n", "lease.1: the name of a setting is a string"),
        ("apiVersion: v1\nkind: Pod\n", "a Kubernetes object, not settings"),
        ("a: b\n c: [", "settings.yaml: line 2: not valid YAML: mapping values are not allowed here\n"),
    ],
)
def test_a_file_of_settings_is_checked(tmp_path: Path, text: str, says: str) -> None:
    result = CliRunner().invoke(main, ["settings", "--check", str(written(tmp_path, text))])
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: ")
    assert says in result.stderr
    good = CliRunner().invoke(main, ["settings", "--check", str(written(tmp_path, "profile: HAMi210\n"))])
    assert (good.exit_code, good.stderr) == (0, "")


def test_variables_that_are_no_settings_are_told() -> None:
    told = list(
        unknown_variables(
            {
                "VGPU_NODE_POLICI": "binpack",
                "VGPU_HTPP_PORT": "8080",
                "VGPU_NODE_POLICY": "binpack",
                "VGPU_LEASE__DURATION": "3",
                "VGPU_LEASE": "{}",
                "VGPU_SCHEDULER_METRICS_SERVICE_HOST": "10.0.0.1",
                "VGPU_SCHEDULER_METRICS_PORT_8080_TCP": "tcp://10.0.0.1:8080",
                "HOME": "/",
            }
        )
    )
    assert told == [
        "environment variable VGPU_HTPP_PORT: there is no such setting, did you mean VGPU_HTTP_PORT?",
        "environment variable VGPU_NODE_POLICI: there is no such setting, did you mean VGPU_NODE_POLICY?",
    ]


def run_settings(monkeypatch: pytest.MonkeyPatch, *flags: str) -> tuple[Settings, str]:
    """Return the settings that ``run`` starts with, and what it says."""
    found: list[Settings] = []
    monkeypatch.setattr("vgpu_scheduler.cli.run.run_operator", found.append)
    result = CliRunner().invoke(main, ["run", *flags])
    assert result.exit_code == 0, result.output
    return found[0], result.output


def test_flags_of_hami_are_understood(monkeypatch: pytest.MonkeyPatch) -> None:
    settings, said = run_settings(
        monkeypatch, "--node-scheduler-policy=spread", "--gpu-scheduler-policy=binpack", "--default-mem=2000",
        "--resource-name=example.com/gpu", "--scheduler-name=hami-scheduler", "--metrics-bind-address=:9395",
        "--node-label-selector=gpu=on,pool=a", "--device-config-file=/device-config.yaml", "--dcu-name=example.com/dcu",
    )  # fmt: skip
    assert (settings.node_policy, settings.device_policy, settings.scheduler_names) == (
        "spread", "binpack", ("hami-scheduler",),
    )  # fmt: skip
    assert (settings.nvidia.default_memory, settings.nvidia.resource_count_name) == (2000, "example.com/gpu")
    assert (settings.http_port, settings.managed_nodes) == (8080, "gpu=on,pool=a")
    assert (settings.metrics_address, settings.hami_metrics) == (":9395", True)
    assert settings.hami_device_config == Path("/device-config.yaml")
    assert settings.hami_devices == {"hygon": {"resourceCountName": "example.com/dcu"}}
    assert said == ""


def test_flags_of_hami_about_its_webhook_are_understood(monkeypatch: pytest.MonkeyPatch) -> None:
    settings, said = run_settings(
        monkeypatch, "--default-gpu=2", "--overwrite-env", "--force-overwrite-default-scheduler=false",
        "--cert_file=/tls/tls.crt", "--key_file=/tls/tls.key",
    )  # fmt: skip
    assert (settings.nvidia.default_gpu_num, settings.nvidia.overwrite_env) == (2, True)
    admission = settings.admission
    assert (admission.enabled, admission.overwrite_default_scheduler) == (True, False)
    assert (admission.cert_file, admission.key_file) == (Path("/tls/tls.crt"), Path("/tls/tls.key"))
    assert said == ""


def test_flags_of_hami_without_effect_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    _, said = run_settings(
        monkeypatch, "--http_bind=0.0.0.0:443", "--leader-elect", "--debug=true", "--enable-ascend=false",
        "--logtostderr", "-v=4",
    )  # fmt: skip
    assert [line.split(" has no effect")[0] for line in said.splitlines()] == [
        "vgpu-scheduler: --http_bind", "vgpu-scheduler: --v", "vgpu-scheduler: --leader-elect",
        "vgpu-scheduler: --debug", "vgpu-scheduler: --enable-ascend", "vgpu-scheduler: --logtostderr",
    ]  # fmt: skip


def test_the_command_line_of_hamis_chart_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    settings, _ = run_settings(
        monkeypatch, "--http_bind=0.0.0.0:443", "--cert_file=/tls/tls.crt", "--key_file=/tls/tls.key",
        "--scheduler-name=hami-scheduler", "--metrics-bind-address=:9395", "--node-scheduler-policy=binpack",
        "--gpu-scheduler-policy=spread", "--force-overwrite-default-scheduler=true",
        "--device-config-file=/device-config.yaml", "--leader-elect=true", "--leader-elect-resource-name=hami",
        "--leader-elect-resource-namespace=kube-system", "--v=4", "--resource-name=nvidia.com/gpu",
        "--resource-mem=nvidia.com/gpumem", "--resource-cores=nvidia.com/gpucores",
        "--resource-mem-percentage=nvidia.com/gpumem-percentage", "--resource-priority=nvidia.com/priority",
        "--enflame-drs-gcu-resource-name=a/drs", "--metax-vcount=a/sgpu", "--kunlun-vmemory=a/memory",
        "--sgpu-topology-aware",
    )  # fmt: skip
    assert (settings.admission.port, settings.admission.enabled) == (443, True)
    assert settings.hami_devices == {
        "metax": {"resourceVCountName": "a/sgpu", "sgpuTopologyAware": True},
        "enflame": {"resourceNameDRSGCU": "a/drs"},
        "kunlun": {"resourceVMemoryName": "a/memory"},
    }


@pytest.mark.parametrize("flag", ["--metrics-bind-address", "--http_bind", "--sgpu-topology-aware"])
def test_a_flag_of_hami_that_makes_no_sense_is_refused(flag: str) -> None:
    result = CliRunner().invoke(main, ["run", f"{flag}=nowhere"])
    assert result.exit_code == 2
    assert flag in result.output


@pytest.mark.parametrize("text", ["a=b,", "a in b", "=b", "a b", "in (a)x", "a=-"])
def test_node_selectors_that_make_no_sense_are_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(SettingsError, match="managed_nodes"):
        load(written(tmp_path, f"managed_nodes: '{text}'\n"), {})


def test_nobody_coexists_with_itself(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"line 1: coexist_with: vgpu-scheduler is one of scheduler_names"):
        load(written(tmp_path, "coexist_with: [vgpu-scheduler]\n"), {})


@pytest.mark.parametrize("names", [["volcan"], ["volcan", "x"], ["hami", "volcan"], [3]])
def test_what_is_wrong_with_a_part_is_said_of_that_alone(tmp_path: Path, names: list[object]) -> None:
    with pytest.raises(SettingsError) as raised:
        load(written(tmp_path, f"dialects: {json.dumps(names)}\n"), {})
    wrong = [name for name in names if name != "hami"]
    assert str(raised.value).count("dialects.") == len(wrong)
    assert "dialects: " not in str(raised.value)


def test_dialects_are_an_ordered_list(tmp_path: Path) -> None:
    assert load(None, {}).dialects == ("hami",)
    assert load(written(tmp_path, "dialects: [koordinator, hami]\n"), {}).dialects == ("koordinator", "hami")
    assert load(None, {"dialects": "hami,volcano"}).dialects == ("hami", "volcano")
    for wrong, said in (("[hami, hami]", "listed twice"), ("[]", "it is empty"), ("[slurm]", "koordinator")):
        with pytest.raises(SettingsError, match=said):
            load(written(tmp_path, f"dialects: {wrong}\n"), {})


HOSTS = ("0.0.0.0", "127.0.0.1", "10.0.0.1", "::", "::1", "localhost")
IN_COMMON = {("0.0.0.0", "127.0.0.1"), ("0.0.0.0", "10.0.0.1"), ("0.0.0.0", "localhost"), ("::", "::1")} | {
    ("::", "localhost")
}


@pytest.mark.parametrize("seed", range(100))
def test_what_is_listened_on_is_listened_on_once(seed: int, tmp_path: Path) -> None:
    """Three servers on random hosts and ports; a port is shared only by hosts that have no interface in common."""
    rng = np.random.default_rng(seed)
    hosts = [str(host) for host in rng.choice(HOSTS, size=2)]
    ports = [int(port) for port in rng.choice([0, 8080, 9443], size=3)]
    webhook = bool(rng.random() < 0.5)
    host = f"[{hosts[1]}]" if ":" in hosts[1] else hosts[1]
    content: dict[str, Any] = {"http_host": hosts[0], "http_port": ports[0], "metrics_address": f"{host}:{ports[1]}"}
    content["admission"] = {"enabled": webhook, "port": ports[2] or 1, "cert_file": "c", "key_file": "k"}
    listening = [(hosts[0], ports[0]), (hosts[1], ports[1]), *([("0.0.0.0", ports[2] or 1)] if webhook else [])]
    clash = any(
        one[1] == other[1] != 0 and (one[0] == other[0] or {(one[0], other[0]), (other[0], one[0])} & IN_COMMON)
        for one, other in combinations(listening, 2)
    )
    result = CliRunner().invoke(main, ["settings", "--check", str(written(tmp_path, yaml.safe_dump(content)))])
    told = result.stdout + result.stderr
    assert (result.exit_code != 0, "listen on port" in told) == (clash, clash), told


def test_a_port_that_is_taken_is_said_in_one_line(tmp_path: Path) -> None:
    with socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        file = written(tmp_path, f"http_host: 127.0.0.1\nhttp_port: {port}\n")
        command = [sys.executable, "-m", "vgpu_scheduler.cli", "run", "--config", str(file)]
        result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 2
    assert "Traceback" not in result.stderr
    assert str(port) in result.stderr.splitlines()[-1]
