"""A pod that no card suits is told whether it is the model or the mode, and which there are."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import numpy as np
import pytest
from tests.whatif.test_whatif_remedies import GPU, MEMORY, node, pod, world_of

from vgpu_scheduler.whatif import explain_pod, remedies_from_condition
from vgpu_scheduler.whatif.objects.cards import Card, VolcanoCards
from vgpu_scheduler.whatif.world.tables import readable

Object = dict[str, Any]

MODELS, MODES = ("A100", "H100", "L40S", "T4"), ("hami-core", "mps", "mig")
TYPES, MODE = "nvidia.com/use-gputype", "nvidia.com/vgpu-mode"


def drawn(seed: int) -> tuple[list[tuple[str, str]], Object]:
    """Return the models and modes of the cards of some nodes, and a pod that names models or modes."""
    rng = np.random.default_rng(seed)
    cards = [(str(rng.choice(MODELS)), str(rng.choice(MODES[:2]))) for _ in range(int(rng.integers(1, 6)))]
    notes = {}
    if rng.random() < 0.7:
        notes[TYPES] = ",".join(str(each) for each in rng.choice(MODELS, size=int(rng.integers(1, 3)), replace=False))
    if rng.random() < 0.7:
        notes[MODE] = str(rng.choice(MODES))
    return cards, pod("asked", {GPU: 1, MEMORY: 100}, metadata={"annotations": notes})


def with_cards(number: int, model: str, mode: str) -> Object:
    made = node(f"n{number}", cards=1)
    notes = made["metadata"]["annotations"]
    for before, now in (("NVIDIA-A100", model), ("hami-core", mode)):
        notes["hami.io/node-nvidia-register"] = notes["hami.io/node-nvidia-register"].replace(before, now)
    return made


@pytest.mark.parametrize("seed", range(120))
def test_the_sentence_says_what_differs(seed: int) -> None:
    cards, asked = drawn(seed)
    made, waiting = world_of(*(with_cards(n, *card) for n, card in enumerate(cards)), asked)
    found = explain_pod(made, waiting)
    notes = asked["metadata"]["annotations"]
    types, mode = notes.get(TYPES, "").split(",") if TYPES in notes else MODELS, notes.get(MODE, "hami-core mps mig")
    right_model, right_mode = {c for c in cards if c[0] in types}, {c for c in cards if c[1] in mode}
    if right_model & right_mode:
        assert (found.models, bool(found.answer.node)) == ("", True)
        return
    told, _, listed = found.models.removeprefix("No card ").removesuffix(".").partition("; there are ")
    by_mode, by_model = MODE in notes and bool(right_model), TYPES in notes and bool(right_mode)
    if by_mode == by_model:
        assert told == "has a model and a mode that it takes"
    elif by_model:
        assert told == "is of a model that it takes"
    else:
        assert told == ("of its models has a mode that it takes" if TYPES in notes else "has a mode that it takes")
    only_models = by_model and not by_mode
    counts = Counter(model if only_models else f"{model} in mode {mode}" for model, mode in cards)
    assert listed == ", ".join(f"{card} ({count})" for card, count in sorted(counts.items()))


@pytest.mark.parametrize("seed", range(120))
def test_who_may_not_see_nodes_is_told_to_leave_out_the_annotation_whichever_it_is(seed: int) -> None:
    cards, asked = drawn(seed)
    made, waiting = world_of(*(with_cards(n, *card) for n, card in enumerate(cards)), asked)
    answer = explain_pod(made, waiting).answer
    if not answer.node:
        told = " ".join(remedies_from_condition(made, waiting, answer.decision.message, "").remedies)
        assert all(name in told for name in asked["metadata"]["annotations"])


# Closed nodes -------------------------------------------------------------------------------------------------------

TAINTS = {
    "NoSchedule": "has the taint team=b:NoSchedule",
    "NoExecute": "has the taint team=b:NoExecute",
    "PreferNoSchedule": "",
}


def closed_node(number: int, model: str, how: str) -> tuple[Object, str]:
    """Return a node with a card of a model that is closed in some way to the pod, and what is said of that."""
    made = with_cards(number, model, "hami-core")
    made["metadata"]["labels"] = {"pool": "b" if how == "labels" else "a"}
    said = {"cordoned": "is cordoned", "labels": "does not match its node selector or affinity"}.get(how, "")
    if how in {"cordoned", "both"}:
        made["spec"]["unschedulable"] = True
    if how == "both":
        made["spec"]["taints"] = [{"key": "k", "effect": "NoSchedule"}]
        said = "is cordoned and has the taint k:NoSchedule"
    if how in TAINTS:
        made["spec"]["taints"] = [{"key": "team", "value": "b", "effect": how}]
        said = TAINTS[how]
    if how == "full":
        made["status"]["allocatable"] = {**made["status"]["allocatable"], "cpu": "1"}
        said = "says Insufficient cpu"
    return made, said


@pytest.mark.parametrize("how", ["cordoned", "labels", "both", "full", *TAINTS])
@pytest.mark.parametrize("seed", range(10))
def test_cards_of_its_model_on_a_node_that_is_closed_to_it_are_told_with_what_closes_that(seed: int, how: str) -> None:
    rng = np.random.default_rng(seed)
    wanted, *others = (str(each) for each in rng.permutation(MODELS))
    opened = [with_cards(n, others[n % 2], "hami-core") for n in range(int(rng.integers(1, 4)))]
    for each in opened:
        each["metadata"]["labels"] = {"pool": "a"}
    closed = [closed_node(10 + n, wanted, how) for n in range(int(rng.integers(1, 3)))]
    asked = pod("asked", {GPU: 1, MEMORY: 100, "cpu": 2}, metadata={"annotations": {TYPES: wanted}})
    asked["spec"]["nodeSelector"] = {"pool": "a"}
    made, waiting = world_of(*opened, *(made for made, _ in closed), asked)
    found = explain_pod(made, waiting)
    said = closed[0][1]
    if not said:
        assert found.answer.node
        return
    assert found.models.startswith("No card of the nodes that it can use is of a model that it takes; there are ")
    names = ", ".join(made["metadata"]["name"] for made, _ in closed)
    which = ", which" if len(closed) == 1 else "; each of these nodes"
    assert found.models.endswith(f" It would take {wanted} ({len(closed)}) on {names}{which} {said}.")
    assert found.text().count(said)


def test_of_cards_without_a_mode_that_is_said() -> None:
    name, card = "huawei.com/Ascend910C", {"count": 4, "devmem": 65536, "devcore": 20, "numa": 0, "health": True}
    there = node("a", cards=0)
    listed = [{"id": f"asc-{n}", "index": n, "type": "Ascend910C", **card} for n in range(4)]
    there["metadata"]["annotations"]["hami.io/node-register-Ascend910C"] = json.dumps(listed)
    there["status"]["allocatable"][name] = "16"
    mode = {"annotations": {"huawei.com/vnpu-mode": "hami-core"}}
    asked = pod("asked", {name: 1, f"{name}-memory": 6000, f"{name}-core": 10}, metadata=mode)
    found = explain_pod(*world_of(there, asked))
    assert found.models == "No card has a mode that it takes; there are Ascend910C without a mode (4)."


@pytest.mark.parametrize("dialect", ["hami", "volcano"])
def test_of_cards_in_mig_mode_without_a_geometry_that_is_said(dialect: str) -> None:
    made, name, mode = with_cards(0, "NVIDIA-New", "mig"), GPU, MODE
    if dialect == "volcano":
        name, mode = "volcano.sh/vgpu-number", "volcano.sh/vgpu-mode"
        new = Card("GPU-n0-0", 0, "NVIDIA-New", 16384, 10, 100, 0, "mig", healthy=True)
        registered = VolcanoCards().register("n0", [new])
        made["metadata"]["annotations"] = dict(registered.annotations)
        made["status"]["allocatable"] |= registered.allocatable
    world, waiting = world_of(made, pod("asked", {name: 1}, metadata={"annotations": {mode: "mig"}}), dialect=dialect)
    found = explain_pod(world, waiting)
    (cause,) = found.causes
    assert cause.startswith("Cards of model NVIDIA-New on n0 are in MIG mode, and not allocated until the file")
    assert "in mode mig, without a geometry that is known and allowed (1)." in found.models or dialect == "hami"


@pytest.mark.parametrize("name", ["example.com/workload-type", "example.com/mode"])
def test_an_annotation_of_somebody_else_hides_no_cards_in_mig_mode(name: str) -> None:
    asked = pod("asked", {GPU: 1}, metadata={"annotations": {name: "x", MODE: "hami-core"}})
    cause, *_ = explain_pod(*world_of(with_cards(0, "NVIDIA-New", "mig"), asked)).causes
    assert cause.startswith("Cards of model NVIDIA-New on n0 are in MIG mode, and not allocated until the file")


def test_who_names_another_model_is_not_told_of_cards_in_mig_mode() -> None:
    full = with_cards(1, "NVIDIA-A10", "hami-core")
    asked = pod("asked", {GPU: 1, MEMORY: 90000}, metadata={"annotations": {TYPES: "A10"}})
    world, waiting = world_of(with_cards(0, "NVIDIA-New", "mig"), full, asked)
    assert not explain_pod(world, waiting).causes


@pytest.mark.parametrize("number", [2, 3, 5, 6, 8, 9])
@pytest.mark.parametrize(("model", "most"), [("NVIDIA-A30", 4), ("NVIDIA-A100-SXM4-40GB", 7)])
def test_more_pieces_than_cards_are_called_pieces(model: str, most: int, number: int) -> None:
    asked = pod("asked", {GPU: number, MEMORY: 1000}, metadata={"annotations": {MODE: "mig"}})
    found = explain_pod(*world_of(with_cards(0, model, "mig"), asked))
    said = f"{most}/1 AllocatedCardsInsufficientRequest ({most} pieces have a place on 1 card)"
    assert (said in found.text()) is (number > most)


@pytest.mark.parametrize("cards", range(1, 5))
def test_fewer_cards_than_there_are_need_no_words(cards: int) -> None:
    for count in range(1, cards + 1):
        text = f"1/{cards} NumaNotFit, {count}/{cards} AllocatedCardsInsufficientRequest"
        assert readable(text) == text
