"""The certificate of the page, which is replaced while it is served."""

from __future__ import annotations

import asyncio
import logging
import ssl
from pathlib import Path
from typing import Final

log = logging.getLogger(__name__)

__all__ = ["Certificate", "CertificateError"]

_EVERY: Final = 10.0
"""Seconds between two looks at the files."""


class CertificateError(Exception):
    """The files are no certificate with its key; the message names them."""


class Certificate:
    """A certificate and its key, as files have them.

    Attributes
    ----------
    context
        What TLS is spoken with; new connections have the certificate that was read last.

    Raises
    ------
    CertificateError
        If they cannot be read.
    """

    def __init__(self, certificate: Path, key: Path) -> None:
        self._files = (certificate, key)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._seen = self._state()
        self._load(self.context)

    async def follow(self, every: float = _EVERY) -> None:
        """Read the files again whenever they change, until cancelled; what cannot be read changes nothing."""
        while True:
            await asyncio.sleep(every)
            self.look()

    def look(self) -> None:
        """Read the files again if they have changed."""
        seen = self._state()
        if seen == self._seen:
            return
        try:
            self._load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))  # half of a new pair must not stay in the other one
            self._load(self.context)
        except CertificateError as error:
            log.warning("%s: the one before stays", error)
        else:
            self._seen = seen
            log.info("a new certificate is in use: %s", self._files[0])

    def _load(self, context: ssl.SSLContext) -> None:
        certificate, key = self._files
        try:
            context.load_cert_chain(certificate, key, password="")
        except (OSError, ssl.SSLError, ValueError) as error:
            raise CertificateError(f"{certificate}, {key}: no certificate with its key: {error}") from None

    def _state(self) -> list[tuple[float, int]]:
        """Return what tells versions of the files apart; Kubernetes replaces the links that lead to them."""
        found = []
        for path in self._files:
            try:
                status = path.stat()
            except OSError:
                found.append((0.0, 0))
            else:
                found.append((status.st_mtime, status.st_ino))
        return found
