from __future__ import annotations

import pytest

from jbodlab.security.mapping_rules import parse
from jbodlab.vocabulary.errors import ConfigError

SERVER = "CN=Kafka1,OU=Servers,O=Acme,C=DE"


@pytest.mark.parametrize(
    ("rules", "subject", "name"),
    [
        ("DEFAULT", SERVER, SERVER),
        ("", SERVER, SERVER),
        (r"RULE:^CN=(.*?),OU=Servers.*$/$1/L,DEFAULT", SERVER, "kafka1"),
        (r"RULE:^CN=(.*?),OU=Servers.*$/$1/L,DEFAULT", "CN=alice", "CN=alice"),
        (r"RULE:^CN=(.*?),OU=Servers.*$/$1@$1/U", SERVER, "KAFKA1@KAFKA1"),
        (r"RULE:^CN=(.*?),OU=(.*?),O=(.*?),C=(.*?)$/$2\/$1@$4/", SERVER, "Servers/Kafka1@DE"),
        (r"RULE:^CN=(\w+)\/(\w+)$/$1\/$2/L", "CN=a/B", "a/b"),
        (r"RULE:^.*OU=Users.*$/user/, RULE:^.*OU=Servers.*$/server/", SERVER, "server"),
        (r"RULE:^CN=(.{1,6}),.*$/$1/ , DEFAULT", SERVER, "Kafka1"),
        (r"RULE:^CN=([^,\\]*),.*$/$1/", r"CN=a\,OU=Servers,O=x", None),
        (r"RULE:CN=Kafka1/x/", SERVER, None),
        (r"RULE:^(.*)$/$1-$2/", "CN=a", "CN=a-$2"),
    ],
)
def test_t11_the_first_rule_that_matches_the_whole_name_applies(
    rules: str, subject: str, name: str | None
) -> None:
    assert parse("key", rules).name_of(subject) == name


@pytest.mark.parametrize(
    "text",
    [
        "default",
        "RULE:^CN=(.*)$",
        "RULE:^CN=(.*)$/$1",
        "RULE:^CN=(.*$/$1/",
        "RULE:a/b/X",
        "DEFAULT x",
    ],
)
def test_a_malformed_rule_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"invalid value .* for configuration key"):
        parse("key", text)
