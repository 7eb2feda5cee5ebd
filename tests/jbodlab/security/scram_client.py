"""A client of SCRAM, written from RFC 5802."""

from __future__ import annotations

import base64

from jbodlab.security.scram import ScramCredential, ScramMechanism, credential, salted_password

SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
CLIENT_NONCE = "rOprNGfwEbeRWgbNEkqO"
SHA_256, SHA_512 = ScramMechanism


def stored(mechanism: ScramMechanism, password: str = "pencil") -> ScramCredential:
    return credential(mechanism, salted_password(mechanism, password, SALT, 4096), SALT, 4096)


class Client:
    """The other side, as clients do it; each part of a message can be replaced."""

    def __init__(self, mechanism: ScramMechanism = SHA_256, user: str = "user") -> None:
        self.mechanism = mechanism
        self.bare = f"n={user},r={CLIENT_NONCE}"

    def first(self, header: str = "n,,") -> bytes:
        self.header = header
        return (header + self.bare).encode()

    def final(self, server_first: bytes, password: str = "pencil", **parts: str) -> bytes:
        given = dict(part.split("=", 1) for part in server_first.decode().split(","))
        binding = parts.get("c", base64.b64encode(self.header.encode()).decode())
        nonce = parts.get("r", given["r"])
        without = f"c={binding},r={nonce}"
        salt = base64.b64decode(given["s"])
        salted = salted_password(self.mechanism, password, salt, int(given["i"]))
        key = self.mechanism.mac(salted, b"Client Key")
        message = f"{self.bare},{server_first.decode()},{without}".encode()
        signature = self.mechanism.mac(self.mechanism.hash(key), message)
        proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
        return f"{without},p={parts.get('p', base64.b64encode(proof).decode())}".encode()
