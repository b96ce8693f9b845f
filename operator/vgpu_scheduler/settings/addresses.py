"""Addresses that a process listens on."""

from __future__ import annotations

from ipaddress import ip_address

from vgpu_scheduler.settings.sections import MOST_PORT

ANY_HOST = "0.0.0.0"  # noqa: S104 - probes and scrapes come from outside the pod


def parse_address(text: str) -> tuple[str, int]:
    """Return host and port of an address such as ``:9395``, which means all hosts.

    Raises
    ------
    ValueError
        If it is not an address.
    """
    host, colon, port = text.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit()) or int(port) > MOST_PORT:
        raise ValueError(f"{text!r} is not an address such as :9395")
    return host.strip("[]") or ANY_HOST, int(port)


def share_a_port(one: tuple[str, int], other: tuple[str, int]) -> bool:
    """Tell whether two addresses conflict, so that a process cannot listen on both."""
    return one[1] == other[1] != 0 and _overlap(one[0], other[0])


def _overlap(one: str, other: str) -> bool:
    """Tell whether two hosts share an interface; host names only match themselves and all interfaces."""
    if one == other:
        return True
    try:
        known = [ip_address(host) for host in (one, other)]
    except ValueError:
        return not {one, other}.isdisjoint({ANY_HOST, "::"})
    return known[0] == known[1] or (known[0].version == known[1].version and any(ip.is_unspecified for ip in known))
