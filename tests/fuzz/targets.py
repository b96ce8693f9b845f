"""What is fuzzed: each target takes bytes, as somebody may write them, and ends or raises what is documented."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.fuzz.worlds import (
    ALLOCATIONS,
    CHOICES,
    DIALECTS,
    KINDS,
    NODE_SIDES,
    REGISTRATIONS,
    UndocumentedError,
    observe_all,
    pods_of_all_makers,
)

from vgpu_scheduler.admission import AdmissionRules, review
from vgpu_scheduler.dialects import CodecError, Dialects
from vgpu_scheduler.dialects.hami import decode_assignments, decode_register
from vgpu_scheduler.dialects.hami.mig import decode_allocations
from vgpu_scheduler.dialects.koordinator.codec import decode_allocated, decode_devices
from vgpu_scheduler.dialects.volcano import codec as volcano
from vgpu_scheduler.intake.listing import decode_as
from vgpu_scheduler.kube import (
    DecodeError,
    QuantityError,
    SelectorError,
    decode_node,
    decode_pod,
    has_unit,
    is_zero,
    parse_label_selector,
    parse_quantity,
    to_exact_int,
    to_int,
    to_milli,
)
from vgpu_scheduler.runtime.device_config import device_config
from vgpu_scheduler.runtime.device_files import HAMI
from vgpu_scheduler.settings import Settings, SettingsError

KIB = 1024
ANNOTATIONS = 256 * KIB
"""The API server takes no more annotations of an object than this, all together."""
OBJECT = 3 * 512 * KIB
"""What etcd takes of one object, in bytes."""
NODE = decode_node({"metadata": {"name": "n", "labels": {}}, "spec": {}, "status": {}})
RULES = AdmissionRules(Dialects(DIALECTS), ("vgpu-scheduler",))
SETTINGS = Settings()


@dataclass(frozen=True, slots=True)
class Growing:
    """Inputs of one form and any size: the unit as often as fits between head and tail."""

    name: str
    head: str
    unit: str
    tail: str = ""

    def of(self, size: int, first: int = 10_000) -> bytes:
        """Return one of about this many bytes, whose units are numbered from ``first`` on."""
        room = size - len(self.head) - len(self.tail)
        units = [
            self.unit.replace("#", str(first + number))
            for number in range(max(room // (len(self.unit) + 4 * self.unit.count("#")), 1))
        ]
        separator = "," if self.head.endswith("[") else ""
        return (self.head + separator.join(units) + self.tail).encode()


@dataclass(frozen=True)
class Target:
    """Something that reads what somebody else wrote.

    Attributes
    ----------
    name
        What it is called, and where its corpus is.
    reads
        What it reads, in words.
    writers
        Who may write that.
    raises
        The error that is documented, in words; empty if there is none.
    run
        Reads an input; raises anything at all if that is a finding.
    most
        The largest input that the API server lets through, in bytes.
    growing
        Forms of inputs whose time must grow no faster than they do.
    """

    name: str
    reads: str
    writers: str
    raises: str
    run: Callable[[bytes], None]
    most: int
    growing: tuple[Growing, ...]


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _parts(data: bytes, names: tuple[str, ...]) -> dict[str, str]:
    """Return annotations: the lines of an input one after the other, from the beginning when they end."""
    lines = _text(data).split("\n")
    return {name: lines[number % len(lines)] for number, name in enumerate(names)}


def _object(data: bytes) -> Any:
    """Return the JSON of an input; None for what is none, which the API server does not let through."""
    try:
        return json.loads(data, parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        return None


# Annotations -------------------------------------------------------------------------------------------------------


def registration(data: bytes) -> None:
    for decode in (decode_register, volcano.decode_register):
        with contextlib.suppress(CodecError):
            decode(_text(data))
    annotations = _parts(data, REGISTRATIONS)
    node = {"metadata": {"name": "r", "uid": "r", "resourceVersion": "2", "annotations": annotations}, "spec": {}}
    found = decode_node({**node, "status": {"allocatable": {"nvidia.com/gpu": "8", "pods": "9"}}})
    for dialect in DIALECTS:
        with contextlib.suppress(CodecError):
            dialect.inventory.devices(found)


def allocation(data: bytes) -> None:
    for decode in (decode_assignments, decode_allocations, decode_allocated):
        with contextlib.suppress(CodecError):
            decode(_text(data))
    names, bound = NODE_SIDES
    annotations = {**_parts(data, ALLOCATIONS), **names}
    for obj in pods_of_all_makers(annotations, **bound):
        for pod in (decode_pod(obj), decode_pod({**obj, "status": {}})) if len(data) < 1 << 14 else (decode_pod(obj),):
            for dialect in DIALECTS:
                dialect.allocation.usage(pod)
                dialect.allocation.announced_node(pod)
                dialect.node_side.has_answered(pod.annotations)
                dialect.node_side.nothing_left(pod.annotations)


def choice(data: bytes) -> None:
    pods = pods_of_all_makers(_parts(data, CHOICES))
    observe_all(*(("Pod", pod) for pod in pods))


def lock(data: bytes) -> None:
    text = _text(data)
    for dialect in DIALECTS:
        with contextlib.suppress(ValueError):
            dialect.node_side.parse_lock(text)
    notes = dict.fromkeys((*(lock.annotation for d in DIALECTS for lock in d.node_side.locks), "hami.io/x"), text)
    notes["vgpu-scheduler.io/last-allocated"] = text
    observe_all(("Node", {"metadata": {"name": "l", "uid": "l", "resourceVersion": "3", "annotations": notes}}))


# Values ------------------------------------------------------------------------------------------------------------


def quantity(data: bytes) -> None:
    text = _text(data)
    for parse in (parse_quantity, to_int, to_milli, to_exact_int, is_zero):
        with contextlib.suppress(QuantityError):
            parse(text)
    has_unit(text)


def selector(data: bytes) -> None:
    with contextlib.suppress(SelectorError):
        found = parse_label_selector(_text(data))
        assert found is None or found.matches({"a": "b", "n": "1"}) in {True, False}


# Objects -----------------------------------------------------------------------------------------------------------


def anything(data: bytes) -> None:
    """Take in an object of the kind that it says, or of every kind."""
    obj = _object(data)
    if isinstance(obj, dict):
        named = obj.get("kind")
        observe_all(*((name, obj) for name in ([named] if isinstance(named, str) and named in KINDS else KINDS)))
        return
    for kind in KINDS.values():
        try:
            decode_as(kind, data)
        except DecodeError as error:
            if "internal error" in str(error):
                raise UndocumentedError(str(error)) from error


def policy(data: bytes) -> None:
    obj = _object(data)
    if isinstance(obj, dict):
        observe_all(("ClusterVGPUPolicy", obj), ("VGPUPolicy", obj))


def devices(data: bytes) -> None:
    obj = _object(data)
    if isinstance(obj, dict):
        with contextlib.suppress(CodecError):
            decode_devices(obj, NODE)


def admission(data: bytes) -> None:
    obj = _object(data)
    if isinstance(obj, dict):
        review(obj, "default", RULES)


def configuration(data: bytes) -> None:
    with contextlib.suppress(SettingsError):
        device_config(HAMI.with_text(SETTINGS, _text(data)))


_PEOPLE = "users who may write pods"
_CARD = '{"id":"GPU-#","index":#,"count":4,"devmem":8000,"devcore":100,"type":"T4","mode":"hami-core","health":true}'
_POD = '{"kind":"Pod","metadata":{"name":"x","namespace":"default","uid":"x","resourceVersion":"5"},"spec":{"schedulerName":"vgpu-scheduler",'
_MAIN = '"containers":[{"name":"main","resources":{"limits":{"nvidia.com/gpu":"1"}}}]'
_NODE = '{"kind":"Node","metadata":{"name":"x","uid":"x","resourceVersion":"5"},'
_POLICY = '{"metadata":{"name":"x","namespace":"default","uid":"x","resourceVersion":"5"},"spec":{'
_TERM = '{"labelSelector":{"matchLabels":{"a":"b#"}},"topologyKey":"kubernetes.io/hostname"}'

TARGETS = (
    Target(
        "registration", "the cards that a node registers, of HAMi's vendors and of Volcano", "device plugins",
        "CodecError", registration, ANNOTATIONS,
        (
            Growing("segments", "", "GPU-#,10,8000,100,T4,0,true,#,hami-core:"),
            Growing("of Volcano", "", "GPU-#,10,24576,NVIDIA-A10,true,hami-core:"),
            Growing("JSON", "[", _CARD, "]"),
            Growing("depth", "", "["), Growing("digits", "GPU,", "9", ",1,1,T4,0,true:"), Growing("colons", "", ":"),
            Growing("profiles", '[{"id":"a","migProfiles":[', '{"name":"1g","placements":[{"start":0,"size":1}]}', "]}]"),
            Growing("placements", '[{"id":"a","migProfiles":[{"placements":[', '{"start":0,"size":1}', "]}]}]"),
        ),
    ),
    Target(
        "allocation", "what a pod says that it holds, of every vendor and dialect", f"device plugins; {_PEOPLE}, where"
        " the guard is missing", "CodecError", allocation, ANNOTATIONS,
        (
            Growing("devices", "", "GPU-#,NVIDIA,1024,10:"), Growing("containers", "", "GPU-#,NVIDIA,1,1:;"),
            Growing("ends", "", ";"), Growing("digits", "GPU,NVIDIA,", "0", "1,0:;"),
            Growing("placements", "[", '{"containerIndex":#,"deviceIndex":#,"gpuUUID":"a","profile":"1g","placement":'
                    '{"start":0,"size":1}}', "]"),
            Growing("of Koordinator", '{"gpu":[', '{"minor":#,"id":"GPU-#","resources":{"koordinator.sh/gpu-core":"1"}}', "]}"),
            Growing("brackets", "", "GPU-#[1-0],NVIDIA,1,1:"),
        ),
    ),
    Target(
        "choice", "the annotations by which users choose cards, and the decision that follows", _PEOPLE, "ClaimError",
        choice, ANNOTATIONS // 16,
        (Growing("words", "", "spread,"), Growing("names", "", "GPU-#,"), Growing("JSON", "{", '"a#":1,', '"b":1}')),
    ),
    Target(
        "lock", "the locks and the token of a node", "device plugins, schedulers", "ValueError", lock, ANNOTATIONS // 8,
        (
            Growing("fraction", "2026-01-01T00:00:00.", "0", "Z,default,p"),
            Growing("name", "2026-01-01T00:00:00Z,default,", "p"), Growing("commas", "2026-01-01T00:00:00Z", ",a"),
            Growing("dots", "2026-01-01T00:00:00Z,default,p", ".-"),
        ),
    ),
    Target(
        "quantity", "quantities", f"{_PEOPLE}, nodes or quotas", "QuantityError", quantity, ANNOTATIONS,
        (
            Growing("digits", "", "9"), Growing("fraction", "0.", "1"), Growing("zeros", "1e", "0", "1"),
            Growing("exponent", "1e", "9"), Growing("leading zeros", "", "0", "1Ki"), Growing("signs", "", "+"),
        ),
    ),
    Target(
        "selector", "selectors of labels as texts", "administrators, and users who may write controllers",
        "SelectorError", selector, ANNOTATIONS // 4,
        (
            Growing("terms", "a", ",b#"), Growing("values", "a in (b", ",c#", ")"), Growing("spaces", "a", " ", "=b"),
            Growing("parentheses", "a in ", "("), Growing("not", "", "!"),
        ),
    ),
    Target(
        "object", "pods, nodes, quotas, namespaces, storage objects, controllers; taken in, and pods decided",
        f"{_PEOPLE}, claims, quotas or controllers; kubelets", "DecodeError", anything, OBJECT,
        (
            Growing("containers", _POD + '"containers":[', '{"name":"c#","resources":{"limits":{"nvidia.com/gpu":"1"}}}', "]}}"),
            Growing("tolerations", _POD + _MAIN + ',"tolerations":[', '{"key":"k#","operator":"Exists"}', "]}}"),
            Growing("node terms", _POD + _MAIN + ',"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":'
                    '{"nodeSelectorTerms":[', '{"matchExpressions":[{"key":"a","operator":"In","values":["b#"]}]}', "]}}}}}"),
            Growing("pod terms", _POD + _MAIN + ',"affinity":{"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[',
                    _TERM, "]}}}}"),
            Growing("preferred pods", _POD + _MAIN + ',"affinity":{"podAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[',
                    '{"weight":1,"podAffinityTerm":' + _TERM + "}", "]}}}}"),
            Growing("volumes", _POD + _MAIN + ',"volumes":[', '{"name":"v#","persistentVolumeClaim":{"claimName":"c#"}}', "]}}"),
            Growing("resources", _POD + '"containers":[{"name":"main","resources":{"limits":{', '"example.com/r#":"1",', '"a/b":"1"}}}]}}'),
            Growing("ports", _POD + '"containers":[{"name":"main","ports":[', '{"hostPort":#,"containerPort":1}', "]}]}}"),
            Growing("spread", _POD + _MAIN + ',"topologySpreadConstraints":[', '{"maxSkew":1,"topologyKey":"k#","whenUnsatisfiable":'
                    '"DoNotSchedule","labelSelector":{"matchLabels":{"a":"b"}}}', "]}}"),
            Growing("taints", _NODE + '"spec":{"taints":[', '{"key":"k#","effect":"NoSchedule"}', "]}}"),
            Growing("images", _NODE + '"spec":{},"status":{"images":[', '{"names":["i#"],"sizeBytes":1}', "]}}"),
            Growing("quota", '{"kind":"ResourceQuota","metadata":{"name":"q","namespace":"default","uid":"q"},"spec":{"hard":{',
                    '"limits.example.com/r#":"1",', '"pods":"1"}}}'),
            Growing("depth", '{"kind":"Pod","metadata":', "[", ""),
        ),
    ),
    Target(
        "policy", "the custom resources", "users who may write policies", "DecodeError", policy, OBJECT,
        (
            Growing("types", _POLICY + '"devices":{"types":{"deny":[', '"T#"', "]}}}}"),
            Growing("labels", _POLICY + '"nodes":{"policy":"spread"},"selector":{"matchLabels":{', '"k#":"v",', '"a":"b"}}}}'),
            Growing("expressions", _POLICY + '"nodes":{"policy":"spread"},"selector":{"matchExpressions":[',
                    '{"key":"k#","operator":"Exists"}', "]}}}"),
            Growing("scorers", _POLICY + '"nodes":{"scorers":[', '{"name":"hami","weight":#}', "]}}}"),
            Growing("a word", _POLICY + '"devices":{"policy":"', "spread,", '"}}}'),
        ),
    ),
    Target(
        "device", "Koordinator's Device objects", "koordlet", "CodecError", devices, OBJECT,
        (Growing("devices", '{"spec":{"devices":[', '{"type":"gpu","minor":#,"id":"g#","health":true,"resources":'
                 '{"koordinator.sh/gpu-core":"100"}}', "]}}"),
         Growing("labels", '{"metadata":{"labels":{', '"k#":"v",', '"a":"b"}}}')),
    ),
    Target(
        "admission", "pods that are being created, as the webhook is asked about them", _PEOPLE, "", admission, OBJECT,
        (
            Growing("containers", '{"metadata":{},"spec":{"containers":[',
                    '{"name":"c#","resources":{"limits":{"nvidia.com/gpumem":"1"}}}', "]}}"),
            Growing("variables", '{"metadata":{},"spec":{"containers":[{"name":"c","resources":{"limits":{"nvidia.com/gpu":"1"}},"env":[',
                    '{"name":"v#","value":"1"}', "]}]}}"),
        ),
    ),
    Target(
        "configuration", "HAMi's device configuration", "administrators", "SettingsError", configuration, ANNOTATIONS // 4,
        (Growing("entries", "vnpus:\n", "- {chipName: C#, commonWord: C#, resourceName: a/C#, resourceMemoryName: a/m#, memoryAllocatable: 1}\n"),
         Growing("depth", "nvidia: ", "["),
         Growing("unknown", "nvidia:\n", "  a#: 1\n")),
    ),
)  # fmt: skip
BY_NAME = {target.name: target for target in TARGETS}
