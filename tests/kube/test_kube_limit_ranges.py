"""LimitRanges: what is read of them, what they give to pods, and what they refuse."""

from __future__ import annotations

from fractions import Fraction
from random import Random
from typing import Any

import pytest
from tests.kube.random_limits import random_pod, random_range
from tests.naive.limit_ranges import admitted

from vgpu_scheduler.kube import (
    DecodeError,
    DefaultAmount,
    LimitRange,
    QuantityError,
    claim_refusals,
    decode_limit_range,
    parse_quantity,
    pod_refusals,
    with_range_defaults,
)
from vgpu_scheduler.whatif.objects.admission import with_defaults
from vgpu_scheduler.whatif.objects.limited import as_limited, limit_refusals

Obj = dict[str, Any]


def made(*items: Obj) -> LimitRange:
    return decode_limit_range({"metadata": {"name": "x", "namespace": "team"}, "spec": {"limits": list(items)}})


def pod(*containers: Obj, **spec: Any) -> Obj:
    named = [{"name": f"c{number}", "resources": resources} for number, resources in enumerate(containers)]
    return {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": named, **spec}}


def numbers(found: Any) -> list[Obj]:
    """Return what the containers of a pod ask for, as numbers."""
    return [
        {
            place: {name: _number(amount) for name, amount in (resources.get(place) or {}).items()}
            for place in ("limits", "requests")
        }
        for field in ("initContainers", "containers")
        for container in found["spec"].get(field, [])
        for resources in [container.get("resources") or {}]
    ]


def _number(amount: object) -> Fraction:
    return amount if isinstance(amount, Fraction) else parse_quantity(str(amount))


@pytest.mark.parametrize("seed", range(30))
def test_pods_become_what_the_naive_twin_makes_of_them(seed: int) -> None:
    rng, outcomes = Random(seed), set[bool]()
    for number in range(100):
        ranges = [random_range(rng, f"r{index}") for index in range(rng.choice([1, 1, 2]))]
        decoded, asked = list(map(decode_limit_range, ranges)), random_pod(rng, f"p{number}")
        limited, stored = as_limited(asked, decoded), admitted(asked, ranges)
        refused = list(limit_refusals(limited, decoded))
        assert bool(refused) is (stored is None), (refused, ranges, asked)
        if stored is not None:
            assert numbers(with_defaults(limited.pod, {})) == numbers(stored)
        outcomes.add(bool(refused))
    assert outcomes == {True, False}


def test_a_limit_without_a_request_takes_no_default_request() -> None:
    given = made({"type": "Container", "default": {"cpu": "2"}, "defaultRequest": {"cpu": "100m"}})
    limited = as_limited(pod({"limits": {"cpu": "4"}}, {"requests": {"cpu": "1"}}, {}), [given])
    assert [each for _, each in limited.taken] == [
        DefaultAmount("c1", "limits", "cpu", "2"),
        DefaultAmount("c2", "limits", "cpu", "2"),
        DefaultAmount("c2", "requests", "cpu", "100m"),
    ]
    assert numbers(limited.pod)[0] == {"limits": {"cpu": 4}, "requests": {"cpu": 4}}


@pytest.mark.parametrize(
    ("item", "limits", "requests"),
    [
        ({"max": {"cpu": "2"}}, {"cpu": "2"}, {"cpu": "2"}),
        ({"min": {"cpu": "1"}}, {}, {"cpu": "1"}),
        ({"min": {"cpu": "1"}, "max": {"cpu": "2"}}, {"cpu": "2"}, {"cpu": "2"}),
        ({"default": {"cpu": "1"}, "max": {"cpu": "2"}}, {"cpu": "1"}, {"cpu": "1"}),
    ],
)
def test_what_a_limit_range_does_not_say_follows_from_the_rest(item: Obj, limits: Obj, requests: Obj) -> None:
    (found,) = made({"type": "Container", **item}).items
    assert (found.limits, found.requests) == (limits, requests)
    (of_pod,) = made({"type": "Pod", **item}).items
    assert not of_pod.requests


def test_a_pod_that_takes_no_default_stays_the_same_object() -> None:
    asked = pod({"limits": {"cpu": "1"}})
    assert as_limited(asked, [made({"type": "Container", "default": {"cpu": "2"}})]).pod is asked
    assert with_range_defaults(asked, made({"type": "Pod", "max": {"cpu": "2"}})) == (asked, [])


@pytest.mark.parametrize(
    ("item", "resources", "text"),
    [
        ({"min": {"cpu": "1"}}, {}, "minimum cpu usage per Container is 1.  No request is specified"),
        (
            {"min": {"cpu": "1"}},
            {"requests": {"cpu": "500m"}},
            "minimum cpu usage per Container is 1, but request is 500m",
        ),
        (
            {"min": {"cpu": "1"}},
            {"requests": {"cpu": "1"}, "limits": {"cpu": "100m"}},
            "minimum cpu usage per Container is 1, but limit is 100m",
        ),
        (
            {"max": {"cpu": "1"}},
            {"requests": {"cpu": "1"}},
            "maximum cpu usage per Container is 1.  No limit is specified",
        ),
        (
            {"max": {"nvidia.com/gpumem": "4000"}},
            {"limits": {"nvidia.com/gpumem": 8000}},
            "maximum nvidia.com/gpumem usage per Container is 4000, but limit is 8000",
        ),
        (
            {"maxLimitRequestRatio": {"cpu": "2"}},
            {"requests": {"cpu": "1"}, "limits": {"cpu": "3"}},
            "cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000",
        ),
        (
            {"maxLimitRequestRatio": {"cpu": "2"}},
            {"limits": {"cpu": "3"}, "requests": {"cpu": "0"}},
            "cpu max limit to request ratio per Container is 2, but no request is specified or request is 0",
        ),
        (
            {"maxLimitRequestRatio": {"cpu": "2"}},
            {"requests": {"cpu": "1"}},
            "cpu max limit to request ratio per Container is 2, but no limit is specified or limit is 0",
        ),
    ],
)
def test_it_says_in_the_words_of_the_api_server_why_a_pod_is_refused(item: Obj, resources: Obj, text: str) -> None:
    found = pod_refusals(pod(resources), made({"type": "Container", **item}))
    assert list(map(str, found)) == [f"container c0: {text}"]


def test_sums_of_a_pod_are_told_in_the_unit_of_its_containers() -> None:
    given = made({"type": "Pod", "max": {"memory": "1Gi", "cpu": "1", "nvidia.com/gpumem": "1000"}})
    amounts = {"memory": "1Gi", "cpu": "750m", "nvidia.com/gpumem": "6000"}
    assert sorted(map(str, pod_refusals(pod({"limits": amounts}, {"limits": amounts}), given))) == [
        "maximum cpu usage per Pod is 1, but limit is 1500m",
        "maximum memory usage per Pod is 1Gi, but limit is 2Gi",
        "maximum nvidia.com/gpumem usage per Pod is 1000, but limit is 12000",
    ]


def test_a_default_limit_below_a_request_has_the_pod_refused() -> None:
    given = [made({"type": "Container", "default": {"cpu": "1", "nvidia.com/gpu": "1"}})]
    limited = as_limited(pod({"requests": {"cpu": "2", "nvidia.com/gpu": "2"}}), given)
    assert list(limit_refusals(limited, given)) == [
        "with the defaults of LimitRange team/x: container c0: request 2 must be less than or equal to cpu limit of 1",
        "with the defaults of LimitRange team/x: container c0: request 2 must be equal to nvidia.com/gpu limit of 1",
    ]
    given = [made({"type": "Container", "defaultRequest": {"nvidia.com/gpu": "1"}})]
    (told,) = limit_refusals(as_limited(pod({}), given), given)
    assert "container c0: nvidia.com/gpu has no limit: it must be set for non overcommitable resources" in told


def test_an_amount_of_the_pod_itself_that_is_no_quantity_is_named() -> None:
    given = [made({"type": "Pod", "max": {"cpu": "1"}})]
    asked = pod({"limits": {"cpu": "1"}}, resources={"limits": {"cpu": "much"}})
    assert list(limit_refusals(as_limited(asked, given), given)) == ["spec.resources: 'much' is not a quantity"]


@pytest.mark.parametrize(
    ("storage", "told"),
    [
        ("1Gi", "minimum storage usage per PersistentVolumeClaim is 2Gi, but request is 1Gi"),
        ("2Gi", ""),
        ("5Gi", "maximum storage usage per PersistentVolumeClaim is 4Gi, but request is 5Gi"),
    ],
)
def test_claims_have_a_size_within_limits(storage: str, told: str) -> None:
    given = made(
        {"type": "PersistentVolumeClaim", "min": {"storage": "2Gi"}, "max": {"storage": "4Gi"}},
        {"type": "Container", "max": {"storage": "1"}},
    )
    claim = {"kind": "PersistentVolumeClaim", "spec": {"resources": {"requests": {"storage": storage}}}}
    assert ", ".join(map(str, claim_refusals(claim, given))) == told


@pytest.mark.parametrize("amount", [{}, [1], "much", True])
def test_an_amount_of_a_claim_that_is_no_quantity_is_an_error(amount: object) -> None:
    given = made({"type": "PersistentVolumeClaim", "max": {"storage": "4Gi"}})
    with pytest.raises(QuantityError, match="is not a quantity"):
        list(claim_refusals({"spec": {"resources": {"requests": {"storage": amount}}}}, given))


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"limits": [{"type": "Container", "max": {"cpu": "much"}}]}, r"spec\.limits\[0\]\.max\[cpu\]: 'much' is not"),
        ({"limits": [{}, {"defaultRequest": {"a": "1x"}}]}, r"spec\.limits\[1\]\.defaultRequest\[a\]: '1x' is not a"),
        ({"limits": [{"maxLimitRequestRatio": {"a": ""}}]}, r"spec\.limits\[0\]\.maxLimitRequestRatio\[a\]"),
        ({"limits": "x"}, r"spec\.limits"),
        ({"limits": [{"min": ["cpu"]}]}, r"spec\.limits\[0\]\.min"),
    ],
)
def test_what_is_malformed_is_named(spec: Obj, field: str) -> None:
    with pytest.raises(DecodeError, match=rf"LimitRange team/x: {field}"):
        decode_limit_range({"metadata": {"name": "x", "namespace": "team"}, "spec": spec})


@pytest.mark.parametrize("spec", [{}, {"spec": None}, {"spec": {"limits": None}}])
def test_one_that_says_nothing_limits_nothing(spec: Obj) -> None:
    assert decode_limit_range({"metadata": {"name": "x"}, **spec}) == LimitRange("default", "x", ())
