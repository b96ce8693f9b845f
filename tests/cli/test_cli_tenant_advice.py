"""What somebody with rights in one namespace is told helps whoever does it, whatever the scheduler says of the pod."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.cli.live_cluster import Api
from tests.cli.tenant_view import ASKED, decided, done, told
from tests.cli.test_cli_tenant_quotas import held, quota
from tests.cli.test_cli_tenants import waiting
from tests.whatif.test_whatif_remedies import CORES, GPU, MEMORY, node, running
from tests.whatif.test_whatif_remedies_dialects import BYTES, CORE, NUMBER, RATIO, SHARED, SIZE, cluster
from tests.whatif.test_whatif_remedies_dialects import CORES as SHARES
from tests.whatif.test_whatif_remedies_dialects import MEMORY as BLOCKS

Object = dict[str, Any]


def asking(name: str = "p", **limits: Any) -> Object:
    """Return a pod of the namespace that asks for amounts of NVIDIA's cards, of which nothing has been said yet."""
    made = waiting(name)
    written = {f"nvidia.com/{resource}": str(amount) for resource, amount in limits.items()}
    made["spec"]["containers"][0]["resources"] = {"limits": written}
    return made


# Quotas in units of their resource -----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(50))
def test_a_quota_is_raised_in_the_unit_of_its_resource(api: Api, seed: int) -> None:
    """To the least with which the pod fits."""
    rng = np.random.default_rng(seed)
    factor = int(rng.choice([1, 2, 256, 1024]))
    most = 16384 // factor
    used, asked = (int(each) for each in rng.integers(1, most, size=2))
    limit = used + int(rng.integers(0, asked))
    api.settings = f"nvidia: {{memory_factor: {factor}}}\n"
    api.objects[:] = [node("a", 2), quota(gpumem=limit), held(used * factor), asking(gpu=1, gpumem=asked)]
    assert not decided(api, "p")
    (raised,) = [text for text in told(api, "p") if text.startswith("have ")]
    assert raised.startswith(f"have limits.{MEMORY} raised to {used + asked} (it is {limit})")
    assert done(api, "p", raised) == "a"


@pytest.mark.parametrize(
    ("cards", "memory"),
    [
        ("metax-tech.com/sgpu", "metax-tech.com/vmemory"),
        ("cambricon.com/vmlu", "cambricon.com/mlu.smlu.vmemory"),
        ("iluvatar.ai/BI-V150-vgpu", "iluvatar.ai/BI-V150.vMem"),
        ("mthreads.com/vgpu", "mthreads.com/sgpu-memory"),
        ("hygon.com/dcunum", "hygon.com/dcumem"),
    ],
)
@pytest.mark.parametrize("seed", range(4))
def test_so_it_is_of_each_vendor(api: Api, seed: int, cards: str, memory: str) -> None:
    rng = np.random.default_rng(seed)
    asked = int(rng.integers(2, 32))
    limit = int(rng.integers(0, asked))
    made = waiting("p", "0/3 nodes are available: 3 ResourceQuotaNotFit.")
    made["spec"]["containers"][0]["resources"] = {"limits": {cards: "1", memory: str(asked)}}
    limits = quota()
    limits["spec"]["hard"] = {f"limits.{memory}": str(limit)}
    api.objects[:] = [limits, made]
    assert any(f"limits.{memory} raised to {asked} (it is {limit})" in text for text in told(api, "p"))


@pytest.mark.parametrize(
    ("cards", "cores", "unit"),
    [
        ("mthreads.com/vgpu", "mthreads.com/sgpu-core", "parts"),
        ("hygon.com/dcunum", "hygon.com/dcucores", "percent"),
        (GPU, CORES, "percent"),
    ],
)
@pytest.mark.parametrize("seed", range(4))
def test_only_a_percentage_of_compute_is_called_one(api: Api, seed: int, cards: str, cores: str, unit: str) -> None:
    rng = np.random.default_rng(seed)
    asked = int(rng.integers(2, 16))
    limit = int(rng.integers(1, asked))
    made = waiting("p", "0/3 nodes are available: 3 ResourceQuotaNotFit.")
    asks = {cards: "1", cores: str(asked)}
    asks |= {"mthreads.com/sgpu-memory": "16"} if unit == "parts" else {}  # it is refused without
    made["spec"]["containers"][0]["resources"] = {"limits": asks}
    limits = quota()
    limits["spec"]["hard"] = {f"limits.{cores}": str(limit)}
    api.objects[:] = [limits, made]
    assert any(f"(limits.{cores} leaves {limit} {unit}" in text for text in told(api, "p"))


# A quota on what is not named, beside one that is exceeded ------------------------------------------------------------


@pytest.mark.parametrize("seed", range(50))
def test_beside_a_quota_that_is_exceeded_that_on_memory_that_is_not_named_is_told(api: Api, seed: int) -> None:
    """Whole cards may be more than it leaves: who does what is said for that case, where it is the case, is placed."""
    rng = np.random.default_rng(seed)
    size, used, left = (int(each) for each in rng.integers(1000, 9000, size=3))
    busy, room = int(rng.integers(1, 50)), int(rng.integers(1, 40))
    asks: Object = {"gpu": 1, "gpucores": room + int(rng.integers(1, 50))}
    asks |= {"gpumem-percentage": 100} if rng.random() < 0.3 else {}
    limits = quota(gpumem=used + left, gpucores=busy + room)
    big = node("b", 1, 16384)
    api.objects[:] = [node("a", 2, size), big, held(used, busy, "b"), limits, asking(**asks)]
    big["spec"]["unschedulable"] = True
    assert not decided(api, "p")
    remedies = told(api, "p")
    (amounts,) = [text for text in remedies if text.startswith("ask ")]
    assert f"if a card has more: limits.{MEMORY} leaves {left} MiB" in amounts
    if size <= left:
        amounts = next(text for text in amounts.split(" and ") if f"of {CORES}" in text)
    assert done(api, "p", amounts) == "a", amounts
    (raised,) = [text for text in remedies if text.startswith("have ")]
    assert f"limits.{MEMORY} raised (of {used + left}, {used} are used)" in raised
    limits["spec"]["hard"][f"limits.{MEMORY}"] = str(used + max(size, left))
    assert done(api, "p", raised) == "a"


@pytest.mark.parametrize("policies_seen", [True, False])
@pytest.mark.parametrize("seed", range(25))
def test_to_how_much_a_quota_is_raised_on_what_a_policy_may_give_is_the_least(
    api: Api, seed: int, *, policies_seen: bool
) -> None:
    rng = np.random.default_rng(seed)
    given, busy = int(rng.integers(0, 40)), int(rng.integers(2, 60))
    policy = {"kind": "ClusterVGPUPolicy", "metadata": {"name": "c", "uid": "c"}}
    policy |= {"spec": {"defaults": {"cores": given} if given else {}}}
    limits = quota(gpucores=int(rng.integers(0, busy)))
    api.objects[:] = [node("a", 3), held(1000, busy), limits, policy, asking(gpu=1, gpumem=1000)]
    assert not decided(api, "p")
    seen = frozenset({"ClusterVGPUPolicy"}) if policies_seen else frozenset[str]()
    (raised,) = [text for text in told(api, "p", seen) if text.startswith("have ")]
    assert (" or more (" in raised) is not policies_seen
    assert f"raised to {busy + (given if policies_seen else 0)} " in raised
    assert (done(api, "p", raised) == "a") is (policies_seen or not given)
    limits["spec"]["hard"][f"limits.{CORES}"] = str(busy + given)
    assert decided(api, "p") == "a"


# Cards in pieces, and a quota ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(50))
def test_that_a_piece_is_more_than_is_asked_is_told_where_a_quota_has_room_for_that(api: Api, seed: int) -> None:
    """Then less is asked, or the quota raised: either is placed if it is enough."""
    rng = np.random.default_rng(seed)
    used = int(rng.integers(0, 4000))
    asked = int(rng.integers(5121, 10240))
    left = int(rng.integers(asked, 10240))
    card = node("a", 1)
    listed = "GPU-a-0,10,40960,100,NVIDIA A100-SXM4-40GB,0,true,0,mig:"
    card["metadata"]["annotations"]["hami.io/node-nvidia-register"] = listed
    limits = quota(gpumem=left + used)
    api.objects[:] = [node("b", 1), held(used, where="b"), card, limits, asking(gpu=1, gpumem=asked)]
    api.objects[0]["spec"]["unschedulable"] = True
    assert not decided(api, "p")
    less, raised = told(api, "p")
    why = ": on a card that is split into pieces a whole piece counts, which may be more than is requested"
    assert less == f"ask for less than {asked} of {MEMORY} in container main{why}"
    are_used = f"raised (of {left + used}, {used} are used), or end pods of the namespace"
    assert raised == f"have limits.{MEMORY} {are_used}{why}"
    api.objects[3:] = [limits, asking(gpu=1, gpumem=5120)]
    assert decided(api, "p") == "a"
    limits["spec"]["hard"][f"limits.{MEMORY}"] = str(10240 + used)
    api.objects[4:] = [asking(gpu=1, gpumem=asked)]
    assert decided(api, "p") == "a"


# Fewer cards, and what these count for -------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(50))
def test_of_fewer_cards_the_quota_is_raised_to_what_they_count_for(api: Api, seed: int) -> None:
    rng = np.random.default_rng(seed)
    cards, memory, used = int(rng.integers(1, 3)), int(rng.integers(2, 9000)), int(rng.integers(1, 4000))
    count = cards + int(rng.integers(1, 3))
    left = int(rng.integers(0, memory * count))
    api.objects[:] = [quota(gpumem=used + left), node("a", cards), held(used), asking(gpu=count, gpumem=memory)]
    if cards == 1:
        api.objects.append(node("b", cards))  # beside the card that is held
    assert not decided(api, "p")
    advice = [text for text in told(api, "p") if text.startswith(f"ask 1 of {GPU} instead of {count}")]
    assert [done(api, "p", text) != "" for text in advice] == [True] * (1 if left >= memory or not left else 2)
    assert any(f"ask {left} of {MEMORY}" in text for text in advice) is (0 < left < memory)
    to = f"limits.{MEMORY} raised to {used + memory} (it is {used + left})"
    assert any(to in text for text in advice) is (left < memory)


@pytest.mark.parametrize("seed", range(50))
def test_of_several_cards_the_amount_of_the_nearest_is_said_to_be_the_most(api: Api, seed: int) -> None:
    """The others may have less; of one card alone that amount is free."""
    rng = np.random.default_rng(seed)
    cards = int(rng.integers(2, 5))
    count, used = int(rng.integers(2, cards + 1)), [int(each) for each in rng.integers(1, 16000, size=cards)]
    asks: Object = {"gpu": count, "gpumem": 16384 - min(used) + int(rng.integers(1, 1000))}
    busy = [int(each) for each in rng.integers(0, 99, size=cards)]
    asks |= {"gpucores": int(rng.integers(1, 99))} if rng.random() < 0.5 else {}
    others = [running(f"r{n}", "a", f"GPU-a-{n}", used[n], busy[n]) for n in range(cards)]
    others += [quota(gpumem=int(rng.integers(1, 30000)))] if rng.random() < 0.3 else []
    api.objects[:] = [node("a", cards), *others, asking(**asks)]
    assert not decided(api, "p")
    advice = [text for text in told(api, "p") if text.startswith("ask ")]
    alone = [text for text in advice if f"ask 1 of {GPU} instead of {count} in container main" in text]
    assert alone or "ResourceQuotaNotFit" in api.objects[-1]["message"]
    assert [text for text in alone if done(api, "p", text) != "a"] == []
    for text in advice:
        qualified = "at most: the other cards may have less left" in text
        assert text in alone or qualified or not alone, text


# Cards whose memory is counted in blocks ------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(50))
def test_of_memory_in_blocks_as_many_are_asked_as_the_nearest_card_has(api: Api, seed: int) -> None:
    """And what else it lacks, together."""
    rng = np.random.default_rng(seed)
    factor, memory, cores = int(rng.integers(1, 2000)), int(rng.integers(2, SIZE // 2)), int(rng.integers(2, 50))
    asks = {NUMBER: 1, BLOCKS: SIZE - int(rng.integers(0, memory)), SHARES: 100 - int(rng.integers(0, 2 * cores))}
    made = asking()
    made["spec"]["containers"][0]["resources"] = {"limits": {name: str(max(asks[name], 1)) for name in asks}}
    api.settings = f"dialects: [volcano]\nvolcano_devices: {{nvidia: {{gpuMemoryFactor: {factor}}}}}\n"
    api.objects[:] = [*cluster("volcano", [[(memory, cores)]] * 2), made]
    assert not decided(api, "p")
    advice = [text for text in told(api, "p") if text.startswith("ask ")]
    assert f"ask {SIZE - memory} of {BLOCKS} " in advice[0]
    assert [done(api, "p", text) for text in advice] == ["n0"] * len(advice)


# Memory of which nothing is said -------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(50))
def test_no_figure_is_told_of_memory_that_has_to_be_said_where_no_card_is_known(api: Api, seed: int) -> None:
    rng = np.random.default_rng(seed)
    made = asking()
    limits: Object = {CORE: str(rng.choice([*range(1, 101), 200]))}
    limits |= {SHARED: "1"} if rng.random() < 0.3 and limits[CORE] != "200" else {}
    made["spec"]["containers"][0]["resources"] = {"limits": limits}
    api.settings = "dialects: [koordinator]\n"
    api.objects[:] = [*cluster("koordinator", [[]] * int(rng.integers(1, 4))), made]
    assert not decided(api, "p")
    remedies = told(api, "p")
    assert any(f"add {BYTES} or {RATIO}" in text for text in remedies), remedies
    assert not any(f"of {BYTES}" in text or f"of {RATIO}" in text for text in remedies), remedies


# Limits of policies, and quotas on what the pod does not name yet ----------------------------------------------------


@pytest.mark.parametrize("seed", range(50))
def test_what_a_limit_allows_is_no_more_than_a_quota_leaves(api: Api, seed: int) -> None:
    rng = np.random.default_rng(seed)
    count, cores, left = int(rng.integers(1, 3)), int(rng.integers(2, 100)), max(int(rng.integers(-30, 100)), 0)
    limits: Object = {"coresPerPod": cores}
    asks: Object = {"gpu": count, "gpumem": int(rng.integers(100, 3000))}
    if rng.random() < 0.5:
        limits["memoryPerPod"] = f"{int(rng.integers(50, 2000))}Mi"
    metadata = {"name": "l", "namespace": "team", "uid": "l"}
    policy = {"kind": "VGPUPolicy", "metadata": metadata, "spec": {"limits": limits}}
    api.objects[:] = [node("a", 2), quota(gpucores=left), policy, asking(**asks)]
    assert not decided(api, "p")
    advice = [text for text in told(api, "p") if text.startswith("ask ") and "ask for" not in text]
    assert bool(advice) is (min(cores, left or cores) >= count or count > 1), advice
    for text in advice:
        if left:
            assert done(api, "p", text) == "a", text
        else:
            assert text.endswith(f" and have limits.{CORES} raised (of 0, 0 are used)"), text


VENDORS = (
    ("nvidia.com/gpu", "nvidia.com/gpumem", 1),
    ("iluvatar.ai/MR-V100-vgpu", "iluvatar.ai/MR-V100.vMem", 256),
    ("metax-tech.com/sgpu", "metax-tech.com/vmemory", 1024),
    ("hygon.com/dcunum", "hygon.com/dcumem", 1),
)


@pytest.mark.parametrize("seed", range(50))
def test_containers_that_name_no_memory_are_told_amounts_that_a_limit_allows_together(api: Api, seed: int) -> None:
    """Whoever does what is said is within the limit whatever the cards are."""
    rng = np.random.default_rng(seed)
    cards, memory, unit = VENDORS[int(rng.integers(len(VENDORS)))]
    most = int(rng.integers(3, 40)) * 1024
    first = most // unit + int(rng.integers(1, 20))
    others: list[Object] = [{cards: "1"} for _ in range(int(rng.integers(1, 3)))]
    if memory == MEMORY and rng.random() < 0.5:
        others[0] |= {f"{MEMORY}-percentage": str(int(rng.integers(1, 100)))}
    made = asking()
    resources = [{cards: "1", memory: str(first)}, *others]
    made["spec"]["containers"] = [{"name": f"c{n}", "resources": {"limits": each}} for n, each in enumerate(resources)]
    of_cluster = {"kind": "ClusterVGPUPolicy", "metadata": {"name": "c", "uid": "c"}}
    api.objects[:] = [{**of_cluster, "spec": {"limits": {"memoryPerPod": f"{most}Mi"}}}, node("a", 4, 65536), made]
    assert not decided(api, "p")
    advice = [text for text in told(api, "p") if text.startswith("ask ")]
    assert advice
    for text in advice:
        asked = {said["where"]: int(said["amount"]) * unit for said in ASKED.finditer(text)}
        assert len(asked) == len(resources), text
        assert sum(asked.values()) <= most, text
        assert memory != MEMORY or done(api, "p", text) == "a", text


# What a policy that may not be read gives ----------------------------------------------------------------------------


@pytest.mark.parametrize("quotas_seen", [True, False])
@pytest.mark.parametrize("seed", range(25))
def test_a_quota_on_compute_that_a_policy_gives_leaves_an_amount_to_name(
    api: Api, seed: int, *, quotas_seen: bool
) -> None:
    """Beside it, only a card that is given out in pieces can keep a pod that names no compute: that is told, too."""
    rng = np.random.default_rng(seed)
    count, given = int(rng.integers(1, 3)), int(rng.integers(5, 100))
    left = int(rng.integers(0, count * given))
    policy = {
        "kind": "ClusterVGPUPolicy",
        "metadata": {"name": "d", "uid": "d"},
        "spec": {"defaults": {"cores": given}},
    }
    asked = asking(gpu=count, gpumem=int(rng.integers(100, 9000)))
    others = [quota(gpumem=100000)] if rng.random() < 0.5 else []
    for each in others:
        each["metadata"] = {**each["metadata"], "name": "other", "uid": "other"}
    api.objects[:] = [node("a", 2), policy, quota(gpucores=left), *others, asked]
    assert not decided(api, "p")
    api.refused_everywhere = frozenset() if quotas_seen else frozenset({"ResourceQuota"})
    remedies = told(api, "p")
    amounts = [text for text in remedies if text.startswith("ask ")]
    raised, *of_pieces = [text for text in remedies if text not in amounts]
    assert raised.startswith(f"have limits.{CORES} raised (of {left}, 0 are used)")
    assert all(text.endswith("a whole piece counts, which may be more than is requested") for text in of_pieces)
    assert any(f"ask {left // count} of {CORES} (it asks for none, and is given some)" in text for text in amounts) is (
        left >= count
    )
    assert all(done(api, "p", text) == "a" for text in amounts)


# Nodes and cards that are closed, beside a quota ---------------------------------------------------------------------

CLOSED = ("cordoned card", "unhealthy card", "cordoned node", "unmanaged node", "tainted node")


def closed(name: str, how: str) -> Object:
    """Return a node that takes no pod, whatever it asks."""
    made = node(name, 1, labels={"pool": "other" if how == "unmanaged node" else "vgpu"})
    notes = made["metadata"]["annotations"]
    notes |= {"hami.io/device-cordon": f"GPU-{name}-0"} if how == "cordoned card" else {}
    register = "hami.io/node-nvidia-register"
    notes[register] = notes[register].replace(",true,", ",false,") if how == "unhealthy card" else notes[register]
    made["spec"] |= {"unschedulable": True} if how == "cordoned node" else {}
    made["spec"] |= {"taints": [{"key": "k", "effect": "NoSchedule"}]} if how == "tainted node" else {}
    return made


@pytest.mark.parametrize("seed", range(50))
def test_what_keeps_all_nodes_closed_is_told_with_all_that_is_said_of_quotas(api: Api, seed: int) -> None:
    """Whoever does what is said of the quota has the pod placed once a node is open, and not before."""
    rng = np.random.default_rng(seed)
    asked, used = int(rng.integers(2, 9000)), int(rng.integers(1, 9000))
    limit = used + int(rng.integers(1, asked))
    hows = [str(each) for each in rng.choice(CLOSED, size=int(rng.integers(1, 4)))]
    nodes = [closed(f"n{number}", how) for number, how in enumerate(hows)]
    full = [node("a", 1, labels={"pool": "vgpu"}), held(used)]  # where nothing of the quota is left to ask
    full[0]["spec"] = {"unschedulable": True}
    api.settings = "managed_nodes: pool=vgpu\n"
    api.objects[:] = [quota(gpumem=limit), *full, *nodes, asking(gpu=1, gpumem=asked)]
    assert not decided(api, "p")
    remedies = told(api, "p")
    for each in remedies:  # who can say more of it is said where that is said, and not of the quota
        assert ": an administrator of" not in each, each
        before, told_of, _ = each.partition(" (an administrator of ")
        assert not told_of or " and have " not in before, each
    assert ("unmanaged node" in hows) is any("have more nodes managed" in each for each in remedies)
    assert remedies
    for each in remedies:
        of_nodes = ("wait until the nodes or the pods on them change", "have more nodes", "have cordoned", "tolerate a")
        assert each.startswith(of_nodes), each
        assert not done(api, "p", each)
    api.objects[:] = [*api.objects, node("open", 1, labels={"pool": "vgpu"})]
    for each in remedies:
        assert done(api, "p", each) == "open", each


@pytest.mark.parametrize("seed", range(50))
def test_that_more_nodes_may_be_managed_is_said_beside_what_others_lack(api: Api, seed: int) -> None:
    rng = np.random.default_rng(seed)
    size = int(rng.integers(1000, 9000))
    unmanaged = [node(f"u{number}", 1) for number in range(int(rng.integers(0, 3)))]
    others = [node(f"n{number}", int(rng.integers(0, 2)), size, labels={"pool": "vgpu"}) for number in range(2)]
    api.settings = "managed_nodes: pool=vgpu\n"
    api.objects[:] = [*unmanaged, *others, asking(gpu=1, gpumem=size + 1)]
    assert not decided(api, "p")
    assert any(each.startswith("have more nodes managed") for each in told(api, "p")) is bool(unmanaged)


# Other pods of the group ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("readable", [True, False])
@pytest.mark.parametrize("seed", range(25))
def test_what_keeps_another_pod_of_the_group_is_said_of_that_pod(api: Api, seed: int, *, readable: bool) -> None:
    """Nothing is said of the pod itself, which would fit; what is said of the other one is what that one is told."""
    rng = np.random.default_rng(seed)
    size, number = int(rng.integers(3000, 9000)), int(rng.integers(2, 4))
    bad: list[Object] = [
        {"gpu": 1, "gpumem": size + int(rng.integers(1, 9000))},
        {"gpu": 3, "gpumem": 100},
        {"gpu": 1, "gpumem": "8Gi"},
        {"gpumem": 100},
    ]
    members = [asking(f"p{n}", gpu=1, gpumem=int(rng.integers(2, 500))) for n in range(number - 1)]
    members.append(asking("bad", **bad[int(rng.integers(4))]))
    for each in members:
        prefix = "gang.scheduling.koordinator.sh"
        each["metadata"]["annotations"] = {f"{prefix}/name": "g", f"{prefix}/min-available": str(number)}
    full = node("full", 1)  # where the pod itself would have no room
    taken = running("taken", "full", "GPU-full-0", 16384)
    api.objects[:] = [node("a", 2, size), full, taken, *members]
    assert not decided(api, "bad")
    own = told(api, "bad")
    assert not decided(api, "p0")
    api.refused_everywhere = frozenset() if readable else frozenset({"Pod"})
    remedies = told(api, "p0")
    if readable:
        kept = "for pod team/bad, which is placed together with this one: "
        assert [each.removeprefix(kept) for each in remedies] == own
        assert all(each.startswith(kept) for each in remedies)
    else:
        assert remedies == ["find out what keeps pod team/bad waiting: this one is placed only together with it"]


def test_by_how_much_a_quota_is_raised_for_a_pod_that_does_not_say_its_memory(api: Api) -> None:
    api.objects[:] = [quota(gpumem=3000), held(4000), asking(gpu=1)]
    (raised,) = [text for text in told(api, "p") if "raised to" in text]
    assert f"limits.{MEMORY} raised to more than 4000, by what the pod is to have (it is 3000)" in raised
