"""What commands say of pods of groups: to administrators, to whoever asks how many fit, and to tenants."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.cli.live_cluster import KINDS, Api, run
from tests.cli.simulated import pod as asked_for
from tests.cli.simulated import run as simulate
from tests.cli.simulated import write
from tests.whatif.test_whatif_remedies import GPU, MEMORY, node, pod

Object = dict[str, Any]
GANG = "gang.scheduling.koordinator.sh"
TOTAL = "kueue.x-k8s.io/pod-group-total-count"
NAMED: dict[str, tuple[Object, Object]] = {
    "label scheduling.x-k8s.io/pod-group": ({"scheduling.x-k8s.io/pod-group": "g"}, {}),
    f"annotation {GANG}/name": ({}, {f"{GANG}/name": "g", f"{GANG}/min-available": "4"}),
    "label kueue.x-k8s.io/pod-group-name": ({"kueue.x-k8s.io/pod-group-name": "g"}, {TOTAL: "4"}),
    "annotation scheduling.volcano.sh/group-name": ({}, {"scheduling.volcano.sh/group-name": "g"}),
}
MISTAKEN: dict[str, tuple[Object, Object]] = {
    f"annotation {GANG}/min-available": ({}, {f"{GANG}/name": "g", f"{GANG}/min-available": "0"}),
    f"annotation {TOTAL}": ({"kueue.x-k8s.io/pod-group-name": "g"}, {TOTAL: "x"}),
}


def member(name: str, said: tuple[Object, Object], message: str = "") -> Object:
    """Return a pod of the namespace team that names a group."""
    labels, annotations = said
    metadata = {"name": name, "namespace": "team", "uid": f"u-{name}", "labels": labels, "annotations": annotations}
    made = pod(name, {GPU: 1, MEMORY: 1000}, schedulerName="vgpu-scheduler", metadata=metadata)
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    made["status"] = {"phase": "Pending", "conditions": [condition] if message else []}
    return made


@pytest.mark.parametrize("count", ["3", "max"])
@pytest.mark.parametrize("by", [*NAMED, *MISTAKEN])
def test_how_many_fit_is_said_to_be_asked_of_single_copies(folder: Path, by: str, count: str) -> None:
    labels, annotations = (NAMED | MISTAKEN)[by]
    asked = asked_for()
    asked["metadata"] |= {"labels": labels, "annotations": annotations}
    result = simulate("-f", write("p.yaml", asked), "--cluster", write("n.yaml", node("a", cards=3)), "--count", count)
    told = f"warning: Pod default/p: {by} names group default/g, which --count ignores"
    assert (told in result.stderr) is (by in NAMED)
    assert ("is not a number of pods" in result.stdout) is (by in MISTAKEN)
    assert (result.exit_code == 0) is (by in NAMED)


@pytest.mark.parametrize("by", MISTAKEN)
def test_tenants_are_told_that_a_pod_is_refused_for_its_group(api: Api, by: str, tmp_path: Path) -> None:
    api.refused = frozenset(KINDS.values())
    path = tmp_path / "p.yaml"
    path.write_text(yaml.safe_dump(member("p", MISTAKEN[by])))
    for more in ((), ("--count", "2")):
        told = run("simulate", "-f", str(path), "-n", "team", *more).stdout
        assert told.startswith(f"team/p: {by}: ")
        assert "is not a number of pods" in told
    api.objects.append(member("p", MISTAKEN[by], "annotation: it is refused"))
    assert f"  correct {by}: " in run("explain", "p", "-n", "team").stdout
    assert f"{by}: " in run("simulate", "--pending", "-n", "team").stdout


@pytest.mark.parametrize("there", [1, 2, 3])
@pytest.mark.parametrize("by", [by for by, (_, annotations) in NAMED.items() if "4" in annotations.values()])
def test_tenants_are_told_how_many_pods_of_a_group_are_missing(api: Api, by: str, there: int, tmp_path: Path) -> None:
    api.refused = frozenset(KINDS.values())
    path, members = tmp_path / "p.yaml", [member(f"p{n}", NAMED[by]) for n in range(there)]
    path.write_text(yaml.safe_dump_all(members))
    missing = f"create {4 - there} more pod{'s' if there < 3 else ''} of group team/g"
    told = run("simulate", "-f", str(path), "-n", "team").stdout.splitlines()
    assert len(told) == there
    assert all(missing in line for line in told)
    api.objects += members
    assert f"  {missing}" in run("explain", "p0", "-n", "team").stdout


@pytest.mark.parametrize("kept", [1, 2, 5])
def test_tenants_are_told_why_others_of_a_group_do_not_count(api: Api, kept: int) -> None:
    """In the same sentence: nothing stands above it."""
    api.refused = frozenset(KINDS.values())
    by = "annotation gang.scheduling.koordinator.sh/name"
    others = [member(f"q{n}", NAMED[by]) for n in range(kept)]
    for number, each in enumerate(others):
        if number % 2:
            each["spec"]["schedulerName"] = "another"
        else:
            each["spec"]["schedulingGates"] = [{"name": "example.com/later"}]
    api.objects += [member("p0", NAMED[by]), *others]
    words = (("explain", "p0", "-n", "team"), ("simulate", "--pending", "-n", "team"))
    for told in (run(*each).stdout for each in words):
        found = [each for each in told.splitlines() if "the scheduling gates of" in each]
        line = next(each for each in found if not each.startswith("team/q"))
        assert "said above" not in line
        assert ("or include others: " in line) is (kept > 1)
        for number in range(kept):
            assert f"q{number} ({('example.com/later', 'names scheduler another')[number % 2]}" in line


WAITS_FOR_OTHERS = "waits for other pods of its group team/g: 4 are needed before any is placed."


@pytest.mark.parametrize(
    ("message", "unseen", "told"),
    [
        (
            "PodGroup.scheduling.x-k8s.io team/g, which says how many pods the group needs, does not exist.",
            (),
            "create PodGroup.scheduling.x-k8s.io team/g, or correct the name",
        ),
        (WAITS_FOR_OTHERS, ("Pod",), "have 4 pods of group team/g wait for this scheduler, or run"),
        (WAITS_FOR_OTHERS, (), "create 3 more pods of group team/g"),
    ],
)
def test_tenants_are_told_what_the_condition_says_of_a_group(
    api: Api, message: str, unseen: tuple[str, ...], told: str
) -> None:
    api.refused = frozenset(KINDS.values())
    api.refused_everywhere = frozenset(kind for kind in KINDS.values() if kind.startswith(("PodGroup", *unseen)))
    api.objects.append(member("p", NAMED["label scheduling.x-k8s.io/pod-group"], message))
    said = run("explain", "p", "-n", "team").stdout
    assert f"  {told}" in said
    assert "change the requests" not in said, "nothing is said of requests"


@pytest.mark.parametrize("odd", [0, 1, 3])
@pytest.mark.parametrize("by", [by for by, (_, annotations) in NAMED.items() if "4" in annotations.values()])
def test_tenants_are_told_whether_all_pods_of_a_group_have_to_ask_otherwise(api: Api, by: str, odd: int) -> None:
    api.refused = frozenset(KINDS.values())
    message = "0/3 nodes are available: 3 CardInsufficientMemory."
    members = [member(f"p{n}", NAMED[by], message) for n in range(4)]
    for each in members[4 - odd :]:
        each["spec"]["containers"][0]["resources"]["limits"][MEMORY] = "2000"
    api.objects += members
    told = run("explain", "p0", "-n", "team").stdout
    assert "What may help" in told
    alike = [f"p{n}" for n in range(1, 4 - odd)]
    said = f": change the requests of {', '.join(alike)}, which are the same, in the same way."
    if not alike:
        said = ", which request something else: what is said of requests concerns this pod alone."
    assert f"It is placed together with other pods of its group team/g{said}" in told


def test_a_pod_that_is_placed_by_itself_is_not_said_to_be_of_a_group(api: Api) -> None:
    api.refused = frozenset(KINDS.values())
    api.objects.append(member("p0", ({}, {}), "0/3 nodes are available: 3 CardInsufficientMemory."))
    assert "It is placed together" not in run("explain", "p0", "-n", "team").stdout
