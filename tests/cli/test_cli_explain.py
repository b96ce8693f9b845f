"""``vgpu-scheduler explain`` on a live cluster."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from kubernetes_asyncio.config import kube_config
from tests.cli.live_cluster import KINDS, Api, run
from tests.cli.typos import letters_off
from tests.kube import storage_objects as storage
from tests.whatif.test_whatif_remedies import GPU, MEMORY, node, pod, running

from vgpu_scheduler.apiclient import client
from vgpu_scheduler.whatif.objects.cards import Card, KoordinatorCards


def test_explain_says_why_a_pod_waits_and_what_would_help(api: Api) -> None:
    result = run("explain", "pod", "default/large")
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[0] == "default/large waits (unschedulable)"
    assert "  a     GPU-a-0  NVIDIA-A100  main       CardInsufficientMemory: 10384 of 12000 MiB memory free" in lines
    assert "  a     GPU-a-1  NVIDIA-A100  main       CardCordoned" in lines
    helps = [line for line in lines if line.startswith("  - ")]
    assert helps == [
        "  - ask 10384 of nvidia.com/gpumem instead of 12000 in container main, 1616 less (goes to a)",
        "  - uncordon card GPU-a-1 of node a (goes to a)",
        "  - end pod default/first on node a (goes to a)",
        "  - add a node like a (goes to a-2)",
    ]
    assert lines[-1] == "Its condition says: 0/1 nodes: told before"
    found = json.loads(run("explain", "large", "-o", "json").stdout)
    assert found["remedies"][0]["kind"] == "ask for less"
    assert found["cards"]["a"][0]["lacks"] == {"dimension": "memory", "unit": "MiB", "asked": 12000, "free": 10384}


def test_explain_says_of_a_card_of_the_wrong_model_nothing_about_its_memory(api: Api) -> None:
    api.objects[0]["metadata"]["annotations"] = node("a", cards=1)["metadata"]["annotations"]
    picky = pod("picky", {GPU: 1, MEMORY: 12000})
    picky["metadata"]["annotations"] = {"nvidia.com/use-gputype": "H100"}
    api.objects.append(picky)
    assert "  a     GPU-a-0  NVIDIA-A100  main       CardTypeMismatch" in run("explain", "picky").stdout.splitlines()


def test_explain_says_what_of_a_pod_counts_otherwise_than_it_looks(api: Api) -> None:
    odd = pod("odd", {GPU: 1, MEMORY: 12000, "nvidia.com/gpumem-percentage": 5})
    odd["metadata"]["annotations"] = {"nvidia.com/numa-bind": "yes"}
    api.objects.append(odd)
    found = run("explain", "odd")
    assert "  warning: annotation nvidia.com/numa-bind: 'yes' is not a boolean, and counts as false" in found.stdout
    assert "container main: nvidia.com/gpumem-percentage has no effect beside nvidia.com/gpumem" in found.stderr


def test_explain_says_of_a_quota_how_it_stands_and_nothing_of_cards(api: Api) -> None:
    quota = {"metadata": {"name": "q", "namespace": "default"}, "spec": {"hard": {f"limits.{MEMORY}": "6500"}}}
    api.objects += [{"kind": "ResourceQuota", **quota}, pod("small", {GPU: 1, MEMORY: 1000}), node("b")]
    text = run("explain", "small").stdout
    assert f"namespace default uses 6000 of 6500 MiB of limits.{MEMORY}" in text
    assert "nearest" not in text
    assert json.loads(run("explain", "small", "-o", "json").stdout)["quotas"].startswith("namespace default uses 6000")


def test_explain_says_of_a_claim_that_is_missing_nothing_of_cards(api: Api) -> None:
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    api.objects.append(pod("mounts", {GPU: 1, MEMORY: 12000}, volumes=volumes))
    text = run("explain", "mounts").stdout
    assert 'persistentvolumeclaim "data" not found' in text
    assert "MiB memory" not in text


def test_explain_gives_the_names_of_pods_to_those_alone_who_may_delete_them(api: Api) -> None:
    named = run("explain", "large").stdout
    assert "  - end pod default/first on node a (goes to a)" in named
    asked: list[str] = []
    api.deletable = lambda namespace: asked.append(namespace) is not None
    unnamed = run("explain", "large")
    assert asked == ["default"]
    assert "  - have 1 pod that you may not delete end on node a (goes to a)" in unnamed.stdout
    assert "first" not in unnamed.stdout
    assert "first" not in json.dumps(json.loads(run("explain", "large", "-o", "json").stdout)["remedies"])


@pytest.mark.parametrize("mine", [False, True])
def test_explain_of_a_bound_pod_gives_the_names_of_pods_in_its_way_as_for_one_that_waits(
    api: Api, *, mine: bool
) -> None:
    bound = running("moved", "b", "GPU-b-0", 12000)
    api.objects[2:] = [node("b", cards=1, unschedulable=True), bound]
    api.deletable = lambda _: mine
    text = run("explain", "moved").stdout
    assert "  - uncordon node b (goes to b)" in text
    assert ("  - end pod default/first on node a (goes to a)" in text) is mine
    assert ("  - have 1 pod that you may not delete end on node a (goes to a)" in text) is not mine


def test_explain_says_which_models_there_are_where_no_card_is_of_the_right_one(api: Api) -> None:
    api.objects[0]["metadata"]["annotations"] = node("a", cards=1)["metadata"]["annotations"]
    for name, model in (("x", "L40S"), ("y", "T4")):
        made = node(name, cards=2)
        notes = made["metadata"]["annotations"]
        notes["hami.io/node-nvidia-register"] = notes["hami.io/node-nvidia-register"].replace("NVIDIA-A100", model)
        api.objects.append(made)
    picky = pod("picky", {GPU: 1, MEMORY: 100})
    picky["metadata"]["annotations"] = {"nvidia.com/use-gputype": "H200"}
    api.objects.append(picky)
    told = "No card is of a model that it takes; there are L40S (2), NVIDIA-A100 (1), T4 (2)."
    assert f"  {told}" in run("explain", "picky").stdout.splitlines()
    assert json.loads(run("explain", "picky", "-o", "json").stdout)["models"] == told
    assert "No card is of" not in run("explain", "large").stdout


def test_explain_has_one_row_for_cards_that_say_the_same(api: Api) -> None:
    for number, model in enumerate(("A100", "L40S", "T4", "V100")):
        made = node(f"n{number}", cards=8)
        notes = made["metadata"]["annotations"]
        notes["hami.io/node-nvidia-register"] = notes["hami.io/node-nvidia-register"].replace("NVIDIA-A100", model)
        api.objects.append(made)
    picky = pod("picky", {GPU: 1})
    picky["metadata"]["annotations"] = {"nvidia.com/use-gputype": "H200"}
    api.objects.append(picky)
    rows = [
        line.strip()
        for line in run("explain", "picky").stdout.splitlines()
        if "CardTypeMismatch" in line and " cards " in line
    ]
    assert rows == ["5 nodes: a, n0, n1, …  33 cards  NVIDIA-A100, A100, L40S, T4, V100  main       CardTypeMismatch"]
    assert run("explain", "picky", "-o", "wide").stdout.count("CardTypeMismatch") > 33


def test_explain_shows_all_cards_where_it_may_be_wide(api: Api) -> None:
    api.objects += [node(f"n{number}", cards=1, memory=2048) for number in range(9)]
    short, wide = run("explain", "large").stdout, run("explain", "large", "-o", "wide").stdout
    assert "and the cards of 2 more nodes: --node NAME shows those of one, -o wide all" in short
    assert "more nodes" not in wide
    assert [f"GPU-n{number}-0" in wide for number in range(9)] == [True] * 9
    assert wide.splitlines()[-1] == "Its condition says: 0/1 nodes: told before"


def test_explain_says_that_three_changes_at_once_were_not_searched(api: Api) -> None:
    api.objects = [node("a", cards=1), pod("odd", {GPU: 1, MEMORY: 99999, "example.com/x": 1, "cpu": 99})]
    result = run("explain", "odd")
    assert result.exit_code == 1
    assert (
        "No change or pair of changes that would help was found; not all pairs were searched, and no larger sets."
        in result.stdout
    )


def test_explain_says_in_mib_what_cards_of_koordinator_lack(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    cards = [Card(f"GPU-{n}", n, "A100", 16384, 0, 100, 0, "", healthy=True) for n in range(2)]
    made = KoordinatorCards().register("k", cards)
    monkeypatch.setitem(KINDS, "/apis/scheduling.koordinator.sh/v1alpha1/devices", "Device")
    written = node("k", cards=0)
    written["status"]["allocatable"] |= made.allocatable
    limits = {"koordinator.sh/gpu.shared": 1, "koordinator.sh/gpu-memory": "17Gi", "koordinator.sh/gpu-core": 10}
    api.objects = [written, *made.objects, pod("large", limits)]
    api.settings = "dialects: [koordinator]\n"
    text = run("explain", "large").stdout
    assert text.count("16384 of 17408 MiB memory free") == 3  # the nearest miss, and both cards
    assert str(2**34) not in text


def test_explain_a_pod_of_another_scheduler(api: Api) -> None:
    result = run("explain", "plain")
    assert result.exit_code == 1
    left = "It names the scheduler default-scheduler"
    first, _, condition = result.stdout.splitlines()[:3]
    assert first == f"{left}: vgpu-scheduler places pods of vgpu-scheduler only."
    assert condition == "If it named vgpu-scheduler:"
    assert "its turn comes" not in result.stdout
    told = json.loads(run("explain", "plain", "-o", "json").stdout)
    assert told["scheduler"] == {"named": "default-scheduler", "ours": False}


@pytest.mark.parametrize("settings", ["", "scheduler_names: [team-scheduler, vgpu-scheduler]\n"])
def test_explain_a_pod_that_names_no_scheduler_that_is_there(api: Api, settings: str) -> None:
    api.settings = settings
    plain = next(obj for obj in api.objects if obj["metadata"]["name"] == "plain")
    for named in ("volcano", *letters_off("vgpu-scheduler")):
        plain["spec"]["schedulerName"] = named
        result = run("explain", "plain")
        meant = "" if named == "volcano" else " (is vgpu-scheduler meant?)"
        first = result.stdout.splitlines()[0]
        assert first.startswith(f"No scheduler known here places it: it names the scheduler {named}{meant}, and ")
        assert ("list it in coexist_with" in first) is (named == "volcano")
        assert (result.exit_code, "its turn comes" in result.stdout) == (1, False)
    plain["spec"]["schedulerName"] = "vgpu-scheduler"
    assert run("explain", "plain").exit_code == 0


def test_explain_says_which_claim_of_a_decided_pod_waits_for_its_volume(api: Api) -> None:
    claim = storage.claim("data", "default", meta={"annotations": {storage.SELECTED_NODE: "a"}})
    volumes = [storage.claim_volume("data")]
    api.objects += [
        {"kind": "StorageClass", **storage.storage_class("sc", wait=True)},
        {"kind": "PersistentVolumeClaim", **claim},
        node("b"),
        pod("decided", {GPU: 1, MEMORY: 100}, volumes=volumes, schedulerName="vgpu-scheduler"),
    ]
    text = run("explain", "decided").stdout
    assert (
        "Its claim default/data waits for the volume that is provisioned for node a: see the events of the claim"
        in text
    )
    assert "its turn comes" not in text
    plain = json.loads(run("explain", "decided", "-o", "json").stdout)
    assert plain["awaitedVolumes"] == [{"claim": "default/data", "node": "a"}]
    why = "it waits for the volume of claim default/data, provisioned for node a, and when it is ready is not known"
    forecast = json.loads(run("explain", "decided", "--forecast", "-o", "json").stdout)["forecast"]
    assert forecast == {"unknown": why}
    found = json.loads(run("simulate", "--pending", "--forecast", "-o", "json").stdout)
    assert {each["pod"]: each.get("forecast") for each in found}["default/decided"] == {"unknown": why}
    api.objects[-3]["metadata"]["annotations"] = {}
    assert "awaitedVolumes" not in run("explain", "decided", "-o", "json").stdout


@pytest.mark.parametrize("may_list", [True, False])
def test_claims_of_ephemeral_volumes_count_as_made_where_they_may_not_be_listed(api: Api, *, may_list: bool) -> None:
    volumes = [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {"storageClassName": "sc"}}}}]
    waits = pod("waits", {GPU: 1, MEMORY: 100}, volumes=volumes, schedulerName="vgpu-scheduler")
    api.objects += [{"kind": "StorageClass", **storage.storage_class("sc", wait=True)}, node("b"), waits]
    api.refused = frozenset() if may_list else frozenset({"PersistentVolumeClaim"})
    found = run("explain", "waits")
    assert ("waiting for ephemeral volume controller" in found.stdout) is may_list
    assert found.exit_code == may_list


def test_explain_warns_of_what_looks_like_a_mistake_in_a_bound_pod_too(api: Api) -> None:
    bare = running("bare", "a", "GPU-a-0", 100)
    bare["spec"]["containers"][0]["resources"]["limits"] = {GPU: 0, MEMORY: 1000}
    api.objects.append(bare)
    found = run("explain", "bare")
    assert "default/bare is bound to a" in found.stdout
    assert f"{GPU} is 0, so it gets no card, whatever else it asks" in found.stderr


def test_explain_a_bound_pod(api: Api) -> None:
    result = run("explain", "first")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[:6] == [
        "default/first is bound to a.",
        "  GPU-a-0 (NVIDIA-A100): 1 share, 6000 MiB memory, 0 percent cores",
        "  decided among 3 nodes, score 1.5",
        "  nodes by settings",
        "",
        "If it were created now instead, it would go to the same node:",
    ]


def test_explain_says_who_announced_a_pod_that_nobody_has_bound(api: Api) -> None:
    half = running("half", "", "GPU-a-1", 1000, schedulerName="hami-scheduler")
    half["metadata"]["annotations"]["hami.io/vgpu-node"] = "a"
    api.objects.append(half)
    api.settings = "coexist_with: [hami-scheduler]\n"
    counted = "the announced resources count as used meanwhile"
    where = f"default/half is announced for a by hami-scheduler, which has not bound it yet: {counted}."
    for refused in ((), ("Node", "Pod")):
        api.refused = frozenset(refused)
        told = run("explain", "half")
        text, found = told.stdout, json.loads(run("explain", "half", "-o", "json").stdout)
        lines = text.splitlines()
        assert told.exit_code == 1, "it waits for another scheduler"
        assert (lines[0], lines[1][:9], lines[2]) == (where, "  GPU-a-1", ""), text
        assert (found["node"], found["announcedBy"]) == ("a", "hami-scheduler")
    api.refused = frozenset()
    half["spec"]["nodeName"] = "a"
    assert run("explain", "half").stdout.startswith("default/half is bound to a.\n")
    assert "announcedBy" not in json.loads(run("explain", "half", "-o", "json").stdout)


@pytest.mark.parametrize("refused", [(), ("Node", "Pod")])
def test_explain_says_of_a_pod_that_ends_that_it_does(api: Api, refused: tuple[str, ...]) -> None:
    api.refused = frozenset(refused)
    objects = {obj["metadata"]["name"]: obj for obj in api.objects}
    counts = "It is being deleted: its resources count as used until it has ended."
    assert counts not in run("explain", "first").stdout
    objects["first"]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:30Z"
    assert f"  {counts}" in run("explain", "first").stdout.splitlines()
    assert json.loads(run("explain", "first", "-o", "json").stdout)["deleting"]
    objects["large"]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:30Z"
    told = run("explain", "large")
    why = "is being deleted and is bound to no node: it no longer waits"
    assert (told.exit_code, told.stdout) == (2, "")
    assert told.stderr.endswith(f"Error: pod default/large {why}\n")
    objects["large"]["status"] = {"phase": "Failed"}
    assert run("explain", "large").stderr.endswith("pod default/large has ended (Failed): it neither waits nor runs\n")
    if not refused:
        moved = run("defrag", "--for", "large")
        assert moved.stderr.endswith("pod default/large has ended (Failed): it neither waits nor runs\n")


@pytest.mark.parametrize("refused", [(), ("Node", "Pod")])
@pytest.mark.parametrize(
    ("reason", "message", "is_rejection"),
    [
        ("UnexpectedAdmissionError", "Pod was rejected: Allocate failed due to\nno free card", True),
        ("OutOfnvidia.com/gpu", "", True),
        ("Evicted", "The node was low on resource: memory.", False),
        ("", "Stopped by somebody", False),
    ],
)
def test_explain_says_why_a_pod_has_failed(
    api: Api, refused: tuple[str, ...], reason: str, message: str, *, is_rejection: bool
) -> None:
    api.refused = frozenset(refused)
    (large,) = (obj for obj in api.objects if obj["metadata"]["name"] == "large")
    large["spec"]["nodeName"] = "a"
    large["status"] = {"phase": "Failed", "reason": reason, "message": message}
    told = run("explain", "large").stderr
    says = ": ".join(filter(None, (reason, " ".join(message.split()))))
    where = "; see RejectedByKubelet in the runbook" if is_rejection else ""
    assert told.endswith(f"has ended (Failed): it neither waits nor runs; its status says {says}{where}\n")
    large["status"]["message"] = "x" * 5000
    assert len(run("explain", "large").stderr) < 2000


@pytest.mark.parametrize("refused", [(), ("Node", "Pod")])
@pytest.mark.parametrize("coexists", [False, True])
@pytest.mark.parametrize(
    ("named", "limits", "reason"),
    [
        ("default-scheduler", {"nvidia.com/gpu": "1"}, "UnexpectedAdmissionError"),
        ("other", {"nvidia.com/gpu": "2"}, "UnexpectedAdmissionError"),
        ("default-scheduler", {"nvidia.com/gpu": "1"}, "OutOfnvidia.com/gpu"),
        ("default-scheduler", {"cpu": "1"}, "UnexpectedAdmissionError"),
        ("vgpu-scheduler", {"nvidia.com/gpu": "1"}, "UnexpectedAdmissionError"),
    ],
)
def test_explain_says_that_a_rejected_pod_names_a_scheduler_that_device_plugins_do_not_serve(
    api: Api, refused: tuple[str, ...], named: str, limits: dict[str, str], reason: str, *, coexists: bool
) -> None:
    api.refused = frozenset(refused)
    api.settings = f"coexist_with: [{named}]\n" if coexists and named != "vgpu-scheduler" else None
    (large,) = (obj for obj in api.objects if obj["metadata"]["name"] == "large")
    large["spec"] |= {"nodeName": "a", "schedulerName": named}
    large["spec"]["containers"][0]["resources"] = {"limits": limits}
    large["status"] = {"phase": "Failed", "reason": reason, "message": "Allocate failed due to no allocation"}
    told = run("explain", "large").stderr
    is_cause = named != "vgpu-scheduler" and not coexists and "cpu" not in limits and reason.startswith("Unexpected")
    cause = f"the likely cause is that it names the scheduler {named}, whose pods"
    assert (cause in told) is is_cause, told
    assert told.endswith("create it anew with spec.schedulerName: vgpu-scheduler\n") is is_cause


def test_explain_says_why_a_bound_pod_is_not_on_another_node(api: Api) -> None:
    api.objects += [node("b", cards=1), running("second", "b", "GPU-b-0", 6000)]
    api.objects += [node("c", cards=1), running("third", "c", "GPU-c-0", 14000), node("d", cards=0)]
    elsewhere = run("explain", "first").stdout.splitlines()
    assert "If it were created now instead, it would go to b:" in elsewhere
    assert "Both fit, and b is better: hami gives 4.66 to b and 0 to a." in elsewhere
    cards = ["a     GPU-a-0", "a     GPU-a-1", "b     GPU-b-0"]
    assert [line.strip()[: len(cards[0])] for line in elsewhere[2:] if "NVIDIA-A100" in line] == cards
    too_small = run("explain", "first", "--node", "c").stdout.splitlines()
    assert "c does not fit: 1/1 CardInsufficientMemory." in too_small
    assert any(line.endswith("CardInsufficientMemory: 2384 of 6000 MiB memory free") for line in too_small)
    found = json.loads(run("explain", "first", "--node", "d", "-o", "json").stdout)
    assert found["today"]["comparison"] == "d does not fit: Insufficient nvidia.com/gpu."
    assert [*found["today"]["cards"]] == ["a", "d"]
    assert run("explain", "first", "--node", "e").stderr.endswith("Error: there is no node e\n")
    api.objects += [node("f", cards=1), node("g", cards=1), running("fourth", "g", "GPU-g-0", 1000)]
    alike = run("explain", "fourth", "--node", "f").stdout
    assert "g and f fit equally well; the first by name is chosen." in alike


@pytest.mark.parametrize("options", [(), ("--node", "b")])
@pytest.mark.parametrize("others", [("b",), ("a", "b")])
def test_explain_says_that_the_node_of_a_bound_pod_is_gone(
    api: Api, others: tuple[str, ...], options: tuple[str, ...]
) -> None:
    api.objects[:] = [*(node(name, cards=1) for name in others), running("lost", "n9", "GPU-n9-0", 6000)]
    told = run("explain", "lost", *options).stdout
    assert "There is no node n9 any more." in told
    assert "not compared" not in told
    assert "not tried" not in told


@pytest.mark.parametrize("words", [("pod/large",), ("pod", "large"), ("po/large",), ("default/large",)])
def test_explain_takes_a_pod_as_kubectl_does(api: Api, words: tuple[str, ...]) -> None:
    assert run("explain", *words).stdout == run("explain", "large").stdout


def test_explain_takes_the_namespace_of_the_context(api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contexts = [
        {"name": "team", "context": {"cluster": "c", "user": "u", "namespace": "research"}},
        {"name": "none", "context": {"cluster": "c", "user": "u"}},
    ]
    clusters, users = [{"name": "c", "cluster": {"server": "http://c"}}], [{"name": "u", "user": {}}]
    file = tmp_path / "kubeconfig"
    file.write_text(
        yaml.safe_dump({"current-context": "team", "contexts": contexts, "clusters": clusters, "users": users})
    )
    elsewhere = run("explain", "large", "--kubeconfig", str(file))
    assert elsewhere.stderr.endswith(
        "Error: there is no pod research/large that waits or runs, did you mean default/large?\n"
    )
    assert run("explain", "large", "--kubeconfig", str(file), "--context", "none").exit_code == 1
    assert run("explain", "large", "--kubeconfig", str(file), "-n", "default").exit_code == 1
    monkeypatch.setattr(client, "KUBE_CONFIG_DEFAULT_LOCATION", f"{tmp_path / 'missing'}:{file}")
    monkeypatch.setattr(kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", f"{tmp_path / 'missing'}:{file}")
    assert run("explain", "large").stderr == elsewhere.stderr


def test_explain_without_rights_says_what_the_pod_says(api: Api) -> None:
    api.refused = frozenset({"Node", "Pod"})
    result = run("explain", "large")
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        "default/large waits.",
        "  Unschedulable: 0/1 nodes: told before",
        "",
        "What may help, according to its condition and event:",
        "  ask an administrator of the scheduler",
        "",
        "Its reasons are explained in the runbook of vgpu-scheduler (set runbook_url to print its address here).",
        "",
        "The explanation ends here: you may not list nodes, list pods in all namespaces.",
    ]
    assert "decided among 3 nodes" in run("explain", "first").stdout
    gone = run("explain", "xyzzy")
    assert (gone.exit_code, gone.stdout) == (2, "")
    assert gone.stderr.endswith("the pod itself cannot be read: not found\n")


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("research/needs-memry",), "research/needs-memory"),
        (("needs-memory", "-n", "reserch"), "research/needs-memory"),
        (("needs-memory",), "research/needs-memory"),
        (("reserch/needs-memry",), "research/needs-memory"),
        (("default/larg",), "default/large"),
        (("something",), ""),
    ],
)
def test_a_name_that_is_mistyped_is_told_of(api: Api, words: tuple[str, ...], meant: str) -> None:
    wanted = pod("needs-memory", {GPU: 1})
    wanted["metadata"]["namespace"] = "research"
    api.objects.append(wanted)
    result = run("explain", *words)
    assert result.exit_code == 2
    assert result.stderr.endswith(f", did you mean {meant}?\n" if meant else "that waits or runs\n")


def test_pods_of_one_name_are_told_apart_by_their_namespaces(api: Api) -> None:
    for namespace in ("vision", "research", "speech"):
        api.objects.append(pod("train", {GPU: 1}))
        api.objects[-1]["metadata"] |= {"namespace": namespace, "uid": namespace}
    assert run("explain", "train", "-n", "reserch").stderr.endswith("did you mean research/train?\n")
    assert run("explain", "train", "-n", "speach").stderr.endswith("did you mean speech/train?\n")


def test_who_sees_one_namespace_is_told_of_its_pods_alone(api: Api) -> None:
    api.refused = frozenset({"Node", "Pod"})
    assert run("explain", "larg").stderr.endswith(
        "the pod itself cannot be read: not found, did you mean default/large?\n"
    )
    assert run("explain", "xyzzy").stderr.endswith("the pod itself cannot be read: not found\n")


@pytest.mark.parametrize("words", [("pod",), ("a", "b"), ("pod", "a", "b")])
def test_explain_is_about_one_pod(api: Api, words: tuple[str, ...]) -> None:
    result = run("explain", *words)
    assert result.exit_code == 2


@pytest.mark.parametrize("few_rights", [False, True])
def test_a_pod_that_was_evicted_and_is_gone_is_told_so(api: Api, *, few_rights: bool) -> None:
    said = "Preempted by pod default/large on node a"
    for number, (name, reason, minute) in enumerate(
        [("gone", "Preempted", 1), ("gone", "Preempted", 3), ("gone", "Scheduled", 5), ("other", "Preempted", 7)]
    ):
        event = {"reason": reason, "message": f"{said} {minute}", "lastTimestamp": f"2026-01-01T00:0{minute}:00Z"}
        about = {"involvedObject": {"kind": "Pod", "namespace": "default", "name": name}}
        metadata = {"name": f"e{number}", "namespace": "default"}
        api.objects.append({"kind": "Event", "metadata": metadata, **about, **event})
    if few_rights:
        api.refused = frozenset({"Node"})
    result = run("explain", "gone")
    assert result.exit_code == 2
    assert result.stderr.endswith(
        "Error: pod default/gone no longer exists: it was evicted at 2026-01-01T00:03:00Z to make room for another pod;"
        f" its event Preempted says: {said} 3\n"
    )
    assert "no longer exists" not in run("explain", "never").stderr


def test_of_pods_of_one_name_the_last_one_counts(api: Api) -> None:
    """A pod of a StatefulSet was evicted, came back under its name, and is gone for another reason."""
    for minute, (uid, reason) in enumerate([("one", "Preempted"), ("two", "Scheduled"), ("two", "Killing")]):
        about = {"involvedObject": {"kind": "Pod", "namespace": "default", "name": "web-0", "uid": uid}}
        event = {"reason": reason, "message": "m", "lastTimestamp": f"2026-01-01T00:0{minute}:00Z"}
        metadata = {"name": f"e{minute}", "namespace": "default"}
        api.objects.append({"kind": "Event", "metadata": metadata, **about, **event})
        assert ("was evicted" in run("explain", "web-0").stderr) is (uid == "one")


@pytest.mark.parametrize("few_rights", [False, True])
@pytest.mark.parametrize(
    ("kind", "controller"), [("ReplicaSet", "over-7d9f"), ("Job", "over"), ("StatefulSet", "over"), ("Other", "x")]
)
@pytest.mark.parametrize("asked", [["over"], ["-l", "app=over"], ["deploy/over"], ["job/over"]])
def test_why_a_controller_cannot_create_its_pods_is_told(
    api: Api, kind: str, controller: str, asked: list[str], *, few_rights: bool
) -> None:
    for minute, (reason, said) in enumerate([("FailedCreate", "old"), ("FailedCreate", "new\n one"), ("Started", "y")]):
        about = {"involvedObject": {"kind": kind, "namespace": "default", "name": controller}}
        event = {"reason": reason, "message": said, "lastTimestamp": f"2026-01-01T00:0{minute}:00Z"}
        api.objects.append(
            {"kind": "Event", "metadata": {"name": f"f{minute}", "namespace": "default"}, **about, **event}
        )
    if few_rights:
        api.refused = frozenset({"Node"})
    result = run("explain", *asked)
    assert result.exit_code == 2
    told = f". {kind} {controller} cannot create its pods; its event FailedCreate says: new one.\n"
    is_meant = kind != "Other" or asked[0] == "-l"
    assert result.stderr.endswith(told) is is_meant
    assert "cannot create its pods" not in run("explain", "never").stderr
