"""Policies: for whom each is in force, what it decides there, what is wrong with it, and two of them compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import yaml
from tests.cli.live_cluster import run
from tests.ui.browsers import Browser, current_of, served
from tests.whatif.test_whatif_remedies import GPU, MEMORY, node, pod, running

from vgpu_scheduler.kube import LAST_APPLIED
from vgpu_scheduler.reading import ClusterOptions, read_cluster

Object = dict[str, Any]
OURS = "vgpu-scheduler"


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vgpu_scheduler.reading.settings.os.environ", {})


def policy(name: str, spec: Object, namespace: str = "", **metadata: Any) -> Object:
    return {
        "apiVersion": "vgpu-scheduler.io/v1alpha1",
        "kind": "VGPUPolicy" if namespace else "ClusterVGPUPolicy",
        "metadata": {"name": name, **({"namespace": namespace} if namespace else {}), **metadata},
        "spec": spec,
    }


def waiting(name: str, memory: int, **labels: str) -> Object:
    return pod(name, {GPU: 1, MEMORY: memory}, schedulerName=OURS, metadata={"labels": labels})


SMALL = policy(
    "small",
    {"limits": {"memoryPerPod": "2Gi"}, "namespaceSelector": {"matchLabels": {"team": "a"}}},
    creationTimestamp="2026-01-01T00:00:00Z",
)
LARGE = policy("large", {"limits": {"memoryPerPod": "8Gi"}})
SPREAD = policy("spread", {"nodes": {"policy": "spread"}}, "default")
PACK = policy("pack", {"nodes": {"policy": "binpack"}})
OF_X = policy("of-x", {"devices": {"types": {"deny": ["H100"]}}, "selector": {"matchLabels": {"app": "x"}}})
BROKEN = policy(
    "broken", {"priority": 1, "nodes": {"policy": "sideways"}, "selector": {"matchLabels": {"app": "broken"}}}
)
STATUS = {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T12:00:00Z"}]}


def objects() -> list[Object]:
    namespace = {"kind": "Namespace", "metadata": {"name": "default", "labels": {"team": "a"}}}
    held = running("held", "a", "GPU-a-0", 1000)
    pods = [waiting("few", 1000, app="x"), waiting("many", 4000), held]
    return [namespace, node("a"), SMALL, {**SPREAD, "status": STATUS}, PACK, OF_X, BROKEN, *pods]


async def rows(browser: Browser) -> dict[str, Object]:
    answer = await browser.get("/policies?format=json")
    assert answer.status == 200, answer.text
    return {row["policy"]: row for row in answer.body["policies"]}


async def test_each_policy_says_for_whom_it_is_what_it_decides_and_what_is_wrong_with_it() -> None:
    async with served(objects()) as browser:
        found = await rows(browser)
        text = (await browser.get("/policies")).text
    small = found["ClusterVGPUPolicy small"]
    assert (small["for"], small["selected"], small["waiting"]) == ("all pods of namespaces with team=a", 3, 2)
    assert (small["created"], small["changes"]) == ("2026-01-01T00:00:00Z", {"limits": "memoryPerPod 2Gi"})
    assert (small["sections"], small["problems"]) == ({"limits": 3}, [])
    spread = found["VGPUPolicy default/spread"]
    assert (spread["for"], spread["changed"]) == ("all pods of namespace default", "2026-01-01T12:00:00Z")
    assert (spread["sections"], spread["changes"]) == ({"nodes": 3}, {"nodes": "spread"})
    pack = found["ClusterVGPUPolicy pack"]
    assert (pack["for"], pack["sections"]) == ("all pods of all namespaces", {"nodes": 0})
    assert pack["problems"] == ["nodes: VGPUPolicy default/spread decides it for all 3 pods that it selects"]
    of_x = found["ClusterVGPUPolicy of-x"]
    assert (of_x["for"], of_x["selected"], of_x["waiting"]) == ("pods with app=x of all namespaces", 1, 1)
    assert of_x["sections"] == {"devices": 1}
    assert of_x["problems"] == ["spec.devices.types.deny: no card is a H100; there are NVIDIA-A100"]
    broken = found["ClusterVGPUPolicy broken"]
    assert (broken["selected"], broken["sections"]) == (0, {"nodes": 0})
    assert "spec.nodes.policy" in broken["problems"][0]
    assert "Pods to which it would apply wait" in broken["problems"][0]
    assert "ClusterVGPUPolicy pack" in text
    assert 'href="/policies?compare=ClusterVGPUPolicy%2Fsmall"' in text


async def test_how_many_pods_is_what_the_status_would_say() -> None:
    current = current_of(objects())
    reports = await current.ask(lambda world, _: world.engine.policy_tracker.report(frozenset({OURS})))
    current.close()
    async with served(objects()) as browser:
        found = await rows(browser)
    assert {(row["name"], row["pods"]) for row in found.values()} == {(r.policy.name, r.pods) for r in reports}


ODD = [
    {"kind": "ClusterVGPUPolicy", "metadata": {"name": "text"}, "spec": "text"},
    {"kind": "ClusterVGPUPolicy", "metadata": {"name": "none"}},
    {
        "kind": "VGPUPolicy",
        "metadata": {"name": "odd", "namespace": "n"},
        "spec": {"selector": 3, "nodes": []},
        "status": {"conditions": 3},
    },
    {
        "kind": "VGPUPolicy",
        "metadata": {"name": "times", "namespace": "n", "creationTimestamp": 3},
        "spec": {"nodes": {"policy": "spread"}},
        "status": {"conditions": [{"lastTransitionTime": "soon"}, {"lastTransitionTime": 3}, 4]},
    },
]


async def test_policies_that_are_not_understood_are_shown_and_can_be_compared(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump_all([*objects(), *ODD]))
    view = read_cluster(ClusterOptions(None, None, "vgpu-system", None, files=(file,)))
    async with served([dict(obj) for obj in view.objects]) as browser:
        found = await rows(browser)
        assert len(found) == 5 + len(ODD)
        assert all(found[name]["problems"] for name in ("ClusterVGPUPolicy text", "VGPUPolicy n/odd"))
        for name, row in found.items():
            ref = {"compare": name.replace(" ", "/")}
            assert f"kind: {row['kind']}" in await form_of(browser, **ref)
            if name != "ClusterVGPUPolicy small":
                assert await compared(browser, **ref, **{"with": "ClusterVGPUPolicy/small"})


async def form_of(browser: Browser, **query: str) -> str:
    answer = await browser.get(f"/policies?{urlencode(query)}")
    assert answer.status == 200, answer.text
    return answer.text


async def test_without_policies_the_page_says_so() -> None:
    async with served([node("a")]) as browser:
        assert "There are no policies" in (await browser.get("/policies")).text


async def compared(browser: Browser, **query: str) -> Any:
    answer = await browser.get(f"/policies?{urlencode({**query, 'format': 'json'})}")
    assert answer.status == 200, answer.text
    return answer.body["compared"]


async def test_two_policies_are_compared_by_what_would_become_of_pods_that_wait(tmp_path: Path) -> None:
    without = [obj for obj in objects() if obj not in (SMALL, BROKEN)]
    async with served([*without, SMALL, LARGE]) as browser:
        both = {"compare": "ClusterVGPUPolicy/small", "with": "ClusterVGPUPolicy/large"}
        found = await compared(browser, **both)
        text = (await browser.get(f"/policies?{urlencode(both)}")).text
        assert found["of"] == ["ClusterVGPUPolicy small", "ClusterVGPUPolicy large"]
        for side, kept in enumerate((SMALL, LARGE)):
            file = tmp_path / f"{side}.yaml"
            file.write_text(yaml.safe_dump_all([*without, kept]))
            printed = run("simulate", "--pending", "-A", "--cluster", str(file), "-o", "json").stdout
            assert found["answers"][side] == json.loads(printed)
        outcomes = [[each["outcome"] for each in answers] for answers in found["answers"]]
        assert outcomes == [["placed", "refused"], ["placed", "placed"]]
        assert found["differ"] == ["default/many"]
        assert "<b>1</b> of 2 pods" in text
        assert "limits.memoryPerPod" in text
        assert "data-generation" not in text  # it stays as it is
        assert (await browser.get("/cards")).status == 200


async def test_an_edited_version_is_compared_with_the_one_in_force(tmp_path: Path) -> None:
    whole, edited = tmp_path / "cluster.yaml", tmp_path / "edited.yaml"
    whole.write_text(yaml.safe_dump_all(objects()))
    version = {**SMALL, "spec": {"limits": {"memoryPerPod": "8Gi"}}}
    edited.write_text(yaml.safe_dump(version))
    async with served(objects()) as browser:
        form = (await browser.get("/policies?compare=ClusterVGPUPolicy%2Fsmall")).text
        assert "memoryPerPod: 2Gi" in form  # as it is, to be edited
        found = await compared(browser, compare="ClusterVGPUPolicy/small", edited=edited.read_text())
        assert found["of"] == ["ClusterVGPUPolicy small", "ClusterVGPUPolicy small, as edited"]
        printed = run("simulate", "--pending", "-A", "--cluster", str(whole), "-o", "json").stdout
        assert found["answers"][0] == json.loads(printed)
        arguments = ("--pending", "-A", "--cluster", str(whole), "--policy", str(edited), "-o", "json")
        assert found["answers"][1] == json.loads(run("simulate", *arguments).stdout)
        sent = {"compare": "ClusterVGPUPolicy/small", "edited": edited.read_text()}
        answer = await browser.get("/policies", method="POST", data=sent, headers={"Origin": browser.home})
        assert (answer.status, "edited=" in answer.headers["Location"]) == (303, True)


async def test_a_policy_to_be_edited_is_without_what_kubectl_keeps_of_it() -> None:
    annotations = {LAST_APPLIED: "what-kubectl-keeps", "example.com/owner": "whoever-wrote-it"}
    kept = {**SMALL, "metadata": {**SMALL["metadata"], "annotations": annotations}}
    async with served([kept if each is SMALL else each for each in objects()]) as browser:
        form = (await browser.get("/policies?compare=ClusterVGPUPolicy%2Fsmall")).text
        assert "what-kubectl-keeps" not in form
        assert "whoever-wrote-it" in form


BAD = {
    "compare=x": "compare: there is no policy &#39;x&#39;",
    "compare=ClusterVGPUPolicy/smal&with=ClusterVGPUPolicy/large": "did you mean ClusterVGPUPolicy/small?",
    "with=ClusterVGPUPolicy/small": "with: there is no other policy to compare it with",
    "edited={}": "edited: there is no other policy to compare it with",
    "compare=ClusterVGPUPolicy/small&with=ClusterVGPUPolicy/small": "with: name another policy",
    "compare=ClusterVGPUPolicy/small&with=ClusterVGPUPolicy/pack&edited={}": "either with another policy or",
    "compare=ClusterVGPUPolicy/small&edited={}": "the edited policy",
    "compare=ClusterVGPUPolicy/small&edited={kind: Pod, metadata: {name: x}}": "Pod x is not a policy",
    "compare=ClusterVGPUPolicy/small&edited=a: b: c": "the edited policy:1: not valid YAML",
    f"compare=ClusterVGPUPolicy/small&edited={json.dumps(BROKEN)}": "spec.nodes.policy",
}


@pytest.mark.parametrize("question", BAD, ids=range(len(BAD)))
async def test_what_is_wrong_with_a_comparison_is_said(question: str) -> None:
    query = dict(part.split("=", 1) for part in question.split("&"))
    async with served([*objects(), LARGE]) as browser:
        answer = await browser.get(f"/policies?{urlencode(query)}")
        assert answer.status in {400, 404}, answer.text
        assert BAD[question] in answer.text
        assert "Traceback" not in answer.text


async def test_of_seven_policies_each_is_known_to_be_in_force() -> None:
    denying = {"devices": {"types": {"deny": ["H100"]}}}
    seven = [policy(f"p{number}", denying) for number in range(7)]
    async with served([node("a"), *seven, waiting("one", 1000)]) as browser:
        found = await rows(browser)
    assert {name: row["sections"] for name, row in found.items()} == {
        f"ClusterVGPUPolicy p{number}": {"devices": 1} for number in range(7)
    }
