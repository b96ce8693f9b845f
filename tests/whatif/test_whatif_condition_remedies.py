"""What condition and event tell without the nodes: whoever does it sees the pod fit, in every dialect."""

from __future__ import annotations

import copy
import re
from typing import Any

import numpy as np
import pytest
from tests.whatif.test_whatif_remedies import node, pod, running, world_of
from tests.whatif.test_whatif_remedies_dialects import (
    BYTES,
    CORE,
    CORES,
    MEMORY,
    NUMBER,
    PERCENT,
    RATIO,
    SHARED,
    SIZE,
    cluster,
)

from vgpu_scheduler.engine import EngineOptions, QuotaReport, event_note, quotas_from_event
from vgpu_scheduler.model import CardReason, NearMiss, Shortage
from vgpu_scheduler.predicates import Reason
from vgpu_scheduler.predicates import reasons as filters
from vgpu_scheduler.whatif import ConditionRemedies, World, ask, make_dialect, remedies_from_condition
from vgpu_scheduler.whatif.tenant_advice.quotas import ON_PIECES

Object = dict[str, Any]

WORLDS = 60
HAMI = tuple(f"nvidia.com/{name}" for name in ("gpu", "gpumem", "gpucores"))
ASK = re.compile(r"ask (\d+)(Mi)? of (\S+) ")
CARDS = re.compile(r"(\d+)(Mi)? of (\S+?)(?:,|$)")
DOABLE = re.compile(r"ask \d|ask for \d+ card")
MOST_ROUNDS = 8


def asked_in(dialect: str, rng: np.random.Generator) -> Object:
    """Return what a container asks in a dialect: more than half of a card, or all of it, of one or two cards."""
    memory, cores, count = int(rng.integers(SIZE // 2, SIZE * 2)), int(rng.integers(51, 101)), int(rng.integers(1, 3))
    if dialect == "koordinator":
        if rng.random() < 0.3:
            return {PERCENT: cores if count == 1 else 200}
        if rng.random() < 0.5:
            return {SHARED: count, CORE: cores * count, RATIO: cores * count}
        return {SHARED: count, CORE: cores * count, BYTES: f"{memory * count}Mi"}
    names = HAMI if dialect == "hami" else (NUMBER, MEMORY, CORES)
    if dialect == "hami" and rng.random() < 0.2:
        return {names[0]: count, "nvidia.com/gpumem-percentage": int(rng.integers(51, 101))}
    chosen = {names[0]: count, names[1]: memory, names[2]: cores}
    return {name: chosen[name] for name in names if name == names[0] or rng.random() < 0.8}


def random_cards(rng: np.random.Generator) -> list[list[tuple[int, int]]]:
    """Return the cards of a node, each held in part."""
    return [
        [(int(rng.integers(1, SIZE // 2 + 1)), int(rng.integers(1, 51))) for _ in range(2)]
        for _ in range(int(rng.integers(1, 4)))
    ]


def answer(world: World) -> tuple[str, ConditionRemedies]:
    """Return where the pod that waits goes, and what its condition and its event tell."""
    (waiting,) = world.pending.values()
    decision = ask(world, waiting).decision
    if decision.placement is not None:
        return decision.placement.node, ConditionRemedies(None, (), ())
    event = f"{decision.message} {event_note(world.engine, waiting, decision)}"
    alone = World(EngineOptions([make_dialect(world.cards.name)]))  # it knows the settings, and no node
    return "", remedies_from_condition(alone, alone.pod(world.written(waiting)), decision.message, event)


def done(written: Object, remedy: str) -> Object:
    """Return a pod that does what a remedy says."""
    changed = copy.deepcopy(written)
    limits = changed["spec"]["containers"][0]["resources"]["limits"]
    pattern = CARDS if remedy.startswith("ask for ") else ASK
    for amount, unit, name in pattern.findall(remedy.partition(" (more")[0]):
        limits[name] = amount + unit
    return changed


@pytest.mark.parametrize("dialect", ["hami", "volcano", "koordinator"])
@pytest.mark.parametrize("seed", range(WORLDS))
def test_doing_what_is_told_makes_the_pod_fit(dialect: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    objects = cluster(dialect, *(random_cards(rng) for _ in range(2)))
    written = pod("asked", asked_in(dialect, rng))
    nearest: set[str] = set()
    for _ in range(MOST_ROUNDS):
        node, told = answer(world_of(*objects, written, dialect=dialect)[0])
        if node:
            return
        assert told.remedies, told
        assert len(set(told.remedies)) == len(told.remedies)
        assert not any("less than 1 of" in remedy for remedy in told.remedies)
        if told.near_miss is not None:
            card = f"{told.near_miss.node}/{told.near_miss.uuid}"
            assert card not in nearest, "what was told about this card before was not all"
            nearest.add(card)
        with_amounts = [remedy for remedy in told.remedies if DOABLE.match(remedy)]
        if not with_amounts:  # nothing tells how much nodes, other than cards, have left
            assert any(remedy.startswith(("ask for less", "ask for fewer")) for remedy in told.remedies), told
            return
        written = done(written, with_amounts[0])
    raise AssertionError(told)


@pytest.mark.parametrize("reason", [CardReason.CardInsufficientMemory, CardReason.CardInsufficientCore])
@pytest.mark.parametrize("asks", [{PERCENT: 60}, {CORE: 30, RATIO: 60}, {SHARED: 1, RATIO: 40}])
def test_without_the_nearest_card_it_is_told_what_of_koordinator_to_ask_less_of(
    reason: CardReason, asks: Object
) -> None:
    objects = cluster("koordinator", [[]])
    world, waiting = world_of(*objects, pod("asked", asks), dialect="koordinator")
    told = remedies_from_condition(world, waiting, f"0/1 nodes are available: 1 {reason.text}.", "").remedies
    of_memory = reason is CardReason.CardInsufficientMemory
    known = {PERCENT, *({RATIO} if of_memory else {CORE})} & asks.keys()
    less = [f"ask for less than {asks[name]} of {name} in container main" for name in known]
    assert list(told) == less or (not less and told[0].startswith("wait until other pods end"))


@pytest.mark.parametrize("seed", range(WORLDS))
def test_near_misses_and_quotas_are_read_back_from_events(seed: int) -> None:
    rng = np.random.default_rng(seed)

    def number() -> int:
        return int(rng.integers(0, 10**6))

    unit = str(rng.choice(["MiB", "x 256 MiB"]))
    words = [("cores", "percent"), ("memory", unit), ("slots", "shares")]
    names = [("memory ratio", "percent"), *words[: int(rng.integers(0, 4))]]
    flags = [tuple(bool(each) for each in rng.random(2) < 0.4) for _ in names]
    lacking = (Shortage(*each, number(), number(), *flag) for each, flag in zip(names, flags, strict=True))
    near = NearMiss(f"n-{number()}.x", f"GPU-{number()}-MIG_1", tuple(lacking))
    told = tuple(
        QuotaReport("team", f"x-{n}.com/gpu.mem_{n}", number(), number(), unit) for n in range(int(rng.integers(1, 4)))
    )
    described = f"namespace team uses {', '.join(map(str, told))}"
    text = f"0/1 nodes are available: 1 CardInsufficientMemory. ({near}; {described}) (see https://x/y#failed)"
    assert NearMiss.found_in(text) == near
    assert quotas_from_event(text) == told
    assert NearMiss.found_in(described) is None
    assert quotas_from_event(str(near)) == ()


def test_the_nearest_card_is_one_that_the_pod_may_use() -> None:
    """Nobody can do anything with a shortage of a card that is denied anyway."""
    registered = "A,10,16384,100,NVIDIA-A100,0,true,0,hami-core:T,10,9000,100,NVIDIA-T4,0,true,1,hami-core:"
    amounts = {"cpu": "8", "memory": "32Gi", "pods": "110", HAMI[0]: "20"}
    node = {
        "kind": "Node",
        "metadata": {"name": "n", "annotations": {"hami.io/node-nvidia-register": registered}},
        "status": {"allocatable": amounts, "capacity": amounts},
    }
    denied = {"metadata": {"annotations": {"nvidia.com/use-gputype": "T4"}}}
    _, told = answer(world_of(node, pod("asked", {HAMI[0]: 1, HAMI[1]: 17000}, **denied))[0])
    assert str(told.near_miss) == "nearest: 9000 of 17000 MiB memory free on n/T"


@pytest.mark.parametrize("seed", range(60))
def test_the_nearest_card_is_on_a_node_that_keeps_the_pod_away_by_its_cards(seed: int) -> None:
    rng = np.random.default_rng(seed)
    about = {"labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": "zone"}
    spread = [{**about, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]
    rules = [
        {"topologySpreadConstraints": spread},
        {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [about]}}},
        {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [about]}}},
    ]
    objects = []
    for number in range(int(rng.integers(2, 5))):
        name = f"n{number}"
        objects.append(node(name, cards=1))
        objects[-1]["metadata"]["labels"] = {"zone": str(rng.choice(["x", "y"]))}
        objects.append(running(f"r{number}", name, f"GPU-{name}-0", int(rng.integers(9000, 16000))))
        objects[-1]["metadata"]["labels"] = {"app": str(rng.choice(["a", "b"]))}
    asked = pod("asked", {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 8000}, **rules[rng.integers(3)])
    asked["metadata"]["labels"] = {"app": "a"}
    world, waiting = world_of(*objects, asked)
    decision = ask(world, waiting).decision
    assert decision.near_miss == world.engine.algorithm.nearest(waiting)
    for_cards = {
        name for name, verdict in decision.verdicts.items() if CardReason.CardInsufficientMemory in verdict.reasons
    }
    assert (decision.near_miss.node if decision.near_miss else None) in (for_cards or {None})


@pytest.mark.parametrize(
    "reason",
    [
        "Too many pods",
        "CardCordoned",
        "node(s) didn't satisfy existing pods anti-affinity rules",
    ],
)
def test_whoever_can_change_nothing_is_told_so(reason: str) -> None:
    world, waiting = world_of(node("a"), pod("asked", {"nvidia.com/gpu": 1}))
    told = remedies_from_condition(world, waiting, f"0/3 nodes are available: 3 {reason}.", "").remedies
    assert [text.partition(":")[0] for text in told] == ["wait until the nodes or the pods on them change"]
    both = f"0/3 nodes are available: 1 {reason}, 2 node(s) had untolerated taint(s)."
    assert all("taint" in text for text in remedies_from_condition(world, waiting, both, "").remedies)


@pytest.mark.parametrize(
    "reason", [filters.VOLUME_ELSEWHERE, filters.NO_VOLUME, filters.CLAIM_IN_USE, filters.NO_STORAGE]
)
@pytest.mark.parametrize("names", [["data"], ["data", "more"]])
def test_where_volumes_keep_a_pod_away_its_claims_are_named(reason: Reason, names: list[str]) -> None:
    mounted = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]
    world, waiting = world_of(node("a"), pod("asked", {"nvidia.com/gpu": 1}, volumes=mounted))
    (told,) = remedies_from_condition(world, waiting, f"0/3 nodes are available: 3 {reason.text}.", "").remedies
    which = f"PersistentVolumeClaim{'s' * (len(names) > 1)} {', '.join(names)}"
    expected = f"check where {which} can be used, and by which pods: nodes reject the pod because of it"
    if reason is filters.NO_VOLUME:  # a claim that is not bound yet is used nowhere
        whose = which if len(names) == 1 else f"each of {which} that is not bound"
        expected = f"have a volume for {whose} that is free, large enough and reachable from a node that fits"
    assert told == expected
    unbound = f"0/3 nodes are available: {filters.UNBOUND_IMMEDIATE.text}."
    (told,) = remedies_from_condition(world, waiting, unbound, "").remedies
    assert told.startswith(f"wait until {which} ")


def quota(name: str, hard: dict[str, int]) -> Object:
    written = {"hard": {f"limits.{resource}": str(limit) for resource, limit in hard.items()}}
    return {
        "kind": "ResourceQuota",
        "metadata": {"name": name, "namespace": "default"},
        "spec": written,
        "status": written,
    }


@pytest.mark.parametrize("seed", range(WORLDS))
def test_what_quotas_leave_is_told_together_and_one_change_keeps_them_all(seed: int) -> None:
    """What a pod does not name counts for a quota as what it is booked with: compute as nothing."""
    rng = np.random.default_rng(seed)
    asks: dict[str, int] = {HAMI[0]: int(rng.integers(1, 3)), HAMI[1]: int(rng.integers(4000, 8000))}
    if rng.random() < 0.5:
        asks[HAMI[2]] = int(rng.integers(40, 101))
    limits = {HAMI[1]: int(rng.integers(2000, 9000)), HAMI[2]: int(rng.integers(10, 150))}
    limits = {name: limit for name, limit in limits.items() if rng.random() < 0.8} or limits
    objects = [node("a", cards=2), *(quota(f"q{n}", {name: limit}) for n, (name, limit) in enumerate(limits.items()))]
    where, told = answer(world_of(*objects, pod("asked", asks))[0])
    exceeded = [name for name, limit in limits.items() if asks[HAMI[0]] * asks.get(name, 0) > limit]
    assert bool(where) == (not exceeded)
    if not exceeded:
        return
    assert all(name in told.remedies[0] for name in exceeded) or "of nvidia.com/gpu " in told.remedies[0]
    assert not any("counts as all of its cards" in remedy for remedy in told.remedies)
    with_amounts = [remedy for remedy in told.remedies if DOABLE.match(remedy)]
    for remedy in with_amounts:
        assert answer(world_of(*objects, done(pod("asked", asks), remedy))[0])[0] == "a", remedy
    (raised,) = (remedy for remedy in told.remedies if remedy.startswith("have "))
    assert all(
        f"limits.{name} raised to {asks[HAMI[0]] * asks[name]} (it is {limits[name]})" in raised for name in exceeded
    )


@pytest.mark.parametrize("seed", range(12))
def test_a_quota_that_leaves_nothing_is_named_beside_what_else_keeps_a_pod_away(seed: int) -> None:
    """No amount is small enough for it: it has to be raised, or pods have to end, whatever nodes lack."""
    rng = np.random.default_rng(seed)
    name = HAMI[int(rng.integers(1, 3))]
    used = {HAMI[1]: int(rng.integers(2000, 12000)), HAMI[2]: int(rng.integers(10, 50))}
    limit = used[name] - int(rng.integers(0, used[name]))
    asks = {HAMI[0]: 1, HAMI[1]: int(rng.integers(14500, 16000)), HAMI[2]: int(rng.integers(60, 100))}
    objects = [
        node("a", cards=1),
        running("r", "a", "GPU-a-0", used[HAMI[1]], used[HAMI[2]]),
        quota("q", {name: limit}),
    ]
    world, waiting = world_of(*objects, pod("asked", asks))
    decision = ask(world, waiting).decision
    event = f"{decision.message} {event_note(world.engine, waiting, decision)}"
    alone, reason = World(EngineOptions([make_dialect("hami")])), decision.condition_reason
    read = alone.pod(world.written(waiting))
    told = remedies_from_condition(alone, read, decision.message, event, reason=reason).remedies
    raised = (
        f"have limits.{name} raised to {used[name] + asks[name]} (it is {limit}) in each quota that leaves too little"
    )
    raised += f", or end pods of the namespace: {ON_PIECES}, which may be more"
    assert told
    assert all(text.startswith("ask for less than ") and text.endswith(f" and {raised}") for text in told), told


@pytest.mark.parametrize("seed", range(WORLDS))
def test_what_limits_of_policies_allow_is_told_together(seed: int) -> None:
    """What a pod does not name counts for a limit as all of its cards."""
    rng = np.random.default_rng(seed)
    asks: dict[str, int] = {HAMI[0]: int(rng.integers(1, 3)), HAMI[1]: int(rng.integers(4000, 8000))}
    if rng.random() < 0.5:
        asks[HAMI[2]] = int(rng.integers(40, 101))
    limits = {"memoryPerPod": f"{int(rng.integers(2000, 9000))}Mi", "coresPerPod": int(rng.integers(10, 150))}
    policy = {"kind": "VGPUPolicy", "metadata": {"name": "l", "namespace": "default", "uid": "l"}}
    objects = [node("a", cards=2), {**policy, "spec": {"limits": limits}}]
    where, told = answer(world_of(*objects, pod("asked", asks))[0])
    if where:
        return
    with_amounts = [remedy for remedy in told.remedies if DOABLE.match(remedy)]
    assert with_amounts
    for remedy in with_amounts:
        assert answer(world_of(*objects, done(pod("asked", asks), remedy))[0])[0] == "a", remedy
    assert told.remedies[-1].startswith("have limits.")


@pytest.mark.parametrize("seed", range(WORLDS))
def test_nobody_is_told_to_ask_for_no_card(seed: int) -> None:
    """That a node has no cards at all says nothing where others have too little free on theirs."""
    rng = np.random.default_rng(seed)
    count, with_cards = int(rng.integers(1, 4)), rng.random() < 0.5
    plain = [node(f"plain-{n}", cards=0) for n in range(int(rng.integers(1, 4)))]
    nodes = [*plain, node("a", cards=1)] if with_cards else plain
    asks = {HAMI[0]: count, HAMI[1]: 20000} if with_cards else {HAMI[0]: count}
    _, told = answer(world_of(*nodes, pod("asked", asks))[0])
    assert told.remedies
    about_cards = [remedy for remedy in told.remedies if "none or too few of nvidia.com/gpu" in remedy]
    assert len(about_cards) == (not with_cards)
    assert not any(re.search(r"less than (1 of|\d+ of nvidia.com/gpu\b(?!.*none))", text) for text in told.remedies)


@pytest.mark.parametrize("seed", range(WORLDS))
def test_tolerations_come_last_and_only_where_they_might_help(seed: int) -> None:
    rng = np.random.default_rng(seed)
    tainted = [node(f"t{n}", taints=[{"key": "k", "effect": "NoSchedule"}]) for n in range(int(rng.integers(1, 4)))]
    small = [node(f"s{n}", cards=1, memory=4000) for n in range(int(rng.integers(0, 3)))]
    others = [node(f"o{n}", cards=0) for n in range(int(rng.integers(0, 3)))]
    _, told = answer(world_of(*tainted, *small, *others, pod("asked", {HAMI[0]: 1, HAMI[1]: 9000}))[0])
    said = [number for number, remedy in enumerate(told.remedies) if remedy.startswith("tolerate")]
    one_reason = bool(small) != bool(others)
    assert said == ([] if one_reason else [len(told.remedies) - 1])
    assert told.remedies


@pytest.mark.parametrize("seed", range(WORLDS))
def test_a_toleration_is_told_where_the_nodes_without_taints_are_not_as_the_pod_asks(seed: int) -> None:
    """Those with taints may be: of the model, of the mode, or with the labels that it names."""
    rng = np.random.default_rng(seed)
    tainted = [
        node(
            f"t{n}", taints=[{"key": "k", "effect": str(rng.choice(["NoSchedule", "NoExecute"]))}], labels={"pool": "x"}
        )
        for n in range(int(rng.integers(1, 3)))
    ]
    for each in tainted:
        notes = each["metadata"]["annotations"]
        notes["hami.io/node-nvidia-register"] = notes["hami.io/node-nvidia-register"].replace("A100", "H100")
    plain = [node(f"s{n}", cards=1) for n in range(int(rng.integers(1, 4)))]
    asks = {HAMI[0]: 1, HAMI[1]: 500}
    kept: Object = [
        {"metadata": {"annotations": {"nvidia.com/use-gputype": "H100"}}},
        {"metadata": {"annotations": {"nvidia.com/nouse-gputype": "A100"}}},
        {"metadata": {"annotations": {"nvidia.com/use-gpuuuid": "GPU-t0-0"}}},
        {"nodeSelector": {"pool": "x"}},
    ][int(rng.integers(4))]
    _, told = answer(world_of(*tainted, *plain, pod("asked", asks, **kept))[0])
    assert told.remedies[-1].startswith("tolerate a taint of the nodes"), told.remedies
    assert told.remedies[-1].endswith("whether nodes with it are as the pod asks")
    assert len(told.remedies) > 1


@pytest.mark.parametrize("seed", range(WORLDS))
def test_no_advice_joins_what_stands_alone_as_well(seed: int) -> None:
    rng = np.random.default_rng(seed)
    asks = {
        HAMI[0]: int(rng.integers(2, 5)),
        HAMI[1]: int(rng.integers(2000, 8000)),
        HAMI[2]: int(rng.integers(10, 60)),
    }
    used = {name: asks[HAMI[0]] * asks[name] for name in HAMI[1:]}
    hard = {name: int(rng.integers(max(asks[name], 1), used[name])) for name in used}
    world = world_of(node("a", cards=6), quota("q", hard), pod("asked", asks))[0]
    _, told = answer(world)
    advice = [set(remedy.split(" and ask ")) for remedy in told.remedies if DOABLE.match(remedy)]
    named = [{re.sub(r"^ask | \(limits.*", "", part) for part in parts} for parts in advice]
    assert named
    for number, parts in enumerate(named):
        assert not any(other < parts for other in named), told.remedies
        assert parts not in named[:number]


@pytest.mark.parametrize("reason", [CardReason.ResourceQuotaNotFit, CardReason.CardInsufficientMemory])
def test_nobody_is_told_to_ask_for_less_than_nothing(reason: CardReason) -> None:
    world, waiting = world_of(pod("asked", {HAMI[0]: 1, HAMI[1]: 0}))
    (text, *_) = remedies_from_condition(world, waiting, f"0/1 nodes are available: 1 {reason.text}.", "").remedies
    assert text == f"ask for some of {HAMI[1]} in container main (0 is not an amount)"


@pytest.mark.parametrize("names", [HAMI, ("hygon.com/dcunum", "hygon.com/dcumem", "hygon.com/dcucores")])
def test_of_what_a_policy_of_the_cluster_may_give_nothing_is_said(names: tuple[str, str, str]) -> None:
    count, memory, cores = names
    reason = CardReason.ResourceQuotaNotFit.text
    message = f"0/1 nodes are available: 1 {reason}."
    world, waiting = world_of(pod("asked", {count: 1, cores: 10}))
    texts = remedies_from_condition(world, waiting, message, "").remedies
    assert f"ask for some of {memory} in container main (it does not say how much)" in texts
    world, waiting = world_of(pod("asked", {count: 1, memory: 1000}))
    texts = remedies_from_condition(world, waiting, message, "").remedies
    counts = cores not in HAMI  # Hygon's cards are given as a whole where no compute is named
    assert (f"ask for some of {cores} in container main (it asks for none)" in texts) is counts
    assert any(cores in text for text in texts) is counts
    defaults = {"kind": "VGPUPolicy", "metadata": {"name": "d", "namespace": "default"}}
    world, waiting = world_of({**defaults, "spec": {"defaults": {"cores": 60}}}, pod("asked", {count: 1, memory: 1000}))
    texts = remedies_from_condition(world, waiting, message, "").remedies
    assert f"ask for some of {cores} in container main (it asks for none, and gets 60 percent by a policy)" in texts
