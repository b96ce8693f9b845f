"""What is kept of policies, and that nothing is kept of those that are gone."""

from __future__ import annotations

from tests.policy.resources import policy

from vgpu_scheduler.model import PendingEvents
from vgpu_scheduler.policy import key_of
from vgpu_scheduler.policy.catalogue import Catalogue

SPREAD = {"nodes": {"policy": "spread"}}


def test_nothing_is_kept_of_namespaces_and_ties_that_are_gone() -> None:
    catalogue = Catalogue(PendingEvents())
    kept = policy("kept", SPREAD, "team-kept")
    catalogue.put(kept)
    for number in range(3):
        twins = [policy(name, SPREAD, f"team-{number}") for name in ("a", "b")]
        for each in twins:
            catalogue.put(each)
        assert catalogue.conflicts(key_of(twins[0])) == (key_of(twins[1]),)
        catalogue.remove(twins[0])
        assert catalogue.conflicts(key_of(twins[1])) == ()
        catalogue.remove(twins[1])
    assert list(catalogue._own) == ["team-kept"]
    assert not catalogue._ties
    catalogue.remove(kept)
    catalogue.put(policy("anew", SPREAD, "team-kept"))
    assert [each.name for each in catalogue.candidates("team-kept").ranked] == ["anew"]
