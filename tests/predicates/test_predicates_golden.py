"""The naive twins against kube-scheduler's own decisions: a twin is only worth something if it is right itself."""

import pytest
from tests.golden import kubernetes as golden
from tests.naive import predicates as naive
from tests.naive.spread import spread

from vgpu_scheduler.kube import decode_pod


@pytest.mark.parametrize("family", ["nodeaffinity", "taints", "ports"])
def test_the_naive_twin_too(family: str) -> None:
    """The twin is only worth something if it is right itself."""
    for case in golden.cases(family):
        neighbours: dict[str, list[naive.Obj]] = {}
        for pod in case["pods"]:
            if not decode_pod(pod).terminal:
                neighbours.setdefault(pod["spec"].get("nodeName", ""), []).append(pod)
        for node in case["nodes"]:
            name = node["metadata"]["name"]
            found = naive.verdict(case["pod"], node, neighbours.get(name, []))
            expected = case["expect"]["rejected"].get(name)
            assert found == (expected and (expected["plugin"], expected["code"], frozenset(expected["reasons"]))), (
                f"{case['id']} {name}"
            )


def test_the_naive_twin_of_inter_pod_terms_too() -> None:
    for case in golden.cases("interpod"):
        namespaces = {n["metadata"]["name"]: n["metadata"]["labels"] for n in case["objects"]["namespaces"]}
        for node in case["nodes"]:
            expected = case["expect"]["rejected"].get(node["metadata"]["name"])
            if expected and expected["plugin"] != "InterPodAffinity":
                continue
            found = naive.inter_pod(case["pod"], node, case["nodes"], case["pods"], namespaces)
            assert found == (expected and (expected["plugin"], expected["code"], frozenset(expected["reasons"]))), (
                f"{case['id']} {node['metadata']['name']}"
            )


def test_the_naive_twin_of_spread_constraints_too() -> None:
    for case in golden.cases("spread"):
        for node in case["nodes"]:
            expected = case["expect"]["rejected"].get(node["metadata"]["name"])
            if expected and expected["plugin"] != "PodTopologySpread":
                continue
            found = spread(case["pod"], node, case["nodes"], case["pods"])
            assert found == (expected and (expected["plugin"], expected["code"], frozenset(expected["reasons"]))), (
                f"{case['id']} {node['metadata']['name']}"
            )
