"""Random policies, good and malformed ones."""

from __future__ import annotations

import random
from typing import Any

# Values that people may write for a field, some of them wrong. Null is not among them: the API
# server drops it before it looks.
_QUANTITIES: tuple[object, ...] = ("4Gi", "512M", "1e9", 1 << 30, "0", -1, "2Pi", "4GB", "100m", ".5Gi", "", "1.25Ti")
_INTEGERS: tuple[object, ...] = (0, 1, 2, 7, 100, 101, -1, 1_000_000, 1_000_001, -1_000_001, "1", True)
_NAMES: tuple[object, ...] = ("cpu", "nvidia.com/gpu", "koordinator.sh/gpu-core", "a b", "", "/x", "x/", "-x", "X_1.y")
_LABEL_VALUES: tuple[object, ...] = ("", "a", "b-c", "a b", "-x", "x" * 63, "x" * 64, 1)
_DURATIONS: tuple[object, ...] = ("0s", "5m", "1h30m", "250ms", "0", "1d", "-1s", "1.5h", "", 30, "5m ", "100000h")
_MODELS: tuple[object, ...] = ("A100", "a100", "H100", "RTX 6000 Ada", "", "A,B", " A", "T4")
_WORDS = ("binpack", "spread", "mutex", "numa", "topology-aware", "bestFit", "LeastAllocated", "MostAllocated", "x", "")


def random_spec(dice: random.Random) -> dict[str, Any]:
    """Return a spec of random fields; about half of them break no rule."""
    vendors = {
        "nodes": _nodes,
        "devices": _devices,
        "nodeSelector": _selector,
        "defaults": lambda it: _some(it, memory=_one(it, _QUANTITIES), cores=_one(it, _INTEGERS)),
        "limits": lambda it: _some(
            it,
            memoryPerPod=_one(it, _QUANTITIES),
            coresPerPod=_one(it, _INTEGERS),
            devicesPerPod=_one(it, _INTEGERS),
            exclusiveCardsPerPod=_one(it, _INTEGERS),
        ),
        "podOverrides": lambda it: {"allow": _few(it, ("nodePolicy", "numa", "deviceUUIDs", "mode", "x"), least=0)},
        "preemption": lambda it: _some(
            it,
            mayPreempt=_one(it, (False, True, "true", 1)),
            preemptible=_one(it, (True, False, "false", 0)),
            minRuntime=_one(it, _DURATIONS),
            delay=_one(it, _DURATIONS),
            victims=_one(it, ("Own", "Any", "x", "own")),
            budgets=_one(it, ("Respect", "Exceed", "x", "")),
            perHour=_one(it, (0, 10, 1001, "1")),
        ),
        "groups": lambda it: _some(
            it,
            minimum=_one(it, (1, 100_000, 0, "2")),
            staleAfter=_one(it, _DURATIONS),
            whenStale=_one(it, ("Report", "Evict", "evict", "")),
            holdAfter=_one(it, _DURATIONS),
        ),
        "enforce": lambda it: _few(it, ("nodes", "devices", "defaults", "limits", "x"), least=0),
        "priority": lambda it: _one(it, _INTEGERS),
        "selector": _selector,
        "namespaceSelector": _selector,
    }
    chosen = dice.sample(sorted(vendors), dice.choice((1, 1, 2, 3)))
    return {name: vendors[name](dice) for name in chosen}


def _one(dice: random.Random, values: tuple[object, ...]) -> object:
    # The first half of each pool is good: favour it, or nothing ever is.
    return dice.choice(values[: len(values) // 2] if dice.random() < 0.8 else values)


def _few(dice: random.Random, values: tuple[object, ...], least: int = 1) -> list[object]:
    found = [_one(dice, values) for _ in range(dice.choice((least, 1, 1, 2)))]
    return found if dice.random() < 0.1 else list(dict.fromkeys(found))


def _some(dice: random.Random, **fields: object) -> dict[str, object]:
    return {name: value for name, value in fields.items() if dice.random() < 0.5}


def _nodes(dice: random.Random) -> dict[str, object]:
    if dice.random() < 0.3:
        return {"policy": _one(dice, ("binpack", "spread", "mutex"))}
    return {"scorers": [_scorer(dice) for _ in range(dice.choice((1, 1, 2)))]}


def _scorer(dice: random.Random) -> dict[str, object]:
    name = dice.choice((
        "hami", "binpack", "binpack", "deviceshare", "fragmentation", "requestedToCapacityRatio", "imageLocality",
    ))  # fmt: skip
    entry: dict[str, object] = {"name": name, **_some(dice, weight=_one(dice, _INTEGERS))}
    own: dict[str, dict[str, object]] = {
        "hami": {"policy": _one(dice, ("binpack", "spread", "best"))},
        "binpack": {"resources": {str(_one(dice, _NAMES)): _one(dice, _INTEGERS)}, "arguments": _arguments(dice)},
        "deviceshare": {"scoringStrategy": _strategy(dice)},
        "fragmentation": {"prices": _one(dice, ("Auto", "None", "auto"))},
        "requestedToCapacityRatio": {
            "shape": [{"utilization": _one(dice, (0, 50, 101)), "score": _one(dice, (0, 11))}]
        },
    }
    entry |= _some(dice, **own.get(name, {}))
    if dice.random() < 0.1:
        entry |= dice.choice(list(own.values()))
    return entry


def _arguments(dice: random.Random) -> dict[str, object]:
    keys = ("binpack.weight", "binpack.cpu", "binpack.resources", "binpack.resources.x", "weight", "binpack")
    return {str(_one(dice, keys)): _one(dice, (1, -1, "5", "a,b", 1_000_001, True, 1.5))}


def _strategy(dice: random.Random) -> dict[str, object]:
    resources = [{"name": _one(dice, _NAMES), **_some(dice, weight=_one(dice, (1, 2, 100, 0, 101, "1")))}]
    return _some(dice, type=_one(dice, ("LeastAllocated", "MostAllocated", "x")), resources=resources)


def _devices(dice: random.Random) -> dict[str, object]:
    words = [str(_one(dice, _WORDS)) for _ in range(dice.choice((1, 1, 2, 3)))]
    weights = {name: _one(dice, _INTEGERS) for name in dice.sample(("slots", "memory", "cores"), 2)}
    return _some(
        dice,
        policy=dice.choice((",", ", ")).join(words),
        order=_one(dice, ("NUMAFirst", "ScoreFirst", "x")),
        weights=weights,
        types=_some(dice, allow=_few(dice, _MODELS), deny=_few(dice, _MODELS)),
        exclusive=_one(dice, (True, False, "true")),
        numa=_one(dice, ("None", "Required", "x")),
        modes=_few(dice, ("mig", "mps", "hami-core", "x")),
        apartFrom=_some(dice, matchLabelKeys=_few(dice, _NAMES, least=0)),
    )


def _selector(dice: random.Random) -> dict[str, object]:
    operator = dice.choice(("In", "NotIn", "Exists", "DoesNotExist", "Gt"))
    values = _few(dice, _LABEL_VALUES, least=0) if operator in ("In", "NotIn") or dice.random() < 0.2 else []
    expression = {"key": _one(dice, _NAMES), "operator": operator, "values": values}
    return _some(
        dice,
        matchLabels={str(_one(dice, _NAMES)): _one(dice, _LABEL_VALUES)},
        matchExpressions=[expression],
    )
