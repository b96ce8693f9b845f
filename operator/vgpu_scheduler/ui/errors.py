"""Why a request is not answered with what it asks for: a status and a sentence for people."""

from __future__ import annotations

from http import HTTPStatus

__all__ = ["BadQueryError", "NotFoundError", "RefusedError"]


class RefusedError(Exception):
    """A request that is not answered; the message says why."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


class BadQueryError(RefusedError):
    """An address that cannot be understood; the message names what is wrong with it."""

    def __init__(self, message: str) -> None:
        super().__init__(HTTPStatus.BAD_REQUEST, message)


class NotFoundError(RefusedError):
    """What an address names is not there."""

    def __init__(self, message: str) -> None:
        super().__init__(HTTPStatus.NOT_FOUND, message)
