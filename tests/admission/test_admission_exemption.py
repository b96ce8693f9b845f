"""The webhook's configuration and the code agree on which pods the webhook is not asked about."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml

from vgpu_scheduler.admission import is_exempt

WEBHOOK = Path(__file__).parents[2] / "manifests" / "admission-webhook" / "webhook.yaml"
KEY = "hami.io/webhook"
LABELS: list[dict[str, str]] = [{}, {KEY: "ignore"}, {KEY: "other"}, {"other": "ignore"}]


def selects(selector: dict[str, Any], labels: dict[str, str]) -> bool:
    """Tell whether a selector that only leaves out selects labels."""
    assert selector.keys() == {"matchExpressions"}
    assert {each["operator"] for each in selector["matchExpressions"]} == {"NotIn"}
    return all(labels.get(each["key"]) not in each["values"] for each in selector["matchExpressions"])


@pytest.mark.parametrize("namespace", ["default", "kube-system", "vgpu-system", "kube-public"])
def test_pods_are_left_out_that_the_configuration_leaves_out(namespace: str) -> None:
    (webhook,) = yaml.safe_load(WEBHOOK.read_text())["webhooks"]
    for of_pod, of_namespace in product(LABELS, LABELS):
        named = {**of_namespace, "kubernetes.io/metadata.name": namespace}
        is_asked = selects(webhook["namespaceSelector"], named) and selects(webhook["objectSelector"], of_pod)
        assert is_exempt(of_pod, of_namespace, namespace, "vgpu-system") is not is_asked
