"""Errors that refuse a request, with an HTTP status and a message."""

from __future__ import annotations

from http import HTTPStatus


class HttpStatusError(Exception):
    """A request is refused; the message says why."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


class BadQueryError(HttpStatusError):
    """An address or form cannot be understood; the message names what is wrong."""

    def __init__(self, message: str) -> None:
        super().__init__(HTTPStatus.BAD_REQUEST, message)


class NotFoundError(HttpStatusError):
    """Something named by an address does not exist."""

    def __init__(self, message: str) -> None:
        super().__init__(HTTPStatus.NOT_FOUND, message)
