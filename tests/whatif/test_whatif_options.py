"""Every setting that reaches the operator's engine reaches the engine that is asked, too."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

import pytest
from pydantic import BaseModel
from tests.whatif.test_whatif_parity import settings_of, world_of

from vgpu_scheduler.engine import EngineOptions
from vgpu_scheduler.policy import PolicyDefaults
from vgpu_scheduler.runtime.operator import Operator
from vgpu_scheduler.settings import Settings

DECIDING: Mapping[str, Any] = {
    "scheduler_names": ["ours"],
    "dialects": ["koordinator", "volcano"],
    "profile": "HAMi210",
    "node_policy": "spread",
    "device_policy": "binpack",
    "device_order": "ScoreFirst",
    "strict_annotations": True,
    "exclusive_when_unspecified": True,
    "hami_devices": {"hygon": {"resourceCountName": "example.com/dcu"}},
    "volcano_devices": {"nvidia": {"gpuMemoryFactor": 10}},
    "volcano.plugin_version": "v1.10",
    "scoring.device_weight": 7,
    "scoring.system_spread": True,
    "preemption": True,
    "lease.namespace": "elsewhere",
    "managed_nodes": "pool=ours",
    "coexist_with": ["hami-scheduler"],
    "bind.rejected_node_wait": 1.5,
    "bind.timeout": 2.5,
    "bind.node_side_timeout": 30.0,
}
"""Settings that decisions depend on, each with a value that is not its default."""
WITH = {name: {"dialects": ["volcano"]} for name in ("volcano.plugin_version", "volcano_devices")}
"""What has to be set beside a setting for it to matter."""
NOT_DECIDING = re.compile(
    r"(admission|tracing|history)\..*|lease\.(?!namespace).*|bind\.(poll_interval|max_unlocked_binds|volume_wait)|http_.*|metrics_address"
    r"|hami_metrics|metrics_label_values|debug_endpoints|policy_status_interval|sweep_interval|kubeconfig|context|log_.*"
    r"|runbook_url"
    r"|hami_device_config|volcano_device_config"  # files that are read into hami_devices and volcano_devices
)
"""Settings that say how the operator works, and nothing about what it decides."""


def leaves(model: type[BaseModel], before: str = "") -> Iterator[tuple[str, Any]]:
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from leaves(field.annotation, f"{before}{name}.")
        else:
            yield before + name, field.get_default(call_default_factory=True)


def nested(path: str, value: Any) -> dict[str, Any]:
    outer, _, inner = path.partition(".")
    return {outer: nested(inner, value) if inner else value}


def nvidia() -> dict[str, Any]:
    """Return another value for each setting about NVIDIA's names."""
    defaults = {name: value for name, value in leaves(Settings) if name.startswith("nvidia.")}
    others = {bool: lambda value: not value, int: lambda value: value + 1, str: lambda value: f"{value}-other"}
    types = {name: type(value) for name, value in defaults.items()}
    return {name: others[types[name]](value) if types[name] in others else 5 for name, value in defaults.items()}


CHANGES = {**DECIDING, **nvidia()}


def shown(value: Any, above: tuple[int, ...] = ()) -> Any:
    """Return all that a value is made of, so that two that were made apart can be compared."""
    if value is None or isinstance(value, str | bytes | int | float | bool | Enum | re.Pattern | type):
        return repr(value)
    if id(value) in above:
        return "itself"
    inside = (*above, id(value))
    if isinstance(value, Mapping):
        return sorted((repr(shown(key, inside)), shown(part, inside)) for key, part in value.items())
    if isinstance(value, set | frozenset):
        return sorted(repr(shown(part, inside)) for part in value)
    if isinstance(value, Collection):
        return [shown(part, inside) for part in value]
    if is_dataclass(value):
        parts = {field.name: getattr(value, field.name, None) for field in fields(value)}
    else:
        slots = {name: getattr(value, name, None) for name in getattr(type(value), "__slots__", ())}
        closed = {str(at): cell.cell_contents for at, cell in enumerate(getattr(value, "__closure__", None) or ())}
        held = {"self": value.__self__} if hasattr(value, "__self__") and not isinstance(value, type) else {}
        parts = slots | closed | held | vars(value) if hasattr(value, "__dict__") else slots
    name = getattr(value, "__qualname__", type(value).__qualname__)
    return [name, {key: shown(part, inside) for key, part in parts.items()}]


def both(overrides: Mapping[str, Any]) -> tuple[EngineOptions, EngineOptions]:
    """Return what the operator's engine and the one that is asked are made from."""
    return Operator(settings_of(overrides)).engine.options, world_of(overrides, []).engine.options


def test_each_setting_decides_or_does_not() -> None:
    unsorted = {name for name, _ in leaves(Settings) if name not in CHANGES and not NOT_DECIDING.fullmatch(name)}
    assert not unsorted, "say in DECIDING or NOT_DECIDING whether decisions depend on them"


@pytest.mark.parametrize("name", CHANGES)
def test_what_decides_reaches_both(name: str) -> None:
    beside = WITH.get(name, {})
    deciding, asked = both({**beside, **nested(name, CHANGES[name])})
    assert shown(asked) == shown(deciding)
    assert shown(deciding) != shown(both(beside)[0]), "it has no effect on what an engine is made from"


def test_every_option_follows_from_some_setting() -> None:
    before, _ = both({})
    moved: set[str] = set()
    for name, value in DECIDING.items():
        after, _ = both({**WITH.get(name, {}), **nested(name, value)})
        for old, new in ((before, after), (before.defaults, after.defaults)):
            moved |= {f.name for f in fields(old) if shown(getattr(old, f.name)) != shown(getattr(new, f.name))}
    every = {field.name for model in (EngineOptions, PolicyDefaults) for field in fields(model)}
    of_code = {"read_arguments", "flush_after"}  # a dialect makes the one, a virtual clock the other
    assert every - moved == of_code, "an option that no setting changes is none"
