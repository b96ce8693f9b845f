"""Why pods wait for their policy: what is told of it is understood again."""

from __future__ import annotations

import numpy as np
import pytest
from tests.policy.malformed_policies import MALFORMED
from tests.seeds import seeds

from vgpu_scheduler.model import internal_error
from vgpu_scheduler.policy import PolicyNotReady, PolicyNotReadyType, decode_policy, title

KINDS = tuple(kind for kind in PolicyNotReadyType if kind is not PolicyNotReadyType.ANNOTATIONS)
WORDS = (
    "internal error: ",
    "PolicyNotReady: ",
    "the labels of the namespace, which ",
    " reads, are not known",
    ": ",
    "\n",
)


def refusal(seed: int) -> PolicyNotReady:
    rng = np.random.default_rng(seed)
    kind = KINDS[int(rng.integers(len(KINDS)))]
    policy = str(rng.choice(["ClusterVGPUPolicy internal", "VGPUPolicy team-a/the.labels", "ClusterVGPUPolicy asks"]))
    why = "".join(rng.choice([*WORDS, "spec.limits", "a b"], int(rng.integers(1, 6))))
    match kind:
        case PolicyNotReadyType.NAMESPACE_UNKNOWN:
            return PolicyNotReady(kind, policy)
        case PolicyNotReadyType.INTERNAL_ERROR:
            return PolicyNotReady(kind, why=internal_error(ValueError(why)))
        case _:
            return PolicyNotReady(kind, policy, why)


@pytest.mark.parametrize("seed", seeds(40, 400))
def test_what_a_condition_says_is_what_the_decision_carried(seed: int) -> None:
    made = refusal(seed)
    assert PolicyNotReady.from_text(str(made)) == made


@pytest.mark.parametrize("name", MALFORMED)
def test_so_it_is_with_policies_that_are_not_understood(name: str) -> None:
    policy = decode_policy(MALFORMED[name].policy())
    made = PolicyNotReady(PolicyNotReadyType.NOT_UNDERSTOOD, title(policy), policy.error)
    assert PolicyNotReady.from_text(str(made)) == made
    assert policy.wrong, policy.error
    first, *way = policy.wrong[0]
    path = str(first) + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in way)
    assert policy.error.startswith(path[:40])


@pytest.mark.parametrize("text", ["", "PolicyNotReady: ", "annotation x: y", "limits.devicesPerPod of a b allows 1"])
def test_what_is_said_of_anything_else_is_none(text: str) -> None:
    assert PolicyNotReady.from_text(text) is None
