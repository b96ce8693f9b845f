"""Namespace quotas: who waits for them, who is woken, and that nobody ever gets more than they leave."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from tests.engine.builders import OURS, allocation, asks, card, cards, engine_with, node, node_part, pod

from vgpu_scheduler.dialects.hami import NvidiaRequests, hami_dialect, vendors
from vgpu_scheduler.engine import Engine, EngineOptions, QueueName, quotas_from_event
from vgpu_scheduler.kube import Pod, ResourceQuota
from vgpu_scheduler.model import Claim, ClusterEvent, ContainerClaims, ContainerType, Decision, Outcome, PodClaims
from vgpu_scheduler.policy import PolicyDefaults

APP, INIT, SIDECAR = ContainerType.APP, ContainerType.INIT, ContainerType.SIDECAR

MEMORY, CORES = "limits.nvidia.com/gpumem", "limits.nvidia.com/gpucores"


def quota(
    name: str = "q", memory: int | str | None = None, cores: int | None = None, version: int = 1, **more: str
) -> ResourceQuota:
    """Return a quota of namespace ``default``, or of ``namespace``."""
    hard = {key: str(limit) for key, limit in ((MEMORY, memory), (CORES, cores)) if limit is not None}
    namespace = more.pop("namespace", "default")
    return ResourceQuota(namespace, name, {**hard, **more}, uid=f"uid-{namespace}-{name}", resource_version=version)


def limited(*quotas: ResourceQuota, pods: Iterable[Pod] = ()) -> Engine:
    """Return an engine with nodes ``a`` and ``b`` of two cards with 8000 MiB each."""
    engine = engine_with([node("a", cards("a", 2)), node("b", cards("b", 2))], pods)
    for one in quotas:
        assert engine.quota_limits.observe(one) == ()
    return engine


def attempt(engine: Engine, waiting: Pod, now: float = 0.0) -> Decision:
    engine.observe_pod(waiting, now)
    decision = engine.attempt(now)
    assert decision is not None
    assert decision.uid == waiting.uid
    assert decision.error is None
    return decision


def places(engine: Engine, waiting: Pod, now: float = 0.0) -> bool:
    return attempt(engine, waiting, now).outcome is Outcome.PLACED


@pytest.mark.parametrize(("cards_asked", "memory"), [(1, 5000), (2, 3000), (4, 2000), (1, 8000), (1, 4001)])
def test_a_refusal_says_what_is_asked_and_what_is_left(cards_asked: int, memory: int) -> None:
    engine = limited(quota(memory=8000, cores=300))
    assert places(engine, pod("first", asks(1, 4000, 10)))
    claims = engine.algorithm.classes.claims(pod("second", asks(cards_asked, memory, 10)))
    asked = cards_asked * memory
    said = engine.quota_limits.exceeded_by("default", claims, engine.state)
    assert said == (
        f"the pod asks for {asked} MiB of {MEMORY}, and namespace default uses 4000 of 8000 MiB of {MEMORY}"
    )
    claims = engine.algorithm.classes.claims(pod("small", asks(1, 4000, 10)))
    assert engine.quota_limits.exceeded_by("default", claims, engine.state) is None


# At admission ------------------------------------------------------------------------------------------------------


def claimed(*containers: tuple[ContainerType, int, int]) -> PodClaims:
    """Return claims: kind, cards and memory of each."""
    return tuple(
        ContainerClaims(f"c-{number}", kind, (Claim("NVIDIA", count, (1, memory, 120), (0, 0, 0)),), "hami")
        for number, (kind, count, memory) in enumerate(containers)
    )


@pytest.mark.parametrize(
    ("containers", "peak"),
    [
        ([(APP, 1, 800), (APP, 2, 300)], 1400),
        ([(INIT, 1, 900), (INIT, 1, 500), (APP, 1, 800)], 900),
        ([(INIT, 1, 500), (APP, 1, 800)], 800),
        ([(SIDECAR, 1, 200), (INIT, 1, 700), (APP, 1, 300)], 900),
        ([(INIT, 1, 700), (SIDECAR, 1, 200), (APP, 1, 400)], 700),
    ],
)
def test_what_a_pod_asks_for_at_any_time_is_refused_beyond_the_quota(
    containers: list[tuple[ContainerType, int, int]], peak: int
) -> None:
    claims = claimed(*containers)
    for limit in (peak - 1, peak):
        engine = limited(quota(memory=limit))
        assert engine.quota_limits.refuses("default", claims, engine.state) == (limit < peak)
        assert not engine.quota_limits.refuses("other", claims, engine.state)


def relisted(engine: Engine, listed: list[ResourceQuota], version: int) -> int:
    """Relist with a list; return how many quotas were gone."""
    relist = engine.lists.relist("ResourceQuota", version)
    for found in listed:
        assert relist.take(found, 0.0) == ()
    gone = relist.missing()
    for found in gone:
        relist.remove(found, 0.0)
    return len(gone)


def test_what_the_namespace_holds_counts_at_admission() -> None:
    engine = limited(quota(memory=3000))
    assert places(engine, pod("one", asks(1, 2000)))
    assert not engine.quota_limits.refuses("default", claimed((APP, 1, 1000)), engine.state)
    assert engine.quota_limits.refuses("default", claimed((APP, 1, 1001)), engine.state)
    assert not engine.quota_limits.refuses("default", claimed((APP, 1, 0)), engine.state), "nothing, or a percentage"


def test_no_more_compute_than_a_card_has_counts_at_admission() -> None:
    for limit, refused in ((199, True), (200, False)):
        engine = limited(quota(cores=limit))
        assert engine.quota_limits.refuses("default", claimed((APP, 2, 0)), engine.state) == refused


# What counts -------------------------------------------------------------------------------------------------------


def test_a_quota_may_be_reached_and_not_exceeded() -> None:
    engine = limited(quota(memory=3000))
    assert places(engine, pod("one", asks(1, 2000)))
    assert not places(engine, pod("two", asks(1, 1001)))
    assert places(engine, pod("three", asks(1, 1000)))
    assert not places(engine, pod("four", asks(1, 1)))


def test_who_waits_for_a_quota_is_told_so() -> None:
    engine = limited(quota(memory=3000))
    decision = attempt(engine, pod("p", asks(2, 2000)))
    assert decision.message == "0/2 nodes are available: 2 AllocatedCardsInsufficientRequest, 2 ResourceQuotaNotFit."
    assert decision.helped_by & ClusterEvent.QUOTA
    said = engine.quota_limits.describe("default", engine.state)
    assert said == "namespace default uses 0 of 3000 MiB of limits.nvidia.com/gpumem"
    assert engine.quota_limits.describe("other", engine.state) == ""


def test_cores_count_as_memory_does() -> None:
    engine = limited(quota(cores=50))
    assert places(engine, pod("one", asks(1, 100, 50)))
    assert not places(engine, pod("two", asks(1, 100, 1)))
    assert places(engine, pod("three", asks(1, 100, 0)))


def test_no_more_than_a_whole_card_of_cores_counts() -> None:
    assert places(limited(quota(cores=110)), pod("p", asks(1, 100, 120)))


def test_other_namespaces_and_plain_pods_are_free() -> None:
    engine = limited(quota(memory=0))
    assert not places(engine, pod("p", asks(1, 1)))
    assert places(engine, pod("q", asks(1, 8000), namespace="other"))
    assert places(engine, pod("r", asks(0)))


def test_of_several_quotas_the_smallest_limit_counts_whatever_the_order() -> None:
    for order in ((3000, 1000, 2000), (1000, 2000, 3000), (3000, 2000, 1000)):
        engine = limited(*(quota(f"q{limit}", memory=limit) for limit in order))
        assert not places(engine, pod("p", asks(1, 1001)))
        engine.quota_limits.remove(quota("q1000", memory=1000, version=2))
        assert not places(engine, pod("q", asks(1, 2001)))
        assert places(engine, pod("r", asks(1, 2000)))


def test_a_memory_quota_is_in_the_unit_of_requests() -> None:
    engine = Engine(EngineOptions([hami_dialect(vendors(NvidiaRequests(memory_factor=256)))], PolicyDefaults(), [OURS]))
    engine.observe_node(node("a", cards("a", 2)), 0.0)
    engine.quota_limits.observe(quota(memory=10))
    assert not places(engine, pod("p", asks(1, 11)))
    assert places(engine, pod("q", asks(1, 10)))
    (report,) = engine.quota_limits.report(engine.state)
    assert (report.used, report.limit) == (2560, 2560)


def test_a_percentage_counts_what_it_comes_to_on_the_card() -> None:
    engine = engine_with([node("a", [card("large", memory=8000), card("small", memory=2000, index=1)])])
    engine.quota_limits.observe(quota(memory=1000))
    half = {"limits": {"nvidia.com/gpu": "1", "nvidia.com/gpumem-percentage": "50"}}
    decision = attempt(engine, pod("p", half))
    assert decision.placement is not None
    assert decision.placement.containers[0][0].uuid == "small"
    assert not places(engine, pod("q", half))


@pytest.mark.parametrize("text", ["many", "1500m", "-1", ""])
def test_what_cannot_be_read_lets_nothing_in_and_is_reported(text: str) -> None:
    engine = limited()
    (problem,) = engine.quota_limits.observe(quota(memory=text))
    assert (problem.kind, problem.name, problem.reason) == ("ResourceQuota", "q", "QuotaUnreadable")
    assert f"spec.hard[{MEMORY}]: {text} is not a whole number" in problem.message
    assert engine.quota_limits.observe(quota(memory=text)) == (), "the same version says nothing new"
    assert not places(engine, pod("p", asks(1, 1)))


def test_other_keys_mean_nothing() -> None:
    assert places(limited(quota(**{"requests.nvidia.com/gpu": "0", "pods": "x"})), pod("p"))


def test_keys_that_look_like_limits_mean_nothing_and_are_reported() -> None:
    engine = limited()
    problems = engine.quota_limits.observe(quota(**{"limits.nvidia.com/gpu": "0", "nvidia.com/gpumem": "0"}))
    assert [problem.reason for problem in problems] == ["QuotaSuspicious"] * 2
    assert places(engine, pod("p"))


def test_what_runs_counts_wherever_it_runs_and_whoever_placed_it() -> None:
    running = pod(
        "r", asks(1, 5000), annotations=allocation("gone", ("ghost", 5000, 0)), nodeName="gone", scheduler="other"
    )
    engine = limited(quota(memory=6000), pods=[running])
    assert not places(engine, pod("p", asks(1, 1001)))
    assert places(engine, pod("q", asks(1, 1000)))


def test_an_unreadable_pod_counts_its_claim_once() -> None:
    running = pod("r", asks(1, 2000), started=True, nodeName="a", scheduler="other")
    engine = limited(quota(memory=3000), pods=[running])
    assert not places(engine, pod("p", asks(1, 1001)))
    assert places(engine, pod("q", asks(1, 1000)))


def test_init_containers_count_by_their_peak() -> None:
    """Per card, as they are booked: the app container sits on the init container's card, or its peak adds up."""
    init = [{"name": "i", "resources": asks(1, 3000)}]
    engine = limited(quota(memory=3000))
    assert places(engine, pod("p", asks(1, 3000), initContainers=init))
    assert engine.state.quota_usage.used("default", ("hami", "NVIDIA"), 1) == 3000
    engine = limited(quota(memory=4999))
    assert not places(engine, pod("q", asks(2, 2000), initContainers=init)), "3000 on one card and 2000 on another"
    assert not places(limited(quota(memory=2999)), pod("r", asks(1, 10), initContainers=init))


# Who shares a class ------------------------------------------------------------------------------------------------


def test_pods_far_from_any_limit_share_their_shape() -> None:
    engine = limited(quota(memory=6000), quota(memory=100_000, namespace="rich"))
    classes = set()
    for number, namespace in enumerate(["rich"] * 4 + ["free"] * 4):
        waiting = pod(f"p{number}", asks(1, 1000), namespace=namespace)
        classes.add(id(node_part(engine.algorithm, waiting)))
        assert places(engine, waiting)
    assert len(classes) == 1
    classes.clear()
    for rest in (6000, 5000, 10):  # too little for any pick: how little makes no difference
        engine.quota_limits.observe(quota(memory=rest, version=10_000 - rest))
        classes.add(id(node_part(engine.algorithm, pod("w", asks(1, 6500)))))
    assert len(classes) == 1
    engine.quota_limits.observe(quota(memory=6000, version=20_000))
    tight = [id(node_part(engine.algorithm, pod(f"t{n}", asks(1, 7000)))) for n in range(2)]
    assert tight[0] == tight[1]
    assert tight[0] not in classes


# Waiting and waking ------------------------------------------------------------------------------------------------


def unschedulable(engine: Engine, name: str) -> bool:
    return engine.queue.place(f"uid-{name}") is QueueName.UNSCHEDULABLE


def test_an_end_in_the_namespace_wakes_and_one_elsewhere_does_not() -> None:
    held = [
        pod(name, asks(1, 2000), namespace=namespace, nodeName="a", annotations=allocation("a", ("a-gpu-0", 2000, 0)))
        for name, namespace in (("mine", "default"), ("theirs", "other"))
    ]
    engine = limited(quota(memory=2500), pods=held)
    assert not places(engine, pod("p", asks(1, 1000)))
    engine.remove_pod("uid-theirs", 10.0)
    assert engine.attempt(10.0) is None
    assert unschedulable(engine, "p")
    engine.remove_pod("uid-mine", 20.0)
    decision = engine.attempt(20.0)
    assert decision is not None
    assert decision.outcome is Outcome.PLACED


def test_a_placement_that_is_given_back_wakes() -> None:
    engine = limited(quota(memory=2500))
    assert places(engine, pod("first", asks(1, 2000)))
    assert not places(engine, pod("p", asks(1, 1000), priority=10), 1.0)
    engine.unreserve("uid-first", 10.0, at_least=60.0)
    decision = engine.attempt(10.0)
    assert decision is not None
    assert (decision.uid, decision.outcome) == ("uid-p", Outcome.PLACED)


def test_a_quota_that_changes_or_goes_wakes() -> None:
    for change in ("raised", "gone", "relisted"):
        engine = limited(quota(memory=500), quota(memory=500, namespace="other"))
        assert not places(engine, pod("p", asks(1, 1000)))
        assert not places(engine, pod("q", asks(1, 1000), namespace="other"))
        if change == "raised":
            engine.quota_limits.observe(quota(memory=1000, version=2))
        elif change == "gone":
            engine.quota_limits.remove(quota(memory=500, version=2))
        else:
            assert relisted(engine, [quota(memory=500, namespace="other")], 5) == 1
        decision = engine.attempt(10.0)
        assert decision is not None
        assert (decision.uid, decision.outcome) == ("uid-p", Outcome.PLACED)
        assert engine.attempt(10.0) is None


def test_a_quota_that_says_the_same_wakes_nobody() -> None:
    engine = limited(quota(memory=500))
    assert not places(engine, pod("p", asks(1, 1000)))
    engine.quota_limits.observe(quota(memory=500, version=2, pods="3"))
    engine.quota_limits.observe(quota("another", memory=600, version=3))
    assert engine.attempt(10.0) is None
    assert unschedulable(engine, "p")


def test_pods_that_wait_for_something_else_sleep_on() -> None:
    engine = limited(quota(memory=50_000))
    assert not places(engine, pod("p", asks(1, 9000)))
    engine.quota_limits.observe(quota(memory=60_000, version=2))
    assert engine.attempt(10.0) is None


# Late news ---------------------------------------------------------------------------------------------------------


def test_older_quotas_change_nothing() -> None:
    engine = limited(quota(memory=1000, version=5))
    engine.quota_limits.observe(quota(memory=9000, version=4))
    engine.quota_limits.remove(quota(memory=9000, version=3))
    assert not places(engine, pod("p", asks(1, 1001)))
    engine.quota_limits.remove(quota(memory=1000, version=6))
    engine.quota_limits.observe(quota(memory=1000, version=5))
    assert places(engine, pod("q", asks(1, 1001)))
    assert relisted(engine, [], 0) == 0


def test_a_relist_leaves_what_is_newer_than_its_list() -> None:
    engine = limited(quota(memory=1000, version=5))
    assert relisted(engine, [], 4) == 0
    assert not places(engine, pod("p", asks(1, 1001)))
    assert relisted(engine, [], 5) == 1
    assert places(engine, pod("q", asks(1, 1001)))


def test_a_limit_that_is_lowered_holds_back_what_was_not_bound_yet() -> None:
    engine = limited(quota(memory=4000))
    for name in ("one", "two"):
        assert places(engine, pod(name, asks(1, 2000)))
    engine.quota_limits.observe(quota(memory=2000, version=2))
    assert engine.assumed.recheck("uid-one") is None
    engine.unreserve("uid-one", 1.0)
    assert engine.assumed.recheck("uid-two") is not None, "it is within the limit without the other one"


@pytest.mark.parametrize(
    ("written", "shown"),
    [("1.5", "0 of 0 MiB (1.5 in the quota)"), ("-1", "0 of 0 MiB (-1 in the quota)"), ("0", "0 of 0 MiB")],
)
def test_a_limit_that_counts_as_less_is_shown_as_it_is_written(written: str, shown: str) -> None:
    engine = engine_with([node("a", cards("a", 1))])
    engine.quota_limits.observe(quota(memory=written))
    engine.quota_limits.observe(quota("r", memory=8000, cores=30))
    text = engine.quota_limits.describe("default", engine.state)
    assert text == f"namespace default uses {shown} of {MEMORY}, 0 of 30 percent of {CORES}"
    assert quotas_from_event(f"0/1 nodes are available; {text}; more") == tuple(
        engine.quota_limits.reports("default", engine.state)
    )
