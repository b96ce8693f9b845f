"""Proxies that have authenticated somebody: they prove by a secret that they are one, and name the user in a header."""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Final

from aiohttp import web

from vgpu_scheduler.ui.access.guard import User
from vgpu_scheduler.ui.errors import RefusedError

__all__ = ["Proxies", "SecretError"]

PROOF: Final = "X-Vgpu-Scheduler-Proxy-Secret"
"""The header with which a proxy proves that it is one."""
_SHORTEST: Final = 32
_SYSTEM: Final = "system:"
_AUTHENTICATED: Final = "system:authenticated"
_LONGEST: Final = 256
_MOST_GROUPS: Final = 200


class SecretError(Exception):
    """The file with the secret is none; the message names it."""


@dataclass(frozen=True, slots=True)
class Proxies:
    """How a proxy tells who somebody is.

    Attributes
    ----------
    user_header, group_header
        The headers; groups come in several of these, or with commas between. Without a header for them nobody has any.
    secret_file
        What proxies know and nobody else; it is read again whenever it is needed, so that it can be changed.
    """

    user_header: str
    group_header: str
    secret_file: Path

    def secret(self) -> str:
        """Return the secret.

        Raises
        ------
        SecretError
            If there is none, or one that could be guessed.
        """
        try:
            found = self.secret_file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise SecretError(f"{self.secret_file}: it cannot be read: {error}") from None
        if len(found) < _SHORTEST:
            raise SecretError(f"{self.secret_file}: a secret has {_SHORTEST} characters or more")
        return found

    def user_of(self, request: web.Request) -> User | None:
        """Return whom a proxy names; None where no proxy asks, whatever headers there are.

        Raises
        ------
        RefusedError
            If the secret is wrong, or it names nobody, or somebody whom only the API server can recognise.
        """
        given = request.headers.getall(PROOF, [])
        if not given:
            return None
        try:
            wanted = self.secret()
        except SecretError as error:
            raise RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, "the secret of proxies cannot be read") from error
        if len(given) != 1 or not hmac.compare_digest(given[0].encode(errors="replace"), wanted.encode()):
            raise RefusedError(HTTPStatus.FORBIDDEN, f"{PROOF}: this is not the secret of a proxy")
        names = request.headers.getall(self.user_header, [])
        if len(names) != 1 or not names[0].strip():
            raise RefusedError(HTTPStatus.UNAUTHORIZED, f"{self.user_header}: the proxy names nobody, or several")
        told = request.headers.getall(self.group_header, []) if self.group_header else []
        groups = [name.strip() for text in told for name in text.split(",") if name.strip()]
        for name in (names[0].strip(), *groups):
            if name.startswith(_SYSTEM) or len(name) > _LONGEST:
                raise RefusedError(HTTPStatus.FORBIDDEN, "a proxy names no users and groups of Kubernetes' own")
        if len(groups) > _MOST_GROUPS:
            raise RefusedError(HTTPStatus.FORBIDDEN, f"{self.group_header}: these are more than {_MOST_GROUPS} groups")
        return User(names[0].strip(), groups=(*groups, _AUTHENTICATED))
