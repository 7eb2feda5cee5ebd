from __future__ import annotations

import pytest

from jbodlab.vocabulary.addresses import address_text, local_host


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", "127.0.0.1:1"), ("::1", "[::1]:1"), ("kafka", "kafka:1")],
)
def test_addresses_of_ipv6_are_in_brackets(host: str, expected: str) -> None:
    assert address_text(host, 1) == expected


@pytest.mark.parametrize(
    ("host", "expected"),
    [("", "127.0.0.1"), ("0.0.0.0", "127.0.0.1"), ("::", "::1"), ("::1", "::1"), ("a", "a")],
)
def test_what_listens_everywhere_is_reached_at_the_loopback(host: str, expected: str) -> None:
    assert local_host(host) == expected
