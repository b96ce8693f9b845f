"""Which pods belong together: the index agrees with asking every object, whatever the order of events."""

from __future__ import annotations

from itertools import product
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from tests.engine.builders import pod
from tests.kube.objects import Obj

from vgpu_scheduler.kube import (
    SELECTING_KINDS,
    SERVICE,
    LabelSelector,
    Pod,
    SelectingObject,
    compile_label_selector,
    decode_selecting,
)
from vgpu_scheduler.state import DefaultSpreadSelectors

SELECTORS: list[Obj | None] = [
    None,
    {},
    {"matchLabels": {"app": "web"}},
    {"matchLabels": {"app": "db"}},
    {"matchLabels": {"app": "web", "rev": "1"}},
    {"matchExpressions": [{"key": "rev", "operator": "Exists"}]},
    {"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "rev", "operator": "NotIn", "values": ["2"]}]},
]
LABELS: list[dict[str, str]] = [{}, {"app": "web"}, {"app": "web", "rev": "1"}, {"app": "db", "rev": "2"}]
NAMESPACES = ["default", "other"]


def selecting(kind: str, name: str, selector: Obj | None, version: int = 1, namespace: str = "default") -> Obj:
    plain = kind in ("Service", "ReplicationController")
    spec: Obj = {} if selector is None else {"selector": selector.get("matchLabels", {}) if plain else selector}
    meta = {"name": name, "namespace": namespace, "uid": f"uid-{kind}-{name}", "resourceVersion": str(version)}
    return {"metadata": meta, "spec": spec}


def owned(asked: Pod, owner: str) -> Pod:
    return structs.replace(asked, owner=owner)


def merged(selectors: list[LabelSelector | None]) -> set[Any]:
    return {requirement for selector in selectors if selector is not None for requirement in selector.requirements}


numbers = st.integers(0, 100)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.booleans(), numbers, numbers, numbers), max_size=30))
def test_it_agrees_with_asking_every_object(moves: list[tuple[bool, int, int, int]]) -> None:
    known: dict[tuple[str, str, str], SelectingObject] = {}
    objects = DefaultSpreadSelectors()
    for version, (gone, one, two, three) in enumerate(moves, 1):
        kind, name, namespace = SELECTING_KINDS[one % 4], f"o{two % 3}", NAMESPACES[two % 2]
        obj = selecting(kind, name, SELECTORS[three % len(SELECTORS)], version, namespace)
        obj["metadata"]["uid"] += f"-{namespace}-{version if three % 3 == 0 else 0}"
        found = decode_selecting(kind, obj)
        key = kind, namespace, name
        if not gone:
            objects.observe(found)
            known[key] = found
        elif key in known:
            objects.forget(known.pop(key), version)
        if not gone and objects.stores[kind].get(found.key) is not found:
            del known[key]  # its UID was removed before: it does not come back
    owners = ["", *(each.uid for each in known.values())]
    for namespace, labels, owner in product(NAMESPACES, LABELS, owners):
        asked = owned(pod("p", namespace=namespace, labels=labels), owner)
        services = [each.selector for (kind, where, _), each in known.items() if (kind, where) == (SERVICE, namespace)]
        controllers = [each.selector for each in known.values() if each.kind != SERVICE and each.uid == owner]
        expected = merged([found for found in services if found is not None and found.matches(labels)] + controllers)
        answer = objects.selector_of(asked)
        assert (set() if answer is None else set(answer.requirements)) == expected
        assert answer is None or answer.requirements
    if not known:
        assert not objects._services
        assert not objects._controllers


def test_the_same_selectors_make_the_same_selector_in_any_order() -> None:
    web = owned(pod("p", labels={"app": "web", "rev": "1"}), "uid-ReplicaSet-one")
    objects = [("Service", SELECTORS[2]), ("Service", SELECTORS[4]), ("ReplicaSet", SELECTORS[6])]
    found = []
    for order in (objects, objects[::-1]):
        made = DefaultSpreadSelectors()
        for number, (kind, selector) in enumerate(order):
            name = "one" if kind == "ReplicaSet" else f"service-{number}"
            made.observe(decode_selecting(kind, selecting(kind, name, selector)))
        found.append(made.selector_of(web))
    assert found[0] == found[1]
    assert found[0] is not None
    assert len(found[0].requirements) == 3


def test_older_versions_and_late_ends_change_nothing() -> None:
    objects, web = DefaultSpreadSelectors(), pod("p", labels={"app": "web"})
    objects.observe(decode_selecting("Service", selecting("Service", "one", SELECTORS[2], version=5)))
    objects.observe(decode_selecting("Service", selecting("Service", "one", SELECTORS[3], version=4)))
    assert objects.selector_of(web) == compile_label_selector(SELECTORS[2])
    objects.observe(decode_selecting("Service", selecting("Service", "one", SELECTORS[2], version=9)))
    objects.forget(decode_selecting("Service", selecting("Service", "one", SELECTORS[2])), 8)
    assert objects.selector_of(web) is not None
    objects.forget(decode_selecting("Service", selecting("Service", "one", SELECTORS[2])), 10)
    assert objects.selector_of(web) is None
