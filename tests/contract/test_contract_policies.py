"""Policies: both servers accept and refuse the same ones, for the same reasons and about the same fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.contract.client import Answer, Api
from tests.contract.definitions import PATHS

from vgpu_scheduler.policy import GROUP, VERSION

if TYPE_CHECKING:
    pass

Object = dict[str, Any]
KIND = "VGPUPolicy"

REASONS = {
    "FieldValueInvalid",
    "FieldValueRequired",
    "FieldValueNotSupported",
    "FieldValueTooMany",
    "FieldValueTooLong",
    "FieldValueTypeInvalid",
    "FieldValueDuplicate",
}


def scorer(name: str, **more: object) -> Object:
    return {"nodes": {"scorers": [{"name": name, **more}]}}


def selected(**condition: object) -> Object:
    return {"nodeSelector": {"matchExpressions": [condition]}}


def amounts(**limits: object) -> Object:
    return {"limits": limits}


POINTS = [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]
SPECS: dict[str, Object] = {
    "empty": {},
    "nodes without": {"nodes": {}},
    "nodes policy": {"nodes": {"policy": "spread"}},
    "nodes both": {"nodes": {"policy": "spread", "scorers": [{"name": "hami"}]}},
    "nodes unknown policy": {"nodes": {"policy": "Spread"}},
    "no scorer": {"nodes": {"scorers": []}},
    "scorer without a name": {"nodes": {"scorers": [{"weight": 1}]}},
    "scorer twice": {"nodes": {"scorers": [{"name": "hami"}, {"name": "hami", "weight": 2}]}},
    "unknown scorer": scorer("best"),
    "weight below 0 of binpack": scorer("binpack", weight=-1),
    "weight below 0 of hami": scorer("hami", weight=-1),
    "weight of a text": scorer("hami", weight="1"),
    "weight out of bounds": scorer("hami", weight=10**9),
    "prices": scorer("fragmentation", prices="Auto"),
    "prices of another": scorer("hami", prices="Auto"),
    "policy of another": scorer("binpack", policy="spread"),
    "resources": scorer("binpack", resources={"cpu": 1, "nvidia.com/gpumem": 2}),
    "resources of another": scorer("hami", resources={"cpu": 1}),
    "resources of no name": scorer("binpack", resources={"-cpu": 1}),
    "resources of a long prefix": scorer("binpack", resources={f"{'a' * 254}/cpu": 1}),
    "shape": scorer("requestedToCapacityRatio", shape=POINTS),
    "shape of another": scorer("leastAllocated", shape=POINTS),
    "arguments": scorer("binpack", arguments={"binpack.weight": 3, "binpack.cpu": "4"}),
    "arguments of another": scorer("hami", arguments={"binpack.weight": 3}),
    "arguments and resources": scorer("binpack", arguments={"binpack.cpu": 1}, resources={"cpu": 1}),
    "arguments with another key": scorer("binpack", arguments={"cpu": 1}),
    "arguments with a long key": scorer("binpack", arguments={"binpack." + "a" * 505: 1}),
    "arguments out of bounds": scorer("binpack", arguments={"binpack.cpu": 1000001}),
    "arguments of a large text": scorer("binpack", arguments={"binpack.cpu": "1000001"}),
    "weight twice": scorer("binpack", weight=2, arguments={"binpack.weight": 3}),
    "weight and other arguments": scorer("binpack", weight=2, arguments={"binpack.cpu": 3}),
    "strategy": scorer("deviceshare", scoringStrategy={"type": "MostAllocated"}),
    "strategy of another": scorer("hami", scoringStrategy={"type": "MostAllocated"}),
    "deviceshare and its order": {**scorer("deviceshare"), "devices": {"policy": " LeastAllocated "}},
    "deviceshare and another order": {**scorer("deviceshare"), "devices": {"policy": "binpack"}},
    "deviceshare that counts nothing": {**scorer("deviceshare", weight=0), "devices": {"policy": "binpack"}},
    "deviceshare and weights": {**scorer("deviceshare"), "devices": {"weights": {"slots": 1}}},
    "devices without": {"devices": {}},
    "order": {"devices": {"policy": "numa, binpack"}},
    "order in tabs": {"devices": {"policy": "\tnuma\t,binpack"}},
    "order of nobody": {"devices": {"policy": "numa, best"}},
    "order with an empty word": {"devices": {"policy": "numa,"}},
    "order twice": {"devices": {"policy": "numa, spread ,numa"}},
    "order that stands alone": {"devices": {"policy": "bestFit"}},
    "order that stands alone with another": {"devices": {"policy": "bestFit,numa"}},
    "weights": {"devices": {"weights": {"slots": 0, "memory": 0, "cores": 1}}},
    "weights of nothing": {"devices": {"weights": {"slots": 0, "memory": 0, "cores": 0}}},
    "weights beside an order without": {"devices": {"policy": "MostAllocated", "weights": {"slots": 1}}},
    "types": {"devices": {"types": {"allow": ["A100"], "deny": ["T4"]}}},
    "types without": {"devices": {"types": {}}},
    "types both ways": {"devices": {"types": {"allow": ["A100", "l40S"], "deny": ["T4", "L40s"]}}},
    "types twice": {"devices": {"types": {"allow": ["A100", "A100"]}}},
    "no type": {"devices": {"types": {"allow": []}}},
    "exclusive": {"devices": {"exclusive": True}},
    "exclusive as a text": {"devices": {"exclusive": "true"}},
    "unknown field": {"devices": {"exclusiv": True}},
    "labels": {"nodeSelector": {"matchLabels": {"example.com/pool": "a"}}},
    "labels of no key": {"nodeSelector": {"matchLabels": {"example.com/": "a"}}},
    "labels with two slashes": {"nodeSelector": {"matchLabels": {"a/b/c": "a"}}},
    "labels with a line": {"nodeSelector": {"matchLabels": {"pool\n": "a"}}},
    "labels of capitals": {"nodeSelector": {"matchLabels": {"Example.com/pool": "a"}}},
    "condition": selected(key="pool", operator="In", values=["a"]),
    "condition without values": selected(key="pool", operator="NotIn"),
    "condition with no value": selected(key="pool", operator="In", values=[]),
    "condition with values too many": selected(key="pool", operator="Exists", values=["a"]),
    "condition with none": selected(key="pool", operator="DoesNotExist", values=[]),
    "condition of no operator": selected(key="pool", operator="Gt", values=["1"]),
    "condition of no key": selected(key="a b", operator="Exists"),
    "condition without a key": selected(operator="Exists"),
    "defaults": {"defaults": {"memory": 1024, "cores": 10}},
    "defaults without": {"defaults": {}},
    "defaults in Gi": {"defaults": {"memory": "1Gi"}},
    "defaults in mi": {"defaults": {"memory": "1mi"}},
    "defaults below": {"defaults": {"memory": "1Ki"}},
    "defaults above": {"defaults": {"memory": "2Pi"}},
    "defaults of nothing": {"defaults": {"memory": ""}},
    "defaults of a list": {"defaults": {"memory": ["1Gi"]}},
    "limits": amounts(memoryPerPod="8Gi", coresPerPod=200, devicesPerPod=4),
    "limits without": {"limits": {}},
    "limits of whole cards": amounts(exclusiveCardsPerPod=1),
    "limits of no whole card": amounts(exclusiveCardsPerPod=0),
    "limits of whole cards below": amounts(exclusiveCardsPerPod=-1),
    "limits of memory below": amounts(memoryPerPod="-1Gi"),
    "limits of an exponent": amounts(memoryPerPod="1e9"),
    "limits of cores below": amounts(coresPerPod=0),
    "enforce nodes": {"enforce": ["nodes"], "nodes": {"policy": "spread"}},
    "enforce what is not there": {"enforce": ["nodes", "devices"], "nodes": {"policy": "spread"}},
    "enforce defaults that are not there": {"enforce": ["defaults"], "limits": {"coresPerPod": 1}},
    "enforce twice": {"enforce": ["nodes", "nodes"], "nodes": {"policy": "spread"}},
    "enforce limits": {"enforce": ["limits"], "limits": {"coresPerPod": 1}},
    "enforce alone": {"enforce": []},
    "two rules": {"nodes": {"policy": "spread", "scorers": [{"name": "hami", "prices": "Auto"}]}, "devices": {}},
    "a rule and a type": {"nodes": {}, "devices": {"exclusive": 1}},
    "a list": [],  # type: ignore[dict-item]
    "nothing": None,  # type: ignore[dict-item]
}


def said(answer: Answer) -> tuple[int, list[tuple[str, str]]]:
    """Return what counts of an answer: its code, and which fields are wrong in which way."""
    causes = (answer.body.get("details") or {}).get("causes") or []
    return answer.code, sorted((cause["field"], _words(cause)) for cause in causes)


def _words(cause: Object) -> str:
    """Return the reason and, of a rule, its message: what the value is called differs, and tells nobody anything."""
    assert cause["reason"] in REASONS, cause
    return f"{cause['reason']} {cause['message'].rpartition(': ')[2] if cause['reason'] == 'FieldValueInvalid' else ''}"


@pytest.mark.parametrize("kind", PATHS)
@pytest.mark.parametrize("case", SPECS)
async def test_both_servers_say_the_same_of_a_policy(both: tuple[Api, Api], kind: str, case: str) -> None:
    body = {"apiVersion": f"{GROUP}/{VERSION}", "kind": kind, "metadata": {"name": "p"}, "spec": SPECS[case]}
    ours, theirs = [said(await api.post(PATHS[kind], body, dryRun="All", fieldValidation="Strict")) for api in both]
    assert ours == theirs
