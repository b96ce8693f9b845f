"""What somebody with rights in one namespace is told of quotas where pieces of cards or templates of chips count."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from tests.cli.live_cluster import Api
from tests.cli.tenant_view import ASKED, decided, done, told
from tests.cli.test_cli_tenant_advice import asking
from tests.cli.test_cli_tenant_policies import limiting
from tests.cli.test_cli_tenant_quotas import quota
from tests.cli.test_cli_tenants import waiting
from tests.dialects import vendors
from tests.whatif.test_whatif_mismatch import MODE, with_cards
from tests.whatif.test_whatif_remedies import GPU, MEMORY, node

from vgpu_scheduler.dialects.hami import vendors as hami_vendors

Object = dict[str, Any]
PIECES = "on cards that are split into pieces a whole piece counts, which may be more"
AT_LEAST = "on cards that are split into pieces it counts as "
TEMPLATES = {
    "Ascend910A": (2184, 4369, 8738, 17476, 32768),
    "Ascend910B3": (16384, 32768, 65536),
    "Ascend310P": (3072, 6144, 12288, 21527),
}


def in_pieces(name: str) -> Object:
    """Return a node with a card in MIG mode."""
    made = node(name, 1)
    listed = f"GPU-{name}-0,10,40960,100,NVIDIA A100-SXM4-40GB,0,true,0,mig:"
    made["metadata"]["annotations"]["hami.io/node-nvidia-register"] = listed
    return made


@pytest.mark.parametrize("form", ["amount", "nothing", "percentage", "hami-core"])
@pytest.mark.parametrize("seed", range(20))
def test_figures_of_a_quota_are_qualified_where_a_piece_may_count_for_more(api: Api, seed: int, form: str) -> None:
    rng = np.random.default_rng(seed)
    left = int(rng.integers(1000, 20000))
    amount = left + int(rng.integers(1, 20000))
    asks: dict[str, Object] = {"nothing": {}, "percentage": {"gpumem-percentage": int(rng.integers(90, 101))}}
    asked = asking(gpu=1, **asks.get(form, {"gpumem": amount}))
    if form == "hami-core":
        asked["metadata"]["annotations"] = {"nvidia.com/vgpu-mode": "hami-core"}
    api.objects[:] = [in_pieces("m"), quota(gpumem=left), asked]
    assert not decided(api, "p")
    remedies = told(api, "p")
    assert remedies
    for each in remedies:
        if form == "hami-core":
            assert each.startswith("leave out its annotation nvidia.com/vgpu-mode (hami-core)")
        if f" of {MEMORY}" in each or " raised to " in each:
            assert PIECES in each or AT_LEAST in each, each


@pytest.mark.parametrize("seed", range(10))
def test_nothing_of_pieces_is_said_to_a_pod_that_takes_none(api: Api, seed: int) -> None:
    rng = np.random.default_rng(seed)
    left = int(rng.integers(1, 9000))
    asked = asking(gpu=1, gpumem=left + int(rng.integers(1, 7000)))
    asked["metadata"]["annotations"] = {"nvidia.com/vgpu-mode": "hami-core"}
    api.objects[:] = [node("a", 1), quota(gpumem=left), asked]
    assert not decided(api, "p")
    remedies = told(api, "p")
    assert len(remedies) == 2
    for each in remedies:
        assert "pieces" not in each
        assert done(api, "p", each) == "a", each


# Chips that are cut by templates --------------------------------------------------------------------------------------


def chips(key: str, rng: np.random.Generator) -> Object:
    """Return a node with chips of a kind that are not shared softly."""
    made = vendors.node("a", [each for each in hami_vendors() if each.key == key], rng)
    made |= {"kind": "Node", "spec": {}}
    made["metadata"]["annotations"].pop("hami-vnpu-core", None)
    made["status"]["allocatable"] |= {f"huawei.com/{key}": "64", "cpu": "64", "memory": "256Gi", "pods": "110"}
    return made


def asking_chips(key: str, **amounts: int) -> Object:
    made = waiting("p")
    cards = f"huawei.com/{key}"
    named = {f"{cards}-{name}": str(amount) for name, amount in amounts.items()}
    made["spec"]["containers"][0]["resources"] = {"limits": {cards: "1", **named}}
    return made


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("key", TEMPLATES)
@pytest.mark.parametrize("seed", range(15))
def test_of_chips_cut_by_templates_an_amount_is_told_only_where_one_fits(
    api: Api, seed: int, key: str, *, soft: bool
) -> None:
    """Also where the pod has to give up sharing chips softly, after which a template counts."""
    rng = np.random.default_rng(seed)
    sizes, memory = TEMPLATES[key], f"huawei.com/{key}-memory"
    amount = int(rng.integers(1, sizes[-1] + 1))
    counts = next(size for size in sizes if size >= amount)
    left = int(rng.integers(1, counts))
    limits = quota()
    limits["spec"]["hard"] = {f"limits.{memory}": str(left)}
    asked = asking_chips(key, memory=amount, **({"core": 10} if soft else {}))
    asked["metadata"]["annotations"] = {"huawei.com/vnpu-mode": "hami-core"} if soft else {}
    api.objects[:] = [chips(key, rng), limits, asked]
    assert not decided(api, "p")
    remedies = told(api, "p")
    fits = max((size for size in sizes if size <= left), default=0)
    amounts = [each for each in remedies if f" of {memory}" in each]
    assert [int(said["amount"]) for each in amounts for said in ASKED.finditer(each)] == ([fits] if fits else [])
    assert not any("ask for no more than" in each for each in remedies), remedies
    (raised,) = [each for each in remedies if "have limits." in each]
    assert f"raised to {counts} (it is {left})" in raised
    asked["metadata"]["annotations"] = {}
    asked["spec"]["containers"][0]["resources"]["limits"].pop(f"huawei.com/{key}-core", None)
    for each in (*amounts, raised):
        assert done(api, "p", each) == "a", each


@pytest.mark.parametrize("containers", [1, 2])
@pytest.mark.parametrize("key", TEMPLATES)
@pytest.mark.parametrize("seed", range(12))
def test_a_limit_of_memory_below_the_smallest_template_has_to_be_raised(
    api: Api, seed: int, key: str, containers: int
) -> None:
    rng = np.random.default_rng(seed)
    sizes, memory = TEMPLATES[key], f"huawei.com/{key}-memory"
    amount = int(rng.integers(1, sizes[-2] + 1))
    counts = containers * next(size for size in sizes if size >= amount)
    most = int(rng.integers(1, min(counts, 2 * containers * sizes[0])))
    asked = asking_chips(key, memory=amount)
    (first,) = asked["spec"]["containers"]
    asked["spec"]["containers"] = [{**first, "name": f"c{number}"} for number in range(containers)]
    api.objects[:] = [chips(key, rng), limiting("VGPUPolicy", most), asked]
    assert not decided(api, "p")
    remedies = told(api, "p", frozenset({"ClusterVGPUPolicy"}))
    assert not any("ask for no more than" in each for each in remedies), remedies
    assert any(f" of {memory}" in each for each in remedies) is (most >= containers * sizes[0])
    (raised,) = [each for each in remedies if "limits.memoryPerPod of VGPUPolicy team/l raised" in each]
    to = re.search(r"raised to (\d+)(Gi|Mi) \(it is .* cannot ask for less than \d+(Gi|Mi)\)", raised)
    assert (to is None) is (most >= containers * sizes[0]), raised
    if to is not None:
        enough = int(to[1]) * {"Gi": 1024, "Mi": 1}[to[2]]
        for limit, fits in ((enough, True), (enough - 1, False)):
            api.objects[:] = [chips(key, rng), limiting("VGPUPolicy", limit), asked]
            assert bool(decided(api, "p")) is fits


@pytest.mark.parametrize("limited", [True, False])
@pytest.mark.parametrize(("wanted", "there"), [("mig", "hami-core"), ("mps", "hami-core"), ("hami-core", "mig")])
@pytest.mark.parametrize("seed", range(15))
def test_without_its_mode_a_pod_may_get_more_than_a_quota_leaves(
    api: Api, seed: int, wanted: str, there: str, *, limited: bool
) -> None:
    """A whole piece counts, and so does a whole card where no amount of memory is named."""
    rng = np.random.default_rng(seed)
    memory = {MEMORY: str(int(rng.integers(500, 9000)))} if rng.random() < 0.6 else {}
    asked = waiting("asked")
    asked["metadata"]["annotations"] = {MODE: wanted}
    asked["spec"]["containers"][0]["resources"] = {"limits": {GPU: "1", **memory}}
    card = with_cards(0, "NVIDIA-A100-SXM4-80GB", there)
    api.objects[:] = [card, *([quota(gpumem=int(rng.integers(1000, 20000)))] if limited else []), asked]
    assert not decided(api, "asked")
    left_out = [each for each in told(api, "asked", frozenset({"ClusterVGPUPolicy"})) if each.startswith("leave out ")]
    assert left_out
    for remedy in left_out:
        of_cards = any(each in remedy for each in ("depends on the card", "whole piece counts", "pieces it counts"))
        assert of_cards is limited, remedy
    del asked["metadata"]["annotations"][MODE]
    assert limited or decided(api, "asked")
