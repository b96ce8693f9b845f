"""Resources that the settings name otherwise than by default: who asks by the default name is told the one in use."""

from __future__ import annotations

from typing import Any

import pytest
from tests.engine.test_engine_request_warnings import told
from tests.whatif.test_whatif_remedies import node, pod

from vgpu_scheduler.dialects import Dialects
from vgpu_scheduler.dialects.factory import DIALECTS
from vgpu_scheduler.engine import EngineOptions, renamed_resources
from vgpu_scheduler.engine.device_names import DeviceNames
from vgpu_scheduler.engine.request_warnings import RequestWarnings
from vgpu_scheduler.kube import decode_quota
from vgpu_scheduler.runtime.assembly import engine_options
from vgpu_scheduler.settings import Settings
from vgpu_scheduler.whatif import RemedyType, World, remedies

FIELDS = {
    "nvidia": {"resourceCountName": "gpu", "resourceMemoryName": "gpumem", "resourceCoreName": "gpucores"},
    "hygon": {"resourceCountName": "dcunum", "resourceMemoryName": "dcumem", "resourceCoreName": "dcucores"},
    "amd": {"resourceCountName": "gpu", "resourceMemoryName": "gpumem", "resourceCoreName": "gpucores"},
    "mthreads": {"resourceCountName": "vgpu", "resourceMemoryName": "sgpu-memory", "resourceCoreName": "sgpu-core"},
    "kunlun": {"resourceCountName": "xpu", "resourceVCountName": "vxpu", "resourceVMemoryName": "vxpu-memory"},
    "vastai": {"resourceCountName": "va"},
    "biren": {"resourceCountName": "gpu"},
}
DOMAINS = {"nvidia": "nvidia.com", "hygon": "hygon.com", "amd": "amd.com", "mthreads": "mthreads.com",
           "kunlun": "kunlunxin.com", "vastai": "vastaitech.com", "biren": "birentech.com"}  # fmt: skip
CASES = [(section, field, word) for section, fields in FIELDS.items() for field, word in fields.items()]


def options(section: str, **names: str) -> EngineOptions:
    return engine_options(Settings(hami_devices={section: names}))


def warnings_with(made: EngineOptions, offered: tuple[str, ...] = ()) -> RequestWarnings:
    dialects = Dialects(made.dialects)
    return RequestWarnings(dialects, names=DeviceNames(dialects, made.renamed, offered=lambda: offered))


def test_nothing_is_renamed_by_default() -> None:
    assert engine_options(Settings()).renamed == {}
    every = [made() for made in DIALECTS.values()]
    assert renamed_resources(every, every) == {}


@pytest.mark.parametrize(("section", "field", "word"), CASES)
@pytest.mark.parametrize("new", ["cards.example.com/{}", "{domain}/x-{}"])
def test_the_name_in_use_is_told(section: str, field: str, word: str, new: str) -> None:
    name, used = f"{DOMAINS[section]}/{word}", new.format(word, domain=DOMAINS[section])
    warnings = warnings_with(options(section, **{field: used}))
    (text,) = told({name: 1}, warnings=warnings)
    assert text == f"container main: there is no device resource {name}: the settings call it {used}"
    assert warnings.names.meant_by(name) == (used,)
    assert warnings.names.meant_by(f"{name}x") == (used,)
    assert told({name: 1}, warnings=warnings_with(options(section, **{field: used}), (name,))) == []


@pytest.mark.parametrize("word", ["gpumem", "gpucores"])
def test_a_quota_of_the_default_name_is_told(word: str) -> None:
    field = {"gpumem": "resourceMemoryName", "gpucores": "resourceCoreName"}[word]
    warnings = warnings_with(options("nvidia", **{field: f"example.com/{word}"}))
    name = f"nvidia.com/{word}"
    for key in (name, f"limits.{name}", f"requests.{name}"):
        quota = {"metadata": {"name": "q", "namespace": "n", "uid": "u"}, "spec": {"hard": {key: "1"}}}
        (text,) = warnings.of_quota(decode_quota(quota))
        assert text.endswith(f"the settings call {name} example.com/{word}: write limits.example.com/{word}")


def test_cards_that_another_device_plugin_counts_by_the_default_name_may_be_limited() -> None:
    warnings = warnings_with(options("nvidia", resourceCountName="nvidia.com/vgpu"))
    quota = {
        "metadata": {"name": "q", "namespace": "n", "uid": "u"},
        "spec": {"hard": {"requests.nvidia.com/gpu": "1"}},
    }
    assert list(warnings.of_quota(decode_quota(quota))) == []


@pytest.mark.parametrize("typed", ["nvidia.com/gpu", "nvidia.com/gpus", "nvida.com/gpu", "nvidia.com/vgpus"])
def test_the_pod_fits_by_the_name_that_is_told(typed: str) -> None:
    there: dict[str, Any] = node("a")
    amounts = {**there["status"]["allocatable"], "nvidia.com/vgpu": "20"}
    del amounts["nvidia.com/gpu"]
    there["status"] = {"allocatable": amounts, "capacity": amounts}
    world = World(options("nvidia", resourceCountName="nvidia.com/vgpu"))
    world.add([there, pod("asked", {typed: 1})])
    (waiting,) = world.pending.values()
    (found,) = remedies(world, waiting)
    assert (found.type, found.node) == (RemedyType.CORRECT, "a")
    assert found.text == f"write nvidia.com/vgpu instead of {typed} in container main"
