"""Vectors of RFC 7677 (SHA-256), and of SHA-512 with the same messages."""

from __future__ import annotations

import base64
from dataclasses import replace

import pytest

from jbodlab.security.scram import Decoys, ScramMechanism, ScramServer, Shape, usual_shape
from jbodlab.vocabulary.errors import AuthenticationError
from tests.jbodlab.security.scram_client import CLIENT_NONCE, SHA_256, Client, stored

PROOFS = {
    ScramMechanism.SCRAM_SHA_256: "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
    ScramMechanism.SCRAM_SHA_512: (
        "gMGXRcevScNtxZ6/8lQYpGtnsNAc3mGcmNomv+xnoOMw+3R2xNJdMNnzMlTN8PPC6wdp6dybEmDYXYTxwnYPJQ=="
    ),
}
SIGNATURES = {
    ScramMechanism.SCRAM_SHA_256: b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
    ScramMechanism.SCRAM_SHA_512: (
        b"v=ZQnYEgWQMFmmsM8aQMF0nDDCy/AgCzkwk8CmMZYcMg0vSVlKDanekLtifDSeVGT4+5ZxXnJq199RVG2rR7N7Zw=="
    ),
}


class Server(ScramServer):
    def __init__(
        self, mechanism: ScramMechanism = SHA_256, users: tuple[str, ...] = ("user",)
    ) -> None:
        super().__init__(
            mechanism,
            lambda mechanism, user: stored(mechanism) if user in users else None,
            Decoys(secret=b"s"),
            lambda count: bytes(count),
        )


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_s08_scram_vectors(mechanism: ScramMechanism) -> None:
    """S08: the exact bytes of a published exchange."""
    server = Server(mechanism)
    answer = server.answer(f"n,,n=user,r={CLIENT_NONCE}".encode())
    assert answer.endswith(b",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096")
    # The published nonce of the server is not base64, as ours is.
    nonce = CLIENT_NONCE + "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    first = server._first
    assert first is not None
    server._first = replace(
        first, nonce=nonce, server_first=f"r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    final = f"c=biws,r={nonce},p={PROOFS[mechanism]}"
    assert server.answer(final.encode()) == SIGNATURES[mechanism]
    assert server.user == "user"


def test_keys_of_a_credential() -> None:
    found = stored(SHA_256)
    assert base64.b64encode(found.stored_key) == b"WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY="
    assert base64.b64encode(found.server_key) == b"wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="
    assert "stored_key" not in repr(found)
    assert "salt" not in repr(found)


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_a_login(mechanism: ScramMechanism) -> None:
    server, client = Server(mechanism), Client(mechanism)
    final = client.final(server.answer(client.first()))
    assert server.answer(final).startswith(b"v=")
    assert server.user == "user"


@pytest.mark.parametrize(
    ("written", "user"), [("a=2Cb=3Dc", "a,b=c"), ("J\u00f6rg", "J\u00f6rg"), ("a b", "a b")]
)
def test_s12_scram_names(written: str, user: str) -> None:
    """S12: names are escaped, and otherwise taken as they are."""
    server, client = Server(users=(user,)), Client(user=written)
    assert server.answer(client.final(server.answer(client.first())))
    assert server.user == user


def test_s12_extensions_out_of_order_stay_in_the_bytes() -> None:
    """S12: the client's message is kept as it was received."""
    server, client = Server(), Client()
    client.bare += ",z=1,b=2"
    assert server.answer(client.final(server.answer(client.first())))


@pytest.mark.parametrize(
    "first",
    [
        "n,,n=a=b,r=x",
        "n,,n=,r=x",
        "n,,m=x,n=user,r=x",
        "n,,n=user,r=x,m=1",
        "n,,n=user,r=",
        "n,,n=user",
        "n,,n=user,r=\u00e4",
        "n,a=other,n=user,r=x",
        "n,,n=user,r=x,tokenauth=true",
        "",
    ],
)
def test_s12_a_first_message_that_is_refused(first: str) -> None:
    """Names, nonces and extensions."""
    with pytest.raises(AuthenticationError):
        Server().answer(first.encode())


@pytest.mark.parametrize("first", ["y,,n=user,r=x", "p=tls-exporter,,n=user,r=x"])
def test_s11_scram_binding_that_is_not_served(first: str) -> None:
    with pytest.raises(AuthenticationError):
        Server().answer(first.encode())


def test_an_authorization_id_that_is_the_user() -> None:
    server, client = Server(), Client()
    assert server.answer(client.final(server.answer(client.first("n,a=user,"))))


def check_final_is_refused(**parts: str) -> None:
    server, client = Server(), Client()
    final = client.final(server.answer(client.first()), **parts)
    with pytest.raises(AuthenticationError):
        server.answer(final)
    assert not server.user


@pytest.mark.parametrize("nonce", [CLIENT_NONCE, "", CLIENT_NONCE + "other", None])
def test_s10_scram_nonce(nonce: str | None) -> None:
    """The server's part is missing, another one, or cut."""
    if nonce is None:
        server = Server()
        nonce = server.answer(Client().first()).decode().partition(",")[0][2:-1]
    check_final_is_refused(r=nonce)


@pytest.mark.parametrize("header", ["eSws", "", "biw=", "cD10bHMtZXhwb3J0ZXIsLA=="])
def test_s11_scram_binding(header: str) -> None:
    check_final_is_refused(c=header)


@pytest.mark.parametrize("proof", ["AAAA", "!", "", "A" * 10_000])
def test_s14_scram_proof(proof: str) -> None:
    check_final_is_refused(p=proof)


def test_s09_scram_replay() -> None:
    """An overheard proof is of no use."""
    overheard_client = Client()
    overheard = overheard_client.final(Server().answer(overheard_client.first()))
    server = Server()
    server._random_bytes = lambda count: b"x" * count
    server.answer(Client().first())
    with pytest.raises(AuthenticationError, match="nonce"):
        server.answer(overheard)


@pytest.mark.parametrize(("user", "password"), [("user", "pencils"), ("nobody", "pencil")])
def test_s05_a_wrong_password_and_an_unknown_user_fail_alike(user: str, password: str) -> None:
    """Not before the proof, and there is one attempt."""
    server, client = Server(), Client(user=user)
    final = client.final(server.answer(client.first()), password)
    with pytest.raises(AuthenticationError, match=f"wrong password of {user}, or there is no such"):
        server.answer(final)
    with pytest.raises(AuthenticationError, match="after the end"):
        server.answer(client.first())


def test_s13_an_unknown_user_has_the_same_salt_at_each_login() -> None:
    found = [Server().answer(Client(user=name).first()) for name in ("a", "a", "b")]
    assert found[0] == found[1] != found[2].replace(b"n=b", b"n=a")


def test_s13_an_unknown_user_has_the_same_salt_on_all_brokers() -> None:
    one, other = (Decoys(secret=b"of the cluster") for _ in range(2))
    assert one.credential(SHA_256, "a") == other.credential(SHA_256, "a")
    assert one.credential(SHA_256, "a") != Decoys(secret=b"x").credential(SHA_256, "a")
    assert one.credential(SHA_256, "a").salt != one.credential(SHA_256, "b").salt


def test_s13_an_unknown_user_looks_like_most_users() -> None:
    shape = usual_shape([(8192, b"\xff" * 64), (8192, b"\0" * 64), (4096, b"abc123")])
    assert shape == Shape(8192, 64, is_text=False)
    assert usual_shape([(4096, b"abc123")]) == Shape(4096, 6, is_text=True)
    assert usual_shape([]) == Shape(4096, 26, is_text=True)

    found = Decoys(secret=b"s", shape=lambda _: shape).credential(SHA_256, "a")

    assert (found.iterations, len(found.salt)) == (8192, 64)


def test_s17_a_message_after_the_login() -> None:
    server, client = Server(), Client()
    final = client.final(server.answer(client.first()))
    server.answer(final)
    with pytest.raises(AuthenticationError, match="after the end"):
        server.answer(final)
    assert server.user == "user"


@pytest.mark.parametrize("password", [None, "another"])
def test_a_user_who_is_removed_or_changed_during_the_login_is_not_logged_in(
    password: str | None,
) -> None:
    users = {"user": stored(SHA_256)}
    server = ScramServer(
        SHA_256, lambda _, user: users.get(user), Decoys(secret=b"s"), lambda count: bytes(count)
    )
    client = Client()
    final = client.final(server.answer(client.first()))
    del users["user"]
    if password is not None:
        users["user"] = stored(SHA_256, password)

    with pytest.raises(AuthenticationError, match="the credential of user has changed meanwhile"):
        server.answer(final)

    assert server.user == ""
