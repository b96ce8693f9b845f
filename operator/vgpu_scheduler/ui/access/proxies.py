"""Authenticating proxies: a proxy proves its identity with a secret, and names the user in a header."""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Final

from aiohttp import web

from vgpu_scheduler.ui.access.guard import User
from vgpu_scheduler.ui.errors import HttpStatusError

PROOF: Final = "X-Vgpu-Scheduler-Proxy-Secret"
"""The header with the proxy's secret."""
_SHORTEST: Final = 32
_SYSTEM: Final = "system:"
_AUTHENTICATED: Final = "system:authenticated"
_LONGEST: Final = 256
_MOST_GROUPS: Final = 200


class SecretError(Exception):
    """The secret cannot be read or is too short; the message names its file."""


@dataclass(frozen=True, slots=True)
class Proxies:
    """How proxies name users.

    Attributes
    ----------
    user_header, group_header
        The header names; groups come in repeated headers or separated by commas. An empty group header means no groups.
    secret_file
        The file with the secret of the proxies; it is read for each request, so that the secret can be changed.
    """

    user_header: str
    group_header: str
    secret_file: Path

    def secret(self) -> str:
        """Return the secret.

        Raises
        ------
        SecretError
            If it cannot be read, or is short enough to guess.
        """
        try:
            found = self.secret_file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise SecretError(f"{self.secret_file}: it cannot be read: {error}") from None
        if len(found) < _SHORTEST:
            raise SecretError(f"{self.secret_file}: a secret has {_SHORTEST} characters or more")
        return found

    def user_of(self, request: web.Request) -> User | None:
        """Return the user that a proxy names; None if the request has no proxy secret, whatever its other headers.

        Raises
        ------
        HttpStatusError
            If the secret is wrong, or the proxy names no user, several users, or one of Kubernetes' own.
        """
        given = request.headers.getall(PROOF, [])
        if not given:
            return None
        try:
            wanted = self.secret()
        except SecretError as error:
            raise HttpStatusError(HTTPStatus.SERVICE_UNAVAILABLE, "the secret of proxies cannot be read") from error
        if len(given) != 1 or not hmac.compare_digest(given[0].encode(errors="replace"), wanted.encode()):
            raise HttpStatusError(HTTPStatus.FORBIDDEN, f"{PROOF}: this is not the secret of a proxy")
        names = request.headers.getall(self.user_header, [])
        if len(names) != 1 or not names[0].strip():
            raise HttpStatusError(HTTPStatus.UNAUTHORIZED, f"{self.user_header}: the proxy must name exactly one user")
        told = request.headers.getall(self.group_header, []) if self.group_header else []
        groups = [name.strip() for text in told for name in text.split(",") if name.strip()]
        for name in (names[0].strip(), *groups):
            if name.startswith(_SYSTEM) or len(name) > _LONGEST:
                raise HttpStatusError(
                    HTTPStatus.FORBIDDEN, "a proxy must not name users and groups that are Kubernetes' own"
                )
        if len(groups) > _MOST_GROUPS:
            raise HttpStatusError(
                HTTPStatus.FORBIDDEN, f"{self.group_header}: these are more than {_MOST_GROUPS} groups"
            )
        return User(names[0].strip(), groups=(*groups, _AUTHENTICATED))
