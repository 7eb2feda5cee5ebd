"""Hosts and ports as one text."""

from __future__ import annotations

ANY, ANY_V6 = "0.0.0.0", "::"
LOOPBACK, LOOPBACK_V6 = "127.0.0.1", "::1"


def address_text(host: str, port: int) -> str:
    """Return `host:port`, an address of IPv6 in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def local_host(listens_on: str) -> str:
    """Return where this machine reaches what listens on a host of its own, or on all."""
    return {"": LOOPBACK, ANY: LOOPBACK, ANY_V6: LOOPBACK_V6}.get(listens_on, listens_on)
