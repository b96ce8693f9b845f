"""What if: the page has the answers of ``simulate``, shows before and after, and says what is wrong with a question."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlencode

import numpy as np
import pytest
import yaml
from tests.cli.listed_clusters import cluster
from tests.cli.live_cluster import run
from tests.ui.browsers import Answer, Browser, served
from tests.whatif.test_whatif_remedies import GPU, MEMORY, node, pod, running

from vgpu_devcluster.demo.cluster import POOL, POOL_TAINT
from vgpu_devcluster.demo.pods import pod_of

Object = dict[str, Any]
OURS = "vgpu-scheduler"
RESERVED = {"nodeSelector": POOL, "tolerations": [{"key": "pool", "operator": "Exists"}]}
SMALLER = pod_of("needs-memory", {"gpu": 1, "gpumem": 32407}, spec=RESERVED, namespace="research")
URGENT_FIRST = {
    "apiVersion": "vgpu-scheduler.io/v1alpha1",
    "kind": "ClusterVGPUPolicy",
    "metadata": {"name": "spread"},
    "spec": {"nodes": {"policy": "spread"}, "limits": {"devicesPerPod": 1}},
}


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vgpu_scheduler.reading.settings.os.environ", {})


def tutorial() -> list[Object]:
    """Return a cluster as that of the tutorial is: a pool of its own, one tenant of it, and a pod that waits."""
    reserved = node("reserved-0", 2, 81559, labels=POOL, taints=[POOL_TAINT])
    entries = "".join(f"GPU-reserved-0-{n},NVIDIA,49152,50:" for n in range(2))
    tenant = pod_of("tenant", {"gpu": 2, "gpumem": 49152, "gpucores": 50}, spec=RESERVED, namespace="research")
    tenant["metadata"].setdefault("annotations", {}).update(
        {"hami.io/vgpu-node": "reserved-0", "hami.io/vgpu-devices-allocated": f"{entries};"}
    )
    tenant["spec"]["nodeName"] = "reserved-0"
    waits = pod_of("needs-memory", {"gpu": 1, "gpumem": 40960}, spec=RESERVED, namespace="research")
    for number, each in enumerate((tenant, waits)):
        each["metadata"] |= {"uid": f"u{number}", "namespace": "research"}
        each.setdefault("kind", "Pod")
    names = [{"kind": "Namespace", "metadata": {"name": name}} for name in ("research", "default")]
    return [*names, reserved, node("plain"), tenant, waits]


def printed(file: Path, *arguments: str) -> Any:
    return json.loads(run("simulate", *arguments, "--cluster", str(file), "-o", "json").stdout)


async def asked(browser: Browser, **query: str) -> Answer:
    return await browser.get(f"/what-if?{urlencode(query)}")


async def answered(browser: Browser, **query: str) -> Any:
    answer = await asked(browser, format="json", **query)
    assert answer.status == 200, answer.text
    return answer.body


async def sent(browser: Browser, **fields: str) -> Answer:
    return await browser.get("/what-if", method="POST", data=fields, headers={"Origin": browser.home})


def text_of(*objects: Object) -> str:
    return yaml.safe_dump_all(objects)


async def test_the_manifests_of_the_tutorial_get_the_answers_of_simulate(tmp_path: Path) -> None:
    objects = tutorial()
    whole, smaller, policy = (tmp_path / name for name in ("cluster.yaml", "smaller.yaml", "policy.yaml"))
    whole.write_text(text_of(*objects))
    smaller.write_text(text_of(SMALLER))
    policy.write_text(text_of(URGENT_FIRST))
    manifest = smaller.read_text()
    async with served(objects) as browser:
        found = await answered(browser, manifest=manifest)
        assert found == printed(whole, "-f", str(smaller))
        assert [each["node"] for each in found] == ["reserved-0"]
        found = await answered(browser, manifest=manifest, count="max")
        assert found == printed(whole, "-f", str(smaller), "--count", "max")
        assert found[0]["count"] == 2
        added = await answered(browser, manifest=manifest, count="max", add="reserved-0=3")
        assert added == printed(whole, "-f", str(smaller), "--count", "max", "--add-node", "reserved-0=3")
        assert added[0]["count"] == 14
        waiting = await answered(browser, waiting="namespace", namespace="research", policy=policy.read_text())
        assert waiting == printed(whole, "--pending", "-n", "research", "--policy", str(policy))
        gone = await answered(browser, waiting="all", without="pod/research/tenant")
        assert gone == printed(whole, "--pending", "-A", "--without", "pod/research/tenant")
        assert [each["outcome"] for each in gone] == ["placed"]
        again = await answered(browser, pod="research/needs-memory", without="node/reserved-0")
        waits = tmp_path / "waits.yaml"
        waits.write_text(text_of(objects[-1]))
        assert again == printed(whole, "-f", str(waits), "--without", "node/reserved-0")


@pytest.mark.parametrize("seed", range(6))
async def test_random_questions_get_the_answers_of_simulate(seed: int, tmp_path: Path) -> None:
    chance = np.random.default_rng(seed)
    objects = cluster(chance)
    whole, file = tmp_path / "cluster.yaml", tmp_path / "pods.yaml"
    whole.write_text(yaml.safe_dump_all(objects))
    file.write_text(text_of(*(pod(f"new-{n}", {GPU: 1, MEMORY: int(chance.integers(500, 9000))}) for n in range(3))))
    names = sorted(obj["metadata"]["name"] for obj in objects if obj["kind"] == "Node")
    gone = str(chance.choice(names))
    async with served(objects) as browser:
        found = await answered(browser, manifest=file.read_text(), waiting="all", without=f"node/{gone}")
        assert found == printed(whole, "-f", str(file), "--pending", "-A", "--without", f"node/{gone}")
        before = (await browser.get("/cards?format=json")).body
        assert before == json.loads(run("top", "cards", "--cluster", str(whole), "-o", "json").stdout)


async def test_before_and_after_stand_side_by_side_and_what_changed_is_marked() -> None:
    objects = [node("a"), running("x", "a", "GPU-a-0", 16000)]
    async with served(objects) as browser:
        text = (await asked(browser, manifest=text_of(pod("y", {GPU: 1, MEMORY: 8192})), add="a")).text
        before, _, after = text.partition(">After <small>")
        assert "memory 0/16384Mi (0%), compute 0%, 0 pods, ready" in before
        assert "marked" not in before.partition("<main")[2].partition("Before</h3>")[2]
        assert (
            'aria-label="a/GPU-a-1, NVIDIA-A100: memory 8192/16384Mi (50%), compute 0%, pod default/y, ready, changed"'
            in after
        )
        assert after.count('"a-2/') > 0  # the cards of the new node
        assert (
            "<b>3</b> of default/y fit"
            in (await asked(browser, manifest=text_of(pod("y", {GPU: 1, MEMORY: 16000})), add="a", count="9")).text
        )


async def test_what_is_short_enough_becomes_an_address_and_what_is_too_long_says_so() -> None:
    manifest = text_of(pod("y", {GPU: 1, MEMORY: 8192}))
    async with served([node("a")]) as browser:
        short = await sent(browser, manifest=manifest, count="", by="pods")
        assert (short.status, short.headers["Location"].startswith("/what-if?manifest=")) == (303, True)
        followed = await browser.get(short.headers["Location"])
        assert "The address of this page can be sent" in followed.text
        assert "data-generation" not in followed.text  # it stays as it is
        long = await sent(browser, manifest=manifest + "#" * 6000)
        assert (long.status, "too long for an address" in long.text) == (200, True)
        assert "default/y" in long.text


BAD = {
    "manifest=a: b: c": "the manifest:1: not valid YAML",
    "manifest=- [": "not valid YAML",
    "manifest=hello": "the manifest: &#39;hello&#39; is not a Kubernetes object",
    "manifest={kind: Pod}": "metadata is missing",
    "manifest={kind: Service, metadata: {name: x}}": "it contains no pod to place; objects of kind",
    "manifest={kind: Pod, metadata: {name: x}, spec: {containers: 3}}": "containers",
    "manifest={kind: Pod, metadata: {name: x}, spec: {containers: []}}": "Pod x: spec.containers is empty",
    "manifest={kind: Deployment, metadata: {name: x}, spec: {replicas: 99999999, template: {}}}": "replicas",
    "manifest={kind: List, items: %26a [{kind: List, items: *a}]}": "contains itself",
    "manifest=" + "[" * 3000 + "]" * 3000: "nested too deeply",
    "manifest=" + "[" * 100000 + "]" * 100000: "nested too deeply",
    "policy={kind: Pod, metadata: {name: x}}": "Pod x is not a policy",
    "policy={kind: ClusterVGPUPolicy, metadata: {name: x}, spec: {nodes: {policy: y}}}": "spec.nodes.policy",
    "policy=# nothing": "it contains no policy",
    "add=b": "add b: there is no node b",
    "add=a=0": "not a number from 1 to 1000",
    "add=a=99999": "not a number from 1 to 1000",
    "without=a": "without a: there is no such pod or node",
    "without=node/b": "without node/b: there is no such pod or node",
    "pod=default/y": "there is no pod default/y",
    "pod=default/x&manifest={}": "either a manifest",
    "pod=default/x&count=x": "neither a number from 1 to 100000 nor max",
    "pod=default/x&count=²": "neither a number",
    "count=3": "there is no pod to copy",
    "waiting=x": "there is no &#39;x&#39;",
    "waiting=all&count=3": "not for pods that wait",
    "add=" + "a " * 60: "more than 50",
}


LAUGHS = "\n".join(
    [
        "l0: &l0 {kind: Pod, metadata: {name: x}}",
        *(f"l{n}: &l{n} {{kind: List, items: [{', '.join([f'*l{n - 1}'] * 9)}]}}" for n in range(1, 10)),
        "kind: List",
        "items: [*l9]",
    ]
)
BAD |= {f"manifest={LAUGHS}".replace("&", "%26"): "the manifest: it has more than 200000 values"}


@pytest.mark.parametrize("question", BAD, ids=range(len(BAD)))
async def test_what_is_wrong_with_a_question_is_said(question: str) -> None:
    query = {name: unquote(value) for name, value in (part.split("=", 1) for part in question.split("&"))}
    async with served([node("a"), running("x", "a", "GPU-a-0", 16000)]) as browser:
        answer = await sent(browser, **query)
        if answer.status == 303:
            answer = await browser.get(answer.headers["Location"])
        assert answer.status in {400, 404}, answer.text
        assert BAD[question] in answer.text
        assert "Traceback" not in answer.text
        assert (await browser.get("/cards")).status == 200


async def test_forms_are_bounded() -> None:
    async with served([node("a")]) as browser:
        many = await browser.get("/what-if?waiting=all&add=" + "+".join(["a=600"] * 2))
        assert (many.status, "more than 1000 nodes in all" in many.text) == (400, True)
        form = {"headers": {"Origin": browser.home}, "data": {"edit": "yes", "annotations": ""}}
        answer = await browser.get("/pods/a%0d%0aX:y/b", method="POST", **form)
        assert answer.status == 303
        assert answer.headers["Location"].startswith("/pods/a%0d%0aX:y/b?")
        assert "X" not in answer.headers
        large = await sent(browser, manifest="#" * 1_500_000)
        assert (large.status, "larger than 1024 KiB" in large.text) == (413, True)
        long = await sent(browser, manifest="#" * 300_000)
        assert (long.status, "manifest is longer than" in long.text) == (400, True)
        origin = {"Origin": browser.home}
        for more in (
            {"json": {"manifest": ""}},
            {"data": b"\xff\xfe=%ff", "headers": origin | {"Content-Type": "application/x-www-form-urlencoded"}},
            {
                "data": "&".join(f"a{n}=1" for n in range(200)),
                "headers": origin | {"Content-Type": "application/x-www-form-urlencoded"},
            },
        ):
            answer = await browser.get("/what-if", method="POST", **({"headers": origin} | more))
            assert answer.status == 400


async def test_other_pages_are_answered_while_a_question_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    began, go_on = threading.Event(), threading.Event()

    def slow(*_: Any, **__: Any) -> Any:
        began.set()
        assert go_on.wait(30)
        return []

    monkeypatch.setattr("vgpu_scheduler.ui.pages.what_if_page.answers_to", slow)
    async with served([node("a")]) as browser:
        questions = [asyncio.create_task(asked(browser, waiting="all", namespace=f"n{n}")) for n in range(4)]
        await asyncio.to_thread(began.wait, 30)
        assert (await browser.get("/cards")).status == 200
        refused = await asked(browser, waiting="all", namespace="one-more")
        assert (refused.status, "4 questions of this kind are being answered" in refused.text) == (503, True)
        go_on.set()
        assert [answer.status for answer in await asyncio.gather(*questions)] == [200] * 4


async def test_what_takes_too_long_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vgpu_scheduler.ui.what_if_thread._SECONDS", -1.0)
    async with served([node("a")]) as browser:
        answer = await asked(browser, manifest=text_of(pod("y", {GPU: 1, MEMORY: 100})), count="max")
        assert (answer.status, "use vgpu-scheduler simulate" in answer.text) == (422, True)
