"""Why pods wait for their policy: what is told of it is understood again."""

from __future__ import annotations

import numpy as np
import pytest
from tests.policy.malformed_policies import MALFORMED
from tests.seeds import seeds

from vgpu_scheduler.model import internal_error
from vgpu_scheduler.policy import PolicyRefusal, PolicyRefusalType, decode_policy, title

KINDS = tuple(kind for kind in PolicyRefusalType if kind is not PolicyRefusalType.ANNOTATIONS)
WORDS = (
    "internal error: ",
    "PolicyNotReady: ",
    "the labels of the namespace, which ",
    " reads, are not known",
    ": ",
    "\n",
)


def refusal(seed: int) -> PolicyRefusal:
    rng = np.random.default_rng(seed)
    kind = KINDS[int(rng.integers(len(KINDS)))]
    policy = str(rng.choice(["ClusterVGPUPolicy internal", "VGPUPolicy team-a/the.labels", "ClusterVGPUPolicy asks"]))
    why = "".join(rng.choice([*WORDS, "spec.limits", "a b"], int(rng.integers(1, 6))))
    match kind:
        case PolicyRefusalType.NAMESPACE_UNKNOWN:
            return PolicyRefusal(kind, policy)
        case PolicyRefusalType.INTERNAL_ERROR:
            return PolicyRefusal(kind, why=internal_error(ValueError(why)))
        case _:
            return PolicyRefusal(kind, policy, why)


@pytest.mark.parametrize("seed", seeds(40, 400))
def test_what_a_condition_says_is_what_the_decision_carried(seed: int) -> None:
    made = refusal(seed)
    assert PolicyRefusal.from_text(str(made)) == made


@pytest.mark.parametrize("name", MALFORMED)
def test_so_it_is_with_policies_that_are_not_understood(name: str) -> None:
    policy = decode_policy(MALFORMED[name].policy())
    made = PolicyRefusal(PolicyRefusalType.NOT_UNDERSTOOD, title(policy), policy.error)
    assert PolicyRefusal.from_text(str(made)) == made
    assert policy.wrong, policy.error
    first, *way = policy.wrong[0]
    path = str(first) + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in way)
    assert policy.error.startswith(path[:40])


@pytest.mark.parametrize("text", ["", "PolicyNotReady: ", "annotation x: y", "limits.devicesPerPod of a b allows 1"])
def test_what_is_said_of_anything_else_is_none(text: str) -> None:
    assert PolicyRefusal.from_text(text) is None
