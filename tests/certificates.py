"""Authorities and certificates for tests, made anew for each run."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from jbodlab.config.tls_keys import client_tls
from jbodlab.controller_api.rpc_tls import RpcKeys, rpc_keys
from jbodlab.security import tls_files
from tests.secrets import secret_key

DAY = datetime.timedelta(days=1)
LOCAL = ("localhost", "127.0.0.1")
BOTH = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)
SERVER_ONLY = BOTH[:1]

Name = str | x509.Name


def now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def named(name: Name) -> x509.Name:
    if isinstance(name, x509.Name):
        return name
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


@dataclass(frozen=True)
class Issued:
    """A certificate with its private key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
    issuer: x509.Certificate

    @property
    def der(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.DER)

    @property
    def chain(self) -> str:
        return self.certificate.public_bytes(serialization.Encoding.PEM).decode()

    def private_key(self, password: str | None = None) -> str:
        encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
        if password is not None:
            encryption = serialization.BestAvailableEncryption(password.encode())
        pem = self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption
        )
        return secret_key(pem.decode())

    def pkcs12(self, password: str) -> bytes:
        return pkcs12.serialize_key_and_certificates(
            b"key",
            self.key,
            self.certificate,
            [self.issuer],
            serialization.BestAvailableEncryption(password.encode()),
        )

    def write(self, path: Path, password: str | None = None) -> Path:
        """Write key and certificate as one file of PEM that only its owner may read."""
        new = path.with_suffix(".new")
        new.touch(mode=0o600)
        new.write_text(self.private_key(password) + self.chain)
        new.rename(path)
        return path


class Authority:
    """Signs certificates."""

    def __init__(self, name: str = "CA") -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = named(name)
        self.certificate = _built(
            self.name, self.name, self.key.public_key(), self.key, -DAY, 30 * DAY, is_ca=True
        )

    @property
    def pem(self) -> str:
        return self.certificate.public_bytes(serialization.Encoding.PEM).decode()

    def write(self, path: Path) -> Path:
        path.write_text(self.pem)
        return path

    def issue(
        self,
        name: Name = "broker-1",
        *,
        hosts: Sequence[str] = LOCAL,
        valid_from: datetime.timedelta = -DAY,
        valid_to: datetime.timedelta = 2 * DAY,
        purposes: Sequence[x509.ObjectIdentifier] = BOTH,
        is_rsa: bool = False,
    ) -> Issued:
        key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey = (
            rsa.generate_private_key(65537, 2048)
            if is_rsa
            else ec.generate_private_key(ec.SECP256R1())
        )
        certificate = _built(
            named(name),
            self.name,
            key.public_key(),
            self.key,
            valid_from,
            valid_to,
            hosts=hosts,
            purposes=purposes,
            issuer_key=self.key.public_key(),
        )
        return Issued(certificate, key, self.certificate)


def _built(
    subject: x509.Name,
    issuer: x509.Name,
    public: ec.EllipticCurvePublicKey | rsa.RSAPublicKey,
    signer: ec.EllipticCurvePrivateKey,
    valid_from: datetime.timedelta,
    valid_to: datetime.timedelta,
    *,
    hosts: Sequence[str] = (),
    purposes: Sequence[x509.ObjectIdentifier] = (),
    is_ca: bool = False,
    issuer_key: ec.EllipticCurvePublicKey | None = None,
) -> x509.Certificate:
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now() + valid_from)
        .not_valid_after(now() + valid_to)
        .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
        .add_extension(
            x509.KeyUsage(
                digital_signature=True,
                content_commitment=False,
                key_encipherment=not is_ca,
                data_encipherment=False,
                key_agreement=False,
                key_cert_sign=is_ca,
                crl_sign=is_ca,
                encipher_only=False,
                decipher_only=False,
            ),
            critical=True,
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key or signer.public_key()),
            critical=False,
        )
    )
    if hosts:
        names = [_alternative_name(host) for host in hosts]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    if purposes:
        builder = builder.add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
    return builder.sign(signer, hashes.SHA256())


def _alternative_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def rpc_keys_of(issued: Issued, trusted: Authority) -> RpcKeys:
    """Return what gRPC gets of a node that trusts an authority."""
    settings = client_tls(
        {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": issued.private_key(),
            "ssl.keystore.certificate.chain": issued.chain,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": trusted.pem,
        }
    )
    return rpc_keys(settings, tls_files.read(settings, issued.certificate.not_valid_before_utc))
