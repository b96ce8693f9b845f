"""Writes that the API server does not carry out after the lease has ended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from vgpu_scheduler.apiclient import ApiClient, ApiResponse


@dataclass(frozen=True, slots=True)
class LeasedWriter:
    """Sends the writes of a leader.

    Everything that a leader writes goes this way, except two things that may be written at any time: events, and the
    release of a lock by its value.

    Attributes
    ----------
    api
        The API server.
    may_write
        Tells whether the lease will still be held in so many seconds; asked right before each write.
    """

    api: ApiClient
    may_write: Callable[[float], bool]

    async def request_within_lease(
        self,
        method: str,
        path: str,
        body: object,
        seconds: float,
        content_type: str = "application/json",
        *,
        dry_run: bool = False,
    ) -> ApiResponse | None:
        """Send a write that cannot be carried out after the lease ends; if the lease may end before, send nothing.

        The API server gives each request that names a ``timeout`` a deadline, counted from when it was received, and
        answers 504 then. PATCH, DELETE and the creation of Bindings and Evictions pass the deadline on to every write
        to their object. An Eviction first counts the pod in its PodDisruptionBudget, and this write alone ignores the
        deadline: the budget may be charged late, for two minutes, for a pod that stays.

        Parameters
        ----------
        seconds
            The time limit, after which the API server itself gives up.

        Returns
        -------
        ApiResponse or None
            The answer; None if nothing was sent.

        Raises
        ------
        ApiUnreachableError
            If no answer came.
        """
        if not self.may_write(seconds):
            return None
        params = {"timeout": f"{seconds:g}s", **({"dryRun": "All"} if dry_run else {})}
        return await self.api.request(method, path, body, content_type=content_type, params=params, timeout=seconds + 1)
