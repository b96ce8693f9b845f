"""How much may be under way at a time, of all users and of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus

from vgpu_scheduler.ui.errors import RefusedError

__all__ = ["ConcurrencyLimit"]


class ConcurrencyLimit:
    """A limit for one kind of work.

    Parameters
    ----------
    total
        How much may be under way at a time.
    per_user
        How much of that may be of one user, where there are several.
    refusal, refusal_per_user
        What somebody is told whose work would be too much; ``{}`` stands for the number.
    """

    def __init__(self, total: int, per_user: int, refusal: str, refusal_per_user: str) -> None:
        self._total = total
        self._per_user = per_user
        self._refusal = refusal.format(total)
        self._refusal_per_user = refusal_per_user.format(per_user)
        self._under_way: Counter[str | None] = Counter()

    def begin(self, user: str | None) -> None:
        """Count some work as begun.

        Parameters
        ----------
        user
            Whose it is, where there are several users; None where there is one.

        Raises
        ------
        RefusedError
            If it would be too much.
        """
        if self._under_way.total() >= self._total:
            raise RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, self._refusal)
        if user is not None and self._under_way[user] >= self._per_user:
            raise RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, self._refusal_per_user)
        self._under_way[user] += 1

    def end(self, user: str | None) -> None:
        """Count it as ended."""
        self._under_way[user] -= 1
        if not self._under_way[user]:
            del self._under_way[user]

    @contextmanager
    def held(self, user: str | None) -> Iterator[None]:
        """Count what is done meanwhile; see :meth:`begin`."""
        self.begin(user)
        try:
            yield
        finally:
            self.end(user)
