"""Certificates of an authority that a test makes, by the command openssl."""

from __future__ import annotations

import base64
import shutil
import subprocess
from pathlib import Path

from tests.conftest import unavailable


class Authority:
    """An authority with its certificates in a folder.

    Parameters
    ----------
    folder
        Where its files go.
    name
        What it is called.
    """

    def __init__(self, folder: Path, name: str = "authority") -> None:
        if shutil.which("openssl") is None:
            unavailable("openssl is not there")
        self._folder = folder
        self._name = name
        self.file = folder / f"{name}.crt"
        self._key = folder / f"{name}.key"
        subject = ("-subj", f"/CN={name}", "-days", "2")
        self._openssl("req", "-x509", "-nodes", *_ec(self._key), *subject, "-out", str(self.file))

    @property
    def bundle(self) -> str:
        """Its certificate as a ``caBundle``."""
        return base64.b64encode(self.file.read_bytes()).decode()

    def sign(self, cert_file: Path, key_file: Path, address: str = "127.0.0.1") -> None:
        """Put a certificate for an address into place, and its key, both at once as a mounted secret changes."""
        key, request, extensions = (self._folder / f"{self._name}.new.{end}" for end in ("key", "csr", "ext"))
        cert = self._folder / f"{self._name}.new.crt"
        self._openssl("req", "-nodes", *_ec(key), "-subj", "/CN=webhook", "-out", str(request))
        extensions.write_text(f"subjectAltName=IP:{address}\n")
        authority = ("-CA", str(self.file), "-CAkey", str(self._key), "-CAcreateserial", "-days", "1")
        self._openssl("x509", "-req", "-in", str(request), *authority, "-extfile", str(extensions), "-out", str(cert))
        key.replace(key_file)
        cert.replace(cert_file)

    def _openssl(self, *arguments: str) -> None:
        subprocess.run(["openssl", *arguments], check=True, capture_output=True, cwd=self._folder)


def _ec(key: Path) -> tuple[str, ...]:
    return "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-keyout", str(key)
