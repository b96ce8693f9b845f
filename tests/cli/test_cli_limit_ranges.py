"""What the API server's admission does to pods of files before any scheduler sees them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.cli.live_cluster import KINDS, Api, run
from tests.cli.test_cli_from_page import kubeconfig, objects, page
from tests.ui.doors import ADMIN
from tests.whatif.test_whatif_remedies import GPU, MEMORY, node, pod

Object = dict[str, Any]
EVERYTHING = frozenset(KINDS.values())
REFUSED = "the API server refuses to create it: "
TOO_MUCH = (
    f"{REFUSED}LimitRange blue/cards: container main: maximum {MEMORY} usage per Container is 4000, but limit is 8000"
)


def limit_range(*items: Object, name: str = "cards", namespace: str = "blue") -> Object:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "LimitRange", "metadata": metadata, "spec": {"limits": list(items)}}


AT_MOST = limit_range({"type": "Container", "max": {MEMORY: "4000"}})
GIVEN = limit_range(
    {"type": "Container", "default": {MEMORY: "3000"}}, {"type": "Pod", "max": {"cpu": "4"}}, name="given"
)


def in_blue(asked: Object) -> Object:
    asked["metadata"]["namespace"] = "blue"
    return {"apiVersion": "v1", **asked}


def asking(name: str = "new", memory: int | None = 8000, **spec: Any) -> Object:
    limits = {GPU: 1, "cpu": 1, **({} if memory is None else {MEMORY: memory})}
    return in_blue(pod(name, limits, schedulerName="vgpu-scheduler", **spec))


def workload(kind: str, memory: int, **spec: Any) -> Object:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": asking(memory=memory)["spec"]}
    version = "batch/v1" if kind == "Job" else "apps/v1"
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": "w", "namespace": "blue"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template, **spec},
    }


def written(folder: Path, name: str, *found: Object) -> str:
    file = folder / name
    file.write_text(yaml.safe_dump_all(found))
    return str(file)


def simulated(folder: Path, there: list[Object], *asked: Object, options: tuple[str, ...] = ()) -> Any:
    names = ["-f", written(folder, "asked.yaml", *asked), "--cluster", written(folder, "cluster.yaml", *there)]
    return run("simulate", *names, *options)


def answers(folder: Path, there: list[Object], *asked: Object) -> tuple[dict[str, tuple[str, str]], str]:
    """Return outcome and message of each pod, and what is said beside."""
    result = simulated(folder, there, *asked, options=("-o", "json"))
    assert result.exit_code in {0, 1}, result.output
    found = {each["pod"].partition("/")[2]: (each["outcome"], each["message"]) for each in json.loads(result.stdout)}
    return found, result.stderr


def test_a_pod_that_a_limit_range_refuses_is_never_created(tmp_path: Path) -> None:
    result = simulated(tmp_path, [node("a"), AT_MOST], asking(), asking("small", 4000))
    assert result.exit_code == 1
    assert f"blue/new: {TOO_MUCH}" in result.stdout
    rows = [line.split()[:3] for line in result.stdout.splitlines()]
    assert ["blue/new", "refused", "-"] in rows
    assert ["blue/small", "placed", "a"] in rows
    assert TOO_MUCH in simulated(tmp_path, [node("a"), AT_MOST], asking(), options=("--explain",)).stdout


def test_a_refused_pod_takes_nothing_from_others(tmp_path: Path) -> None:
    there = [node("a", 1, 8000), AT_MOST]
    found, _ = answers(tmp_path, there, asking("first", 8000, priority=9), asking("second", 4000))
    assert found == {"first": ("refused", TOO_MUCH), "second": ("placed", "")}


@pytest.mark.parametrize(
    ("kind", "spec", "number"),
    [("Deployment", {"replicas": 2}, 2), ("Job", {"parallelism": 3, "completions": 3}, 3), ("StatefulSet", {}, 1)],
)
def test_the_pods_of_a_workload_are_refused_one_by_one(kind: str, spec: Object, number: int, tmp_path: Path) -> None:
    found, _ = answers(tmp_path, [node("a"), AT_MOST], workload(kind, 8000, **spec))
    assert list(found.values()) == [("refused", TOO_MUCH)] * number
    found, _ = answers(tmp_path, [node("a"), AT_MOST], workload(kind, 4000, **spec))
    assert {outcome for outcome, _ in found.values()} == {"placed"}


def test_a_group_waits_for_the_pods_that_are_refused(tmp_path: Path) -> None:
    group = {"pod-group.scheduling.sigs.k8s.io/name": "g", "pod-group.scheduling.sigs.k8s.io/min-available": "2"}
    pods = [asking("one", 4000), asking("two", 8000)]
    for each in pods:
        each["metadata"]["labels"] = group
    found, _ = answers(tmp_path, [node("a")], *pods)
    assert {outcome for outcome, _ in found.values()} == {"placed"}
    found, _ = answers(tmp_path, [node("a"), AT_MOST], *pods)
    assert found["two"] == ("refused", TOO_MUCH)
    assert found["one"][0] != "placed"


@pytest.mark.parametrize("copies", ["3", "max"])
def test_no_copy_of_a_refused_pod_fits(copies: str, tmp_path: Path) -> None:
    result = simulated(tmp_path, [node("a"), AT_MOST], asking(), options=("--count", copies))
    assert result.exit_code == 1
    assert "0 of blue/new fit." in result.stdout
    assert f"The next one: {TOO_MUCH}" in result.stdout


def test_defaults_change_what_a_pod_asks_for(tmp_path: Path) -> None:
    hard = {f"limits.{MEMORY}": "4000"}
    quota = {"kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "blue"}, "spec": {"hard": hard}}
    result = simulated(
        tmp_path, [node("a"), GIVEN, quota], workload("Deployment", 3000, replicas=1), asking(memory=None)
    )
    assert "blue/w-0  placed" in result.stdout
    assert f"namespace blue uses 3000 of 4000 MiB of limits.{MEMORY}" in result.stdout  # without it: a whole card
    told = f"it gets the defaults of LimitRange blue/given (container main: limit 3000 of {MEMORY}, request 3000 of"
    assert result.stderr.count(f"Pod new: {told} {MEMORY})") == 1
    assert "Deployment w: it gets the defaults" not in result.stderr


def test_a_default_is_told_once_for_all_pods_of_a_template(tmp_path: Path) -> None:
    asked = workload("Deployment", 1, replicas=3)
    del asked["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"][MEMORY]
    found, told = answers(tmp_path, [node("a"), GIVEN], asked)
    assert len(found) == 3
    assert told.count("Deployment w: it gets the defaults of LimitRange blue/given") == 1


def test_a_default_may_be_more_than_is_allowed_together(tmp_path: Path) -> None:
    each = limit_range({"type": "Container", "default": {"memory": "3Gi"}}, {"type": "Pod", "max": {"memory": "5Gi"}})
    asked = asking()
    asked["spec"]["containers"].append({"name": "second", "resources": {}})
    found, _ = answers(tmp_path, [node("a"), each], asked)
    assert found["new"] == (
        "refused",
        f"{REFUSED}LimitRange blue/cards: maximum memory usage per Pod is 5Gi, but limit is 6Gi",
    )


def test_limit_ranges_of_files_and_of_other_namespaces(tmp_path: Path) -> None:
    elsewhere = {**AT_MOST, "metadata": {"name": "cards", "namespace": "green"}}
    assert answers(tmp_path, [node("a"), elsewhere], asking())[0]["new"][0] == "placed"
    assert answers(tmp_path, [node("a")], AT_MOST, asking())[0]["new"] == ("refused", TOO_MUCH)
    home = {**AT_MOST, "metadata": {"name": "cards"}}
    result = simulated(tmp_path, [node("a")], home, asking(), options=("-n", "blue"))
    assert TOO_MUCH in result.stdout


def test_a_malformed_limit_range_is_named_and_others_go_on(tmp_path: Path) -> None:
    wrong = limit_range({"type": "Container", "max": {"cpu": "lots"}}, name="wrong")
    found, told = answers(tmp_path, [node("a"), wrong, AT_MOST], asking())
    assert "LimitRange blue/wrong: spec.limits[0].max[cpu]: 'lots' is not a quantity: it is ignored" in told
    assert found["new"] == ("refused", TOO_MUCH)


def test_claims_that_a_limit_range_refuses_are_told(tmp_path: Path) -> None:
    limits = limit_range({"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}})
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}}
    claim = {"kind": "PersistentVolumeClaim", "metadata": {"name": "c", "namespace": "blue"}, "spec": spec}
    made = workload("StatefulSet", 4000, volumeClaimTemplates=[{"metadata": {"name": "data"}, "spec": spec}])
    found, told = answers(tmp_path, [node("a"), limits], claim, made)
    no_claim = "its controller does not create it, since the API server refuses PersistentVolumeClaim data-w-0"
    assert found == {"w-0": ("refused", no_claim)}
    why = "the API server refuses it: LimitRange blue/cards: maximum storage usage per PersistentVolumeClaim is 1Gi"
    assert f"PersistentVolumeClaim c: {why}, but request is 2Gi" in told
    assert f"PersistentVolumeClaim data-w-0: {why}, but request is 2Gi" in told
    found, told = answers(
        tmp_path, [node("a"), limits, {**claim, "metadata": {"name": "data-w-0", "namespace": "blue"}}], made
    )
    assert "data-w-0" not in told, "it is there already"
    assert found["w-0"][0] != "refused"


# Those who may read one namespace ------------------------------------------------------------------------------------


def test_a_tenant_is_told_what_the_limit_ranges_of_the_namespace_do(api: Api, tmp_path: Path) -> None:
    api.objects = [node("a"), AT_MOST, GIVEN]
    api.refused = EVERYTHING
    file = written(tmp_path, "asked.yaml", asking(), asking("small", 3000), asking("none", None))
    told = run("simulate", "-f", file, "-n", "blue")
    assert f"blue/new: {TOO_MUCH}" in told.stdout
    assert "blue/small: nothing known keeps it from being placed" in told.stdout
    assert "Pod none: it gets the defaults of LimitRange blue/cards" in told.stderr
    assert "limitranges" not in told.stderr


def test_a_tenant_who_may_not_read_limit_ranges_is_told_so(api: Api, tmp_path: Path) -> None:
    api.objects = [node("a"), AT_MOST]
    api.refused, api.refused_everywhere = EVERYTHING, frozenset({"LimitRange"})
    told = run("simulate", "-f", written(tmp_path, "asked.yaml", asking()), "-n", "blue")
    assert "blue/new: nothing known keeps it from being placed" in told.stdout
    assert "limitranges" in told.stderr.partition("you may read namespace blue only: ")[2].partition(" are left out")[0]


# Snapshots and the page ----------------------------------------------------------------------------------------------


def test_a_snapshot_has_the_limit_ranges(api: Api, tmp_path: Path) -> None:
    api.objects = [node("a"), AT_MOST]
    file = tmp_path / "snapshot.json"
    assert run("snapshot", "-f", str(file)).exit_code == 0
    told = run("simulate", "-f", written(tmp_path, "asked.yaml", asking()), "--cluster", str(file))
    assert f"blue/new: {TOO_MUCH}" in told.stdout


@pytest.fixture
def given(tmp_path: Path) -> Iterator[list[str]]:
    """The options of the page, as a tenant."""
    config = kubeconfig(tmp_path, {"token": "token-of-tenant"})
    with page(tmp_path, [AT_MOST, limit_range({"type": "Pod", "max": {"cpu": "1m"}}, namespace="green")]) as found:
        yield [word for pair in found.items() for word in pair] + ["--kubeconfig", config]


def test_the_page_knows_limit_ranges(given: list[str], tmp_path: Path) -> None:
    file = written(tmp_path, "asked.yaml", asking(), asking("small", 3000))
    there = written(tmp_path, "cluster.yaml", *objects(), AT_MOST)
    for who in ("tenant", ADMIN):
        kubeconfig(tmp_path, {"token": f"token-of-{who}"})
        told = run("simulate", "-f", file, *given)
        assert f"blue/new: {TOO_MUCH}" in told.stdout
        alone = json.loads(run("simulate", "-f", file, "--cluster", there, "-o", "json").stdout)
        paged = json.loads(run("simulate", "-f", file, "-o", "json", *given).stdout)
        assert [each["message"] for each in paged] == [each["message"] for each in alone] == [TOO_MUCH, ""]
        assert "0 of blue/new fit." in run("simulate", "-f", file, "--count", "2", *given).stdout


# Priority classes ----------------------------------------------------------------------------------------------------


def priority_class(name: str, value: int, **more: Any) -> Object:
    return {"kind": "PriorityClass", "metadata": {"name": name}, "value": value, **more}


def test_a_class_that_does_not_exist_has_the_pod_refused(tmp_path: Path) -> None:
    there = [node("a"), priority_class("urgent", 1000)]
    found, told = answers(tmp_path, there, asking(priorityClassName="urgnt"))
    assert found["new"] == (
        "refused",
        f"{REFUSED}no PriorityClass with name urgnt was found, did you mean urgent?",
    )
    assert "PriorityClass" not in told
    known = asking(priorityClassName="urgent")
    assert answers(tmp_path, there, known)[0]["new"][0] == "placed"
    assert answers(tmp_path, there, asking(priorityClassName="system-node-critical"))[0]["new"][0] == "placed"
    assert (
        answers(tmp_path, there, priority_class("mine", 1), asking(priorityClassName="mine"))[0]["new"][0] == "placed"
    )


def test_where_no_class_was_read_a_missing_one_is_told_as_before(tmp_path: Path) -> None:
    found, told = answers(tmp_path, [node("a")], asking(priorityClassName="urgnt"))
    assert found["new"][0] == "placed"
    assert "Pod blue/new: there is no PriorityClass urgnt" in told


@pytest.mark.parametrize("refused", [frozenset[str](), frozenset({"PriorityClass"})])
def test_live_classes_are_missed_only_where_they_may_be_listed(
    api: Api, refused: frozenset[str], tmp_path: Path
) -> None:
    api.objects = [node("a")]
    api.refused = api.refused_everywhere = refused
    told = run("simulate", "-f", written(tmp_path, "asked.yaml", asking(priorityClassName="x")), "-n", "blue").stdout
    assert ("no PriorityClass with name x was found" in told) is (not refused)
    assert ("blue/new  placed" in told) is bool(refused)


def test_a_new_pod_without_a_class_gets_the_default_one(tmp_path: Path) -> None:
    there = [node("a", 1, 8000), priority_class("usual", 10, globalDefault=True), priority_class("less", 1)]
    first, second = asking("first", 8000, priorityClassName="less"), asking("second", 8000)
    assert {name: outcome for name, (outcome, _) in answers(tmp_path, there, first, second)[0].items()} == {
        "second": "placed",
        "first": "unschedulable",
    }
