"""Golden cases of Volcano with Ascend cards, whose plugin is HAMi's: this scheduler serves them in HAMi's dialect.

What a pod gets is compared: its cards, the memory of each, and the template that the plugin cuts it by. Beside these,
HAMi's plugin of today is told the memory once more, which Volcano does not write.
"""

from __future__ import annotations

import copy
import json
from typing import Any

from tests.golden import hami, hami_makers
from tests.golden.outcome import Case, Outcome, differences
from tests.naive.hami_quirks import NONE, Switches
from tests.naive.vendors import cluster
from tests.naive.volcano_ascend import FEW, SEVERAL, Parts, World, allows, outcomes
from tests.naive.volcano_quirks import VOLCANO, VolcanoQuirk

Obj = dict[str, Any]

_QUIRKS = [quirk for quirk in VolcanoQuirk if quirk.name.startswith("ASCEND_")]
_TIME = "<unix time>"


def run_case(case: Case) -> Outcome:
    """Place the pod of a case and compare."""
    theirs = [each if isinstance(each, str) else _listed(each) for each in outcomes(case, Switches(VOLCANO))]
    found = [
        *differences("twin", _distinct(map(_answer, _expected(case))), _distinct(theirs)),
        *differences("twin.device", case["expect"]["device"]["cards"], _cards(World(case, Switches(VOLCANO)))),
        *_against_itself(case),
    ]
    as_hami = _as_hami(case)
    ours = _parts(case, hami_makers.placement(as_hami).per_node)
    found += differences("product", _parts(case, cluster.decide(as_hami, NONE)[0].per_node), ours)
    if not allows(case, ours, Switches(NONE)):
        found.append(f"the twin does not allow {ours}")
    if found:
        return Outcome("failed", "; ".join(found))
    if allows(case, ours, Switches(VOLCANO)):
        return Outcome("passed")
    quirks = {quirk.value for quirk in _QUIRKS if _excludes(case, ours, quirk)}
    return Outcome("decided" if quirks else "failed", "" if quirks else "no quirk makes it", frozenset(quirks))


def _excludes(case: Case, ours: Parts | None, quirk: VolcanoQuirk) -> bool:
    """Tell whether a quirk keeps Volcano from our answer: by itself, or as the last of all."""
    by_itself, others = Switches(frozenset({quirk})), Switches(VOLCANO - {quirk})
    return not allows(case, ours, by_itself) or allows(case, ours, others)


def _expected(case: Case) -> list[Obj]:
    return [case["expect"], *case.get("expectAny", ())]


def _answer(expect: Obj) -> Parts | str:
    """What Volcano answered: the parts of the containers that ask, or why it refuses the pod."""
    if "error" in expect["allocate"]:
        return SEVERAL if SEVERAL in expect["allocate"]["error"] else FEW
    return _listed(_written(expect["allocate"]["annotations"]))


def _listed(parts: Parts) -> Any:
    return [[list(part) for part in container] for container in parts]


def _distinct(answers: Any) -> list[str]:
    return sorted({json.dumps(answer) for answer in answers})


def _written(annotations: dict[str, str]) -> Parts:
    """Read the annotations for the plugin: cards and memory from one, the templates from the other."""
    text = next(text for key, text in annotations.items() if key.endswith("-devices-allocated"))
    cut = next(json.loads(text) for key, text in annotations.items() if key.startswith("huawei.com/"))
    templates = iter(entry.get("temp", "") for entry in cut)
    found = []
    for container in text.split(";"):
        entries = [entry.split(",") for entry in container.split(":") if entry]
        if entries:
            found.append([(entry[0], int(entry[2]), next(templates)) for entry in entries])
    return found


def _cards(world: World) -> list[Obj]:
    return [
        {"id": card.id, "used": card.used, "usedCores": 0, "usedMem": card.used_memory}
        for card in sorted(world.cards, key=lambda card: card.id)
    ]


def _against_itself(case: Case) -> list[str]:
    """Say where the parts of what a case expects do not agree with each other."""
    found: list[str] = []
    for expect in _expected(case):
        fits = "annotations" in expect["allocate"]
        code = 0 if fits else 1 if _answer(expect) == SEVERAL else 2
        said = {"fit": fits, "code": code, "hasRequest": True, "cardsAfter": _after(case, expect)}
        found += differences("twin", {key: expect[key] for key in said}, said)
        written = expect["allocate"].get("annotations", {})
        for key, text in written.items():
            if key.endswith("-devices-to-allocate"):
                found += differences(f"twin.{key}", text, written[key.replace("to-allocate", "allocated")])
    return found


def _after(case: Case, expect: Obj) -> list[Obj]:
    """The cards with what the pod gets."""
    world = World(case, Switches(VOLCANO))
    for key, text in expect["allocate"].get("annotations", {}).items():
        if key.endswith("-devices-allocated"):
            world.charge(text)
    return _cards(world)


# The product -------------------------------------------------------------------------------------------------------


def _as_hami(case: Case) -> Case:
    """The case as one of HAMi's: its plugin says that it is alive, and times are times."""
    node, pods = copy.deepcopy((case["node"], case["pods"]))
    config = case["args"]["deviceConfig"]["vnpus"]
    configs = [
        {"memoryFactor": 1, "resourceCoreName": f"{each['resourceName']}-core", **each} for each in config["configs"]
    ]
    node["metadata"]["annotations"][f"hami.io/node-handshake-{configs[0]['commonWord']}"] = f"Reported_{_REPORTED}"
    for pod in pods:
        given = pod["metadata"]["annotations"]
        given.update({key: "1767225600" for key, text in given.items() if text == _TIME})
    return {
        "profile": hami.PROFILE,
        "kind": "placement",
        "config": {
            "nodeSchedulerPolicy": "binpack",
            "gpuSchedulerPolicy": case["args"]["schedulePolicy"] or "binpack",
            "deviceConfig": {"vnpus": {**config, "configs": configs}},
        },
        "nodes": [node],
        "pods": pods,
        "pod": case["pod"],
        "quotas": [],
    }


_REPORTED = "2026.01.01 00:00:00"


def _parts(case: Case, per_node: dict[str, dict[str, str]]) -> Parts | None:
    annotations = per_node.get(case["node"]["metadata"]["name"])
    return None if annotations is None else _written(annotations)
