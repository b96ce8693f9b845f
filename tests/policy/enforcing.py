"""Random clusters of policies, some of which enforce sections, and pods that would have it otherwise."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.naive.policies import Written

Spec = dict[str, Any]

SECTIONS = ("nodes", "devices", "defaults")
GIB = 2**30
NAMESPACE_LABELS = {"tier": "tenant"}
ANNOTATIONS = {
    "hami.io/node-scheduler-policy": ("binpack", "spread", "x"),
    "hami.io/gpu-scheduler-policy": ("binpack", "spread", "mutex", "numa,binpack", "topology-aware", "x"),
    "hami.io/device-scoring-weights": ("slot=1,core=2,memory=3", "slot=0,core=0,memory=9"),
}


def section(name: str, dice: Random) -> Spec:
    """A section of a policy."""
    if name == "nodes":
        return dice.choice(
            [
                {"policy": "binpack"},
                {"policy": "spread"},
                {"scorers": [{"name": "fragmentation", "weight": dice.randint(1, 9)}]},
                {"scorers": [{"name": "deviceshare", "scoringStrategy": {"type": "MostAllocated"}}]},
            ]
        )
    if name == "defaults":
        return {"memory": dice.randint(1, 64) * GIB, "cores": dice.randint(1, 99)}
    fields: Spec = {
        "policy": dice.choice(["binpack", "spread", "numa,binpack", "mutex"]),
        "order": dice.choice(["NUMAFirst", "ScoreFirst"]),
        "weights": {"slots": dice.randint(1, 9)},
        "types": {dice.choice(["allow", "deny"]): dice.sample(["A100", "H100", "L40", "T4"], 2)},
        "exclusive": dice.random() < 0.5,
        "topology": dice.choice(["None", "Preferred"]),
        "numa": dice.choice(["None", "Required"]),
        "modes": dice.sample(["hami-core", "mig", "mps"], 2),
    }
    return {name: fields[name] for name in dice.sample(sorted(fields), dice.randint(1, 4))}


def sections(names: list[str], dice: Random) -> Spec:
    """Sections of one policy; the scorer deviceshare wants to order the cards itself."""
    spec: Spec = {name: section(name, dice) for name in names}
    while "devices" in spec and "deviceshare" in str(spec.get("nodes")):
        spec["nodes"] = section("nodes", dice)
    return spec


def cluster_policies(dice: Random, enforced: str) -> list[Written]:
    """Cluster policies, of which one at least enforces a section."""
    found = []
    for number in range(dice.randint(1, 4)):
        names = dice.sample(SECTIONS, dice.randint(0 if number else 1, 3))
        if number == 0 and enforced not in names:
            names.append(enforced)
        spec = sections(names, dice)
        enforce = [name for name in names if (number == 0 and name == enforced) or dice.random() < 0.4]
        spec |= {"enforce": enforce} if enforce else {}
        most = {dice.choice(["devicesPerPod", "exclusiveCardsPerPod"]): dice.randint(1, 9)}
        spec |= {"limits": most} if dice.random() < 0.4 or not names else {}
        if dice.random() < 0.3:
            spec["podOverrides"] = {"allow": dice.sample(["nodePolicy", "devicePolicy", "numa", "mode"], 2)}
        if number and dice.random() < 0.4:
            spec["namespaceSelector"] = {"matchLabels": dice.choice([{"tier": "tenant"}, {"tier": "house"}])}
        spec["priority"] = dice.randint(-2, 2)
        found.append(Written(f"c{number}", spec))
    return found


def own_policies(dice: Random) -> list[Written]:
    """Policies of a namespace, whoever wrote them."""
    found = []
    for number in range(dice.randint(1, 3)):
        spec = sections(dice.sample(SECTIONS, dice.randint(1, 3)), dice)
        if dice.random() < 0.5:
            spec["podOverrides"] = {"allow": ["nodePolicy", "devicePolicy", "deviceWeights", "deviceUUIDs", "numa"]}
        if dice.random() < 0.3:
            spec["limits"] = {"devicesPerPod": dice.randint(1, 9)}
        if dice.random() < 0.3:
            spec["selector"] = {"matchLabels": {"app": dice.choice(["x", "y"])}}
        spec["priority"] = dice.randint(-9, 1_000_000)
        found.append(Written(f"n{number}", spec, "team"))
    return found


def annotations(dice: Random) -> dict[str, str]:
    """What a pod asks for itself."""
    return {name: dice.choice(values) for name, values in ANNOTATIONS.items() if dice.random() < 0.6}
