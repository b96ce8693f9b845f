"""Settings: where they come from, in which rank, and what is said about bad ones."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from pydantic import BaseModel
from tests.cli.settings_files import written
from tests.cli.typos import letters_off

from vgpu_scheduler.cli import main
from vgpu_scheduler.model import OrderKind
from vgpu_scheduler.settings import Settings, SettingsError, load, setting_infos
from vgpu_scheduler.settings.sections import NvidiaSettings

pytestmark = pytest.mark.usefixtures("no_settings")


def test_defaults() -> None:
    settings = load(None, {})
    assert settings.model_dump() == Settings().model_dump()
    assert (settings.scheduler_names, settings.http_port) == (("vgpu-scheduler",), 8080)
    assert settings.order is OrderKind.NUMA_FIRST


def test_flags_beat_the_environment_and_that_beats_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = written(
        tmp_path, "http_port: 1\nlog_level: DEBUG\nnode_policy: spread\nbind: {timeout: 1, max_unlocked_binds: 7}\n"
    )
    monkeypatch.setenv("VGPU_HTTP_PORT", "2")
    monkeypatch.setenv("VGPU_LOG_LEVEL", "ERROR")
    monkeypatch.setenv("VGPU_BIND__TIMEOUT", "2")
    settings = load(file, {"http_port": 3})
    assert (settings.http_port, settings.log_level, settings.node_policy) == (3, "ERROR", "spread")
    assert (settings.bind.timeout, settings.bind.max_unlocked_binds) == (2.0, 7)
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
        ("nvidia: {resource_count_name: gpu}", "nvidia.resource_count_name: 'gpu' is not a resource name"),
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
        f"settings file {file}: line {second}: not valid YAML: {path[-1]} is set already, in line {second - 1}"
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
    elsewhere = "/etc/no/such/device-config.yaml is not on this machine: its content was not checked"
    understood = f"{file}: all settings are valid, with 1 warning\n"
    assert check(file) == (0, understood, [f"warning: hami_device_config: {elsewhere}"])
    there = tmp_path / "device-config.yaml"
    there.write_text("nvidia: {resourceCountName: 5}\n")
    file = written(tmp_path, f"hami_device_config: {there}\nprofile: Documented\n")
    code, out, (error,) = check(file)
    assert (code, out) == (2, "")
    assert error == f"Error: HAMi's device configuration {there}: nvidia.resourceCountName: 5 is not a text"
    file = written(tmp_path, "volcano_device_config: /etc/no/such/device-config.yaml\n")
    assert check(file) == (0, understood, [f"warning: volcano_device_config: {elsewhere}"])
    file = written(tmp_path, f"volcano_device_config: {there}\n")
    assert check(file)[2] == [
        f"Error: Volcano's device configuration {there}: nvidia.resourceCountName: 5 is not a text"
    ]


@pytest.mark.parametrize(
    "vendor", ["nvidia", "cambricon", "hygon", "iluvatar", "mthreads", "metax", "enflame", "vnpus"]
)
def test_a_section_that_nobody_reads_is_pointed_out(tmp_path: Path, vendor: str) -> None:
    for odd in letters_off(vendor):
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
    monkeypatch.setenv("VGPU_BIND__MAX_UNLOCKED_BINDS", "none")
    with pytest.raises(SettingsError, match=r"bind\.max_unlocked_binds"):
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


NO_RESOURCES = (
    "nvidia com/gpu",
    "gpu",
    "a/b/c",
    "/gpu",
    "example.com/",
    "Example.com/gpu",
    "example.com/g pu",
    "a_b/gpu",
)


@pytest.mark.parametrize("name", NO_RESOURCES)
def test_what_is_no_name_of_a_resource_is_refused_whatever_it_names(tmp_path: Path, name: str) -> None:
    vendors = {"hygon": "resourceMemoryName", "vastai": "resourceCountName", "cambricon": "resourceCoreName"}
    for field in (field for field in NvidiaSettings.model_fields if field.startswith("resource_")):
        status, _, said = check(written(tmp_path, f"nvidia: {{{field}: {name!r}}}\n"))
        assert status == 2
        assert f"nvidia.{field}: {name!r} is not a resource name, such as example.com/gpu" in said[-1]
    for vendor, field in vendors.items():
        status, _, said = check(written(tmp_path, f"hami_devices: {{{vendor}: {{{field}: {name!r}}}}}\n"))
        assert status == 2
        assert f"{vendor}.{field}: {name!r} is not a resource name, such as example.com/gpu" in said[-1]
