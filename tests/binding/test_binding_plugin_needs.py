from __future__ import annotations

from tests.engine.builders import engine_with, pod
from tests.engine.dialect_worlds import MEMORY, NUMBER, VOLCANO, asking, engine_of

from vgpu_scheduler.binding.plugin_needs import PluginNeedsReader
from vgpu_scheduler.kube import Namespace

GPU = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "1000"}
MLU = {"cambricon.com/vmlu": "1", "cambricon.com/mlu.smlu.vmemory": "4"}


def test_what_a_pod_needs_follows_from_the_makers_that_it_asks() -> None:
    reader = PluginNeedsReader(engine_with())
    plain, one, several = pod("plain", {}), pod("one", {"limits": GPU}), pod("several", {"limits": {**GPU, **MLU}})
    for _ in range(2):  # remembered, or not
        needs = reader.of(plain)
        assert (needs.lock, needs.serialized, needs.ambiguous) == (None, False, False)
        needs = reader.of(one)
        assert needs.lock is not None
        assert (needs.lock.annotation, needs.serialized, needs.ambiguous) == ("hami.io/mutex.lock", True, False)
        assert reader.of(several).ambiguous


def test_a_bound_pod_is_waited_for_though_none_like_it_would_be_placed_any_more() -> None:
    reader = PluginNeedsReader(engine_of(VOLCANO))
    for limits in ({NUMBER: 1, MEMORY: 1000}, {MEMORY: 1000}):
        needs = reader.of(asking("p", limits, nodeName="v"))
        assert (needs.serialized, needs.ambiguous, needs.plugin_key) == (True, True, f"{NUMBER}: 1")


def test_it_is_read_anew_for_a_new_version_of_a_pod_and_after_a_policy_may_have_changed() -> None:
    engine = engine_with()
    reader = PluginNeedsReader(engine)
    first = pod("p", {"limits": GPU})
    known = reader.of(first)
    assert reader.of(first) is known
    assert reader.of(pod("p", {}, version=2)).lock is None
    engine.policy_tracker.observe_namespace(Namespace("default", {"team": "x"}, 1))
    again = reader.of(first)
    assert again is not known
    assert again == known
