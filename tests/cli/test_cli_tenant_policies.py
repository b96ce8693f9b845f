"""What somebody with rights in one namespace is told of a limit of memory that denies cards, be it seen or not."""

from __future__ import annotations

import copy
import re
from typing import Any

import numpy as np
import pytest
from tests.cli.live_cluster import Api
from tests.cli.tenant_view import decided, done, told
from tests.cli.test_cli_tenant_quotas import quota
from tests.cli.test_cli_tenants import explained, waiting
from tests.whatif.test_whatif_remedies import GPU, MEMORY, node, running

from vgpu_scheduler.engine import EngineOptions
from vgpu_scheduler.whatif import World, ask, make_dialect
from vgpu_scheduler.whatif.advice.remedy import say
from vgpu_scheduler.whatif.reasons.namespace_objects import NamespaceObjects
from vgpu_scheduler.whatif.tenant_advice.tenant_policies import policy_remedies

SHARE = f"{MEMORY}-percentage"
AMOUNT = re.compile(r"ask (\d+) of (nvidia\.com/gpu\w+) ")
ASK = re.compile(r"ask (\d+) of nvidia\.com/gpumem ")


def goes_to(*objects: dict[str, object]) -> tuple[str, str]:
    """Return where the last pod goes, and what its condition says else."""
    world = World(EngineOptions([make_dialect("hami")]))
    world.add(objects)
    answer = ask(world, next(iter(world.pending.values())))
    return answer.node, answer.decision.message


@pytest.mark.parametrize("seed", range(80))
def test_a_limit_of_memory_is_told_as_one_and_how_to_keep_it(api: Api, seed: int) -> None:
    """Not as a rule about models that allows the model which the pod asks for."""
    rng = np.random.default_rng(seed)
    count, total = int(rng.integers(1, 4)), int(rng.integers(20, 81)) * 1024
    most = int(rng.integers(4, count * total // 1024))
    of_cluster = bool(rng.random() < 0.5)
    cards = node("a", 6, memory=total)
    share = {SHARE: str(100)} if rng.random() < 0.5 else {}
    asked = waiting("p")
    asked["metadata"]["annotations"] = {"nvidia.com/use-gputype": "A100"}
    asked["spec"]["containers"][0]["resources"] = {"limits": {GPU: str(count), **share}}
    limits, types = {"limits": {"memoryPerPod": f"{most}Gi"}}, {"devices": {"types": {"allow": ["T4", "A100"]}}}
    own = {"kind": "VGPUPolicy", "metadata": {"name": "mine", "namespace": "team", "uid": "mine"}}
    policies = [{**own, "spec": types if of_cluster else {**types, **limits}}]
    if of_cluster:
        policies.append({"kind": "ClusterVGPUPolicy", "metadata": {"name": "c", "uid": "c"}, "spec": limits})
    where, message = goes_to(cards, *policies, asked)
    assert not where
    assert "CardDeniedByPolicy" in message
    kept = copy.deepcopy(asked)
    kept["status"]["conditions"] = waiting("p", message)["status"]["conditions"]
    api.objects[:] = [*policies, kept]
    remedies = explained(api, "p")["remedies"]
    assert not any("types.allow" in each for each in remedies), remedies
    assert any("which you may not read" in each for each in remedies)
    assert any(each.startswith("ask for less than 100 of" if share else "ask ") for each in remedies)
    found = [int(each[1]) for each in map(ASK.match, remedies) if each]
    assert len(found) == (not of_cluster)
    for amount in found:
        changed = copy.deepcopy(asked)
        changed["spec"]["containers"][0]["resources"] = {"limits": {GPU: str(count), MEMORY: str(amount)}}
        fits, then = goes_to(cards, *policies, changed)
        assert fits or "CardDeniedByPolicy" not in then
        changed["spec"]["containers"][0]["resources"]["limits"][MEMORY] = str(amount + 1)
        assert not goes_to(cards, *policies, changed)[0]


@pytest.mark.parametrize("seed", range(50))
def test_a_rule_about_models_that_leaves_out_the_one_asked_for_is_named(api: Api, seed: int) -> None:
    rng = np.random.default_rng(seed)
    models = list(rng.permutation(["A100", "T4", "V100", "H100", "L40S"]))
    does, listed = str(rng.choice(["allow", "deny"])), models[: int(rng.integers(1, 4))]
    wanted = models[-1] if does == "allow" else listed[0]
    asked = waiting("p", "0/1 nodes are available: 1 CardDeniedByPolicy.")
    asked["metadata"]["annotations"] = {"nvidia.com/use-gputype": str(wanted)}
    metadata = {"name": "mine", "namespace": "team", "uid": "mine"}
    spec = {"devices": {"types": {does: list(map(str, listed))}}}
    api.objects[:] = [asked, {"kind": "VGPUPolicy", "metadata": metadata, "spec": spec}]
    assert any(f"types.{does} of VGPUPolicy team/mine" in each for each in explained(api, "p")["remedies"])


def test_of_seven_policies_each_rule_is_named() -> None:
    message = "0/1 nodes are available: 1 CardDeniedByPolicy, 1 node(s) didn't match the policy's node selector."
    spec = {"devices": {"types": {"deny": ["A100"]}}, "nodeSelector": {"matchLabels": {"pool": "x"}}}
    names = [f"p{number}" for number in range(7)]
    policies = [{"kind": "ClusterVGPUPolicy", "metadata": {"name": name, "uid": name}, "spec": spec} for name in names]
    world = World(EngineOptions([make_dialect("hami")]))
    world.add([node("a"), *policies, waiting("p", message)])
    (pod,) = world.pending.values()
    remedies = list(map(say, policy_remedies(world, pod, message, NamespaceObjects(unread_policies=frozenset()))))
    for name in names:
        assert sum(f"of ClusterVGPUPolicy {name} changed" in each for each in remedies) == 2, remedies


WHOSE = {
    "VGPUPolicy": "a policy of the namespace, which",
    "ClusterVGPUPolicy": "a policy of the cluster, which",
    "": "a policy of the namespace or of the cluster, which",
}


@pytest.mark.parametrize("unread", WHOSE)
@pytest.mark.parametrize("seed", range(20))
def test_whose_policy_may_be_to_blame_is_what_may_not_be_read(api: Api, seed: int, unread: str) -> None:
    """A policy of a kind that may be read, and has none, is not the one."""
    rng = np.random.default_rng(seed)
    kind = unread or str(rng.choice(["VGPUPolicy", "ClusterVGPUPolicy"]))
    specs: list[dict[str, object]] = [
        {"devices": {"types": {"deny": ["A100"]}}},
        {"nodeSelector": {"matchLabels": {"pool": "x"}}},
        {"limits": {"memoryPerPod": f"{int(rng.integers(1, 15))}Gi"}},
        {"devices": {"policy": "mutex"}},
    ]
    policy = {"kind": kind, "metadata": {"name": "l", "uid": "l"}, "spec": specs[int(rng.integers(len(specs)))]}
    policy["metadata"] |= {"namespace": "team"} if kind == "VGPUPolicy" else {}
    asked = waiting("p")
    asked["spec"]["containers"][0]["resources"] = {"limits": {GPU: "1"}}
    busy = [running(f"r{n}", "a", f"GPU-a-{n}", 10) for n in range(2)]
    api.objects[:] = [node("a", 2), *busy, policy, asked]
    assert not decided(api, "p")
    api.refused_everywhere = frozenset({unread} if unread else WHOSE)
    seen = frozenset({"ClusterVGPUPolicy"}) - {unread} if unread else frozenset[str]()
    remedies = told(api, "p", seen)
    whose = [text for each in remedies for text in WHOSE.values() if text in each]
    assert whose, remedies
    assert set(whose) == {WHOSE[unread]}, remedies


# Limits of memory beside quotas, corrections and policies that may not be read ----------------------------------------


def limiting(kind: str, most: int, name: str = "l") -> dict[str, Any]:
    """Return a policy that limits the memory of a pod to some MiB."""
    metadata = {"name": name, "uid": name, **({"namespace": "team"} if kind == "VGPUPolicy" else {})}
    return {"kind": kind, "metadata": metadata, "spec": {"limits": {"memoryPerPod": f"{most}Mi"}}}


def amounts_of(remedies: list[str]) -> list[str]:
    """Return the remedies that ask for an amount of memory."""
    return [each for each in remedies if re.search(r"ask \d+ of nvidia\.com/gpumem ", each)]


@pytest.mark.parametrize("kind", ["VGPUPolicy", "ClusterVGPUPolicy"])
@pytest.mark.parametrize("seed", range(25))
def test_an_amount_within_a_limit_keeps_the_quota_too(api: Api, seed: int, kind: str) -> None:
    """The quota may leave more than the limit allows, or less."""
    rng = np.random.default_rng(seed)
    count, total = int(rng.integers(1, 4)), int(rng.integers(20, 81)) * 1024
    share = int(rng.choice([30, 70, 100]))
    most = int(rng.integers(2000, count * total * share // 100))
    used = int(rng.choice([0, 700]))
    asked = waiting("p")
    limits = {GPU: str(count), **({SHARE: str(share)} if share < 100 else {})}
    asked["spec"]["containers"][0]["resources"] = {"limits": limits}
    held = running("held", "a", "GPU-a-5", used)
    held["metadata"]["namespace"] = "team"
    left = int(rng.integers(1000, 2 * most))
    api.objects[:] = [
        node("a", 6, memory=total),
        limiting(kind, most),
        quota(gpumem=used + left),
        *([held] if used else []),
        asked,
    ]
    assert not decided(api, "p")
    assert "CardDeniedByPolicy" in asked["status"]["conditions"][0]["message"]
    (found,) = amounts_of(told(api, "p", frozenset({"ClusterVGPUPolicy"})))
    assert f"{kind} {'team/' if kind == 'VGPUPolicy' else ''}l limits the memory of a pod" in found
    assert "may not read" not in found
    assert int(ASK.match(found)[1]) == min(most, left) // count  # type: ignore[index]
    assert done(api, "p", found) == "a"


MISTAKES: list[tuple[dict[str, str], dict[str, str]]] = [
    ({"nvidia.com/gpus": "2"}, {}),
    ({"nvidia.com/gpuu": "1"}, {}),
    ({GPU: "2", "nvidia.com/gpucoress": "30"}, {}),
    ({GPU: "1"}, {"nvidia.com/vgpu-mode": "hami-cor"}),
    ({"nvidia.com/gpus": "2", SHARE: "50"}, {}),
]


@pytest.mark.parametrize("kind", ["VGPUPolicy", "ClusterVGPUPolicy"])
@pytest.mark.parametrize("mistake", range(len(MISTAKES)))
@pytest.mark.parametrize("seed", range(4))
def test_a_corrected_pod_is_told_of_the_limit_of_its_memory(api: Api, seed: int, mistake: int, kind: str) -> None:
    """A whole card may be more than the limit, and so may what an amount would be on smaller cards."""
    rng = np.random.default_rng(seed)
    limits, annotations = MISTAKES[mistake]
    most, left = (int(each) for each in rng.integers(2000, 60000, size=2))
    asked = waiting("p")
    asked["metadata"]["annotations"] = dict(annotations)
    asked["spec"]["containers"][0]["resources"] = {"limits": dict(limits)}
    api.objects[:] = [node("a", 6, memory=65536), limiting(kind, most), quota(gpumem=left), asked]
    assert not decided(api, "p")
    remedies = told(api, "p", frozenset({"ClusterVGPUPolicy"}))
    (alone,) = (each for each in remedies if each.startswith("write ") and not amounts_of([each]))
    assert "limits the memory of a pod, and denies larger cards" in alone
    (found,) = amounts_of(remedies)
    assert found.startswith("write ")
    assert "at most: some node must have that much free, too" in found
    count = 1 if "2" not in limits.values() else 2
    assert int(re.findall(r"ask (\d+) of nvidia\.com/gpumem ", found)[0]) == min(most, left) // count


@pytest.mark.parametrize("unread", ["VGPUPolicy", "ClusterVGPUPolicy"])
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("mistaken", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_a_lower_limit_of_a_policy_that_may_not_be_read_is_reckoned_with(
    api: Api, seed: int, unread: str, *, lower: bool, mistaken: bool
) -> None:
    rng = np.random.default_rng(seed)
    seen, most = ({"VGPUPolicy", "ClusterVGPUPolicy"} - {unread}).pop(), int(rng.integers(4000, 16000))
    asked = waiting("p")
    memory = {MEMORY: "17000"} if seed % 2 and mistaken else {}  # beyond the limit, whatever the card
    asked["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpus" if mistaken else GPU: "1", **memory}}
    hidden = [limiting(unread, most // 2, "hidden")] if lower else []
    api.objects[:] = [node("a", 2), limiting(seen, most), *hidden, asked]
    assert not decided(api, "p")
    caveat = f"at most: {WHOSE[unread]} you may not read, may allow less"
    for found in amounts_of(told(api, "p", frozenset({"ClusterVGPUPolicy"}))):
        assert "may not read" not in found
    api.refused_everywhere = frozenset({unread})
    found = amounts_of(told(api, "p", frozenset({"ClusterVGPUPolicy"}) - {unread}))
    assert found
    assert all(caveat in each for each in found)


@pytest.mark.parametrize("seed", range(12))
def test_a_limit_of_memory_is_kept_with_the_one_that_is_exceeded(api: Api, seed: int) -> None:
    """No card is denied because of it as long as the pod exceeds another: whoever keeps only that waits again."""
    rng = np.random.default_rng(seed)
    count, most, share = int(rng.integers(1, 3)), int(rng.integers(4, 30)), int(rng.integers(20, 80))
    limits = {"memoryPerPod": f"{most}Gi", "devicesPerPod": 2, "coresPerPod": share}
    own = {"kind": "VGPUPolicy", "metadata": {"name": "mine", "namespace": "team", "uid": "mine"}}
    policies = [{**own, "spec": {"limits": limits}}]
    cards, asked = node("a", 6, memory=40 * 1024), waiting("p")
    asked["spec"]["containers"][0]["resources"] = {"limits": {GPU: str(count)}}
    where, message = goes_to(cards, *policies, asked)
    assert not where
    assert "coresPerPod" in message
    assert "CardDeniedByPolicy" not in message
    kept = copy.deepcopy(asked)
    kept["status"]["conditions"] = waiting("p", message)["status"]["conditions"]
    api.objects[:] = [*policies, kept]
    remedies = explained(api, "p")["remedies"]
    found = [{name: int(amount) for amount, name in AMOUNT.findall(each)} for each in remedies if "ask " in each]
    assert found, remedies
    for amounts in found:
        changed = copy.deepcopy(asked)
        limits_of_pod = {GPU: str(count)} | {name: str(amount) for name, amount in amounts.items()}
        changed["spec"]["containers"][0]["resources"] = {"limits": limits_of_pod}
        assert goes_to(cards, *policies, changed)[0] == "a", amounts
    raised = next(each for each in remedies if "coresPerPod" in each and "raised" in each)
    assert "limits the memory of a pod, and denies larger cards" in raised


# Policies about peers and NUMA nodes ----------------------------------------------------------------------------------


def of_devices(kind: str, **devices: Any) -> dict[str, Any]:
    """Return a policy with some fields of its section devices."""
    metadata = {"name": "l", "uid": "l", **({"namespace": "team"} if kind == "VGPUPolicy" else {})}
    return {"kind": kind, "metadata": metadata, "spec": {"devices": devices}}


@pytest.mark.parametrize("kind", ["VGPUPolicy", "ClusterVGPUPolicy"])
@pytest.mark.parametrize("seed", range(12))
def test_a_policy_that_keeps_a_pod_from_its_peers_is_named_with_them(api: Api, seed: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    cards, keys = int(rng.integers(1, 4)), ["app", "tier"][: int(rng.integers(1, 3))]
    labels = {"app": "x", "tier": "y"}
    peers = [running(f"peer-{number}", "a", f"GPU-a-{number}", 10) for number in range(cards)]
    beside = running("beside", "a", "GPU-a-0", 10)
    for each in (*peers, beside):
        each["metadata"] |= {"namespace": "team", "labels": labels if each is not beside else {"app": "other"}}
    asked = waiting("p")
    asked["metadata"]["labels"] = labels
    policy = of_devices(kind, apartFrom={"matchLabelKeys": keys})
    api.objects[:] = [node("a", cards), *peers, beside, policy, asked]
    assert not decided(api, "p")
    remedies = told(api, "p", frozenset({"ClusterVGPUPolicy"}))
    (changed,) = [each for each in remedies if "spec.devices.apartFrom" in each]
    assert changed.startswith(f"have spec.devices.apartFrom of {kind} ")
    assert f"end pods of your own: {', '.join(sorted(f'team/peer-{number}' for number in range(cards)))}" in remedies
    api.objects[:] = [node("a", cards), *peers, beside, asked]
    assert decided(api, "p") == "a"


@pytest.mark.parametrize("numa", ["Required", "None", ""])
@pytest.mark.parametrize("kind", ["VGPUPolicy", "ClusterVGPUPolicy"])
@pytest.mark.parametrize("cards", [2, 4])
def test_a_policy_that_wants_one_numa_node_is_named(api: Api, kind: str, numa: str, cards: int) -> None:
    asked = waiting("p")
    asked["spec"]["containers"][0]["resources"] = {"limits": {GPU: str(cards), MEMORY: "10"}}
    if numa != "Required":
        asked["metadata"]["annotations"] = {"nvidia.com/numa-bind": "true"}
    policy = of_devices(kind, policy="spread", **({"numa": numa} if numa else {}))
    place = node("a", cards)
    listed = place["metadata"]["annotations"]
    listed["hami.io/node-nvidia-register"] = re.sub(  # each card on a NUMA node of its own
        r"A100,0,true,(\d+)", r"A100,\1,true,\1", listed["hami.io/node-nvidia-register"]
    )
    api.objects[:] = [place, policy, asked]
    assert not decided(api, "p")
    remedies = told(api, "p", frozenset({"ClusterVGPUPolicy"}))
    assert any(f"have spec.devices.numa of {kind} " in each for each in remedies) is (numa == "Required"), remedies


@pytest.mark.parametrize("kind", ["VGPUPolicy", "ClusterVGPUPolicy"])
@pytest.mark.parametrize("reasons", ["2 CardDeniedByPolicy", "1 CardDeniedByPolicy, 1 ExclusiveDeviceAllocateConflict"])
def test_a_policy_of_whole_cards_is_named_once(api: Api, kind: str, reasons: str) -> None:
    asked = waiting("p", f"0/2 nodes are available: {reasons}.")
    api.objects[:] = [of_devices(kind, exclusive=True), asked]
    remedies = told(api, "p", frozenset({"ClusterVGPUPolicy"}))
    assert sum("spec.devices.exclusive of " in each for each in remedies) == 1, remedies
