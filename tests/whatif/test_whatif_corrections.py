"""What a pod says by mistake is told first, whoever sees the nodes or sees none; who corrects it sees the pod fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.dialects.vendors import node
from tests.whatif.test_whatif_condition_remedies import HAMI, answer, asked_in
from tests.whatif.test_whatif_remedies import pod, world_of
from tests.whatif.test_whatif_remedies_dialects import CORE, CORES, MEMORY, NUMBER, RATIO, SHARED, SIZE, cluster

from vgpu_scheduler.admission import AdmissionRules, review
from vgpu_scheduler.dialects import Dialects
from vgpu_scheduler.dialects.hami import VendorSection, configured, hami_dialect
from vgpu_scheduler.dialects.hami.vendors.shares import ShareRequests
from vgpu_scheduler.dialects.koordinator import names as koordinator
from vgpu_scheduler.engine import EngineOptions
from vgpu_scheduler.whatif import RemedyType, World, ask, remedies
from vgpu_scheduler.whatif.advice.corrections import corrected

Object = dict[str, Any]

CASES = 60
NAMES = {"hami": HAMI, "volcano": (NUMBER, MEMORY, CORES), "koordinator": (SHARED, CORE, RATIO)}


def asked(dialect: str, rng: np.random.Generator) -> Object:
    """Return what a container asks, of which any node has enough."""
    amounts = {"koordinator": (1, 30, 30)}.get(dialect, (1, int(rng.integers(100, SIZE // 2)), 30))
    return dict(zip(NAMES[dialect], amounts, strict=True))


def misspelt(name: str, rng: np.random.Generator) -> str:
    """Return a name with one letter left out, doubled or changed, behind its first two."""
    domain, _, word = name.partition("/")
    where = int(rng.integers(2, len(word)))
    change = {0: "", 1: word[where] * 2, 2: "x"}[int(rng.integers(0, 3))]
    return f"{domain}/{word[:where]}{change}{word[where + 1 :]}"


def told(dialect: str, written: Object) -> tuple[str, list[str], list[Any]]:
    """Return where a pod goes, what is told without the nodes, and what with them."""
    rooms: list[list[list[tuple[int, int]]]] = [[[], []]] * 2
    world, waiting = world_of(*cluster(dialect, *rooms), written, dialect=dialect)
    node, said = answer(world)
    return node, list(said.remedies), remedies(world, waiting)


def fits_when_corrected(dialect: str, written: Object) -> bool:
    world, waiting = world_of(*cluster(dialect, [[], []]), written, dialect=dialect)
    better = dict(corrected(world, world.written(waiting)).written)
    again, _ = world_of(*cluster(dialect, [[], []]), better, dialect=dialect)
    return bool(answer(again)[0])


@pytest.mark.parametrize("dialect", NAMES)
@pytest.mark.parametrize("seed", range(CASES))
def test_names_that_are_misspelt_come_first(dialect: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    amounts = asked(dialect, rng)
    right = str(rng.choice(NAMES[dialect]))
    wrong = misspelt(right, rng)
    written = pod("p", {wrong if name == right else name: amount for name, amount in amounts.items()})
    node, without_nodes, with_nodes = told(dialect, written)
    if node or wrong in NAMES[dialect]:
        pytest.skip("another name that is known, or one that nobody minds")
    words = f"write {right} instead of {wrong} in container main"
    if not without_nodes[0].startswith(words):
        world, _ = world_of(*cluster(dialect, [[], []]), written, dialect=dialect)
        assert world.engine.request_warnings.names.meant_by(wrong) != (right,), "no more like it than like another"
        return
    assert not any(f"less than {amounts[right]} of {wrong}" in text for text in without_nodes)
    assert (with_nodes[0].type, bool(with_nodes[0].node)) == (RemedyType.CORRECT, True)
    assert with_nodes[0].text.startswith(words)
    assert fits_when_corrected(dialect, written)


@pytest.mark.parametrize("seed", range(CASES))
def test_memory_in_bytes_is_told_in_its_unit(seed: int) -> None:
    rng = np.random.default_rng(seed)
    unit, size = [("Mi", 2**20), ("Gi", 2**30), ("M", 10**6), ("G", 10**9)][int(rng.integers(0, 4))]
    number = int(rng.integers(2, SIZE * 2**20 // size))
    dialect = str(rng.choice(["hami", "volcano"]))
    name = NAMES[dialect][1]
    written = pod("p", {NAMES[dialect][0]: 1, name: f"{number}{unit}"})
    _, without_nodes, with_nodes = told(dialect, written)
    meant = number * size // 2**20
    words = f"ask {meant} of {name} instead of {number}{unit} in container main"
    assert without_nodes[0] == with_nodes[0].text == words
    assert with_nodes[0].node
    assert fits_when_corrected(dialect, written)


@pytest.mark.parametrize("seed", range(CASES))
def test_what_is_refused_tells_what_to_write_instead(seed: int) -> None:
    rng = np.random.default_rng(seed)
    dialect = str(rng.choice(["hami", "volcano"]))
    amounts, more, words = asked(dialect, rng), {}, []
    if rng.random() < 0.5:
        more["resourceClaims"] = [{"name": f"c{seed}", "resourceClaimName": "x"}]
        words.append("leave out spec.resourceClaims")
    if rng.random() < 0.3:
        more["volumes"] = [{"name": "w", "emptyDir": {}}, {"name": "v", "unheardOf": {}}]
        words.append("leave out spec.volumes[1].unheardOf")
    if dialect == "hami" and (rng.random() < 0.5 or not words):
        del amounts[HAMI[0]]
        words.append(f"add {HAMI[0]}: 1 to the limits of container main")
    written = pod("p", amounts, **more)
    node, without_nodes, with_nodes = told(dialect, written)
    if node:
        assert not words
        return
    for text in words:
        assert text in without_nodes[0]
        assert text in with_nodes[0].text
    assert with_nodes[0].node
    assert fits_when_corrected(dialect, written)


@pytest.mark.parametrize("seed", range(CASES))
def test_whoever_leaves_out_claims_of_devices_leaves_out_all_that_names_them_and_keeps_cards(seed: int) -> None:
    """A container that still names a claim is refused by the API server; a pod without claims may ask for no card."""
    rng = np.random.default_rng(seed)
    dialect = str(rng.choice(["hami", "volcano", "koordinator"]))
    amounts = asked_in(dialect, rng) if rng.random() < 0.5 else {"cpu": 1}
    written = pod("p", amounts, resourceClaims=[{"name": "c", "resourceClaimName": "x"}])
    (main,) = written["spec"]["containers"]
    claiming = bool(rng.random() < 0.7)
    main["resources"] |= {"claims": [{"name": "c"}]} if claiming else {}
    _, without_nodes, with_nodes = told(dialect, written)
    for text in (without_nodes[0], with_nodes[0].text):
        assert text.startswith("leave out spec.resourceClaims")
        assert ("resources.claims in container main" in text) is claiming, text
        assert ("ask for it by a resource of a device plugin" in text) is ("cpu" in amounts), text


@pytest.mark.parametrize("seed", range(CASES))
def test_gates_are_named_with_who_removes_them(seed: int) -> None:
    rng = np.random.default_rng(seed)
    gates = [f"example.com/g{n}" for n in rng.integers(0, 99, size=int(rng.integers(1, 4))).tolist()]
    gates = list(dict.fromkeys(gates))
    written = pod("p", asked("hami", rng), schedulingGates=[{"name": name} for name in gates])
    world, waiting = world_of(written)
    from vgpu_scheduler.whatif import remedies_from_condition  # noqa: PLC0415 - beside its one use

    (text,) = remedies_from_condition(world, waiting, "", "").remedies
    assert all(name in text for name in gates)
    assert "the controller or user that set it removes it" in text


@pytest.mark.parametrize("seed", range(CASES))
def test_a_fraction_is_told_as_the_whole_number_that_is_meant(seed: int) -> None:
    """Of compute as a share of a card, of memory as an m that was to be an M, of cards as one more."""
    rng = np.random.default_rng(seed)
    dialect = str(rng.choice(["hami", "volcano"]))
    which, milli = int(rng.integers(0, 3)), int(rng.integers(1, 1000))
    text = f"{milli}m" if rng.random() < 0.5 else f"{milli / 1000:.3f}"
    name = NAMES[dialect][which]
    meant = {0: 1, 1: milli, 2: -(-milli // 10)}[which]
    unit = {0: "a number of cards", 1: "in MiB", 2: "in percent of a card"}[which]
    written = pod("p", asked(dialect, rng) | {name: text})
    _, without_nodes, with_nodes = told(dialect, written)
    words = f"ask {meant} of {name}, which is {unit}, instead of {text} in container main"
    assert without_nodes[0] == with_nodes[0].text == words
    assert with_nodes[0].node
    assert fits_when_corrected(dialect, written)


def test_more_than_one_and_a_fraction_is_rounded_up() -> None:
    for name, text, meant in zip(HAMI, ("1500m", "1500500m", "30500m"), (2, 1501, 31), strict=True):
        amounts = dict(zip(HAMI, (1, 100, 10), strict=True)) | {name: text}
        _, without_nodes, with_nodes = told("hami", pod("p", amounts))
        assert without_nodes[0] == with_nodes[0].text
        assert without_nodes[0].startswith(f"ask {meant} of {name}, which is ")


@pytest.mark.parametrize(
    ("count", "name", "text", "words"),
    [
        ("metax-tech.com/sgpu", "metax-tech.com/vmemory", "0.5", "ask 1 of {}, which is in units of 1024 MiB,"),
        ("metax-tech.com/sgpu", "metax-tech.com/vmemory", "2500m", "ask 3 of {}, which is in units of 1024 MiB,"),
        ("mthreads.com/vgpu", "mthreads.com/sgpu-memory", "500m", "ask 1 of {}, which is in units of 512 MiB,"),
        ("iluvatar.ai/BI-V100-vgpu", "iluvatar.ai/BI-V100.vMem", "1.5", "ask 2 of {}, which is in units of 256 MiB,"),
        ("aws.amazon.com/neuroncore", "aws.amazon.com/neuroncore", "1500m", "ask 2 of {}"),
    ],
)
def test_a_fraction_is_rounded_up_in_the_units_of_its_resource(count: str, name: str, text: str, words: str) -> None:
    world, waiting = world_of(pod("p", {count: 1} | {name: text}))
    (said,) = answer(world)[1].remedies
    assert said == f"{words.format(name)} instead of {text} in container main"
    assert not any("card" in each.text for each in remedies(world, waiting) if each.type is RemedyType.CORRECT)


def test_a_fraction_of_memory_is_rounded_up_in_the_units_that_are_configured() -> None:
    dialect = hami_dialect(configured(VendorSection({"nvidia": {"memoryFactor": 256}})))
    world = World(EngineOptions([dialect]))
    written = {**pod("p", {HAMI[0]: 1, HAMI[1]: "0.5"}), "kind": "Pod"}
    (change,) = corrected(world, written).changes
    assert str(change) == f"ask 1 of {HAMI[1]}, which is in units of 256 MiB, instead of 0.5 in container main"


REFUSED_FOR = {
    "koordinator": (
        ("annotations", koordinator.HINT_ANNOTATION),
        ("annotations", koordinator.JOINT_ANNOTATION),
        ("annotations", koordinator.PARTITION_ANNOTATION),
    ),
}
"""Labels and annotations for which a dialect refuses a pod, and says so."""


@pytest.mark.parametrize("dialect", REFUSED_FOR)
@pytest.mark.parametrize("seed", range(40))
def test_marks_that_are_to_be_removed_are(dialect: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    known = REFUSED_FOR[dialect]
    chosen = [known[int(n)] for n in rng.choice(len(known), size=int(rng.integers(1, len(known) + 1)), replace=False)]
    metadata: Object = {"labels": {"app": "x"}, "annotations": {"note": "y"}}
    for kind, name in chosen:
        metadata[kind] = {**metadata[kind], name: "anything"}
    node, without_nodes, with_nodes = told(dialect, pod("p", asked(dialect, rng), metadata=metadata))
    assert not node
    (remedy,) = with_nodes
    assert remedy.type is RemedyType.CORRECT
    assert remedy.node
    assert [remedy.text] == without_nodes
    assert all(f"leave out its {kind.removesuffix('s')} {name}" in remedy.text for kind, name in chosen)
    assert remedy.pod["metadata"]["labels"] == {"app": "x"}
    assert remedy.pod["metadata"]["annotations"] == {"note": "y"}


@pytest.mark.parametrize("seed", range(50))
def test_the_count_that_volcano_misses_is_added(seed: int) -> None:
    rng = np.random.default_rng(seed)
    chosen = asked("volcano", rng)
    del chosen[NUMBER]
    chosen = {name: amount for name, amount in chosen.items() if name == MEMORY or rng.random() < 0.5}
    node, without_nodes, with_nodes = told("volcano", pod("p", chosen))
    assert not node
    (remedy,) = with_nodes
    assert remedy.type is RemedyType.CORRECT
    assert remedy.node
    assert [remedy.text] == without_nodes == [f"add {NUMBER}: 1 to the limits of container main"]


@pytest.mark.parametrize("mode", ["", "hami-core"])
@pytest.mark.parametrize("seed", range(50))
def test_compute_of_chips_that_are_cut_is_left_out(seed: int, mode: str) -> None:
    """It comes with the memory; HAMi's webhook refuses who asks for it, and so does ours."""
    rng = np.random.default_rng(seed)
    vendors = [each for each in configured(VendorSection()) if each.key.startswith("Ascend")]
    vendor = vendors[int(rng.integers(0, len(vendors)))]
    there = node("a", [vendor], np.random.default_rng(0))
    there["metadata"]["annotations"]["hami-vnpu-core"] = "true"
    names = vendor.claims
    assert isinstance(names, ShareRequests)
    there["status"]["allocatable"] = {"cpu": "8", "memory": "8Gi", "pods": "110", names.count: "32"}
    chosen = {names.count: 1, names.memory: int(rng.integers(100, 9000)), names.cores: int(rng.integers(21, 100))}
    if rng.random() < 0.3:
        del chosen[names.memory]
    written = pod("p", chosen, metadata={"annotations": {"huawei.com/vnpu-mode": mode}})
    world, waiting = world_of({"kind": "Node", **there}, written)
    placed, said = answer(world)
    rules = AdmissionRules(Dialects([hami_dialect()]), ("default-scheduler",))
    assert review(written, "default", rules).allowed == bool(mode)
    assert bool(placed) == bool(mode)
    if not mode:
        (remedy,) = remedies(world, waiting)
        assert [remedy.text] == list(said.remedies) == [f"leave out {names.cores} in container main"]
        assert (remedy.type, remedy.node) == (RemedyType.CORRECT, "a")
        assert remedy.pod is not None
        assert review(dict(remedy.pod), "default", rules).allowed


@pytest.mark.parametrize("seed", range(50))
def test_parts_of_the_memory_of_several_chips_are_asked_of_fewer_chips(seed: int) -> None:
    """The smallest change is the number: without the memory, a pod gets whole chips."""
    rng = np.random.default_rng(seed)
    vendors = [each for each in configured(VendorSection()) if each.key.startswith("Ascend")]
    vendor = vendors[int(rng.integers(0, len(vendors)))]
    names = vendor.claims
    assert isinstance(names, ShareRequests)
    there = {"kind": "Node", **node("a", [vendor], np.random.default_rng(seed))}
    there["status"]["allocatable"] = {"cpu": "8", "memory": "8Gi", "pods": "110", names.count: "32"}
    chips, count = len(world_of(there, pod("p", {names.count: 1}))[0].devices("a")), 2 * int(rng.integers(17, 30))
    written = pod("p", {names.count: count, names.memory: int(rng.integers(100, 2000))})
    rules = AdmissionRules(Dialects([hami_dialect()]), ("default-scheduler",))
    assert not review(written, "default", rules).allowed
    world, waiting = world_of(there, written)
    assert not corrected(world, written).changes
    found = [each for each in remedies(world, waiting) if each.pod is not None]
    assert chips < count
    assert any(f" of {names.count} instead of {count} in container main" in each.text for each in found)
    for each in found:
        assert names.memory not in each.text
        again, asked = world_of(there, dict(each.pod or {}))
        assert ask(again, asked).node == "a"


@pytest.mark.parametrize(
    ("quantity", "places"),
    [("9223372036854775807", ("limits",)), ("99999999999999999999999999", ("limits", "requests"))],
)
def test_an_amount_that_is_beyond_all_is_told_once_and_not_by_how_much(quantity: str, places: tuple[str, ...]) -> None:
    written = pod("asked", {HAMI[0]: 1, HAMI[1]: quantity})
    resources = written["spec"]["containers"][0]["resources"]
    resources |= {place: dict(resources["limits"]) for place in places}
    world, waiting = world_of(*cluster("hami", [[]]), written)
    texts = [each.text for each in remedies(world, waiting)]
    assert f"ask {SIZE} of {HAMI[1]} instead of {quantity} in container main" in texts
    assert not any("nvidia.com/gpumem instead of 8796093022207" in each or " less" in each for each in texts), texts
