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


AS_KAFKA = [
    (r"RULE:^CN=(\p{Alnum}+),.*$/$1/", SERVER, "Kafka1"),
    (r"RULE:^CN=(\p{Alnum}+),.*$/$1/", "CN=Jörg,O=x", None),
    (r"RULE:^CN=(?<name>[^,]+),.*$/${name}/", SERVER, "Kafka1"),
    (r"RULE:^CN=(?<n>\w+),OU=(?<u>\w+).*$/${u}-$1-${n}/L", SERVER, "servers-kafka1-kafka1"),
    (r"RULE:^CN=(\w+)$/$1/", "CN=alice_1", "alice_1"),
    (r"RULE:^CN=(\w+)$/$1/", "CN=jörg", None),
    (r"RULE:^CN=(\w+).*$/$1/", "CN=jörg", "j"),
    (r"RULE:^CN=(\d+)$/n$1/", "CN=42", "n42"),
    (r"RULE:^CN=(\d+)$/n$1/", "CN=٤٢", None),
    (r"RULE:^CN=(\D+)$/n$1/", "CN=٤٢", "n٤٢"),
    (r"RULE:^CN=([a-z&&[^b]]+)$/$1/", "CN=acd", "acd"),
    (r"RULE:^CN=([a-z&&[^b]]+)$/$1/", "CN=abc", None),
    (r"RULE:^CN=([a-z&&[^b]]+).*$/$1/", "CN=a&b", "a"),
    (r"RULE:^CN=([a-d[m-p]]+)$/$1/", "CN=amdp", "amdp"),
    (r"RULE:^CN=([a-d[m-p]]+)$/$1/", "CN=e", None),
    (r"RULE:^CN=([a-z&&def]+)$/$1/", "CN=fed", "fed"),
    (r"RULE:^CN=([^a-c]+)$/$1/", "CN=xyz", "xyz"),
    (r"RULE:^CN=([\w&&[^\d]]+)\d*$/$1/", "CN=kafka12", "kafka"),
    (r"RULE:^CN=([-a]+)$/$1/", "CN=a-a", "a-a"),
    (r"RULE:^CN=([a-]+)$/$1/", "CN=a-a", "a-a"),
    (r"RULE:^CN=([^,]++),.*$/$1/", SERVER, "Kafka1"),
    (r"RULE:^CN=(.*+),.*$/$1/", SERVER, None),
    (r"RULE:^CN=(?>[^,]+),(.*)$/$1/", SERVER, "OU=Servers,O=Acme,C=DE"),
    (r"RULE:^CN=(a?+)a$/x$1/", "CN=a", None),
    (r"RULE:^CN=(.*)$/$1/", "CN=a\n", None),
    (r"RULE:^CN=(.*)$/$1/", "CN=a\r", None),
    (r"RULE:^CN=(.*)\z/$1/", "CN=a\n", None),
    (r"RULE:\ACN=(.*)\Z/$1/", "CN=a\r\n", None),
    (r"RULE:^CN=(.*)\r$/$1/", "CN=a\r\n", None),
    (r"RULE:^CN=(.*)$/$1/", "CN=a\x85", None),
    (r"RULE:(?s)^CN=(.*)$/$1/", "CN=a\nb", "a\nb"),
    (r"RULE:^CN=(.+)$/$1/", "CN=a\u2028b", None),
    (r"RULE:(?i)^cn=(kafka\d),.*$/$1/", SERVER, "Kafka1"),
    (r"RULE:(?i)^cn=(É)$/$1/", "CN=é", None),
    (r"RULE:^CN=(?i:KAFKA)1,OU=(s).*$/$1/", SERVER, None),
    (r"RULE:^CN=(?i:KAFKA)1,OU=(S)(.*)$/$1$2/", SERVER, "Servers,O=Acme,C=DE"),
    (r"RULE:(?i)^cn=([k-m])$/$1/", "CN=\u212a", None),
    (r"RULE:(?i)^cn=([^k])$/$1/", "CN=K", None),
    (r"RULE:^CN=(.*?),OU=Servers.*$/$1/L,DEFAULT", SERVER, "kafka1"),
    (r"RULE:^CN=(.*?),OU=Servers.*$/$1/L,DEFAULT", "CN=alice", "CN=alice"),
    (r"RULE:^CN=(.*?),OU=(.*?),O=(.*?),C=(.*?)$/$2\/$1@$4/", SERVER, "Servers/Kafka1@DE"),
    (r"RULE:.*/user/", SERVER, "useruser"),
    (r"RULE:.+/user/", SERVER, "user"),
    (r"RULE:CN=.*?/x/", "CN=ab", "xab"),
    (r"RULE:[A-Z]+=([a-z]*)/<$1>/", "CN=ab", "<ab>"),
    (r"RULE:(?:CN=|a|b)+/x/", "CN=ab", "x"),
    (r"RULE:b*?.*/-/", "bab", "--"),
    (r"RULE:^(.*)$/$1-$2/", "CN=a", "CN=a-$2"),
    (r"RULE:^(.*)$/$12/", "CN=a", "CN=a2"),
    (r"RULE:^.*$/$0!/", "CN=a", "CN=a!"),
    (r"RULE:^CN=(.*)$/\$1\\$1/", "CN=a", "$1\\a"),
    (r"RULE:^CN=(.*)$/$01/", "CN=a", "a"),
    (r"RULE:^CN=(a)|(b)$/$1$2/", "b", "b"),
    (r"RULE:^CN=(a)(b)?$/$1$2/", "CN=a", "a"),
    (r"RULE:^(C)(N)=\1\2$/$2$1/", "CN=CN", "NC"),
    (r"RULE:^CN=(?<a>x)\k<a>$/$1/", "CN=xx", "x"),
    (r"RULE:^CN=(\S+)\s(\S+)$/$2.$1/L", "CN=Ada Lovelace", "lovelace.ada"),
    (r"RULE:^CN=(\S+)\s(\S+)$/$2.$1/L", "CN=Ada\xa0Lovelace", None),
    (r"RULE:^CN=(\S+)\h(\S+)$/$2.$1/L", "CN=Ada\xa0Lovelace", "lovelace.ada"),
    (r"RULE:^CN=\Qa.b*\E,(.*)$/$1/", "CN=a.b*,O=x", "O=x"),
    (r"RULE:^CN=(\x41\u0062+)$/$1/", "CN=Abb", "Abb"),
    (r"RULE:^CN=(?=k)(\w{2,5}).*$/$1/U", "CN=kafka1", "KAFKA"),
    (r"RULE:^CN=(?!root)([^,]+).*$/$1/,DEFAULT", "CN=root", "CN=root"),
    (r"RULE:^CN=([^,]+)(?<!x)$/$1/", "CN=ax", None),
    (r"RULE:^CN=(.*)$/$1/L", "CN=ΑΣ", "ας"),
    (r"RULE:^CN=(.*)$/$1/U", "CN=straße", "STRASSE"),
    (r"RULE:^CN=(.*)$/$1/L", "CN=İ", "i̇"),
    (r"RULE:^CN=(.)$/$1/", "CN=\U0001d49c", "\U0001d49c"),
    (r"RULE:^CN=([\p{Upper}&&[^A]]+)$/$1/", "CN=BC", "BC"),
    (r"RULE:^CN=(\P{Punct}+)$/$1/", "CN=a1", "a1"),
    (r"RULE:^UID=(a{2}+),.*$/$1/", "UID=aa,O=x", "aa"),
    (r"RULE:^CN=([\[\]\-\^]+)$/$1/", "CN=[-]^", "[-]^"),
    (r"RULE:^CN=([.$|(]+)$/$1/", "CN=.$|(", ".$|("),
]
"""Rules, subjects, and the names that SslPrincipalMapper of Apache Kafka 4.3.1 gave on Java 17."""


@pytest.mark.parametrize(("rules", "subject", "name"), AS_KAFKA)
def test_a_rule_gives_the_name_that_it_gives_in_kafka(
    rules: str, subject: str, name: str | None
) -> None:
    assert parse("key", rules).name_of(subject) == name


@pytest.mark.parametrize(
    "rule",
    [
        r"RULE:^CN=(\p{L}+)$/$1/",
        r"RULE:^CN=(\p{IsAlphabetic}+)$/$1/",
        r"RULE:^CN=\b(.*)$/$1/",
        r"RULE:(?x)^CN=(.*)$/$1/",
        r"RULE:(?m)^CN=(.*)$/$1/",
        r"RULE:(?u)^CN=(.*)$/$1/",
        r"RULE:^CN=(?:(a)|b)*$/$1/",
        r"RULE:^CN=(a|b*)*$/$1/",
        r"RULE:^CN=[^a[b]]$/x/",
        r"RULE:^CN=(?P<n>.*)$/$1/",
        r"RULE:^CN=(?#x)a$/x/",
        r"RULE:^CN=a{,2}$/x/",
        r"RULE:^CN=a{$/x/",
        r"RULE:^CN=\R$/x/",
        r"RULE:^CN=\X$/x/",
        r"RULE:^CN=(a$/x/",
        r"RULE:^CN=a)$/x/",
        r"RULE:^CN=[a$/x/",
        r"RULE:^CN=[b-a]$/x/",
        r"RULE:^CN=(.*)$/$1-$2-$3/",
        r"RULE:^.*$/$1/",
        r"RULE:^CN=(.*)$/${x}/",
        r"RULE:^CN=(.*)$/a$/",
    ],
)
def test_a_rule_that_may_mean_something_else_than_in_kafka_is_refused(rule: str) -> None:
    with pytest.raises(ConfigError, match=r"for configuration key: .*(Java|the pattern has no)"):
        parse("key", rule)


def test_a_character_of_two_halves_has_no_name_where_java_might_look_between_them() -> None:
    assert parse("key", "RULE:.??.*/x/,DEFAULT").name_of("\U0001d49c") is None


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
