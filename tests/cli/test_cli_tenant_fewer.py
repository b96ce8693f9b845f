"""What somebody with rights in one namespace is told of fewer cards and shares is qualified, or enough."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from tests.cli.live_cluster import Api
from tests.cli.tenant_view import decided, told
from tests.cli.test_cli_tenant_advice import asking
from tests.cli.test_cli_tenant_pieces import chips
from tests.cli.test_cli_tenant_quotas import quota
from tests.whatif.test_whatif_remedies import GPU, MEMORY, node, running

Object = dict[str, Any]
VENDORS: dict[str, tuple[str, Object, Object]] = {
    "nvidia": ("NVIDIA", {GPU: "1"}, {MEMORY: "500"}),
    "hygon": ("DCU", {"hygon.com/dcunum": "1"}, {"hygon.com/dcumem": "2000", "hygon.com/dcucores": "10"}),
    "ascend": ("Ascend910B3", {"huawei.com/Ascend910B3": "1"}, {"huawei.com/Ascend910B3-memory": "16384"}),
}
"""By name: the key of the vendor's cards, what asks for one, and what else a pod may say of it."""
AMOUNT = re.compile(r"ask (\d+) of (\S+) .*?in container (\w+)")
LEFT_OUT = re.compile(r"leave out (.+?) in container (\w+)")


def of_containers(*limits: Object) -> Object:
    """Return a pod with containers that ask for amounts of cards."""
    made = asking()
    made["spec"]["containers"] = [
        {"name": f"c{n}", "resources": {"limits": {f"nvidia.com/{name}": str(each[name]) for name in each}}}
        for n, each in enumerate(limits)
    ]
    return made


@pytest.mark.parametrize("seed", range(30))
def test_where_shares_and_memory_are_lacking_both_are_told(api: Api, seed: int) -> None:
    """Who leaves the card out in one container has it only if the other asks for no more than is left."""
    rng = np.random.default_rng(seed)
    used = int(rng.integers(100, 1700))
    left = 16384 - 9 * used
    memory = int(rng.integers(500, left + 3000))
    others = [*(running(f"r{n}", "a", "GPU-a-0", used) for n in range(9)), running("full", "a", "GPU-a-1", 16300)]
    api.objects[:] = [node("a", 2), *others, of_containers({"gpu": 1, "gpumem": memory}, {"gpu": 1, "gpumem": memory})]
    assert not decided(api, "p")
    if "shares for containers that run together" not in api.objects[-1]["message"]:
        return  # another card is nearer
    (advice,) = [each for each in told(api, "p") if each.startswith("leave the card out in one of the containers")]
    both = f"and have the others ask for {left} MiB memory at most together"
    assert (both in advice) is (2 * memory > left), advice
    api.objects[:] = [node("a", 2), *others, of_containers({"gpu": 1, "gpumem": min(memory, left)}, {})]
    assert decided(api, "p") == "a"
    api.objects[:] = [node("a", 2), *others, of_containers({"gpu": 1, "gpumem": memory}, {})]
    assert (decided(api, "p") == "a") is (memory <= left)


@pytest.mark.parametrize("seed", range(20))
def test_that_fewer_cards_fit_is_not_said_where_only_their_number_was_looked_at(api: Api, seed: int) -> None:
    rng = np.random.default_rng(seed)
    cards = int(rng.integers(1, 4))
    used = [int(each) for each in rng.integers(1, 16384, size=cards)]
    memory = int(rng.integers(1, 16384))
    others = [running(f"r{n}", "a", f"GPU-a-{n}", used[n]) for n in range(cards)]
    count = int(rng.integers(2, cards + 3))
    api.objects[:] = [node("a", cards), *others, asking(gpu=count, gpumem=memory)]
    if decided(api, "p"):
        return
    for each in told(api, "p"):
        if not each.startswith(f"ask 1 of {GPU} ") or f"of {MEMORY}" in each or "(more may fit, or less: " in each:
            continue
        api.objects[:] = [node("a", cards), *others, asking(gpu=1, gpumem=memory)]
        assert decided(api, "p") == "a", each


@pytest.mark.parametrize("with_quota", [True, False])
@pytest.mark.parametrize("seed", range(25))
def test_a_limit_of_devices_that_each_container_exceeds_has_cards_left_out_in_one(
    api: Api, seed: int, *, with_quota: bool
) -> None:
    """Whoever does what is said keeps the limit, and the quota beside it."""
    rng = np.random.default_rng(seed)
    counts, cores = [int(each) for each in rng.integers(1, 4, size=2)], int(rng.integers(1, 90))
    left = int(rng.integers(1, 200)) if with_quota else 10**6
    metadata = {"name": "l", "namespace": "team", "uid": "l"}
    policy = {"kind": "VGPUPolicy", "metadata": metadata, "spec": {"limits": {"devicesPerPod": 1}}}
    limits = [{"gpu": each, "gpumem": 100, "gpucores": cores} for each in counts]
    api.objects[:] = [node("a", 4), quota(gpucores=left), policy, of_containers(*limits)]
    assert not decided(api, "p")
    advice = [each for each in told(api, "p") if each.startswith("leave out ")]
    assert len(advice) >= 2
    for each in advice:
        made = of_containers(*limits)
        written = {one["name"]: one["resources"]["limits"] for one in made["spec"]["containers"]}
        for names, where in LEFT_OUT.findall(each):
            for name in names.split(" and "):
                del written[where][name]
        for amount, name, where in AMOUNT.findall(each):
            written[where][name] = amount
        api.objects[:] = [node("a", 4), quota(gpucores=left), policy, made]
        assert decided(api, "p") == "a", each


@pytest.mark.parametrize("names", [("nvidia", "hygon"), ("ascend", "nvidia"), ("nvidia", "hygon", "ascend")])
@pytest.mark.parametrize("beside", ["", "tainted", "together"])
@pytest.mark.parametrize("seed", range(12))
def test_cards_of_several_vendors_that_no_node_has_together_are_left_out_but_for_one(
    api: Api, seed: int, names: tuple[str, ...], beside: str
) -> None:
    rng = np.random.default_rng(seed)
    places = []
    for name in names:
        place = node(name, 2) if name == "nvidia" else chips(VENDORS[name][0], rng)
        place["metadata"]["name"] = name
        counted = dict.fromkeys(VENDORS[name][1], "20")
        place["status"]["allocatable"] |= counted
        places.append(place)
    if beside == "tainted":
        places.append(node("t", 0, taints=[{"key": "k", "effect": "NoSchedule"}]))
    if beside == "together":  # a node with all of them, of which one kind is in use
        both = node("both", 1)
        for place in places:
            both["metadata"]["annotations"] |= place["metadata"]["annotations"]
            both["status"]["allocatable"] |= place["status"]["allocatable"]
        both["metadata"]["annotations"]["hami.io/device-cordon"] = "GPU-nvidia-0,GPU-nvidia-1"
        places.append(both)
    limits = [{**VENDORS[name][1], **(VENDORS[name][2] if rng.random() < 0.5 else {})} for name in names]
    asked = asking()
    if rng.random() < 0.5:
        asked["spec"]["containers"] = [
            {"name": f"c{n}", "resources": {"limits": dict(each)}} for n, each in enumerate(limits)
        ]
    else:
        asked["spec"]["containers"][0]["resources"] = {
            "limits": {name: amount for each in limits for name, amount in each.items()}
        }
    api.objects[:] = [*places, asked]
    if decided(api, "p"):
        assert beside == "together"
        return
    remedies = told(api, "p")
    found = [each for each in remedies if "no node seems to have" in each]
    assert not any("which cards there are" in each for each in remedies) or beside == "together", remedies
    assert len(found) == (0 if beside == "together" else len(names)), remedies
    for each in found:
        gone = set(each.partition("leave out ")[2].partition(" in container")[0].split(" and "))
        assert gone in [{name for one in limits if one is not kept for name in one} for kept in limits], each
        before = [dict(one["resources"]["limits"]) for one in asked["spec"]["containers"]]
        for one in asked["spec"]["containers"]:
            one["resources"]["limits"] = {k: v for k, v in one["resources"]["limits"].items() if k not in gone}
        assert decided(api, "p"), each
        for one, was in zip(asked["spec"]["containers"], before, strict=True):
            one["resources"]["limits"] = was
