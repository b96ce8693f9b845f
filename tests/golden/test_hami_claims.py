"""Amounts that nobody should write: product and twin agree on them for every maker, and the twin reads them as HAMi."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import numpy as np
import pytest
from tests.golden import hami_claims, hami_codec, hami_vendors, hami_webhook
from tests.golden.hami_claims import case
from tests.golden.outcome import differences
from tests.naive.go_quantity import as_int64
from tests.naive.hami_quirks import NONE, Switches
from tests.naive.vendors.quirks import ALL
from tests.naive.webhook.quirks import ALL as ALL_OF_WEBHOOK
from tests.naive.webhook.review import review

from vgpu_scheduler.kube import QuantityError

Obj = dict[str, Any]

CLAIMS = 400
REQUESTS = hami_vendors.KINDS["requests"]


@pytest.mark.parametrize("kind", sorted(hami_claims.KINDS.keys() - {"nvidia"}))
def test_the_product_reads_claims_as_its_twin(kind: str) -> None:
    rng, outcomes = np.random.default_rng(11), Counter[str]()
    for _ in range(CLAIMS):
        given = case(kind, hami_claims.resources(kind, rng))
        ours, theirs = (REQUESTS.twin(given, quirks)[0] for quirks in (NONE, ALL))
        assert not list(hami_vendors._product_against(REQUESTS.shared(ours), REQUESTS.product(given))), given["pod"]
        outcomes["refused" if "refused" in ours else "asked" if any(ours["requests"]) else "nothing"] += 1
        assert "requests" in theirs, "HAMi refuses nothing"
    assert min(outcomes["refused"], outcomes["asked"]) > CLAIMS // 20, outcomes


def test_the_product_reads_claims_of_nvidia_as_its_twin() -> None:
    rng, outcomes = np.random.default_rng(11), Counter[str]()
    for _ in range(CLAIMS):
        given = case("nvidia", hami_claims.resources("nvidia", rng))
        ours, made = hami_codec._twin_requests(given, Switches()), hami_codec._product_requests(given)
        refused = [answer.get(hami_codec.REFUSED, frozenset()) for answer in (ours, made)]
        assert refused[1] <= refused[0], given["pod"]
        assert bool(refused[0]) == bool(refused[1]), given["pod"]
        assert refused[0] or unit(ours) == unit(made), given["pod"]
        outcomes["refused" if refused[0] else "asked" if any(ours["requests"]) else "nothing"] += 1
    assert min(outcomes["refused"], outcomes["asked"]) > CLAIMS // 20, outcomes


def unit(answer: Obj) -> list[Obj]:
    """The requests, without the percentage that an amount overrules."""
    requests = [dict(request) for asked in answer["requests"] for request in asked.values()]
    return [request | ({"mem_percentage": 0} if request["mem"] else {}) for request in requests]


@pytest.mark.parametrize("kind", sorted(hami_claims.KINDS))
def test_the_product_reviews_claims_as_its_twin(kind: str) -> None:
    rng, outcomes = np.random.default_rng(12), Counter[str]()
    for _ in range(CLAIMS):
        given = json.loads(json.dumps(case(kind, hami_claims.resources(kind, rng))))  # limits and requests apart
        ours = review(given, NONE)[0]
        found = differences(
            "product", hami_webhook.comparable(ours), hami_webhook.comparable(hami_webhook.product(given))
        )
        assert not list(found), given["pod"]
        assert "allowed" in review(given, ALL_OF_WEBHOOK)[0]
        outcomes["allowed" if ours["allowed"] else "denied"] += 1
    assert outcomes["allowed"] > CLAIMS // 20


# As HAMi -----------------------------------------------------------------------------------------------------------


def asked(nums: int, mem: int, percent: int, cores: int) -> Obj:
    return {"nums": nums, "mem": mem, "mem_percentage": percent, "cores": cores}


COUNT, MEMORY, CORES = 0, 1, 2
READ = [
    ("mthreads", {COUNT: "4294967297"}, None),
    ("mthreads", {COUNT: "1", MEMORY: "4194304"}, None),
    ("mthreads", {COUNT: "1", MEMORY: "1500m", CORES: "500m"}, asked(1, 0, 100, 0)),
    ("mthreads", {COUNT: "2", MEMORY: "4", CORES: "4294967299"}, asked(2, 1024, 0, 1)),
    ("mthreads", {COUNT: "1k", MEMORY: "1", CORES: "16"}, asked(1000, 0, 0, 0)),
    ("metax shared", {COUNT: "4294967297"}, None),
    ("metax shared", {COUNT: "1", CORES: "4294967297"}, None),
    ("metax shared", {COUNT: "1", CORES: "500m"}, asked(1, 0, 100, 100)),
    ("metax shared", {COUNT: "1", MEMORY: "2097152"}, None),
    ("metax shared", {COUNT: "1", MEMORY: "2097151"}, asked(1, 2147482624, 0, 100)),
    ("metax shared", {COUNT: "1", MEMORY: "4Pi"}, asked(1, 0, 100, 100)),
    ("metax shared", {COUNT: "1", MEMORY: "1k"}, asked(1, 0, 100, 100)),
    ("metax shared", {COUNT: "1", MEMORY: "-1Mi"}, None),
    ("hygon", {COUNT: "1", MEMORY: "1073741824"}, None),
    ("hygon", {COUNT: "1", MEMORY: "16", CORES: "2147483648"}, None),
    ("cambricon", {COUNT: "4294967297", MEMORY: "64", CORES: "4294967297"}, asked(1, 16384, 0, 1)),
    ("cambricon", {COUNT: "1", MEMORY: "8388608"}, None),
    ("cambricon", {COUNT: "1", MEMORY: "500m"}, asked(1, 0, 100, 100)),
    ("iluvatars", {COUNT: "1", MEMORY: "8Gi"}, None),
    ("vnpus", {COUNT: "4294967297"}, None),
    ("amd", {COUNT: "1", MEMORY: "500m"}, None),
    ("amd", {COUNT: "1", CORES: "101"}, None),
    ("enflame slices", {COUNT: "500m", MEMORY: "20"}, asked(1, 20, -1, 0)),
    ("enflame slices", {MEMORY: "8Gi"}, None),
    ("enflame slices", {MEMORY: "1500m", CORES: "500m"}, asked(1, 2, -1, 1)),
    ("enflame slices", {MEMORY: "0"}, asked(1, 0, -1, 0)),
    ("awsneuron", {COUNT: "4294967297"}, None),
    ("awsneuron", {COUNT: "500m", MEMORY: "2"}, None),
    ("kunlun slices", {COUNT: "4294967297", MEMORY: "-1"}, asked(1, 24576, 0, 25)),
    ("vastai", {COUNT: "4294967298"}, asked(2, 0, 100, 0)),
]


@pytest.mark.parametrize(("kind", "given", "expected"), READ)
def test_the_twin_reads_amounts_as_hami(kind: str, given: dict[int, str], expected: Obj | None) -> None:
    amounts = {hami_claims.KINDS[kind][number]: text for number, text in given.items()}
    for where in ("limits", "requests"):
        if where == "requests" and kind in ("metax shared", "amd"):
            continue  # whose requests alone say nothing
        (found,) = REQUESTS.twin(case(kind, {where: amounts}), ALL)[0]["requests"]
        assert [{**request, "type": ""} for request in found.values()] == (
            [{**expected, "type": ""}] if expected else []
        )


def test_a_limit_goes_before_a_request_though_it_cannot_be_read() -> None:
    slices, memory, _ = hami_claims.KINDS["enflame slices"]
    given = case("enflame slices", {"limits": {memory: "8Gi"}, "requests": {memory: "20"}})
    assert REQUESTS.twin(given, ALL)[0] == {"requests": [{}]}
    assert {bad.resource for bad in REQUESTS.twin(given, NONE)[0]["refused"]} == {memory}
    beside = case("enflame slices", {"limits": {memory: "8Gi"}, "requests": {slices: "1"}})
    (found,) = REQUESTS.twin(beside, ALL)[0]["requests"]
    assert (found["Enflame"]["mem"], found["Enflame"]["mem_percentage"]) == (1, 0)


KEPT = "0 7 -7 1k 1500 99999999999Ki 99999999Mi 99999Gi 99Ti 7E 9e18 1e00 1.5k 0e19 9E3 999999999999999999"
LEFT = "0n 500m 1.5 100000000000Ki 100000000Mi 100000Gi 100Ti 1Pi 0Ei 0.5Ki 10E 1e-3 1000000000000000000 16.0Gi"


def test_go_gives_up_on_more_digits_than_64_bits_surely_hold() -> None:
    """What apimachinery's ``Quantity.AsInt64`` said of the same texts."""
    assert [text for text in KEPT.split() if as_int64(text) is None] == []
    assert [text for text in LEFT.split() if as_int64(text) is not None] == []
    assert [as_int64(text) for text in ("9E3", "1.5k", "-2Ki", "0.002k")] == [9000, 1500, -2048, 2]
    for text in ("", "-", "1X", "e3", "Ki"):
        with pytest.raises(QuantityError):
            as_int64(text)
