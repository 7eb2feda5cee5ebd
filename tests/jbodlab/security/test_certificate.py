"""Names of certificates, as Java writes them."""

from __future__ import annotations

import datetime

import pytest
from cryptography import x509
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from jbodlab.security import certificate
from jbodlab.vocabulary.errors import DecodeError
from tests.certificates import Authority, now
from tests.jbodlab.security.names import CN, ORG, OU, C, name


@pytest.fixture(scope="module")
def ca() -> Authority:
    return Authority()


MULTI_VALUED = x509.Name(
    [
        x509.RelativeDistinguishedName(
            [x509.NameAttribute(CN, "multi"), x509.NameAttribute(NameOID.USER_ID, "u9")]
        ),
        x509.RelativeDistinguishedName([x509.NameAttribute(ORG, "o")]),
    ]
)
EMAIL = x509.Name(
    [
        x509.NameAttribute(ORG, "x"),
        x509.NameAttribute(CN, "alice"),
        x509.NameAttribute(NameOID.EMAIL_ADDRESS, "a@b.c", _type=_ASN1Type.IA5String),
    ]
)


@pytest.mark.parametrize(
    ("subject", "text"),
    [
        (
            name((C, "DE"), (ORG, "Acme, Inc."), (OU, "a+b=c"), (CN, "alice")),
            r"CN=alice,OU=a\+b\=c,O=Acme\, Inc.,C=DE",
        ),
        (EMAIL, "1.2.840.113549.1.9.1=#16056140622e63,CN=alice,O=x"),
        (
            name((CN, ' #lead;semi"q\\b<g>tail ')),
            r"CN=\ \#lead\;semi\"q\\b\<g\>tail\ ",
        ),
        (name((CN, "Jörg Ωmega")), "CN=Jörg Ωmega"),
        (MULTI_VALUED, "O=o,CN=multi+UID=u9"),
        (name((CN, "inner #hash")), r"CN=inner \#hash"),
        (name((CN, "  ")), r"CN=\ \ "),
        (
            name((NameOID.DOMAIN_COMPONENT, "example"), (NameOID.LOCALITY_NAME, "Köln")),
            "L=Köln,DC=example",
        ),
        (x509.Name([]), ""),
    ],
)
def test_t12_distinguished_names_are_those_of_java(
    ca: Authority, subject: x509.Name, text: str
) -> None:
    assert certificate.read(ca.issue(subject).der).subject == text


def test_dates_and_alternative_names_are_read(ca: Authority) -> None:
    far = datetime.timedelta(days=365 * 40)
    issued = ca.issue("a", hosts=("h.example", "10.0.0.1"), valid_to=far)

    found = certificate.read(issued.der)

    assert found.not_before == issued.certificate.not_valid_before_utc
    assert found.not_after == issued.certificate.not_valid_after_utc
    assert found.not_after > now() + far / 2
    assert found.alternative_names == {(0x82, b"h.example"), (0x87, bytes([10, 0, 0, 1]))}
    assert certificate.read(ca.issue("a", hosts=()).der).alternative_names == frozenset()


def test_every_cut_of_a_certificate_is_an_error_and_never_another(ca: Authority) -> None:
    der = ca.issue("alice").der
    for end in range(len(der)):
        with pytest.raises(DecodeError):
            certificate.read(der[:end])


@given(st.binary(max_size=300))
def test_bytes_that_are_no_certificate_are_an_error(data: bytes) -> None:
    with pytest.raises(DecodeError):
        certificate.read(data)


@given(st.data())
def test_a_changed_byte_gives_a_certificate_or_an_error(data: st.DataObject) -> None:
    changed = bytearray(DER)
    changed[data.draw(st.integers(0, len(DER) - 1))] = data.draw(st.integers(0, 255))
    try:
        certificate.read(bytes(changed))
    except DecodeError:
        return


DER = Authority().issue("alice").der
