"""Addresses that a process listens on."""

from __future__ import annotations

from vgpu_scheduler.settings.sections import MOST_PORT

ANY_HOST = "0.0.0.0"  # noqa: S104 - probes and scrapes come from outside the pod


def parse_address(text: str) -> tuple[str, int]:
    """Return host and port of an address such as ``:9395``, which means all hosts.

    Raises
    ------
    ValueError
        If it is no address.
    """
    host, colon, port = text.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit()) or int(port) > MOST_PORT:
        raise ValueError(f"{text!r} is not an address such as :9395")
    return host.strip("[]") or ANY_HOST, int(port)
