"""What somebody with rights in one namespace is told by the condition of a pod alone, when little else may be seen."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cli.live_cluster import KINDS, Api, run
from tests.cli.test_cli_tenant_quotas import held, quota
from tests.cli.test_cli_tenants import asking, explained, waiting
from tests.seeds import seeds
from tests.whatif.test_whatif_remedies import GPU, MEMORY, node, pod

CORES, SHARE = "nvidia.com/gpucores", f"{MEMORY}-percentage"
EVERYTHING = frozenset(KINDS.values())
PODS_ONLY = (EVERYTHING | {"Event"}) - {"Pod"}


def asking_for(message: str, **limits: int | str) -> dict[str, Any]:
    """Return a pod that waits, and asks for some amounts of cards or nodes."""
    made = waiting("p", message)
    named = {name if name in {"cpu", "memory"} else f"nvidia.com/{name}": str(limits[name]) for name in limits}
    made["spec"]["containers"][0]["resources"] = {"limits": named, "requests": dict(named)}
    return made


@pytest.mark.parametrize("seed", range(60))
def test_no_quota_is_to_be_raised_of_a_pod_that_no_node_would_fit_without_it(api: Api, seed: int) -> None:
    """The reason of its condition tells: Unschedulable where none would, SchedulerError where one would."""
    rng = np.random.default_rng(seed)
    nodes, amount, used = (int(rng.integers(*bounds)) for bounds in ((1, 200), (5000, 300000), (0, 4000)))
    left = int(rng.integers(0, 4000))
    would_fit = bool(rng.random() < 0.5)
    made = asking_for(f"0/{nodes} nodes are available: {nodes} ResourceQuotaNotFit.", gpu=1, gpumem=amount)
    made["status"]["conditions"][0]["reason"] = "SchedulerError" if would_fit else "Unschedulable"
    api.objects[:] = [quota(gpumem=used + left), held(used), made]
    remedies = explained(api, "p")["remedies"]
    assert any("raised" in each for each in remedies) is would_fit
    assert any("ask " in each for each in remedies) is (left > 0 or not would_fit)


@pytest.mark.parametrize("seed", range(60))
def test_less_of_cards_is_advised_without_events(api: Api, seed: int) -> None:
    rng = np.random.default_rng(seed)
    nodes, tainted = int(rng.integers(1, 100)), int(rng.integers(0, 9))
    what, reason = [("gpumem", "CardInsufficientMemory"), ("gpucores", "CardInsufficientCore")][int(rng.integers(2))]
    amount = int(rng.integers(2, 101))
    taints = f", {tainted} node(s) had untolerated taint(s)" if tainted else ""
    message = f"0/{nodes + tainted} nodes are available: {nodes} {reason}{taints}."
    api.objects[:] = [asking_for(message, gpu=1, **{what: amount})]
    api.refused_everywhere = PODS_ONLY
    answer = explained(api, "p")
    assert answer["remedies"] == [f"ask for less than {amount} of nvidia.com/{what} in container main"]
    text = run("explain", "p", "-n", "team").stdout
    (last,) = (line for line in text.splitlines() if line.startswith("The explanation ends here: "))
    for right in ("list nodes", "list events", "list resourcequotas", "in namespace team"):
        assert right in last
        assert right in answer["missing"]


@pytest.mark.parametrize("seed", range(50))
def test_a_quota_that_may_not_be_seen_is_named_all_the_same(api: Api, seed: int) -> None:
    rng = np.random.default_rng(seed)
    nodes, amount = int(rng.integers(1, 100)), int(rng.integers(2, 90000))
    what = str(rng.choice(["gpumem", "gpumem-percentage"]))
    amount = amount if what == "gpumem" else amount % 99 + 2
    made = asking_for(f"0/{nodes} nodes are available: {nodes} ResourceQuotaNotFit.", gpu=1, **{what: amount})
    api.objects[:] = [quota(gpumem=1), made]
    api.refused_everywhere = PODS_ONLY
    remedies = explained(api, "p")["remedies"]
    assert f"ask for less than {amount} of nvidia.com/{what} in container main" in remedies
    assert any(each.startswith("have the quota of the namespace raised, or end pods") for each in remedies)
    assert (
        "Its quota keeps it waiting: the amounts are in its ResourceQuotas" in run("explain", "p", "-n", "team").stdout
    )


@pytest.mark.parametrize("seed", range(60))
def test_what_all_nodes_lack_is_asked_less_of_together(api: Api, seed: int) -> None:
    """Whatever only some nodes lack is then no advice by itself; nor are taints, where all others say the same."""
    rng = np.random.default_rng(seed)
    nodes, tainted = int(rng.integers(2, 100)), int(rng.integers(0, 9))
    counts = {name: int(rng.choice([nodes, int(rng.integers(1, nodes))])) for name in ("cpu", "memory")}
    amounts = {"cpu": int(rng.integers(2, 900)), "memory": f"{int(rng.integers(2, 900))}Gi"}
    told = [f"{count} Insufficient {name}" for name, count in counts.items()]
    told += [f"{tainted} node(s) had untolerated taint(s)"] if tainted else []
    api.objects[:] = [asking_for(f"0/{nodes + tainted} nodes are available: {', '.join(told)}.", gpu=1, **amounts)]
    remedies = explained(api, "p")["remedies"]
    less = {name: f"ask for less than {amounts[name]} of {name} in container main" for name in amounts}
    of_all = [less[name] for name in less if counts[name] == nodes]
    advice = [each for each in remedies if each.startswith("ask ")]
    assert advice == ([" and ".join(of_all)] if of_all else list(less.values()))
    assert any("taint" in each for each in remedies) is (bool(tainted) and len(of_all) < len(less))


@pytest.mark.parametrize("seed", range(60))
def test_wanting_idle_cards_only_may_be_left_out_where_cards_are_in_use(api: Api, seed: int) -> None:
    rng = np.random.default_rng(seed)
    nodes, policy = int(rng.integers(1, 100)), str(rng.choice(["mutex", "binpack", "spread"]))
    reason = str(rng.choice(["ExclusiveDeviceAllocateConflict", "CardInsufficientMemory"]))
    made = asking_for(f"0/{nodes} nodes are available: {nodes} {reason}.", gpu=int(rng.integers(1, 4)), gpumem=1000)
    made["metadata"]["annotations"] = {"hami.io/gpu-scheduler-policy": policy}
    api.objects[:] = [made]
    remedies = explained(api, "p")["remedies"]
    left_out = f"leave out its annotation hami.io/gpu-scheduler-policy ({policy})"
    assert (left_out in remedies) is (policy == "mutex" and reason.startswith("Exclusive"))


@pytest.mark.parametrize("seed", [*range(8), *seeds(0, 40)[8:]])
def test_who_gives_a_pod_idle_cards_only_is_told_as_far_as_it_may_be_seen(api: Api, seed: int) -> None:
    """Of policies that may not be seen nothing is guessed where the pod itself asks for cards of its own."""
    rng = np.random.default_rng(seed)
    seen, own, field = seed % 2 == 0, seed % 4 < 2, str(rng.choice(["exclusive", "policy"]))
    kind = "ClusterVGPUPolicy" if rng.random() < 0.5 else "VGPUPolicy"
    said = {"exclusive": True} if field == "exclusive" else {"policy": str(rng.choice(["mutex", "binpack,mutex"]))}
    policy = {"kind": kind, "metadata": {"name": "own", "uid": "u"}, "spec": {"devices": said}}
    policy["metadata"] |= {"namespace": "team"} if kind == "VGPUPolicy" else {}
    made = asking_for("0/3 nodes are available: 3 ExclusiveDeviceAllocateConflict.", gpu=1, gpumem=500)
    limits = made["spec"]["containers"][0]["resources"]["limits"]
    limits |= {CORES: "100"} if own else {}
    api.objects[:] = [made, *([policy] if seen else [])]
    of_cluster = kind == "ClusterVGPUPolicy"
    api.refused = EVERYTHING - ({kind} if of_cluster and seen else set())
    remedies = json.loads(run("explain", "p", "-n", "team", "-o", "json").stdout)["remedies"]
    title = f"{kind} {'' if of_cluster else 'team/'}own"
    assert any(f"spec.devices.{field} of {title} changed" in each for each in remedies) is seen
    hidden = any("policy of the cluster, which you may not read, gives the pod idle" in each for each in remedies)
    assert hidden is (not own and not seen)
    assert any(each.startswith(f"ask 99 of {CORES} ") for each in remedies) is (own and not seen)
    assert remedies


@pytest.mark.parametrize("seed", range(60))
def test_a_limit_of_cards_for_itself_is_kept_by_fewer_cards_and_not_got_around(api: Api, seed: int) -> None:
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 5))
    most, idle = int(rng.integers(0, count)), bool(rng.random() < 0.3)
    amounts = [{"gpumem": 1000, "gpucores": 100}, {"gpumem-percentage": 100}, {"gpucores": 20}, {}][rng.integers(4)]
    asks = f"pod asks for {count} card(s) for itself"
    message = f"0/1 nodes are available: {asks}, limits.exclusiveCardsPerPod of ClusterVGPUPolicy c allows {most}."
    made = asking_for(message, gpu=count, **amounts)
    made["metadata"]["annotations"] = {"hami.io/gpu-scheduler-policy": "mutex"} if idle else {}
    api.objects[:] = [made]
    *remedies, last = explained(api, "p")["remedies"]
    (told,) = remedies
    if most:
        assert told.startswith(f"ask {most} of nvidia.com/gpu ")
    else:
        assert "for itself than limits.exclusiveCardsPerPod of ClusterVGPUPolicy c allows (0): a card is shared" in told
    assert last == f"have limits.exclusiveCardsPerPod of ClusterVGPUPolicy c raised (it is {most})"


# Simulations ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(50))
def test_what_may_be_seen_of_a_namespace_is_said_as_it_is(api: Api, tmp_path: Path, seed: int) -> None:
    """Also where that is nothing; and copies of pods of groups are counted one by one, which is said, too."""
    rng = np.random.default_rng(seed)
    nothing, of_group, count = bool(rng.random() < 0.5), bool(rng.random() < 0.5), int(rng.integers(0, 4))
    made = asking_for("", gpu=1, gpumem=int(rng.integers(1, 9000)))
    made["metadata"]["annotations"] = {
        f"gang.scheduling.koordinator.sh/{name}": str(value)
        for name, value in (("name", "g"), ("min-available", 2))
        if of_group
    }
    api.objects[:] = []
    api.refused, api.refused_everywhere = EVERYTHING, EVERYTHING if nothing else PODS_ONLY
    copies = ("--count", str(count)) if count else ()
    told = run("simulate", "-f", asking(tmp_path, made), "-n", "team", *copies).stderr
    assert ("you may read nothing of namespace team: nodes, " in told) is nothing
    assert ("you may read namespace team only: nodes, " in told) is not nothing
    assert ("which --count ignores: it counts copies one by one" in told) is (of_group and count > 0)


@pytest.mark.parametrize("seed", range(10))
def test_of_an_amount_that_a_limit_and_a_quota_bound_the_smaller_one_is_told_alone(api: Api, seed: int) -> None:
    rng = np.random.default_rng(seed)
    amount, most, left = int(rng.integers(9000, 20000)), int(rng.integers(3, 9)), int(rng.integers(1000, 9000))
    spec = {"limits": {"memoryPerPod": f"{most}Gi"}}
    mine = {"kind": "VGPUPolicy", "metadata": {"name": "mine", "namespace": "team", "uid": "m"}, "spec": spec}
    limit = f"limits.memoryPerPod of VGPUPolicy team/mine allows {most}Gi"
    asked = waiting("p", f"0/1 nodes are available: pod asks for {amount}Mi, {limit}.")
    asked["spec"]["containers"][0]["resources"]["limits"] |= {MEMORY: str(amount)}
    api.objects[:] = [mine, quota(gpumem=left), asked]
    first, *others = explained(api, "p")["remedies"]
    assert first.startswith(f"ask {min(most * 1024, left)} of {MEMORY} instead of {amount} in container main")
    assert not [text for text in (first, *others) if text.count(f"of {MEMORY} instead of") > 1]


@pytest.mark.parametrize("refused_at", ["", "2026-01-01T10:00:00Z", "2026-01-01T10:02:00Z"])
def test_who_waits_for_its_turn_at_a_node_is_told_so(api: Api, refused_at: str) -> None:
    """An event about the turn is later than the condition, which is not written while the pod has a node."""
    asked = pod("p", {GPU: 1, MEMORY: 1000}, schedulerName="vgpu-scheduler")
    asked["metadata"]["namespace"] = "team"
    turn, message = (
        "waits for its turn on node a: the lock is held",
        "0/1 nodes are available: 1 CardInsufficientMemory.",
    )
    said = [(turn, "WaitingForNode", "2026-01-01T10:01:00Z"), (message, "FailedScheduling", refused_at)]
    api.objects[:] = [asked]
    for text, reason, when in said if refused_at else said[:1]:
        event = {"involvedObject": {"uid": "uid-p"}, "reason": reason, "message": text, "lastTimestamp": when}
        api.objects.append({"kind": "Event", "metadata": {"name": reason, "namespace": "team"}, **event})
    if refused_at:
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        asked["status"] = {"phase": "Pending", "conditions": [condition]}
    asked["metadata"]["uid"] = "uid-p"
    api.refused = frozenset(KINDS.values())
    result, answer = run("explain", "p", "-n", "team"), explained(api, "p")
    is_over = refused_at > said[0][2]
    assert (f"  WaitingForNode: {turn}\n" in result.stdout) is not is_over
    assert (message in result.stdout) is is_over
    assert "No scheduler has tried it yet" not in result.stdout
    assert answer.get("waitsForTurn", "") == ("" if is_over else turn)
    assert (answer["remedies"] == ["wait: its turn comes, or another node is looked for"]) is not is_over
    assert result.exit_code == 1


@pytest.mark.parametrize("refused", [frozenset(), EVERYTHING])
def test_an_annotation_that_had_no_effect_is_told_of_a_bound_pod(api: Api, refused: frozenset[str]) -> None:
    bound = pod("p", {GPU: 1, MEMORY: 1000}, schedulerName="vgpu-scheduler", nodeName="a")
    notes = {"hami.io/node-scheduler-policy": "binpak"}
    bound["metadata"] |= {"namespace": "team", "uid": "uid-p", "annotations": notes}
    bound["status"] = {"phase": "Running"}
    api.objects[:] = [node("a", 2), bound]
    api.refused = refused
    result = run("explain", "p", "-n", "team")
    assert "warning: Pod team/p: " in result.stderr
    assert "binpak" in result.stderr
