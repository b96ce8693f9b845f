"""Names are hashed so that a replay still gives the decisions, and nobody reads them."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from tests.engine.builders import OURS, asks, cards, node, pod_object
from tests.history.recorded import BEGAN, PREEMPTS, fleet, options, played, waiting
from tests.policy.resources import policy

from vgpu_scheduler.dialects import Dialects
from vgpu_scheduler.history import Arrived, Changed, ChangeTracker, History, replay, rows_of
from vgpu_scheduler.history.checking import check
from vgpu_scheduler.history.hashing import Hasher
from vgpu_scheduler.kube import Namespace, decode_budget, decode_pod, decode_quota
from vgpu_scheduler.whatif import make_dialect

KEY = b"a key"
NAME = "kubernetes.io/metadata.name"


def hashed(past: History, key: bytes = KEY) -> History:
    hasher = Hasher(key, {"vgpu-system"})
    first = tuple(each for each in hasher.events(past.first) if isinstance(each, Changed | Arrived))
    return replace(past, first=first, events=tuple(hasher.events(past.events)))


@pytest.mark.parametrize("listed", ["hami", "volcano", "koordinator"])
def test_locks_of_nodes_name_nobody(listed: str) -> None:
    every = Dialects([make_dialect(name) for name in ("hami", "volcano", "koordinator")])
    locks = {lock.annotation for lock in every.node_side.locks} | {"hami.io/mutex.lock", "volcano.sh/node-vgpu-lock"}
    found = node("n", cards("n", 1), annotations=dict.fromkeys(locks, "x,secret,secret"))
    (event,) = ChangeTracker(Dialects([make_dialect(listed)]), [OURS]).seen(BEGAN, "Node", found)
    (row,) = rows_of(Hasher(b"k").events([event]))
    assert b"secret" not in row.body


def test_a_replay_gives_the_same_decisions() -> None:
    past = played(1, [PREEMPTS], pods=40, preemption=True)
    other = hashed(past)

    found = check(other, options(preemption=True))
    assert found.decisions == found.same > 0
    one, two = (replay(each, options(preemption=True)).pods for each in (past, other))
    assert [(each.uid, each.node, each.cards, each.started) for each in one] == [
        (each.uid, each.node, each.cards, each.started) for each in two
    ]
    assert {each.pod for each in one}.isdisjoint(each.pod for each in two)


def test_what_is_about_a_namespace_still_is() -> None:
    """A quota, a policy that names one, a term that does, and a budget: each decides as without hashes."""
    spec = {"namespaceSelector": {"matchExpressions": [{"key": NAME, "operator": "In", "values": ["secret-team"]}]},
            "devices": {"types": {"deny": ["T4"]}}}  # fmt: skip
    quota = decode_quota({"metadata": {"name": "q", "namespace": "other-team", "uid": "q", "resourceVersion": "1"},
                          "spec": {"hard": {"limits.nvidia.com/gpumem": "1000"}}})  # fmt: skip
    budget = decode_budget({"metadata": {"name": "b", "namespace": "other-team", "uid": "b"},
                            "spec": {"selector": {}}, "status": {"disruptedPods": {"secret-pod": None}}})  # fmt: skip
    term = {"topologyKey": "kubernetes.io/hostname", "namespaces": ["other-team"],
            "labelSelector": {"matchLabels": {"a": "b"}}}  # fmt: skip
    near = decode_pod(pod_object("near", asks(1, 500), namespace="vgpu-system",
                                 affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}))  # fmt: skip # noqa: E501
    names = ("secret-team", "other-team", "vgpu-system")
    labelled = [msgspec.structs.replace(each, labels={"kubernetes.io/hostname": each.name}) for each in fleet(2, 1)]
    first = [
        *(Changed(BEGAN, "Namespace", Namespace(name, {NAME: name})) for name in names),
        *(Changed(BEGAN, each.kind, each) for each in [policy("names-one", spec)]),
        Changed(BEGAN, "ResourceQuota", quota),
        Changed(BEGAN, "PodDisruptionBudget", budget),
        *(Changed(BEGAN, "Node", each) for each in labelled),
    ]
    events = [
        Arrived(BEGAN + 1, waiting("secret-pod", uid="u1", namespace="secret-team")),
        Arrived(BEGAN + 2, waiting("too-much", uid="u2", namespace="other-team", resources=asks(1, 2000))),
        Arrived(BEGAN + 3, waiting("fits", namespace="other-team", resources=asks(1, 900), labels={"a": "b"})),
        Arrived(BEGAN + 4, near),
    ]
    past = History(BEGAN, BEGAN + 60, tuple(first), tuple(events))
    other = hashed(past)

    one, two = (replay(each, options(preemption=True)).pods for each in (past, other))

    assert [each.node for each in one] == ["", "", "node-0", "node-1"]
    assert [each.node for each in two] == [each.node for each in one]
    assert [each.namespace == "vgpu-system" for each in two] == [False, False, False, True]
    text = b"".join(row.body + row.name.encode() for row in rows_of((*other.first, *other.events)))
    for name in (b"secret", b"other-team", b"too-much"):
        assert name not in text


def test_another_key_gives_other_names() -> None:
    assert Hasher(KEY).name("a") == Hasher(KEY).name("a") != Hasher(b"other").name("a")
    assert Hasher(KEY).name(OURS) != OURS
