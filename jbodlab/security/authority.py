"""An authority of one's own: signs the certificates of a cluster that is closed for a trial.

Takes the library cryptography, which nothing else of a cluster needs.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

BACKDATED = datetime.timedelta(hours=1)
"""Clocks of other machines may be behind."""


class Authority:
    """Signs certificates.

    Args:
        certificate: Its own.
        key: Its private key.
    """

    def __init__(self, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        self._certificate = certificate
        self._key = key

    @classmethod
    def new(cls, name: str, now: datetime.datetime, until: datetime.datetime) -> Self:
        """Return a new authority; `until` is the last moment at which it is valid."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(_named(name), _named(name), key.public_key(), key, now, until, ca=True)
        return cls(builder.sign(key, hashes.SHA256()), key)

    @classmethod
    def load(cls, certificate: bytes, key: bytes) -> Self:
        """Return an authority from its certificate and private key in PEM.

        Raises:
            ValueError: they are none.
        """
        loaded = serialization.load_pem_private_key(key, None)
        if not isinstance(loaded, ec.EllipticCurvePrivateKey):
            raise ValueError("expected a private key of an elliptic curve")
        return cls(x509.load_pem_x509_certificate(certificate), loaded)

    @property
    def pem(self) -> str:
        """Its certificate."""
        return _pem(self._certificate)

    @property
    def until(self) -> datetime.datetime:
        """The last moment at which its certificate is valid."""
        return self._certificate.not_valid_after_utc

    @property
    def key_pem(self) -> str:
        """Its private key."""
        return _key_pem(self._key)

    def issue(
        self,
        name: str,
        hosts: Sequence[str],
        now: datetime.datetime,
        until: datetime.datetime,
    ) -> tuple[str, str]:
        """Return a new private key and its certificate, for servers and clients, in PEM.

        Args:
            name: The common name.
            hosts: Names and addresses of the server; empty for a client.
            now: Now.
            until: The last moment at which it is valid; to the second.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        issuer = self._certificate.subject
        builder = _builder(_named(name), issuer, key.public_key(), self._key, now, until, ca=False)
        if hosts:
            names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
            builder = builder.add_extension(names, critical=False)
        purposes = ExtendedKeyUsageOID
        builder = builder.add_extension(
            x509.ExtendedKeyUsage([purposes.SERVER_AUTH, purposes.CLIENT_AUTH]), critical=False
        )
        return _key_pem(key), _pem(builder.sign(self._key, hashes.SHA256()))


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _key_pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    public: ec.EllipticCurvePublicKey,
    issuers_key: ec.EllipticCurvePrivateKey,
    now: datetime.datetime,
    until: datetime.datetime,
    *,
    ca: bool,
) -> x509.CertificateBuilder:
    # Clients that verify strictly ask for each of these extensions.
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(until)
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        .add_extension(
            x509.KeyUsage(
                digital_signature=True,
                content_commitment=False,
                key_encipherment=False,
                data_encipherment=False,
                key_agreement=False,
                key_cert_sign=ca,
                crl_sign=ca,
                encipher_only=False,
                decipher_only=False,
            ),
            critical=True,
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuers_key.public_key()),
            critical=False,
        )
    )
