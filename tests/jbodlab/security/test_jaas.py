from __future__ import annotations

import pytest

from jbodlab.security import jaas
from jbodlab.vocabulary.errors import ConfigError

KEY = "listener.name.client.plain.sasl.jaas.config"


def parsed(text: str) -> dict[str, str]:
    found = jaas.parse(KEY, text, jaas.PLAIN_MODULE)
    return {name: secret.reveal() for name, secret in found.options.items()}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("", {}),
        (' username="a" password="b"', {"username": "a", "password": "b"}),
        (" a='b;c=\"d'", {"a": 'b;c="d'}),
        (r' a="say \"x\" \\ y"', {"a": r'say "x" \ y'}),
        (" plain=word", {"plain": "word"}),
        ('\n  user_alice="p w"\n', {"user_alice": "p w"}),
        (' a = "b"', {"a": "b"}),
    ],
)
def test_options(options: str, expected: dict[str, str]) -> None:
    assert parsed(f"{jaas.PLAIN_MODULE} required{options};") == expected


def test_users_of_plain() -> None:
    text = f'{jaas.PLAIN_MODULE} required username="me" user_alice="a" user_a_b="c";'
    users = jaas.parse(KEY, text, jaas.PLAIN_MODULE).users
    assert {name: secret.reveal() for name, secret in users.items()} == {"alice": "a", "a_b": "c"}
    assert "geheim" not in repr(jaas.parse(KEY, text.replace('"a"', '"geheim"'), jaas.PLAIN_MODULE))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "must end with ;"),
        (f"{jaas.PLAIN_MODULE} required", "must end with ;"),
        (f'{jaas.PLAIN_MODULE} required a="geheim"', "must end with ;"),
        ("com.sun.security.auth.module.JndiLoginModule required;", "must name the login module"),
        (f"{jaas.SCRAM_MODULE} required;", "must name the login module"),
        (f"{jaas.PLAIN_MODULE};", "needs one of required"),
        (f'{jaas.PLAIN_MODULE} a="geheim";', "needs one of required"),
        (f"{jaas.PLAIN_MODULE} required a;", "expected options"),
        (f'{jaas.PLAIN_MODULE} required a="geheim" a="geheim";', "has the option a twice"),
        (f'{jaas.PLAIN_MODULE} required a="geheim;', "quotation mark"),
        (f"{jaas.PLAIN_MODULE} required; {jaas.PLAIN_MODULE} required;", "expected options"),
    ],
)
def test_a_malformed_text_is_refused_without_its_secrets(text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason) as raised:
        jaas.parse(KEY, text, jaas.PLAIN_MODULE)
    assert KEY in str(raised.value)
    assert "geheim" not in str(raised.value)
