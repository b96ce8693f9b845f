"""Settings: where they come from, in which rank, and what is said about bad ones."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from socket import socket
from typing import Any

import numpy as np
import pytest
import yaml
from click.testing import CliRunner
from pydantic import BaseModel
from tests.cli.typos import letters_off

from vgpu_scheduler.cli import main
from vgpu_scheduler.cli.settings_reference import setting_infos, unknown_variables
from vgpu_scheduler.model import OrderKind
from vgpu_scheduler.settings import Settings, SettingsError, load


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out what the shell that runs the tests has set."""
    for name in list(os.environ):
        if name.upper().startswith("VGPU_"):
            monkeypatch.delenv(name)


def written(folder: Path, text: str) -> Path:
    path = folder / "settings.yaml"
    path.write_text(text)
    return path


def test_defaults() -> None:
    settings = load(None, {})
    assert settings.model_dump() == Settings().model_dump()
    assert (settings.scheduler_names, settings.http_port) == (("vgpu-scheduler",), 8080)
    assert settings.order is OrderKind.NUMA_FIRST


def test_flags_beat_the_environment_and_that_beats_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = written(tmp_path, "http_port: 1\nlog_level: DEBUG\nnode_policy: spread\nbind: {timeout: 1, unlocked: 7}\n")
    monkeypatch.setenv("VGPU_HTTP_PORT", "2")
    monkeypatch.setenv("VGPU_LOG_LEVEL", "ERROR")
    monkeypatch.setenv("VGPU_BIND__TIMEOUT", "2")
    settings = load(file, {"http_port": 3})
    assert (settings.http_port, settings.log_level, settings.node_policy) == (3, "ERROR", "spread")
    assert (settings.bind.timeout, settings.bind.unlocked) == (2.0, 7)
    assert load(None, {}).http_port == 2


def test_names_may_be_separated_by_commas(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert load(written(tmp_path, "scheduler_names: [a, b]\n"), {}).scheduler_names == ("a", "b")
    monkeypatch.setenv("VGPU_SCHEDULER_NAMES", "c, d")
    assert load(None, {}).scheduler_names == ("c", "d")
    assert load(None, {"scheduler_names": ("e",)}).scheduler_names == ("e",)
    assert load(None, {"scheduler_names": "f, g"}).scheduler_names == ("f", "g")


def test_an_empty_file_sets_nothing(tmp_path: Path) -> None:
    assert load(written(tmp_path, ""), {}).model_dump() == Settings().model_dump()


@pytest.mark.parametrize(
    ("text", "order"),
    [
        ("profile: Documented", OrderKind.NUMA_FIRST),
        ("profile: HAMi210", OrderKind.SCORE_FIRST),
        ("profile: HAMi210\ndevice_order: NUMAFirst", OrderKind.NUMA_FIRST),
    ],
)
def test_the_profile_decides_what_is_not_set(tmp_path: Path, text: str, order: OrderKind) -> None:
    assert load(written(tmp_path, text), {}).order is order


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("http_port: many", "http_port: "),
        ("http_port: 70000", "http_port: "),
        ("lease: {duration: -1}", "lease.duration: "),
        ("lease: {duration: 3, renew_interval: 2}", "lease: renew_interval must be at most a third"),
        ("lease: {name: Not_A_Name}", "lease.name: "),
        ("bind: {timeout: 0}", "bind.timeout: "),
        ("nvidia: {memory_factor: 0}", "nvidia.memory_factor: "),
        ("nvidia: {resource_count_name: a/b, resource_memory_name: a/b}", "nvidia: two resources have the same name"),
        ("profile: HAMi29", "profile: "),
        ("scheduler_names: []", "scheduler_names: "),
        ("node_policy: middle", "node_policy: "),
        ("no_such_setting: 1", "no_such_setting: there is no such setting"),
        ("bind: {no_such_setting: 1}", "bind.no_such_setting: there is no such setting"),
        ("sweep_interval: 0", "sweep_interval: "),
        (
            "admission: {enabled: true, cert_file: a}",
            "admission: the webhook needs cert_file and key_file",
        ),
    ],
)
def test_errors_name_the_field(tmp_path: Path, text: str, names: str) -> None:
    with pytest.raises(SettingsError, match=r".") as caught:
        load(written(tmp_path, text), {})
    assert names in str(caught.value)


def leaves(model: type[BaseModel], before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, info in model.model_fields.items():
        if isinstance(info.default, BaseModel):
            yield from leaves(type(info.default), (*before, name))
        else:
            yield (*before, name)


def lines(path: tuple[str, ...], *values: str) -> str:
    """Return a settings file of which the lines from the third on give a setting values, one each."""
    *sections, name = path
    outer = [f"{'  ' * depth}{section}:" for depth, section in enumerate(sections)]
    indent = "  " * len(sections)
    return "\n".join(["# settings", *([""] * (1 - len(outer))), *outer, *(f"{indent}{name}: {v}" for v in values), ""])


JUNK = ("[[]]", "{a: 1}", "-1", "1e99", "half", "true", "[1, 2]", "'numa,numa'", "a b", ".nan")


@pytest.mark.parametrize("path", sorted(leaves(Settings)), ids=".".join)
def test_what_is_wrong_is_said_with_its_line_and_its_value(tmp_path: Path, path: tuple[str, ...]) -> None:
    refused = 0
    for junk in JUNK:
        file = written(tmp_path, lines(path, junk))
        try:
            load(file, {})
        except SettingsError as error:
            refused += 1
            message = str(error)
            assert re.match(rf"settings file {file}, line [23]: {re.escape('.'.join(path))}(\.\w+)?: ", message) or (
                path[0] in {"lease", "nvidia", "admission", "scheduler_names"}  # it does not go with another one
            ), message
            assert not re.search("Input should|Value error|valid ", message), message
    assert refused or path[-1] in FREE, path


FREE = {"hami_devices", "context", "default_memory"}
"""Settings for which one of these values makes sense whatever it is."""


@pytest.mark.parametrize("path", sorted(leaves(Settings)), ids=".".join)
def test_a_setting_that_is_there_twice_is_refused_with_its_line(tmp_path: Path, path: tuple[str, ...]) -> None:
    file = written(tmp_path, lines(path, "1", "1"))
    with pytest.raises(SettingsError) as caught:
        load(file, {})
    second = 3 + max(len(path) - 1, 1)
    assert str(caught.value) == (
        f"settings file {file}: line {second}: not valid YAML: {path[-1]} is there already, in line {second - 1}"
    )


def test_keys_may_be_merged(tmp_path: Path) -> None:
    text = "bind: &b {timeout: 3}\nlease: {<<: {}, duration: 9, renew_interval: 1}\n"
    assert load(written(tmp_path, text), {}).lease.duration == 9.0


def test_what_comes_from_elsewhere_has_no_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = written(tmp_path, "http_port: 1\nbind: {timeout: 3}\nnode_policy: middle\n")
    monkeypatch.setenv("VGPU_BIND__TIMEOUT", "soon")
    with pytest.raises(SettingsError) as caught:
        load(file, {"http_port": "x"})
    assert sorted(str(caught.value).split("; ")) == [
        "bind.timeout: 'soon' is not a number",
        "http_port: 'x' is not a whole number",
        f"settings file {file}, line 3: node_policy: 'middle' is not one of 'binpack' or 'spread'",
    ]


# The command ----------------------------------------------------------------------------------------------------------


def check(file: Path) -> tuple[int, str, list[str]]:
    result = CliRunner().invoke(main, ["settings", "--check", str(file)])
    return result.exit_code, result.stdout, result.stderr.splitlines()


def test_a_file_that_is_elsewhere_is_not_said_to_be_understood(tmp_path: Path) -> None:
    file = written(tmp_path, "hami_device_config: /etc/no/such/device-config.yaml\n")
    elsewhere = "/etc/no/such/device-config.yaml is not on this machine: what is in it was not looked at"
    understood = f"{file}: all settings are understood, with 1 warning\n"
    assert check(file) == (0, understood, [f"warning: hami_device_config: {elsewhere}"])
    there = tmp_path / "device-config.yaml"
    there.write_text("nvidia: {resourceCountName: 5}\n")
    file = written(tmp_path, f"hami_device_config: {there}\nprofile: Documented\n")
    code, out, (error,) = check(file)
    assert (code, out) == (2, "")
    assert error == f"Error: HAMi's device configuration {there}: nvidia.resourceCountName: 5 is not a text"


@pytest.mark.parametrize("maker", ["nvidia", "cambricon", "hygon", "iluvatar", "mthreads", "metax", "enflame", "vnpus"])
def test_a_section_that_nobody_reads_is_pointed_out(tmp_path: Path, maker: str) -> None:
    for odd in letters_off(maker):
        code, out, told = check(written(tmp_path, f"hami_devices: {{{odd}: {{}}}}\n"))
        (warning,) = told
        assert warning.startswith(
            f"warning: HAMi's device configuration: {odd} is not known and has no effect, did you"
        )
        assert (code, "with 1 warning" in out) == (0, True)
    assert check(written(tmp_path, "hami_devices: {nvidia: {}}\n"))[2] == []


def test_all_errors_are_named_at_once(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        load(written(tmp_path, "http_port: x\nlog_level: LOUD\n"), {"node_policy": "middle"})
    assert all(name in str(caught.value) for name in ("http_port", "log_level", "node_policy"))


def test_the_environment_is_checked_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VGPU_BIND__UNLOCKED", "none")
    with pytest.raises(SettingsError, match=r"bind\.unlocked"):
        load(None, {})


def test_a_section_in_the_environment_that_is_not_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VGPU_BIND", "{timeout")
    with pytest.raises(SettingsError, match=r'"bind"'):
        load(None, {})


@pytest.mark.parametrize("text", ["- a\n- b\n", "just text", "a: [", "\t- x"])
def test_files_that_are_no_settings(tmp_path: Path, text: str) -> None:
    with pytest.raises(SettingsError, match="settings file"):
        load(written(tmp_path, text), {})


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"settings file .*none"):
        load(tmp_path / "none", {})


def test_every_setting_has_a_meaning() -> None:
    infos = {info.path: info for info in setting_infos()}
    assert all(info.about for info in infos.values())
    duration = infos["lease", "duration"]
    assert (duration.default, duration.values, duration.variable) == (
        8.0,
        "more than 0, at most 300",
        "VGPU_LEASE__DURATION",
    )
    assert infos["node_policy",].values == "binpack, spread"
    assert infos["dialects",].values == "a list of hami, volcano, koordinator"


# The command line ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "environment", "says"),
    [
        (["--http-port", "70000"], {}, "http_port: "),
        ([], {"VGPU_LEASE__DURATION": "soon"}, "lease.duration: "),
        (["--config", "none.yaml"], {}, "settings file none.yaml: "),
        (["--kubeconfig", "none"], {}, "no way to the API server: "),
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
        ("kind: ConfigMap\nmetadata: {name: x}\n", "a ConfigMap; give what is in its data, under settings.yaml"),
        ("http_port: many\n", "http_port: "),
        ("5: x\n", "5: the name of a setting is a text"),
        ("lease: {1: x}\n", "lease.1: the name of a setting is a text"),
        ("apiVersion: v1\nkind: Pod\n", "a Kubernetes object, and no settings"),
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
