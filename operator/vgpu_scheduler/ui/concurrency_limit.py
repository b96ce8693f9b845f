"""Limits of concurrent work, in total and per user."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus

from vgpu_scheduler.ui.errors import HttpStatusError


class ConcurrencyLimit:
    """The limit of one kind of work.

    Parameters
    ----------
    total
        The most work in progress.
    per_user
        The most work in progress for one user, if there are several users.
    refusal, refusal_per_user
        The messages of refusals; ``{}`` stands for the limit.
    """

    def __init__(self, total: int, per_user: int, refusal: str, refusal_per_user: str) -> None:
        self._total = total
        self._per_user = per_user
        self._refusal = refusal.format(total)
        self._refusal_per_user = refusal_per_user.format(per_user)
        self._under_way: Counter[str | None] = Counter()

    def begin(self, user: str | None) -> None:
        """Count work as started.

        Parameters
        ----------
        user
            The user; None if the page has a single user.

        Raises
        ------
        HttpStatusError
            If a limit is reached.
        """
        if self._under_way.total() >= self._total:
            raise HttpStatusError(HTTPStatus.SERVICE_UNAVAILABLE, self._refusal)
        if user is not None and self._under_way[user] >= self._per_user:
            raise HttpStatusError(HTTPStatus.SERVICE_UNAVAILABLE, self._refusal_per_user)
        self._under_way[user] += 1

    def end(self, user: str | None) -> None:
        """Count work as ended."""
        self._under_way[user] -= 1
        if not self._under_way[user]:
            del self._under_way[user]

    @contextmanager
    def held(self, user: str | None) -> Iterator[None]:
        """Count the block as work; see :meth:`begin`."""
        self.begin(user)
        try:
            yield
        finally:
            self.end(user)
