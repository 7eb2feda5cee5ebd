"""How clients reach a listener, and brokers each other: Kafka's `sasl.*` and `ssl.*` settings.

A setting with the prefix `listener.name.<name>.` is for one listener and takes precedence. JAAS
texts have the mechanism in their names, too: `listener.name.client.plain.sasl.jaas.config`.

Source: `org.apache.kafka.common.network.ListenerName`,
`org.apache.kafka.common.security.JaasContext`.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from jbodlab.config import tls_keys
from jbodlab.config.key_table import Values, parse_integer
from jbodlab.security import jaas
from jbodlab.security.oauthbearer import OAUTHBEARER, TokenSettings
from jbodlab.security.plain import PLAIN
from jbodlab.security.scram import MECHANISMS
from jbodlab.security.secret import NO_SECRET, Secret
from jbodlab.security.tls_settings import TlsSettings
from jbodlab.vocabulary.errors import ConfigError

SUPPORTED = (PLAIN, *MECHANISMS, OAUTHBEARER)
"""The mechanisms that clients may log in by."""

ENABLED = "sasl.enabled.mechanisms"
JAAS = "sasl.jaas.config"
LIFETIME = "connections.max.reauth.ms"
RECEIVE_SIZE = "sasl.server.max.receive.size"
TOKENS = "sasl.oauthbearer"
KEYS_URL, ISSUER = f"{TOKENS}.jwks.endpoint.url", f"{TOKENS}.expected.issuer"
AUDIENCE, SUBJECT = f"{TOKENS}.expected.audience", f"{TOKENS}.sub.claim.name"
CLOCK_SKEW, REFRESH = f"{TOKENS}.clock.skew.seconds", f"{TOKENS}.jwks.endpoint.refresh.ms"
CHECKS_TOKENS = "oauthbearer.sasl.server.callback.handler.class"
PACKAGE = "org.apache.kafka.common.security.oauthbearer"
VALIDATORS = tuple(
    f"{PACKAGE}.{inner}OAuthBearerValidatorCallbackHandler" for inner in ("", "secured.")
)
"""What checks signatures, by the names of Kafka 4 and Kafka 3."""
PREFIXED = (
    *(ENABLED, LIFETIME, RECEIVE_SIZE),
    *(KEYS_URL, ISSUER, AUDIENCE, SUBJECT, CLOCK_SKEW, REFRESH, CHECKS_TOKENS),
)
"""Settings that a listener may have of its own, besides its JAAS texts."""


class ListenerSecurity(msgspec.Struct, frozen=True, kw_only=True):
    """How clients log in on one listener.

    Attributes:
        mechanisms: Those that are enabled.
        passwords: Of the users of PLAIN.
        tokens: Which tokens of OAUTHBEARER are good; None where it is not enabled.
        session_ms: How long a login holds; 0 for ever.
        failure_delay_ms: Before the answer to a failed login.
        max_receive_bytes: Largest request before the login.
    """

    mechanisms: tuple[str, ...]
    passwords: Mapping[str, Secret[str]]
    tokens: TokenSettings | None
    session_ms: int
    failure_delay_ms: int
    max_receive_bytes: int


class PeerSecurity(msgspec.Struct, frozen=True, kw_only=True):
    """How this broker connects to the others.

    Attributes:
        tls: How it encrypts; None where it does not.
        mechanism: By which it logs in; empty where it does not.
    """

    tls: TlsSettings | None = None
    mechanism: str = ""
    user: str = ""
    password: Secret[str] = NO_SECRET


def prefix_of(listener: str) -> str:
    """Return the prefix of the settings of one listener."""
    return f"listener.name.{listener.lower()}."


def keys_of(listener: str) -> frozenset[str]:
    """Return the settings of one listener that have an effect."""
    prefix = prefix_of(listener)
    jaas_texts = (f"{prefix}{mechanism.lower()}.{JAAS}" for mechanism in SUPPORTED)
    own = (*PREFIXED, *tls_keys.PREFIXED)
    return frozenset({*(prefix + key for key in own), *jaas_texts})


def listener_security(values: Values, listener: str) -> ListenerSecurity:
    """Read the settings of a listener whose clients log in.

    Raises:
        ConfigError: a mechanism is not supported, PLAIN has no users, or OAUTHBEARER no issuer.
    """
    prefix = prefix_of(listener)
    key = prefix + ENABLED if values.is_set(prefix + ENABLED) else ENABLED
    words = _words(values, prefix, ENABLED)
    for word in words:
        if word not in SUPPORTED:
            raise ConfigError(key, word, f"must be one of {', '.join(SUPPORTED)}")
    if not words:
        raise ConfigError(key, "", f"listener {listener} needs at least one mechanism")
    return ListenerSecurity(
        mechanisms=tuple(dict.fromkeys(words)),
        passwords=_passwords(values, f"{prefix}plain.{JAAS}") if PLAIN in words else {},
        tokens=_tokens(values, prefix) if OAUTHBEARER in words else None,
        session_ms=_integer(values, prefix, LIFETIME),
        failure_delay_ms=values.integer("connection.failed.authentication.delay.ms"),
        max_receive_bytes=_integer(values, prefix, RECEIVE_SIZE),
    )


def peer_security(values: Values, listener: str, *, encrypts: bool, logs_in: bool) -> PeerSecurity:
    """Read how this broker connects to a listener of other brokers.

    Raises:
        ConfigError: a setting is wrong, or nothing says who logs in.
    """
    prefix = prefix_of(listener)
    tls = tls_keys.client_tls(values.properties, prefix) if encrypts else None
    if not logs_in:
        return PeerSecurity(tls=tls)
    key = "sasl.mechanism.inter.broker.protocol"
    mechanism = values.text(key)
    if mechanism == OAUTHBEARER:
        raise ConfigError(key, mechanism, f"must be one of {', '.join((PLAIN, *MECHANISMS))}")
    enabled = listener_security(values, listener).mechanisms
    if mechanism not in enabled:
        raise ConfigError(key, mechanism, f"must be enabled on {listener}: {', '.join(enabled)}")
    name = f"{prefix}{mechanism.lower()}.{JAAS}"
    text = values.properties.get(name)
    if text is None:
        raise ConfigError(name, "null", 'brokers log in by username="NAME" password="PASSWORD"')
    module = jaas.PLAIN_MODULE if mechanism == PLAIN else jaas.SCRAM_MODULE
    user, password = jaas.parse(name, text, module).own_login(name)
    return PeerSecurity(tls=tls, mechanism=mechanism, user=user, password=password)


def _passwords(values: Values, key: str) -> Mapping[str, Secret[str]]:
    text = values.properties.get(key)
    if text is None:
        raise ConfigError(key, "null", 'PLAIN needs users, as user_NAME="PASSWORD"')
    return jaas.parse(key, text, jaas.PLAIN_MODULE).users


def _tokens(values: Values, prefix: str) -> TokenSettings:
    jaas_key = f"{prefix}oauthbearer.{JAAS}"
    text = values.properties.get(jaas_key, f"{jaas.OAUTHBEARER_MODULE} required;")
    for option in jaas.parse(jaas_key, text, jaas.OAUTHBEARER_MODULE).options:
        raise ConfigError(jaas_key, "[hidden]", f"the option {option} is not supported")
    checks = values.properties.get(prefix + CHECKS_TOKENS, VALIDATORS[0]).strip()
    if checks not in VALIDATORS:
        raise ConfigError(prefix + CHECKS_TOKENS, checks, f"must be {VALIDATORS[0]}")
    url, issuer = (_text(values, prefix, key) for key in (KEYS_URL, ISSUER))
    audiences = _words(values, prefix, AUDIENCE)
    if not url.startswith(("file:///", "https://")):
        raise ConfigError(prefix + KEYS_URL, url, "OAUTHBEARER needs a URL, file:/// or https://")
    for key, value in ((ISSUER, issuer), (AUDIENCE, audiences)):
        if not value:
            raise ConfigError(prefix + key, "null", "OAUTHBEARER takes tokens for which it is set")
    return TokenSettings(
        url=url,
        issuer=issuer,
        audiences=audiences,
        subject_claim=_text(values, prefix, SUBJECT),
        clock_skew_s=_integer(values, prefix, CLOCK_SKEW),
        refresh_s=_integer(values, prefix, REFRESH) / 1000,
    )


def _text(values: Values, prefix: str, key: str) -> str:
    return values.properties.get(prefix + key, values.optional_text(key) or "").strip()


def _words(values: Values, prefix: str, key: str) -> tuple[str, ...]:
    return tuple(filter(None, map(str.strip, _text(values, prefix, key).split(","))))


def _integer(values: Values, prefix: str, key: str) -> int:
    if not values.is_set(prefix + key):
        return values.integer(key)
    text = values.properties[prefix + key]
    try:
        number = parse_integer(text)
    except ValueError:
        raise ConfigError(prefix + key, text, "expected an integer") from None
    if number < 0:
        raise ConfigError(prefix + key, text, "must be at least 0")
    return number
