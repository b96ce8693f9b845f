"""Over the whole of the end-to-end suite, the scheduler's account does what the manifests let it do, and nothing else.

This runs after all other tests of this folder (see ``conftest.py``), and tells nothing where some of them did not.
"""

from __future__ import annotations

import pytest
from tests.apiserver.control_plane import ControlPlane
from tests.apiserver.rights import granted
from tests.e2e.conftest import OLDER, OPERATOR, left_out

AGENTS = ("vgpu-scheduler/", "kopf/")
"""Tests that play the scheduler's account have another user agent."""
ASKED_ABOUT = "allocation-writers.yaml"
"""A right that is for no resource: the guard asks whether an account has it."""
OF_EVERYBODY = {"selfsubjectaccessreviews"}
"""What Kubernetes lets each account do."""


def test_each_right_is_used_and_nothing_else_is_done(request: pytest.FixtureRequest) -> None:
    missing = left_out(request.session)
    if missing or OLDER or request.session.testsfailed:
        pytest.skip(missing or "tests failed" if not OLDER else "what is tested differs on the older API server")
    plane: ControlPlane = request.getfixturevalue("installed_plane")
    done = [
        record
        for record in plane.audit()
        if record.user == OPERATOR and record.code < 400 and record.resource and record.user_agent.startswith(AGENTS)
    ]
    rights = [right for right in granted() if right.file != ASKED_ABOUT]
    kinds = {(r.group, r.resource, r.subresource, r.verb, r.namespace, r.name): r for r in done}.values()
    unused = [str(right) for right in rights if not any(right.allows(record) for record in kinds)]
    assert not unused, "no test has the scheduler use these: remove them from the manifests, or test what they are for"
    beside = {
        f"{record.verb} {record.uri}"
        for record in kinds
        if record.resource not in OF_EVERYBODY and not any(right.allows(record) for right in rights)
    }
    assert not beside, "these rights come from elsewhere than the manifests"
