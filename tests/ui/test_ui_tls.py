"""The page is served over TLS with a certificate that is replaced meanwhile, and never shows tokens to the network."""

from __future__ import annotations

import asyncio
import shutil
import ssl
from pathlib import Path

import aiohttp
import click
import pytest
from tests.apiserver.certificates import Authority
from tests.ui.browsers import current_of
from tests.ui.doors import People
from tests.whatif.test_whatif_remedies import node

from vgpu_scheduler.cli.ui_deployed import ServingOptions, served_as
from vgpu_scheduler.ui import Names, PageSetup, serve_guarded
from vgpu_scheduler.ui.access import Certificate, CertificateError, DeployedGuard, PageAddresses, Reviews


async def serial(address: tuple[str, int], authority: Authority) -> int:
    """Return the number of the certificate that is served, which an authority has signed."""
    context = ssl.create_default_context(cafile=authority.file)
    reader, writer = await asyncio.open_connection("127.0.0.1", address[1], ssl=context)
    found = writer.get_extra_info("peercert")["serialNumber"]
    writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert (await reader.read()).startswith(b"HTTP/1.1 200 OK")
    writer.close()
    return int(found, 16)


async def test_a_new_certificate_is_served_to_new_connections_and_a_broken_one_is_not(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    cert, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    authority.sign(cert, key)
    certificate = Certificate(cert, key)
    current = current_of([node("a")])
    doors = PageAddresses(frozenset())
    guard = DeployedGuard(Reviews(People()), doors, Names(), lambda: ())
    runner = await serve_guarded(PageSetup(current, lambda: current.view), guard, ("127.0.0.1", 0), certificate.context)
    try:
        address = runner.addresses[0]
        first = await serial(address, authority)
        certificate.reload_if_changed()
        assert await serial(address, authority) == first
        authority.sign(cert, key)
        certificate.reload_if_changed()
        second = await serial(address, authority)
        assert second != first
        shutil.copy(tmp_path / "authority.crt", cert)  # which is not the key's
        certificate.reload_if_changed()
        assert await serial(address, authority) == second
        cert.unlink()
        certificate.reload_if_changed()
        assert await serial(address, authority) == second
        authority.sign(cert, key)
        certificate.reload_if_changed()
        assert await serial(address, authority) not in {first, second}
        with pytest.raises(aiohttp.ClientError):
            async with aiohttp.ClientSession() as session:
                await session.get(f"http://127.0.0.1:{address[1]}/livez")
    finally:
        await runner.cleanup()
        current.close()


def test_what_is_no_certificate_is_said(tmp_path: Path) -> None:
    cert, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    cert.write_text("none")
    key.write_text("none")
    with pytest.raises(CertificateError, match=r"tls\.crt.*not a certificate with its key"):
        Certificate(cert, key)


def secret_of(folder: Path, text: str = "s" * 32) -> Path:
    file = folder / "secret"
    file.write_text(text)
    return file


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"listen": ":8443", "hosts": ("page",)}, "tokens would be sent over the network unencrypted"),
        ({"listen": "10.0.0.1:80", "hosts": ("page",)}, "tokens would be sent over the network unencrypted"),
        ({"listen": ":8443", "tls_at_proxy": True}, "--host: name the hosts"),
        ({"listen": "8443"}, "is not ADDRESS:PORT"),
        ({"listen": ":0", "hosts": ("page",)}, "is not ADDRESS:PORT"),
        ({"listen": ":x"}, "is not ADDRESS:PORT"),
        ({"listen": ":70000"}, "is not ADDRESS:PORT"),
        ({"listen": "localhost:80", "tls_cert": Path("x")}, "--tls-cert and --tls-key must be given together"),
        ({"listen": "localhost:80", "tls_cert": Path("x"), "tls_key": Path("x")}, "not a certificate with its key"),
        (
            {"listen": "localhost:80", "tls_cert": Path("x"), "tls_key": Path("x"), "tls_at_proxy": True},
            "leave out the certificate",
        ),
        ({"listen": "localhost:80", "user_header": "X"}, "must be given together"),
        ({"listen": "localhost:80", "group_header": "X"}, "must be given together"),
        ({"listen": "localhost:80", "user_header": "X", "secret_file": Path("none")}, "it cannot be read"),
    ],
)
def test_what_would_show_tokens_or_cannot_be_is_refused(asked: dict[str, object], told: str) -> None:
    with pytest.raises(click.UsageError, match=told):
        served_as(ServingOptions(**asked))  # type: ignore[arg-type]


def test_a_secret_that_could_be_guessed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(click.UsageError, match="32 characters or more"):
        served_as(ServingOptions(listen="localhost:80", user_header="X", secret_file=secret_of(tmp_path, "short")))


def test_hosts_are_those_that_are_named_and_the_machine_itself(tmp_path: Path) -> None:
    served = served_as(ServingOptions(listen=":8443", hosts=("Page.example:444",), tls_at_proxy=True))
    assert served.address == ("0.0.0.0", 8443)
    assert served.doors == PageAddresses(
        frozenset({"page.example:444", "localhost:8443", "127.0.0.1:8443"}), is_tls=True
    )
    local = served_as(
        ServingOptions(listen="[::1]:80", user_header="X", group_header="Y", secret_file=secret_of(tmp_path))
    )
    assert (local.address, local.doors.is_tls) == (("::1", 80), False)
    assert local.doors.proxies is not None
    assert served_as(ServingOptions(listen="[::ffff:127.0.0.1]:80")).address == ("::ffff:127.0.0.1", 80)
