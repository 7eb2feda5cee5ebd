"""Invariants of logins and rights whatever clients send, in whatever order.

The invariants are numbered as in the design: before a login nothing is served (1), a session keeps
its user (2), and no one else's words open it (3), nothing is served after its end (4); decisions
depend on nothing but their arguments (7), entries that deny or are taken away give nothing (8), and
an API without an entry is refused (9).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.api.table import APIS
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.security.acl import (
    AccessControlEntry,
    AclOperation,
    PatternType,
    Permission,
    ResourceType,
)
from jbodlab.security.authorizer import Authorizer, AuthorizerSettings
from jbodlab.security.scram import Decoys, ScramCredential, ScramMechanism, credential
from jbodlab.security.secret import Secret
from jbodlab.server.authentication import Authentication, SaslSettings, State
from jbodlab.server.listener_counts import ListenerCounts
from jbodlab.vocabulary.errors import AuthenticationError, CloseConnectionError, KafkaError
from tests.jbodlab.security.scram_client import Client as ScramClient
from tests.jbodlab.security.scram_client import stored

LOGIN = {ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}
SALTED, SALT = bytes(32), b"salt of the user"
SESSION_S = 10.0


def find(mechanism: ScramMechanism, user: str) -> ScramCredential | None:
    return credential(mechanism, SALTED, SALT, 4096) if user == "user" else None


class Step(NamedTuple):
    """One step of a client: a request, by its key, and a token or mechanism where it has one."""

    key: int
    token: bytes = b""
    mechanism: str = "PLAIN"
    version: int = 1
    after_s: float = 0.0


TOKENS = [b"\0alice\0right", b"\0alice\0wrong", b"\0bob\0right too", b"\0eve\0x", b"", b"\xff"]
STEPS = st.builds(
    Step,
    key=st.sampled_from([*LOGIN, ApiKey.METADATA, ApiKey.PRODUCE]),
    token=st.sampled_from(TOKENS) | st.binary(max_size=40),
    mechanism=st.sampled_from(["PLAIN", "SCRAM-SHA-256", "GSSAPI", ""]),
    version=st.sampled_from([0, 1]),
    after_s=st.sampled_from([0.0, 0.5, 2.0, 11.0]),
)


@given(st.lists(STEPS, max_size=25))
def test_nothing_is_served_without_a_login_that_holds_and_a_user_stays(
    steps: Sequence[Step],
) -> None:
    passwords = {"alice": "right", "bob": "right too"}
    login = Authentication(
        SaslSettings(
            mechanisms=("PLAIN", "SCRAM-SHA-256"),
            passwords={user: Secret(password) for user, password in passwords.items()},
            find=find,
            decoys=Decoys(secret=b"s"),
            random_bytes=bytes,
            sessions_s={"PLAIN": SESSION_S, "SCRAM-SHA-256": SESSION_S},
        ),
        opened=lambda: None,
        counts=ListenerCounts(),
    )
    now_s, users, proved_s = 100.0, set[str](), float("-inf")
    for step in steps:
        now_s += step.after_s
        try:
            if not login.takes_raw_tokens:
                login.admit(step.key, now_s)
            if step.key not in LOGIN and not login.takes_raw_tokens:
                # It is served.
                assert login.state is State.OPEN
                assert users == {login.user}
                assert now_s < proved_s + SESSION_S
                continue
            if login.takes_raw_tokens or step.key == ApiKey.SASL_AUTHENTICATE:
                was_renewed = login.state is not State.OPEN
                login.token(step.token, now_s)
                if was_renewed and login.state is State.OPEN:
                    name = step.token.split(b"\0")[1].decode()
                    assert step.token == f"\0{name}\0{passwords[name]}".encode()
                    users.add(login.user)
                    proved_s = now_s
            elif step.key == ApiKey.SASL_HANDSHAKE:
                login.handshake(step.mechanism, step.version, now_s)
        except (AuthenticationError, CloseConnectionError):
            break
        except KafkaError:
            if login.state is not State.OPEN:
                break
        assert len(users) <= 1
        assert login.user in {"", *users}


@given(st.data())
def test_no_changed_byte_of_a_login_by_scram_opens_a_session(data: st.DataObject) -> None:
    settings = SaslSettings(
        mechanisms=("SCRAM-SHA-256",),
        passwords={},
        find=lambda mechanism, user: stored(mechanism) if user == "user" else None,
        decoys=Decoys(secret=b"s"),
        random_bytes=bytes,
    )
    exchange, client = settings.begin("SCRAM-SHA-256"), ScramClient()
    final = client.final(exchange.answer(client.first()))
    # The last character of the proof has bits that mean nothing.
    place = data.draw(st.integers(0, len(final) - 3))
    changed = bytearray(final)
    changed[place] = data.draw(st.integers(0, 255).filter(lambda byte: byte != final[place]))
    with pytest.raises(AuthenticationError):
        exchange.answer(bytes(changed))
    assert not exchange.user


@given(st.lists(st.binary(max_size=200), max_size=6), st.sampled_from(["PLAIN", "SCRAM-SHA-256"]))
def test_any_bytes_fail_as_a_login_and_never_otherwise(
    tokens: Sequence[bytes], mechanism: str
) -> None:
    settings = SaslSettings(
        mechanisms=(mechanism,),
        passwords={"alice": Secret("right")},
        find=find,
        decoys=Decoys(secret=b"s"),
        random_bytes=bytes,
    )
    exchange = settings.begin(mechanism)
    for token in tokens:
        try:
            exchange.answer(token)
        except AuthenticationError:
            continue
    assert not exchange.user


@given(
    st.text(max_size=30),
    st.text(max_size=30),
    st.text(max_size=60),
)
def test_any_text_behind_a_good_first_message_fails_as_a_login(
    binding: str, nonce: str, proof: str
) -> None:
    settings = SaslSettings(
        mechanisms=("SCRAM-SHA-256",),
        passwords={},
        find=find,
        decoys=Decoys(secret=b"s"),
        random_bytes=bytes,
    )
    exchange = settings.begin("SCRAM-SHA-256")
    exchange.answer(b"n,,n=user,r=abc")
    try:
        token = f"c={binding},r={nonce},p={proof}".encode()
    except UnicodeEncodeError:
        return
    with pytest.raises(AuthenticationError):
        exchange.answer(token)


NAMES = st.sampled_from(["t", "t1", "t12", "u", "*"])
ENTRIES = st.builds(
    AccessControlEntry,
    st.just(ResourceType.TOPIC),
    NAMES,
    st.sampled_from(PatternType),
    st.sampled_from(["User:alice", "User:bob", "User:*"]),
    st.sampled_from(["*", "10.0.0.1"]),
    st.sampled_from([AclOperation.ALL, AclOperation.READ, AclOperation.DESCRIBE]),
    st.sampled_from(Permission),
)
QUESTIONS = st.tuples(
    st.sampled_from(["User:alice", "User:bob"]),
    st.sampled_from(["10.0.0.1", "10.0.0.2"]),
    st.sampled_from([AclOperation.READ, AclOperation.DESCRIBE, AclOperation.WRITE]),
    st.just(ResourceType.TOPIC),
    st.sampled_from(["t", "t1", "t12", "u"]),
)


@given(st.lists(ENTRIES, max_size=8), ENTRIES, QUESTIONS, st.booleans())
def test_who_loses_an_entry_gains_nothing_while_another_one_covers_the_resource(
    entries: list[AccessControlEntry], removed: AccessControlEntry, question: Any, allows: bool
) -> None:
    removed = removed._replace(permission_type=Permission.ALLOW)
    settings = AuthorizerSettings(allows_without_acls=allows)
    # An entry for somebody else covers everything: the flag says nothing then.
    other = AccessControlEntry(
        ResourceType.TOPIC,
        "*",
        PatternType.LITERAL,
        "User:nobody",
        "*",
        AclOperation.READ,
        Permission.ALLOW,
    )
    before = Authorizer([*entries, other, removed], settings).allows(*question)
    after = Authorizer([*entries, other], settings).allows(*question)
    assert before or not after


@given(st.lists(ENTRIES, max_size=8), QUESTIONS)
def test_brokers_and_controllers_with_the_same_entries_decide_alike(
    entries: list[AccessControlEntry], question: Any
) -> None:
    settings = AuthorizerSettings()
    one, other = Authorizer(entries, settings), Authorizer(reversed(entries), settings)
    assert one.allows(*question) == other.allows(*question) == one.allows(*question)


def test_every_api_says_what_it_touches() -> None:
    assert all(callable(api.resources) for api in APIS.values())
    assert set(APIS) >= LOGIN
