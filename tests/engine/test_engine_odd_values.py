"""Odd values of annotations and amounts: each is told, followed as HAMi follows it, and refused where that is set."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

import pytest
from tests.engine.dialect_worlds import HAMI
from tests.engine.odd_values import Odd, hami_engine, of_hami, of_koordinator, of_volcano, other_engine, right
from tests.policy.resources import policy

from vgpu_scheduler.admission.review import AdmissionRules, review
from vgpu_scheduler.dialects.hami import Vendor
from vgpu_scheduler.engine import Engine
from vgpu_scheduler.kube import Pod, decode_pod, decode_quota
from vgpu_scheduler.model import Decision, EventReason, Outcome

SEEDS = range(12)
FOLLOWED = re.compile(r"counts? as|, so it gets|is ignored|fits cards|is cut to")
"""How something odd would be followed, which it is not where a pod is refused for it."""
UNITS = (("Gi", 2**30), ("Mi", 2**20), ("Ki", 1024), ("G", 10**9))
VENDORS = {vendor.key: vendor for vendor in HAMI.claims.vendors}


def answer(engine: Engine, odd: Odd) -> tuple[Decision, list[str]]:
    """Decide a pod; return the decision, and all that events and conditions say."""
    pod = decode_pod(odd.wire)
    decision = engine.algorithm.decide(pod)
    return decision, [decision.message, *decision.warnings, *engine.request_warnings.of_pod(pod)]


def check(make: Callable[..., Engine], cases: list[Odd]) -> None:
    engine, strict = make(), make(strict_annotations=True)
    for odd in cases:
        decision, said = answer(engine, odd)
        assert any(odd.name in text for text in said), odd
        assert (decision.outcome is Outcome.REFUSED) == odd.refused, (odd, decision.message)
        assert not odd.refused or "ModeNotFit: annotation" in decision.message
        refusal, _ = answer(strict, odd)
        assert refusal.outcome is Outcome.REFUSED, odd
        assert odd.name in refusal.message, (odd, refusal.message)
        assert odd.refused or "the pod is refused, because strict_annotations is on" in refusal.message
        assert not FOLLOWED.search(refusal.message), refusal.message


@pytest.mark.parametrize("vendor", VENDORS.values(), ids=list(VENDORS))
def test_every_odd_value_of_hamis_makers_is_told_and_followed_as_hami_does(vendor: Vendor) -> None:
    cases = [odd for seed in SEEDS for odd in of_hami(vendor, seed)]
    check(lambda **defaults: hami_engine(vendor, **defaults), cases)


@pytest.mark.parametrize(("name", "odd"), [("volcano", of_volcano), ("koordinator", of_koordinator)])
def test_every_odd_value_of_other_dialects_is_told(name: str, odd: Callable[[int], list[Odd]]) -> None:
    cases = [case for seed in SEEDS for case in odd(seed)]
    assert len(cases) >= 50
    check(lambda **defaults: other_engine(name, **defaults), cases)


@pytest.mark.parametrize("vendor", VENDORS.values(), ids=list(VENDORS))
def test_what_means_what_it_says_is_neither_told_nor_refused(vendor: Vendor) -> None:
    engine, strict = hami_engine(vendor), hami_engine(vendor, strict_annotations=True)
    for seed in SEEDS:
        pod = right(vendor, seed)
        decision, said = answer(engine, pod)
        if decision.outcome is not Outcome.REFUSED:
            assert said[1:] == [], pod
            assert answer(strict, pod)[0].outcome is decision.outcome, pod


def admitted(engine: Engine, wire: Mapping[str, Any]) -> tuple[tuple[str, ...], Pod] | None:
    """Have the webhook complete a pod; return what it warns of and the pod as it is stored, None if it is refused."""
    rules = AdmissionRules(
        engine.dialects,
        ("vgpu-scheduler",),
        defaults=engine.policies.claim_defaults,
        request_warnings_of=engine.request_warnings_of,
    )
    verdict = review(wire, "default", rules)
    if verdict.pod is None:
        return None
    stored = copy.deepcopy(dict(verdict.pod))
    stored["metadata"] = {"name": "p", "namespace": "default", "uid": "u", **stored["metadata"]}
    return verdict.warnings, decode_pod({"status": {}, **stored})


@pytest.mark.parametrize("vendor", VENDORS.values(), ids=list(VENDORS))
def test_the_webhook_warns_of_what_the_stored_pod_is_told(vendor: Vendor) -> None:
    engine = hami_engine(vendor)
    for seed in SEEDS:
        for odd in of_hami(vendor, seed):
            found = admitted(engine, odd.wire)
            if found is not None:
                warned, stored = found
                told = set(engine.request_warnings_of(stored))
                assert set(warned) >= told, odd


@pytest.mark.parametrize("vendor", VENDORS.values(), ids=list(VENDORS))
def test_what_the_webhook_completes_is_not_odd(vendor: Vendor) -> None:
    engine, strict = hami_engine(vendor), hami_engine(vendor, strict_annotations=True)
    for count in range(1, 5):
        limits = {vendor.claims.counts[0]: str(count)}
        wire = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "main", "resources": {"limits": limits}}]}}
        found = admitted(engine, wire)
        if found is not None:
            _, stored = found
            assert list(engine.request_warnings.of_pod(stored)) == [], limits
            assert strict.algorithm.decide(stored).outcome is engine.algorithm.decide(stored).outcome, limits


def test_an_empty_mode_is_followed_as_hami_does_and_told() -> None:
    engine = hami_engine(VENDORS["NVIDIA"])
    wire = next(iter(of_hami(VENDORS["NVIDIA"], 1))).wire
    wire = {**wire, "metadata": {**wire["metadata"], "annotations": {"nvidia.com/vgpu-mode": ""}}}
    decision = engine.algorithm.decide(decode_pod(wire))
    assert decision.outcome is not Outcome.REFUSED
    assert "annotation nvidia.com/vgpu-mode is empty, and fits cards without a mode only" in " ".join(decision.warnings)


def test_a_mode_that_no_policy_allows_is_told_and_not_looked_at() -> None:
    engine, (odd, *_) = hami_engine(VENDORS["NVIDIA"]), (o for o in of_hami(VENDORS["NVIDIA"], 1) if o.refused)
    engine.policy_tracker.observe(policy("no", {"podOverrides": {"allow": ["numa"]}}))
    decision, said = answer(engine, odd)
    assert decision.outcome is Outcome.PLACED
    assert "annotation nvidia.com/vgpu-mode is not followed: podOverrides of ClusterVGPUPolicy no" in " ".join(said)


@pytest.mark.parametrize("seed", range(4))
def test_a_quota_counts_as_hami_reads_it_and_says_so(seed: int) -> None:
    engine, rng = hami_engine(VENDORS["NVIDIA"]), Random(seed)
    names = [(name, r) for name, r in HAMI.allocation.quota_resources.items() if not r.bytes]
    for number in range(20):
        name, resource = rng.choice(names)
        count, (suffix, times) = rng.randint(3, 64), rng.choice(UNITS)
        wire = {
            "metadata": {"name": f"q{number}", "namespace": f"n{number}", "uid": "u"},
            "spec": {"hard": {f"limits.{name}": f"{count}{suffix}"}},
        }
        problems = engine.quota_limits.observe(decode_quota(wire))
        assert [problem.reason for problem in problems] == [EventReason.QUOTA_SUSPICIOUS], wire
        counts = count * times * resource.unit
        assert f"limits.{name}]: {count}{suffix} counts as {counts} " in problems[0].message
        (report,) = [r for r in engine.quota_limits.report(engine.state) if r.namespace == f"n{number}"]
        assert report.limit == min(counts, 2**62) or report.limit >= 2**31


@pytest.mark.parametrize("text", ["2k", "65536", "400", "4M", "0"])
def test_a_quota_that_counts_as_it_looks_says_nothing(text: str) -> None:
    """An API server hands out 2000 as 2k."""
    hard = {"limits.nvidia.com/gpumem": text, "limits.nvidia.com/gpucores": text, "requests.nvidia.com/gpu": text}
    wire = {"metadata": {"name": "q", "namespace": "n", "uid": "u"}, "spec": {"hard": hard}}
    assert hami_engine(VENDORS["NVIDIA"]).quota_limits.observe(decode_quota(wire)) == ()


@pytest.mark.parametrize(
    ("name", "text", "counts"),
    [("gpu", "0.5", 1), ("gpu", "1500m", 2), ("rdma", "0.25", 1), ("gpu-memory", "0.5Gi", 0), ("gpu", "50", 0)],
)
def test_a_fraction_that_koordinator_rounds_up_is_told(name: str, text: str, counts: int) -> None:
    resource = f"koordinator.sh/{name}"
    limits = {resource: text}
    wire = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "main", "resources": {"limits": limits}}]}}
    wire["metadata"] |= {"namespace": "default", "uid": "u"}
    what = f"container main: {resource}: {text} is not a whole number"
    told = list(other_engine("koordinator").request_warnings.of_pod(decode_pod({**wire, "status": {}})))
    assert told == ([f"{what}, and counts as {counts}"] if counts else [])
    if counts:
        strict = other_engine("koordinator", strict_annotations=True)
        decision = strict.algorithm.decide(decode_pod({**wire, "status": {}}))
        assert decision.outcome is Outcome.REFUSED
        assert f"{what}: write {counts}" in decision.message
