"""Labels of pods that have to be those of nodes: a pod that has one as is said is placed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.seeds import seeds
from tests.whatif.test_whatif_condition_remedies import answer
from tests.whatif.test_whatif_remedies import pod, world_of
from tests.whatif.test_whatif_remedies_dialects import PERCENT, cluster

from vgpu_scheduler.dialects.koordinator.names import ISOLATION_LABEL
from vgpu_scheduler.whatif import RemedyType, ask, explain_pod

Object = dict[str, Any]
OF_LABELS = {RemedyType.DROP_CONSTRAINT, RemedyType.ASK_OTHERWISE, RemedyType.TOGETHER}


@pytest.mark.parametrize("seed", seeds(4, 60))
def test_the_label_with_which_a_pod_fits_is_told(seed: int) -> None:
    rng = np.random.default_rng(seed)
    provided = [str(value) for value in rng.choice(["", "HAMi-core", "other"], size=2)]
    own = str(rng.choice([each for each in ("", "HAMi-core", "third") if each not in provided]))
    objects = cluster("koordinator", [[]], [[]])
    for written, value in zip((each for each in objects if each["kind"] == "Node"), provided, strict=True):
        written["metadata"]["labels"] = {ISOLATION_LABEL: value} if value else {}
    asked = pod("asked", {PERCENT: 50}, metadata={"labels": {ISOLATION_LABEL: own} if own else {}})
    full = seed % 2 == 1  # another thing keeps it away, too
    if full:
        asked["spec"]["nodeSelector"] = {"pool": "none"}
    made, waiting = world_of(*objects, asked, dialect="koordinator")
    found = explain_pod(made, waiting)
    has = f"Its label {ISOLATION_LABEL} is {own}: " if own else f"It has no label {ISOLATION_LABEL}: "
    assert full or has in found.text()
    told = [each for each in found.remedies if ISOLATION_LABEL in each.text]
    assert len(told) == len(set(provided))
    for remedy in told:
        assert remedy.type in OF_LABELS
        assert remedy.pod is not None
        again, waiting = world_of(*objects, {**remedy.pod}, dialect="koordinator")
        assert ask(again, waiting).node == remedy.node
        value = (remedy.pod["metadata"]["labels"] or {}).get(ISOLATION_LABEL, "")
        words = (
            f"give the pod the label {ISOLATION_LABEL}: {value}" if value else f"leave out its label {ISOLATION_LABEL}"
        )
        assert words in remedy.text


@pytest.mark.parametrize(
    ("own", "text"), [("", "give the pod the label {} as nodes have it"), ("x", "leave out its label {} (x)")]
)
def test_the_label_is_told_without_nodes(own: str, text: str) -> None:
    objects = cluster("koordinator", [[]])
    objects[-1]["metadata"]["labels"] = {} if own else {ISOLATION_LABEL: "HAMi-core"}
    asked = pod("asked", {PERCENT: 50}, metadata={"labels": {ISOLATION_LABEL: own} if own else {}})
    _, told = answer(world_of(*objects, asked, dialect="koordinator")[0])
    assert told.remedies == (text.format(ISOLATION_LABEL),)
