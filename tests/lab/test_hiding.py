"""Secrets do not get into what is kept of a run, however they are written."""

from __future__ import annotations

import pytest
import yaml

from lab import hiding

SECRET = "s3cr3t"
WRITTEN = {
    "plain": "sasl.password: s3cr3t",
    "in quotes": "sasl.password: 's3cr3t'",
    "with escapes": r'sasl.jaas.config: "x required password=\"s3cr3t\" ;"',
    "of a node": '"listener.name.client.scram-sha-512.sasl.jaas.config": "p=s3cr3t"',
    "a block": "ssl.key.pem: |\n          BEGIN\n          s3cr3t\n          END",
    "several lines": "ssl.keystore.key: BEGIN\n          s3cr3t\n          END",
    "in a flow": "{acks: all, ssl.key.password: s3cr3t, other: 1}",
    "by a reference": "[&it {ssl.key.password: s3cr3t}, *it]",
}


@pytest.mark.parametrize("written", WRITTEN.values(), ids=WRITTEN)
def test_a_plan_is_kept_without_the_values_of_secrets(written: str) -> None:
    before, after = "name: a disk dies # as always\nload:\n  - client:\n      ", "\nseed: 7\n"

    kept = hiding.hidden_plan(f"{before}{written}{after}")

    assert SECRET not in kept
    assert kept.startswith(before)
    assert kept.endswith(after)
    assert yaml.safe_load(kept)["seed"] == 7
    assert "[hidden]" in str(yaml.safe_load(kept))


def test_a_plan_without_secrets_is_kept_as_it_is_written() -> None:
    text = "# mine\nload: [{name: writers, client: {linger.ms: '5'}}]\n"

    assert hiding.hidden_plan(text) == text


@pytest.mark.parametrize(
    "key",
    [
        "sasl.password",
        "sasl.jaas.config",
        "ssl.key.password",
        "ssl.keystore.key",
        "ssl.key.pem",
        "sasl.oauthbearer.client.secret",
        "delegation.token.secret.key",
        "sasl_plain_password",
    ],
)
def test_settings_that_hold_secrets_are_known_by_their_names(key: str) -> None:
    assert hiding.hidden({key: "x", "ssl.keystore.location": "y"}) == {
        key: "[hidden]",
        "ssl.keystore.location": "y",
    }
