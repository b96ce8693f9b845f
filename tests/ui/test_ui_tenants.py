"""Whoever sees some namespaces alone learns no name of any other, on no page and by no question."""

from __future__ import annotations

import json
import string
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import numpy as np
import pytest
import yaml
from tests.seeds import seeds
from tests.ui.browsers import Answer
from tests.ui.doors import ADMIN, EVERYTHING, Deployed, People, deployed, seeing
from tests.whatif.test_whatif_remedies import CORES, GPU, MEMORY, node, pod, running

from vgpu_scheduler.policy import POLICY_KINDS
from vgpu_scheduler.reading.page import OTHERS
from vgpu_scheduler.ui.name_redaction import NameRedactor, words_of_messages

Object = dict[str, Any]
OURS = "vgpu-scheduler"
TENANT = "tenant"
NODES = ("rack1", "rack2", "rack3")
TEAM = "team"


class Made:
    """A random cluster.

    Parameters
    ----------
    gossip
        Whether labels of nodes, cluster policies and conditions of pods name what is in other namespaces.

    Attributes
    ----------
    names
        Those that stand for something in a namespace, by the namespace.
    """

    def __init__(self, seed: int, *, gossip: bool = True) -> None:
        self._gossip = gossip
        self.rng = np.random.default_rng(seed)
        self.names: dict[str, set[str]] = {}
        self.pods: dict[str, list[str]] = {}
        self._given: set[str] = set()
        self.spaces = [self.name() for _ in range(int(self.rng.integers(3, 6)))]
        self.objects = list(self._objects())

    def name(self) -> str:
        """Return a name that nothing else has, and no message says."""
        while True:
            letters = list(string.ascii_lowercase + (string.digits if self.rng.random() < 0.3 else ""))
            word = "q" + "".join(self.rng.choice(letters, size=7))
            found = f"{word}-{self.rng.integers(100)}" if self.rng.random() < 0.4 else word
            if found not in self._given and not any(each in found or found in each for each in self._given):
                self._given.add(found)
                return found

    def own(self, space: str) -> str:
        """Return a name of something in a namespace."""
        found = self.name()
        self.names.setdefault(space, set()).add(found)
        return found

    def _objects(self) -> Iterator[Object]:
        rng = self.rng
        for each in NODES:
            labels = {TEAM: str(rng.choice(self.spaces)) if self._gossip else "x", "pool": str(rng.choice(["a", "b"]))}
            yield node(each, cards=2, labels=labels)
        for space in self.spaces:
            self.names.setdefault(space, set()).add(space)
            yield {"kind": "Namespace", "metadata": {"name": space, "labels": {"kubernetes.io/metadata.name": space}}}
            if rng.random() < 0.6:
                hard = {f"limits.{MEMORY}": str(rng.integers(3000, 30000))}
                yield {
                    "kind": "ResourceQuota",
                    "metadata": {"name": self.own(space), "namespace": space},
                    "spec": {"hard": hard},
                }
            if rng.random() < 0.6:
                yield self._policy("VGPUPolicy", space)
        for _ in range(2):
            policy = self._policy("ClusterVGPUPolicy", "")
            if not self._gossip:
                policy["spec"].pop("namespaceSelector", None)
            yield policy
        for space in self.spaces:
            yield from self._claims(space)
        for space in self.spaces:
            for _ in range(int(rng.integers(1, 5))):
                yield self._pod(space, bound=True)
            for _ in range(int(rng.integers(1, 4))):
                yield self._pod(space, bound=False)

    def _policy(self, kind: str, space: str) -> Object:
        rng, other = self.rng, str(self.rng.choice(self.spaces))
        metadata = {"name": self.own(space) if space else self.name()}
        spec: Object = {"nodes": {"policy": str(rng.choice(["binpack", "spread"]))}, "priority": int(rng.integers(5))}
        if not space:
            spec["namespaceSelector"] = {"matchLabels": {"kubernetes.io/metadata.name": other}}
            spec["limits"] = {"memoryPerPod": f"{rng.integers(1, 40)}Gi"}
            if rng.random() < 0.7:
                spec["preemption"] = {"mayPreempt": True, "victims": "Any"}
                del spec["namespaceSelector"]
        else:
            metadata["namespace"] = space
            spec["devices"] = {"types": {"deny": ["H100"]}}
        return {"apiVersion": "vgpu-scheduler.io/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}

    def _claims(self, space: str) -> Iterator[Object]:
        if self.rng.random() < 0.5:
            yield {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": self.own(space), "namespace": space},
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
                "status": {"phase": "Pending"},
            }

    def _pod(self, space: str, *, bound: bool) -> Object:
        rng, name = self.rng, self.own(space)
        memory = int(rng.choice([1000, 4000, 9000]))
        if bound:
            where = str(rng.choice(NODES))
            card = f"GPU-{where}-{rng.integers(2)}"
            found = running(name, where, card, memory, int(rng.choice([0, 20])), priority=int(rng.integers(0, 3)))
        else:
            wanted = int(rng.choice([4000, 16000, 20000]))
            found = pod(name, {GPU: 1, MEMORY: wanted, CORES: 10}, schedulerName=OURS, priority=int(rng.integers(5)))
            if rng.random() < 0.6:
                message = self._message() if self._gossip else "no room"
                condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
                found["status"] = {"phase": "Pending", "conditions": [condition]}
        metadata = found["metadata"]
        metadata |= {"namespace": space, "uid": f"uid-{name}", "creationTimestamp": "2026-01-01T00:00:00Z"}
        if rng.random() < 0.5:
            owner = self.own(space)
            metadata["ownerReferences"] = [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": owner, "controller": True}
            ]
        labels = {"app.kubernetes.io/name": self.own(space)}
        if rng.random() < 0.3:
            labels |= {
                "pod-group.scheduling.sigs.k8s.io/name": self.own(space),
                "pod-group.scheduling.sigs.k8s.io/min-available": "1",
            }
        metadata["labels"] = labels
        if rng.random() < 0.3:
            term = {"labelSelector": {"matchLabels": labels}, "topologyKey": "kubernetes.io/hostname"}
            kind = str(rng.choice(["podAntiAffinity", "podAffinity"]))
            required = "requiredDuringSchedulingIgnoredDuringExecution"
            everywhere: Object = {"namespaceSelector": {}} if rng.random() < 0.5 else {}
            found["spec"]["affinity"] = {kind: {required: [term | everywhere]}}
        self.pods.setdefault(space, []).append(name)
        return found

    def _message(self) -> str:
        """Return what a condition says that names what is not its own: whoever wrote that."""
        space = str(self.rng.choice(self.spaces))
        name = str(self.rng.choice(sorted(self.names[space])))
        return str(
            self.rng.choice(
                [f"waits for {space}/{name}.", f"pod {name} of namespace {space}, which is kept", "no room"]
            )
        )

    def hidden(self, seen: set[str]) -> set[str]:
        """Return the names of what somebody does not see who sees some namespaces."""
        return {name for space, names in self.names.items() if space not in seen for name in names}


def addresses(made: Made, spaces: set[str]) -> Iterator[str]:
    """Yield addresses about what is seen, and what is asked about it."""
    seen = sorted(spaces)
    keys = [f"{space}/{name}" for space in seen for name in made.pods.get(space, ())]
    plain = ["/", "/cards", "/waiting", "/namespaces", "/policies", "/what-if"]
    plain += [f"/cards?{urlencode({'group': group})}" for group in (TEAM, "pool", "none")]
    plain += [f"/cards?by=pods&node={each}" for each in NODES] + [f"/cards/{each}/GPU-{each}-0" for each in NODES]
    plain += [f"/waiting?namespace={space}" for space in seen] + [
        "/namespaces?namespace=q",
        "/cards?node=rack",
        "/none",
    ]
    for key in keys:
        plain += [f"/pods/{key}", f"/pods/{key}?node={NODES[0]}", f"/pods/{key}?node=none"]
        plain.append(f"/pods/{key}?{urlencode({'edit': 'yes', f'ask/main/{MEMORY}': '16000', f'ask/main/{GPU}': '1'})}")
    for space, key in zip(seen, keys, strict=False):
        asks = {**pod("new", {GPU: 1, MEMORY: 9000}), "apiVersion": "v1"}
        asks["metadata"]["namespace"] = space
        asks["spec"]["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": "nobody"}}]
        policy = {"kind": "VGPUPolicy", "metadata": {"name": "mine"}, "spec": {"nodes": {"policy": "spread"}}}
        told = {"manifest": yaml.safe_dump(asks), "policy": yaml.safe_dump(policy), "namespace": space}
        plain += [f"/what-if?{urlencode(told)}", f"/what-if?{urlencode({**told, 'count': 'max'})}"]
        plain.append(f"/what-if?{urlencode({'waiting': 'namespace', 'namespace': space, 'add': NODES[0]})}")
        plain.append(f"/what-if?{urlencode({'pod': key, 'count': '3', 'without': f'node/{NODES[1]}'})}")
        plain.append(f"/what-if?{urlencode({'pod': key, 'without': f'pod/{key}'})}")
    plain += ["/what-if?waiting=all", "/what-if?pod=x/y", "/what-if?add=none", "/what-if?manifest=a"]
    for address in plain:
        yield address
        yield f"{address}{'&' if '?' in address else '?'}format=json"
    yield "/namespaces?format=csv"


def told(answer: Answer) -> str:
    """Return all that an answer tells."""
    return "\n".join([*(f"{name}: {value}" for name, value in answer.headers.items()), answer.text])


def settings_in(folder: Path) -> Path:
    file = folder / "settings.yaml"
    file.write_text("preemption: true\n")
    return file


def people_for(spaces: set[str]) -> People:
    people = People()
    people.add(ADMIN, *EVERYTHING)
    rights = [*seeing(*spaces), *(("delete", "pods", space) for space in sorted(spaces)[::2])]
    people.add(TENANT, *rights)
    return people


async def get(page: Deployed, path: str, who: str = TENANT, **more: Any) -> Answer:
    headers = {**page.headers(f"token-of-{who}"), **more.pop("headers", {})}
    return await page.browser.get(path, headers=headers, **more)


@pytest.mark.parametrize("seed", seeds(2, 8))
async def test_whoever_writes_names_into_an_address_is_told_no_more(seed: int, tmp_path: Path) -> None:
    made = Made(seed)
    mine, others = made.spaces[0], made.spaces[1:]
    guesses = " ".join(f"{space}/{name}" for space in others for name in made.pods.get(space, ()))
    hidden = made.hidden({mine})
    async with deployed(made.objects, people_for({mine}), settings=settings_in(tmp_path)) as page:
        for name in made.pods.get(mine, ()):
            answer = await get(page, f"/pods/{mine}/{name}?{urlencode({'format': 'text', 'annotations': guesses})}")
            assert answer.status == 200, answer.text
            assert not any(each in answer.text for each in hidden), answer.text


@pytest.mark.parametrize("seed", seeds(2, 12))
async def test_no_name_of_another_namespace_is_told(seed: int, tmp_path: Path) -> None:
    made = Made(seed)
    chosen = made.rng.choice(made.spaces, size=int(made.rng.integers(1, len(made.spaces))), replace=False)
    spaces = {str(space) for space in chosen}
    hidden = made.hidden(spaces)
    assert not hidden & words_of_messages()
    statuses: set[int] = set()
    async with deployed(made.objects, people_for(spaces), settings=settings_in(tmp_path)) as page:
        for address in addresses(made, spaces):
            answer = await get(page, address)
            statuses.add(answer.status)
            found = [name for name in hidden if name in told(answer)]
            assert not found, f"{address} tells {found}"
            assert answer.status < 500, address
        waiting = (await get(page, "/waiting?format=json")).text
        for space in spaces:
            for name in made.pods[space]:
                assert (await get(page, f"/pods/{space}/{name}")).status == 200
                assert name in waiting or f"{space}/{name}" in (await get(page, "/cards?format=json")).text
        everything = (await get(page, "/cards?format=json", ADMIN)).text
        assert all(f"{space}/" in everything or space in spaces for space in made.spaces)
        assert OTHERS in (await get(page, "/cards?format=json")).text
    assert {200, 400, 403, 404} <= statuses


@pytest.mark.parametrize("seed", seeds(2, 10))
async def test_pages_leave_names_out_before_the_veil_does(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Made(seed, gossip=False)
    spaces = {made.spaces[0]}
    hidden = made.hidden(spaces)
    monkeypatch.setattr(NameRedactor, "text", lambda _, text: text)
    async with deployed(made.objects, people_for(spaces), settings=settings_in(tmp_path)) as page:
        for address in addresses(made, spaces):
            answer = await get(page, address)
            found = [name for name in hidden if name in told(answer)]
            assert not found, f"{address} tells {found}: {around(answer.text, found)}"


async def test_of_a_namespace_whose_pods_are_not_seen_it_is_not_said_that_none_waits(tmp_path: Path) -> None:
    made = Made(0)
    async with deployed(made.objects, people_for({made.spaces[0]}), settings=settings_in(tmp_path)) as page:
        for space in (made.spaces[1], "there-is-none"):
            answer = await get(page, f"/waiting?namespace={space}")
            assert answer.status == 403
            assert "you may not see pods of namespace" in answer.text
        assert (await get(page, f"/waiting?namespace={made.spaces[0]}")).status == 200


def around(text: str, names: list[str]) -> list[str]:
    """Return what stands around names."""
    return [text[max(text.find(name) - 80, 0) : text.find(name) + 80] for name in names]


@pytest.mark.parametrize("seed", seeds(2, 8))
async def test_what_is_not_seen_is_answered_as_what_is_not_there(seed: int, tmp_path: Path) -> None:
    made = Made(seed)
    space, other = made.spaces[:2]
    ghost, none = made.name(), made.name()
    there, missing = (other, made.pods[other][0]), (ghost, none)

    def questions(home: str, name: str) -> list[str]:
        asks = {**pod("new", {GPU: 1, MEMORY: 9000}), "apiVersion": "v1"}
        asks["metadata"]["namespace"] = home
        within = {**asks, "metadata": {"name": "new", "namespace": space}}
        ours = {"labelSelector": {"matchLabels": {"x": "y"}}, "topologyKey": "zone", "namespaces": [home]}
        required = "requiredDuringSchedulingIgnoredDuringExecution"
        within["spec"] = {**asks["spec"], "affinity": {"podAffinity": {required: [ours]}}}
        texts = {"manifest": yaml.safe_dump(asks)}, {"manifest": yaml.safe_dump(within), "namespace": space}
        supposed = [*texts, {"pod": f"{home}/{name}"}, {"waiting": "namespace", "namespace": home}]
        supposed += [{"pod": f"{space}/{made.pods[space][0]}", "without": f"pod/{home}/{name}"}]
        policy = {"kind": "VGPUPolicy", "metadata": {"name": name, "namespace": home}, "spec": {}}
        supposed += [{"policy": yaml.safe_dump(policy), "waiting": "namespace", "namespace": space}]
        plain = [f"/what-if?{urlencode(each)}" for each in supposed]
        plain += [f"/pods/{home}/{name}", f"/pods/{home}/{name}?edit=yes", f"/waiting?namespace={home}"]
        plain += [f"/namespaces?namespace={home}", f"/policies?compare=VGPUPolicy/{home}/{name}", f"/{home}"]
        plain += [f"/cards?node={name}", f"/cards?model={name}", f"/cards?group={home}", f"/cards/{name}/{home}"]
        return [f"{each}{'&' if '?' in each else '?'}format={form}" for each in plain for form in ("html", "json")]

    def neutral(answer: Answer, home: str, name: str) -> tuple[int, str]:
        text = told(answer).replace(quote(home), "HOME").replace(quote(name), "NAME")
        lines = [line for line in text.splitlines() if not line.startswith(("Date:", "Content-Length:"))]
        return answer.status, "\n".join(lines)

    async with deployed(made.objects, people_for({space}), settings=settings_in(tmp_path)) as page:
        for one, two in zip(questions(*there), questions(*missing), strict=True):
            assert neutral(await get(page, one), *there) == neutral(await get(page, two), *missing), one


async def test_a_tenant_sees_amounts_of_others_and_its_own_pods_by_name(tmp_path: Path) -> None:
    mine, theirs = (
        {**running(name, "a", "GPU-a-0", 3000), "metadata": {**running(name, "a", "GPU-a-0", 3000)["metadata"]}}
        for name in ("x", "y")
    )
    mine["metadata"]["namespace"], theirs["metadata"]["namespace"] = "blue", "green"
    people = People()
    people.add(TENANT, *seeing("blue"))
    async with deployed([node("a"), mine, theirs], people) as page:
        card, idle = (await get(page, "/cards?format=json")).body
        assert (card["memory"]["used"], card["pods"], idle["pods"]) == (6000, ["blue/x", OTHERS], [])
        text = (await get(page, "/cards/a/GPU-a-0")).text
        assert '<a href="/pods/blue/x">blue/x</a>' in text
        assert OTHERS in text
        assert "green" not in text
        now = (await get(page, "/?format=json")).body
        assert (now["total"]["memory"]["used"], now["doctor"]) == (6000, None)
        assert [row["namespace"] for row in (await get(page, "/namespaces?format=json")).body] == ["blue"]
        assert "Policies" not in (await get(page, "/")).text


async def test_what_a_tenants_own_pod_says_is_left_as_it_is() -> None:
    """Be it that it is also a name of something else: the form sends it back."""
    mine = pod("w", {GPU: 1, MEMORY: 99999}, schedulerName=OURS, metadata={"annotations": {"note": "qgreen-pod"}})
    mine["metadata"]["namespace"] = "blue"
    mine["status"] = {
        "phase": "Pending",
        "conditions": [{"type": "PodScheduled", "status": "False", "message": "qother"}],
    }
    objects = [node("a"), mine]
    for name in ("qgreen-pod", "qother"):
        theirs = pod(name, {GPU: 1}, schedulerName=OURS)
        theirs["metadata"]["namespace"] = "green"
        objects.append(theirs)
    people = People()
    people.add(TENANT, *seeing("blue"))
    async with deployed(objects, people) as page:
        text = (await get(page, "/pods/blue/w")).text
        assert "note=qgreen-pod" in text
        assert "qother" not in text


async def test_answers_are_kept_for_the_same_rights_alone(tmp_path: Path) -> None:
    objects = [node("a")]
    for space in ("blue", "green"):
        held = running(f"{space}-pod", "a", "GPU-a-0", 3000)
        held["metadata"]["namespace"] = space
        objects.append(held)
    people = People()
    people.add(ADMIN, *EVERYTHING)
    for space in ("blue", "green"):
        people.add(space, *seeing(space))
    async with deployed(objects, people) as page:
        for _ in range(2):
            for path in ("/cards?format=json", "/namespaces?format=csv", "/cards/a/GPU-a-0", "/"):
                everything = (await get(page, path, ADMIN)).text
                blue, green = [(await get(page, path, who)).text for who in ("blue", "green")]
                assert ("green-pod" in blue, "blue-pod" in green) == (False, False)
                assert ("green" in blue, "blue" in green) == (False, False), path
                assert path == "/" or ("blue" in everything and "green" in everything)


async def test_whose_pods_may_be_deleted_are_named_to_nobody_else(tmp_path: Path) -> None:
    big = pod("big", {GPU: 1, MEMORY: 16000}, schedulerName=OURS)
    victim = running("victim", "a", "GPU-a-0", 9000)
    people = People()
    people.add("deleter", *EVERYTHING)
    people.add("reader", *(right for right in EVERYTHING if right[0] == "list"))
    async with deployed([node("a", cards=1), victim, big], people) as page:
        path = "/pods/default/big?format=json"
        for who, named in (("deleter", True), ("reader", False), ("deleter", True)):
            remedies = json.dumps((await get(page, path, who)).body["remedies"])
            assert ("default/victim" in remedies) is named


@pytest.mark.parametrize(
    ("field", "kind", "namespace", "told"),
    [
        ("manifest", "ResourceQuota", "green", "you may not see pods of namespace &#39;green&#39;"),
        ("manifest", "PersistentVolumeClaim", "green", "you may not see pods of namespace &#39;green&#39;"),
        ("manifest", "PriorityClass", "", "objects of kind &#39;PriorityClass&#39; here: they have no namespace"),
        ("manifest", "Namespace", "", "objects of kind &#39;Namespace&#39; here: they have no namespace"),
        ("manifest", "Node", "", "objects of kind &#39;Node&#39; here: they have no namespace"),
        (
            "manifest",
            "ClusterVGPUPolicy",
            "",
            "objects of kind &#39;ClusterVGPUPolicy&#39; here: they have no namespace",
        ),
        (
            "policy",
            "ClusterVGPUPolicy",
            "",
            "objects of kind &#39;ClusterVGPUPolicy&#39; here: they have no namespace",
        ),
        ("policy", "VGPUPolicy", "green", "you may not see pods of namespace &#39;green&#39;"),
    ],
)
async def test_a_tenant_supposes_nothing_outside_of_its_namespaces(
    field: str, kind: str, namespace: str, told: str
) -> None:
    metadata = {"name": "x", **({"namespace": namespace} if namespace else {})}
    asks = pod("new", {GPU: 1, MEMORY: 9000})
    asks["metadata"]["namespace"] = "blue"
    texts = {"manifest": [asks], "policy": []}
    version = "vgpu-scheduler.io/v1alpha1" if kind in POLICY_KINDS else "v1"
    texts[field].append({"apiVersion": version, "kind": kind, "metadata": metadata, "spec": {}})
    people = People()
    people.add(TENANT, *seeing("blue"))
    query = {name: yaml.safe_dump_all(objects) for name, objects in texts.items() if objects}
    async with deployed([node("a"), {**asks, "metadata": {**asks["metadata"], "name": "there"}}], people) as page:
        answer = await get(page, f"/what-if?{urlencode(query)}")
        assert (answer.status, told in answer.text) == (403, True), answer.text
