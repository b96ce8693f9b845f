"""What is said of resources and claims that are not there, and of a bound pod that would fit nowhere."""

from __future__ import annotations

from copy import deepcopy
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from tests.seeds import seeds
from tests.whatif.test_whatif_condition_remedies import answer
from tests.whatif.test_whatif_remedies import CORES, GPU, MEMORY, node, pod, running, world_of
from tests.whatif.test_whatif_remedies_dialects import CORE, PERCENT, RATIO, SHARED, cluster

from vgpu_scheduler.engine import EngineOptions
from vgpu_scheduler.policy import PolicyDefaults
from vgpu_scheduler.whatif import Remedy, RemedyType, World, ask, explain_bound, explain_pod, make_dialect, remedies

OTHERS = {
    "amd.com/gpu": ("amd.com/gpumem", "amd.com/gpucores"),
    "hygon.com/dcunum": ("hygon.com/dcumem",),
    "cambricon.com/vmlu": ("cambricon.com/mlu.smlu.vmemory",),
    "kunlunxin.com/xpu": (),
    "example.com/licence": (),
}
"""Resources that no node has, each with what goes with it."""


def left_out(found: list[Remedy]) -> list[Remedy]:
    return [remedy for remedy in found if remedy.text.startswith("leave out ") and remedy.type is RemedyType.ASK_LESS]


def drawn(seed: int) -> tuple[dict[str, Any], str, list[str]]:
    """Return a pod that asks for what no node has beside its cards, what that is, and the containers that do."""
    rng = np.random.default_rng(seed)
    asked = pod("asked", {GPU: 1, MEMORY: int(rng.integers(100, 16000))})
    containers = asked["spec"]["containers"]
    containers += [{"name": f"c{n}", "resources": {}} for n in range(int(rng.integers(0, 3)))]
    name = str(rng.choice(list(OTHERS)))
    asking = [each for each in containers if rng.random() < 0.6] or containers[-1:]
    for each in asking:
        limits = each["resources"].setdefault("limits", {})
        limits[name] = str(rng.integers(1, 4))
        limits |= {more: str(rng.integers(1, 50)) for more in OTHERS[name] if rng.random() < 0.5}
        if rng.random() < 0.5:
            each["resources"]["requests"] = {name: limits[name]}
    return asked, name, [each["name"] for each in asking]


@pytest.mark.parametrize("seed", range(60))
def test_what_no_node_has_is_left_out_of_a_pod_that_keeps_its_cards(seed: int) -> None:
    asked, name, containers = drawn(seed)
    made, waiting = world_of(node("a"), node("b"), deepcopy(asked))
    assert not ask(made, waiting).node
    (remedy,) = left_out(remedies(made, waiting))
    assert f"leave out {name} " in remedy.text
    assert remedy.text.endswith(f" {', '.join(containers)}")
    assert remedy.pod is not None
    assert remedy.pod["spec"]["containers"][0]["resources"]["limits"][GPU] == "1"
    again, asked_anew = world_of(node("a"), node("b"), dict(remedy.pod))
    assert ask(again, asked_anew).node == remedy.node


@pytest.mark.parametrize("seed", seeds(3, 60))
def test_devices_of_koordinator_that_no_node_has_are_left_out_beside_cards(seed: int) -> None:
    rng = np.random.default_rng(seed)
    forms: list[dict[str, Any]] = [{PERCENT: 50}, {CORE: 50, RATIO: 50}, {GPU: 1}, {SHARED: 1, RATIO: 30}]
    name = str(rng.choice(["koordinator.sh/rdma", "koordinator.sh/fpga"]))
    asked = pod("asked", forms[int(rng.integers(len(forms)))] | {name: 50})
    objects = cluster("koordinator", [[], []])
    made, waiting = world_of(*objects, deepcopy(asked), dialect="koordinator")
    (remedy,) = left_out(remedies(made, waiting))
    assert remedy.text == f"leave out {name} in container main"
    assert remedy.pod is not None
    again, asked_anew = world_of(*objects, dict(remedy.pod), dialect="koordinator")
    assert ask(again, asked_anew).node == remedy.node
    _, told = answer(world_of(*objects, deepcopy(asked), dialect="koordinator")[0])
    assert f"ask for less than 50 of {name} in container main, or leave it out: nodes have" in " ".join(told.remedies)
    _, told = answer(world_of(*objects, pod("asked", {name: 50}), dialect="koordinator")[0])
    assert "leave it out" not in " ".join(told.remedies)


@pytest.mark.parametrize("name", [GPU, "amd.com/gpu", "kunlunxin.com/xpu"])
def test_nobody_is_told_to_ask_for_no_card(name: str) -> None:
    made, waiting = world_of(node("a", cards=0), pod("asked", {name: 1}))
    assert not left_out(remedies(made, waiting))


def test_a_resource_of_which_less_fits_is_not_left_out() -> None:
    made, waiting = world_of(node("a"), pod("asked", {GPU: 1, MEMORY: 100, "cpu": 9}))
    assert not left_out(remedies(made, waiting))


@pytest.mark.parametrize("seed", range(50))
def test_a_bound_pod_that_would_fit_nowhere_is_told_what_would_help(seed: int) -> None:
    rng = np.random.default_rng(seed)
    memory, how = int(rng.integers(2000, 16000)), ("cordoned", "smaller", "tainted")[seed % 3]
    spec: dict[str, Any] = {"unschedulable": True} if how == "cordoned" else {}
    if how == "tainted":
        spec["taints"] = [{"key": "k", "value": "v", "effect": "NoSchedule"}]
    there = node("a", 1, memory - int(rng.integers(1, 1000)) if how == "smaller" else 16384, **spec)
    world = World(EngineOptions([make_dialect("hami")]))
    world.add([there, running("held", "a", "GPU-a-0", memory, int(rng.integers(0, 50)))])
    found = explain_bound(world, *world.bound.values())
    kinds = {"cordoned": RemedyType.UNCORDON_NODE, "smaller": RemedyType.ASK_LESS, "tainted": RemedyType.TOLERATE}
    assert not found.answer.node
    assert kinds[how] in {remedy.type for remedy in found.remedies}
    assert "No change or pair of changes" not in found.text()


def test_cores_of_a_full_card_are_left_out() -> None:
    held = running("held", "a", "GPU-a-0", 1000, 99)
    made, waiting = world_of(node("a", 1), held, pod("asked", {GPU: 1, MEMORY: 100, CORES: 10}))
    found = remedies(made, waiting)
    assert not left_out(found)
    assert any(text.text.startswith(f"ask 1 of {CORES}") for text in found)


METAX = "metax-tech.com/gpu"
"""A card of this vendor is given to one container whole."""


@pytest.mark.parametrize("seed", range(30))
def test_cards_that_containers_cannot_have_together_are_left_out_of_one(seed: int) -> None:
    """Without them in that container the pod goes where it is said, and keeps the cards of the others."""
    rng = np.random.default_rng(seed)
    there = node("a", cards=0)
    there["status"]["allocatable"][METAX] = "8"
    asked = pod("asked", {METAX: int(rng.integers(1, 4))})
    more = {"name": "more", "resources": {"limits": {METAX: str(rng.integers(1, 4))}}}
    asked["spec"]["containers"].insert(int(rng.integers(0, 2)), more)
    asked["spec"]["containers"].insert(int(rng.integers(0, 3)), {"name": "none", "resources": {}})
    made, waiting = world_of(there, asked)
    assert not ask(made, waiting).node
    found = left_out(remedies(made, waiting))
    assert {each.text for each in found} == {f"leave out {METAX} in container {name}" for name in ("main", "more")}
    for remedy in found:
        assert remedy.pod is not None
        again, anew = world_of(there, dict(remedy.pod))
        assert ask(again, anew).node == remedy.node == "a"
        asking = [bool(each["resources"].get("limits")) for each in remedy.pod["spec"]["containers"]]
        assert sum(asking) == 1


_PERCENT, _CORE, _RATIO, _BYTES = (f"koordinator.sh/gpu{name}" for name in ("", "-core", "-memory-ratio", "-memory"))
AT_ODDS = [
    ({_PERCENT: "50"}, {_BYTES: "1Gi"}),
    ({GPU: "1"}, {_PERCENT: "50"}),
    ({GPU: "1"}, {_BYTES: "1Gi"}),
    ({_RATIO: "50"}, {_BYTES: "1Gi"}),
    ({_PERCENT: "50"}, {_CORE: "50", _RATIO: "50"}),
]
"""Names of Koordinator that do not go together."""


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize(("first", "second"), AT_ODDS)
def test_of_names_that_do_not_go_together_some_are_left_out(
    first: dict[str, str], second: dict[str, str], *, apart: bool
) -> None:
    there = cluster("koordinator", [[], []])
    asked = pod("asked", first if apart else first | second)
    if apart:
        asked["spec"]["containers"].append({"name": "more", "resources": {"limits": second}})
    made, waiting = world_of(*there, asked, dialect="koordinator")
    message = ask(made, waiting).decision.message
    assert (" (what containers main and more ask for is added up)" in message) == apart
    found = remedies(made, waiting)
    if len(second) > 1 and not apart:
        assert [remedy.text for remedy in found] == [f"leave out {_PERCENT} in container main"]
    assert left_out(found)
    for remedy in found:
        again, anew = world_of(*there, dict(remedy.pod or {}), dialect="koordinator")
        assert ask(again, anew).node == remedy.node == "n0"


# What is not there ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [GPU, *OTHERS])
@pytest.mark.parametrize("cards", [0, 1, 3])
def test_a_resource_that_no_node_offers_is_named_with_the_cards_that_there_are(name: str, cards: int) -> None:
    there = node("a", cards=cards)
    made, waiting = world_of(there, node("b", cards=0, unschedulable=True), pod("asked", {name: 2}))
    found = explain_pod(made, waiting)
    if name == GPU and cards:
        assert not found.causes
        return
    listed = f"the cards that there are: NVIDIA-A100 ({cards})" if cards else "there are no cards"
    assert found.causes == (f"No node offers any {name}; {listed}.",)
    assert found.causes[0] in found.text()


def test_a_resource_that_a_closed_node_offers_is_offered() -> None:
    made, waiting = world_of(node("a", unschedulable=True), node("b", cards=0), pod("asked", {GPU: 1}))
    assert not explain_pod(made, waiting).causes


def claim(**spec: Any) -> dict[str, Any]:
    requests = {"resources": {"requests": {"storage": "1Gi"}}, "accessModes": ["ReadWriteOnce"]}
    metadata = {"name": "data", "namespace": "default"}
    return {"kind": "PersistentVolumeClaim", "metadata": metadata, "spec": {**requests, **spec}}


def bound(volume: str) -> dict[str, Any]:
    made = claim(volumeName=volume)
    made["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
    return made | {"status": {"phase": "Bound"}}


def leaving(obj: dict[str, Any]) -> dict[str, Any]:
    return {**obj, "metadata": {**obj["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}


STORAGE = {"kind": "StorageClass", "metadata": {"name": "now"}, "provisioner": "x", "volumeBindingMode": "Immediate"}


@pytest.mark.parametrize(
    ("objects", "told"),
    [
        ((), "create the PersistentVolumeClaim data, or correct the name"),
        ((claim(),), "have PersistentVolumeClaim data bound: it names no storage class"),
        ((claim(storageClassName="none"),), "have storage class none made, or make PersistentVolumeClaim data anew"),
        ((claim(storageClassName="now"), STORAGE), "wait until PersistentVolumeClaim data is bound, or see its events"),
        (
            (claim(storageClassName="now", volumeName="disk"), STORAGE),
            "wait until PersistentVolumeClaim data is bound to",
        ),
        (
            (claim(volumeName="disk") | {"status": {"phase": "Lost"}},),
            "make PersistentVolumeClaim data anew: its volume",
        ),
        ((leaving(claim(storageClassName="now")), STORAGE), "make PersistentVolumeClaim data anew once it is gone"),
        (
            (bound("disk"),),
            "make PersistentVolumeClaim data anew, or PersistentVolume disk, to which it is bound: that is",
        ),
    ],
)
@pytest.mark.parametrize("memory", [100, 30000])
def test_claims_that_are_missing_or_unbound_are_told_as_without_rights(
    memory: int, objects: tuple[dict[str, Any], ...], told: str
) -> None:
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    made, waiting = world_of(node("a"), *objects, pod("asked", {GPU: 1, MEMORY: memory}, volumes=volumes))
    found = explain_pod(made, waiting)
    assert [remedy.text.startswith(told) for remedy in found.remedies] == [True]
    text = found.text()
    assert "This comes first; where the pod goes then depends on the volume:" in text
    assert "No change or pair of changes" not in text


@pytest.mark.parametrize(
    ("owner", "told"),
    [
        (None, "wait until PersistentVolumeClaim asked-v of its ephemeral volume v is made; if it is not, the events"),
        (
            "uid-other",
            "delete PersistentVolumeClaim asked-v, which was not made for this pod, or rename the pod or its",
        ),
    ],
)
def test_the_claim_of_an_ephemeral_volume_is_nobody_elses_and_not_made_by_asking(owner: str | None, told: str) -> None:
    volumes = [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {"storageClassName": "now"}}}}]
    foreign = claim(storageClassName="now")
    owners = [{"apiVersion": "v1", "kind": "Pod", "name": "asked", "uid": owner, "controller": True}]
    foreign["metadata"] |= {"name": "asked-v", "ownerReferences": owners}
    objects = [foreign] if owner else []
    made, waiting = world_of(node("a"), STORAGE, *objects, pod("asked", {GPU: 1, MEMORY: 100}, volumes=volumes))
    found = explain_pod(made, waiting)
    assert not found.answer.node
    assert [remedy.text.startswith(told) for remedy in found.remedies] == [True]


NAMES = {
    "hami": ("nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpucores"),
    "volcano": ("volcano.sh/vgpu-number", "volcano.sh/vgpu-memory"),
    "koordinator": ("koordinator.sh/gpu.shared", "koordinator.sh/gpu-memory-ratio", "koordinator.sh/gpu-core"),
}
"""Names of resources that belong to one dialect, of which the first counts cards."""


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("other", ["volcano", "koordinator"])
def test_of_names_of_several_dialects_those_of_one_are_left_out(other: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    limits = {name: "10" for names in (NAMES["hami"], NAMES[other]) for name in names if rng.random() < 0.5}
    limits |= {NAMES["hami"][0]: "1", NAMES[other][0]: "1"}
    asked = pod("asked", {name: limits[name] for name in rng.permutation(list(limits)).tolist()})
    made = World(EngineOptions([make_dialect(name) for name in NAMES]))
    made.add([node("a"), asked])
    (waiting,) = made.pending.values()
    assert "belong to different dialects" in ask(made, waiting).decision.message
    (remedy,) = left_out(remedies(made, waiting))
    assert {name for name in limits if f"{name} " in remedy.text} == {name for name in limits if name in NAMES[other]}
    assert remedy.pod is not None
    assert made.engine.algorithm.decide(made.pod(remedy.pod, again=True)).placement is not None


ORDERS = {
    "hami.io/node-scheduler-policy": "mutex",
    "hami.io/gpu-scheduler-policy": "Spread ",
    "nvidia.com/numa-bind": "yes",
}
"""Words that are not followed as they are written."""


@pytest.mark.parametrize("names", [[one] for one in ORDERS] + [list(two) for two in combinations(ORDERS, 2)])
def test_annotations_that_are_refused_strictly_are_left_out(names: list[str]) -> None:
    made = World(EngineOptions([make_dialect("hami")], defaults=PolicyDefaults(strict_annotations=True)))
    notes = {name: ORDERS[name] for name in names}
    made.add([node("a"), pod("asked", {GPU: 1, MEMORY: 100}, metadata={"annotations": notes})])
    (waiting,) = made.pending.values()
    found = explain_pod(made, waiting)
    assert not found.answer.node
    (remedy,) = [remedy for remedy in found.remedies if all(name in remedy.text for name in names)]
    assert remedy.pod is not None
    assert not set(names) & (remedy.pod["metadata"].get("annotations") or {}).keys()
    assert remedy.node == "a"
