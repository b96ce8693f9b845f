"""What is replaced in texts that leave for somebody who does not see all, and what is not."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from vgpu_scheduler.reading.page import OTHERS
from vgpu_scheduler.ui.name_redaction import NameRedactor, Names, words_of_messages
from vgpu_scheduler.ui.templating import render
from vgpu_scheduler.ui.visibility import Visibility

Object = dict[str, Any]
MINE = Visibility(frozenset({"blue"}))


def named(kind: str, home: str, name: str, **more: Any) -> Object:
    metadata = {"name": name, **({"namespace": home} if home else {}), **more.pop("metadata", {})}
    return {"kind": kind, "metadata": metadata, **more}


def redactor(*objects: Object, own: tuple[str, ...] = (), **said: tuple[str, ...]) -> NameRedactor:
    names = Names()
    names.note_all(objects)
    return NameRedactor(names, MINE, own, **said)


HIDDEN = (
    named("Namespace", "", "qgreen"),
    named("Pod", "qgreen", "train-0"),
    named("Pod", "qgreen", "both"),
    named("Pod", "blue", "both"),
    named("Pod", "blue", "mine"),
    named("Node", "", "rack-1"),
    named("Pod", "qgreen", "rack-1"),
)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("pod qgreen/train-0 waits", f"pod {OTHERS} waits"),
        ("train-0.", f"{OTHERS}."),
        ("'train-0', (train-0); \"train-0\"", f"'{OTHERS}', ({OTHERS}); \"{OTHERS}\""),
        ("end 2 pods: qgreen/train-0, blue/mine", f"end 2 pods: {OTHERS}, blue/mine"),
        ("of namespace qgreen: x", f"of namespace {OTHERS}: x"),
        ("qgreen/both and blue/both and both", f"{OTHERS} and blue/both and both"),
        ("/pods/qgreen/train-0", f"/pods/{OTHERS}"),
        ("?pod=qgreen%2Ftrain-0&x=blue%2Fmine", f"?pod={OTHERS}&x=blue%2Fmine"),
        ("on rack-1, and train-01, mytrain-0", "on rack-1, and train-01, mytrain-0"),
        ("VGPUPolicy qgreen/new", f"VGPUPolicy {OTHERS}"),
        ("16384/16384Mi (36%)", "16384/16384Mi (36%)"),
        ("", ""),
    ],
)
def test_names_of_what_is_not_seen_are_replaced(text: str, left: str) -> None:
    assert redactor(*HIDDEN).text(text) == left


def test_all_that_belongs_to_an_object_is_a_name() -> None:
    owner = {"kind": "ReplicaSet", "name": "qweb-7d9f"}
    labels = {"app.kubernetes.io/name": "qapp", "scheduling.x-k8s.io/pod-group": "qgroup", "tier": "qtier"}
    spec = {
        "volumes": [{"persistentVolumeClaim": {"claimName": "qclaim"}}, {"emptyDir": {}}],
        "serviceAccountName": "qaccount",
        "schedulingGroup": {"podGroupName": "qnative"},
    }
    found = redactor(
        named("Pod", "qgreen", "qpod", metadata={"ownerReferences": [owner], "labels": labels}, spec=spec),
        named("PersistentVolume", "", "qvolume", spec={"claimRef": {"namespace": "qgreen"}}),
        named("ResourceQuota", "qgreen", "qquota"),
    )
    for name in ("qpod", "qweb-7d9f", "qweb", "qapp", "qgroup", "qclaim", "qaccount", "qnative", "qvolume", "qquota"):
        assert found.text(f"x {name} y") == f"x {OTHERS} y"
    assert found.text("qtier") == "qtier"


def test_plain_values_and_what_maps_them_go_through() -> None:
    value = {"qgreen/train-0": [1, None, True, ("train-0", {"a": "train-0"})], "mine": 2.5}
    assert redactor(*HIDDEN).values(value) == {OTHERS: [1, None, True, [OTHERS, {"a": OTHERS}]], "mine": 2.5}


def test_what_somebody_has_written_tells_them_nothing_new() -> None:
    refusal = redactor(*HIDDEN, refused=("/pods/qgreen/train-0",))
    assert refusal.text("there is no pod qgreen/train-0") == "there is no pod qgreen/train-0"
    assert refusal.text("qgreen/other") == "qgreen/other"
    own = redactor(*HIDDEN, own=("app: train-0, of qgreen/train-0",))
    assert own.text("app=train-0") == "app=train-0"
    assert own.text("kept for qgreen/train-0") == f"kept for {OTHERS}"


def test_a_name_is_found_by_no_guess() -> None:
    guessed = "qgreen/train-0 train-0"
    page = redactor(*HIDDEN, echoed=(guessed,))
    assert page.text(guessed) == guessed
    assert page.text("kept for pod qgreen/train-0") == f"kept for pod {OTHERS}"
    assert page.text("train-0") == OTHERS


def test_objects_of_a_namespace_that_is_seen_are_named_whoever_else_has_the_name() -> None:
    found = redactor(*HIDDEN, named("Pod", "blue", "x"))
    assert found.text("blue/train-0") == "blue/train-0"


def test_nobody_blackens_the_pages_of_others() -> None:
    words = ("memory", "pods", "node", "free", "waits", "8", "16384", "ready")
    assert set(words[:5]) <= words_of_messages()
    assert not {"cookie", "author", "agent"} & words_of_messages(), "docstrings alone have them"
    found = redactor(*(named("Pod", "qgreen", word) for word in words))
    text = "8 pods: 16384 MiB memory free on no node; it waits and is ready"
    assert found.text(text) == text
    assert found.text("qgreen/memory") == OTHERS


def test_the_schedulers_are_named_to_those_who_use_them() -> None:
    owner = {"kind": "ReplicaSet", "name": "vgpu-scheduler-7d9f"}
    labels = {"app.kubernetes.io/name": "vgpu-scheduler"}
    theirs = named(
        "Pod", "vgpu-system", "vgpu-scheduler-7d9f-x", metadata={"ownerReferences": [owner], "labels": labels}
    )
    other = named("Pod", "qgreen", "qsched")
    found = redactor(theirs, other, named("Pod", "blue", "x", spec={"schedulerName": "qsched"}))
    assert found.text("vgpu-scheduler of qsched, vgpu-scheduler-7d9f-x") == f"vgpu-scheduler of qsched, {OTHERS}"


@pytest.mark.parametrize(
    "obj",
    [
        {},
        {"kind": 5, "metadata": None},
        {"metadata": {"name": None, "namespace": 7, "labels": [], "annotations": "x", "ownerReferences": [1, {}]}},
        {
            "kind": "Pod",
            "metadata": {"namespace": "qgreen", "name": "q1"},
            "spec": {"volumes": [None, {"persistentVolumeClaim": 3}]},
        },
        {"kind": "PersistentVolume", "metadata": {"name": "v"}, "spec": {"claimRef": []}},
    ],
)
def test_whatever_objects_hold_is_no_error(obj: Object) -> None:
    assert redactor(obj).text("x") == "x"


def test_a_template_shows_no_value_that_did_not_go_through() -> None:
    values = {"page": "", "titles": {}, "status": type("S", (), {"value": 404, "phrase": "qgreen"})()}
    values["message"] = "there is <b>train-0</b>"
    text = render("message.html", values, redactor(*HIDDEN))
    assert "train-0" not in text
    assert "qgreen" not in text
    assert f"there is &lt;b&gt;{OTHERS}&lt;/b&gt;" in text
    assert "train-0" in render("message.html", values)  # for somebody else


def test_names_of_what_is_gone_are_forgotten_before_they_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vgpu_scheduler.ui.name_redaction._MOST", 100)
    names = Names()
    there = [named("Pod", "qgreen", f"q{number}") for number in range(80)]
    names.note_all([named("Pod", "qgreen", f"gone-{number}") for number in range(200)])
    names.renew(there)
    assert not names.are_many
    assert not names.are_hidden("gone-1", MINE)
    assert names.are_hidden("q1", MINE)


def test_20000_pods_take_little_memory() -> None:
    tracemalloc.start()
    names = Names()
    for number in range(20_000):
        names.note(named("Pod", f"team-{number % 100}", f"train-{number}"))
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size < 8 * 2**20
