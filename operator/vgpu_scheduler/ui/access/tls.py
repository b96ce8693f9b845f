"""The TLS certificate of the page, reloaded when its files change."""

from __future__ import annotations

import asyncio
import logging
import ssl
from pathlib import Path
from typing import Final

log = logging.getLogger(__name__)

_EVERY: Final = 10.0
"""Seconds between two checks whether the files changed."""


class CertificateError(Exception):
    """The files do not contain a certificate and its key; the message names them."""


class Certificate:
    """A certificate and its key, loaded from files.

    Attributes
    ----------
    context
        The TLS context; new connections use the certificate that was loaded last.

    Raises
    ------
    CertificateError
        If the files cannot be loaded.
    """

    def __init__(self, certificate: Path, key: Path) -> None:
        self._files = (certificate, key)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._seen = self._state()
        self._load(self.context)

    async def follow(self, every: float = _EVERY) -> None:
        """Reload the files whenever they change, until cancelled; files that cannot be loaded are ignored."""
        while True:
            await asyncio.sleep(every)
            self.reload_if_changed()

    def reload_if_changed(self) -> None:
        """Reload the files if they have changed."""
        seen = self._state()
        if seen == self._seen:
            return
        try:
            self._load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))  # a failed load must not leave half a pair in the other
            self._load(self.context)
        except CertificateError as error:
            log.warning("%s: the previous certificate stays in use", error)
        else:
            self._seen = seen
            log.info("a new certificate is in use: %s", self._files[0])

    def _load(self, context: ssl.SSLContext) -> None:
        certificate, key = self._files
        try:
            context.load_cert_chain(certificate, key, password="")
        except (OSError, ssl.SSLError, ValueError) as error:
            raise CertificateError(f"{certificate}, {key}: not a certificate with its key: {error}") from None

    def _state(self) -> list[tuple[float, int]]:
        """Return time stamps and inodes of the files; Kubernetes replaces the symbolic links to them."""
        found = []
        for path in self._files:
            try:
                status = path.stat()
            except OSError:
                found.append((0.0, 0))
            else:
                found.append((status.st_mtime, status.st_ino))
        return found
