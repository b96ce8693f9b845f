"""Over the whole of the end-to-end suite, the scheduler's account does what the manifests let it do, and nothing else.

This looks back at `make test` and `make test-long`, which play a part of the suite each, and runs last.
"""

from __future__ import annotations

import os

import pytest
from tests.apiserver.control_plane import ControlPlane
from tests.apiserver.rights import granted, noted_requests
from tests.e2e.conftest import OLDER, done_by_operator

ASKED_ABOUT = "allocation-writers.yaml"
"""A right that is for no resource: the guard asks whether an account has it."""
OF_EVERYBODY = {"selfsubjectaccessreviews"}
"""What Kubernetes lets each account do."""


@pytest.mark.long
@pytest.mark.alone
@pytest.mark.skipif(OLDER, reason="what is tested differs on the older API server")
def test_each_right_is_used_and_nothing_else_is_done(
    request: pytest.FixtureRequest, installed_plane: ControlPlane
) -> None:
    before = noted_requests()
    if (not before or request.session.testsfailed) and os.environ.get("REQUIRE_APISERVER") != "1":
        pytest.skip("it looks back at `make test`, which has not run here" if not before else "tests failed")
    done = [*before, *done_by_operator(installed_plane)]
    rights = [right for right in granted() if right.file != ASKED_ABOUT]
    unused = [str(right) for right in rights if not any(right.allows(record) for record in done)]
    assert not unused, "no test has the scheduler use these: remove them from the manifests, or test what they are for"
    beside = {
        f"{record.verb} {record.uri}"
        for record in done
        if record.resource not in OF_EVERYBODY and not any(right.allows(record) for right in rights)
    }
    assert not beside, "these rights come from elsewhere than the manifests"
