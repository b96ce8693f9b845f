"""Token and access reviews: the only requests of the page that are not reads."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Hashable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Any, Final, Generic, NamedTuple, TypeVar

from vgpu_scheduler.apiclient import ApiError, ApiUnreachableError, Requests, ReviewedUser, is_allowed
from vgpu_scheduler.ui.access.guard import User
from vgpu_scheduler.ui.errors import HttpStatusError

log = logging.getLogger(__name__)

_TOKENS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
_LASTS: Final = 60.0
"""Seconds for which an answer is cached."""
_AT_ONCE: Final = 16
"""The most reviews in flight."""
_MOST_TOKENS: Final = 2000
_MOST_RIGHTS: Final = 200_000
_TIMEOUT: Final = 10.0
_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")
_Answer = TypeVar("_Answer")


class AccessRight(NamedTuple):
    """A right on a resource; in all namespaces if none is named."""

    verb: str
    resource: str
    group: str = ""
    namespace: str = ""


class Reviews:
    """Asks the API server for reviews, and caches its answers.

    Tokens are not stored: the cache uses a digest of the token as its key.

    Parameters
    ----------
    clock
        A monotonic clock (seconds).
    """

    def __init__(self, api: Requests, clock: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self._users: _Kept[bytes, User | None] = _Kept(_MOST_TOKENS, clock)
        self._rights: _Kept[tuple[User, AccessRight], bool] = _Kept(_MOST_RIGHTS, clock)
        self._gate = asyncio.Semaphore(_AT_ONCE)

    async def user_of(self, token: str) -> User | None:
        """Return the user of a token; None if the token is not valid.

        Raises
        ------
        HttpStatusError
            If the API server does not answer.
        """
        return await self._users.get(_digest(token), lambda: self._authenticated(token))

    def known(self, token: str) -> User | None:
        """Return the user of a token from the cache; None if the cache has none."""
        return self._users.known(_digest(token))

    async def allows(self, user: User, right: AccessRight) -> bool:
        """Tell whether a user has a right.

        Raises
        ------
        HttpStatusError
            If the API server does not answer.
        """
        return await self._rights.get((user, right), lambda: self._allowed(user, right))

    async def allowed_in(self, user: User, right: AccessRight, namespaces: Collection[str]) -> frozenset[str]:
        """Return the given namespaces in which a user has a right.

        Raises
        ------
        HttpStatusError
            If the API server does not answer.
        """
        answers = {name: self._rights.known((user, right._replace(namespace=name))) for name in namespaces}
        unknown = sorted(name for name, allowed in answers.items() if allowed is None)
        asked = (self.allows(user, right._replace(namespace=name)) for name in unknown)
        answers |= zip(unknown, await asyncio.gather(*asked), strict=True)
        return frozenset(name for name, allowed in answers.items() if allowed)

    async def _authenticated(self, token: str) -> User | None:
        status = await self._answer("token review", lambda: self._token_status(token))
        found = status.get("user")
        if status.get("authenticated") is not True or not isinstance(found, Mapping) or not found.get("username"):
            return None
        extra = found.get("extra") or {}
        return User(
            str(found["username"]),
            str(found.get("uid") or ""),
            tuple(sorted(map(str, found.get("groups") or ()))),  # sorted, because webhooks may return any order
            tuple(sorted((str(key), tuple(map(str, values or ()))) for key, values in extra.items())),
        )

    async def _token_status(self, token: str) -> Mapping[str, Any]:
        """Ask for a token review and return its status."""
        response = await self._api.request("POST", _TOKENS, {"spec": {"token": token}}, timeout=_TIMEOUT)
        if not response.ok:
            raise ApiError(response)
        status = response.json()["status"]
        if not isinstance(status, Mapping):
            raise TypeError("the status of a token review is not a mapping")
        return status

    async def _allowed(self, user: User, right: AccessRight) -> bool:
        attributes = {"verb": right.verb, "resource": right.resource, "group": right.group}
        attributes |= {"namespace": right.namespace} if right.namespace else {}
        reviewed = ReviewedUser(user.name, user.groups, user.uid, dict(user.extra))
        ask = partial(is_allowed, self._api, attributes, reviewed, timeout=_TIMEOUT)
        return await self._answer("access review", ask)

    async def _answer(self, review: str, ask: Callable[[], Awaitable[_Answer]]) -> _Answer:
        """Ask for a review when it is its turn; anything but a clear answer raises."""
        try:
            async with self._gate:
                return await ask()
        except ApiError as error:
            log.warning("%s: %s; docs/rbac.md has the rights of the page", review, error.response.status)
        except (ApiUnreachableError, ValueError, KeyError, TypeError) as error:
            log.warning("%s: %s", review, type(error).__name__)  # without the request, which has the token
        raise HttpStatusError(
            HTTPStatus.SERVICE_UNAVAILABLE,
            "the API server does not say who you are and what you may read; the log says why",
        )


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="replace")).digest()


class _Kept(Generic[_Key, _Value]):
    """A cache of answers that expire; concurrent requests for a key share one question, and failures are not cached."""

    def __init__(self, most: int, clock: Callable[[], float]) -> None:
        self._most = most
        self._clock = clock
        self._found: OrderedDict[_Key, tuple[float, _Value]] = OrderedDict()
        self._asked: dict[_Key, asyncio.Task[_Value]] = {}

    def known(self, key: _Key) -> _Value | None:
        """Return a cached answer; None if there is none or it expired."""
        found = self._found.get(key)
        return found[1] if found is not None and found[0] > self._clock() else None

    async def get(self, key: _Key, ask: Callable[[], Any]) -> _Value:
        found = self._found.get(key)
        if found is not None and found[0] > self._clock():
            return found[1]
        task = self._asked.get(key)
        if task is None:
            task = self._asked[key] = asyncio.create_task(self._ask(key, ask))
            task.add_done_callback(_noticed)
        return await asyncio.shield(task)  # a caller that is cancelled must not cancel the others

    async def _ask(self, key: _Key, ask: Callable[[], Any]) -> _Value:
        try:
            answer: _Value = await ask()
        finally:
            del self._asked[key]
        self._found.pop(key, None)
        self._found[key] = (self._clock() + _LASTS, answer)
        while len(self._found) > self._most:
            self._found.popitem(last=False)
        return answer


def _noticed(task: asyncio.Task[Any]) -> None:
    """Retrieve a task's error, so that asyncio does not complain if nobody waits for it any more."""
    if not task.cancelled():
        task.exception()
