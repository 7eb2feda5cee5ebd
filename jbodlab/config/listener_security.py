"""How clients reach a listener, and brokers each other: Kafka's `sasl.*` and `ssl.*` settings.

A setting with the prefix `listener.name.<name>.` is for one listener and takes precedence. Some
are for one mechanism of a listener, and come before those: `listener.name.client.scram-sha-512.
connections.max.reauth.ms`. JAAS texts are always so: `listener.name.client.plain.sasl.jaas.config`.

Source: `org.apache.kafka.common.network.ListenerName`,
`org.apache.kafka.common.security.JaasContext`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import msgspec

from jbodlab.config import kafka_configs, key_table, tls_keys
from jbodlab.config.key_table import Values, parse_integer
from jbodlab.security import jaas
from jbodlab.security.oauthbearer import OAUTHBEARER, TokenSettings
from jbodlab.security.plain import PLAIN
from jbodlab.security.scram import MECHANISMS
from jbodlab.security.secret import HIDDEN, NO_SECRET, Secret
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
CHECKS_TOKENS = "sasl.server.callback.handler.class"
PACKAGE = "org.apache.kafka.common.security.oauthbearer"
VALIDATORS = tuple(
    f"{PACKAGE}.{inner}OAuthBearerValidatorCallbackHandler" for inner in ("", "secured.")
)
"""Checkers of signatures, by the names of Kafka 4 and Kafka 3."""
OF_TOKENS = (KEYS_URL, ISSUER, AUDIENCE, SUBJECT, CLOCK_SKEW, REFRESH)
PREFIXED = (ENABLED, LIFETIME, RECEIVE_SIZE, *OF_TOKENS)
"""Settings that a listener may have of its own, besides those of its mechanisms."""

_OF_LISTENER = re.compile(r"listener\.name\.([^.]*)\.(.*)")
_OF_SECURITY = re.compile(
    r"(?:[^.]+\.)?(?:sasl|ssl|connections\.max\.reauth)\.|"
    r"(?:allow\.everyone|authorizer|delegation|principal|security|super)\."
)
"""How settings begin that protect something; before some the mechanism."""


class ListenerSecurity(msgspec.Struct, frozen=True, kw_only=True):
    """How clients log in on one listener.

    Attributes:
        mechanisms: Those that are enabled.
        passwords: Of the users of PLAIN.
        tokens: Which tokens of OAUTHBEARER are good; None where it is not enabled.
        sessions_ms: How long a login holds, by its mechanism; 0 for ever.
        failure_delay_ms: Before the answer to a failed login.
        max_receive_bytes: Largest request before the login.
    """

    mechanisms: tuple[str, ...]
    passwords: Mapping[str, Secret[str]]
    tokens: TokenSettings | None
    sessions_ms: Mapping[str, int]
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
    own = (*PREFIXED, *tls_keys.PREFIXED)
    of_mechanisms = (
        f"{prefix}{mechanism.lower()}.{key}"
        for mechanism in SUPPORTED
        for key in (JAAS, LIFETIME, *((CHECKS_TOKENS, *OF_TOKENS) * (mechanism == OAUTHBEARER)))
    )
    return frozenset({*(prefix + key for key in own), *of_mechanisms})


def unread(values: Values, unknown: Iterable[str]) -> list[str]:
    """Return those of the unknown settings that may be warned about.

    Args:
        values: All settings.
        unknown: Those that are not in the table.

    Raises:
        ConfigError: one of them would protect something, and would have no effect.
    """
    names = {*values.words("controller.listener.names")}
    for each in ("listeners", "listener.security.protocol.map"):
        names |= {word.partition(":")[0] for word in values.words(each)}
    known = frozenset().union(*map(keys_of, names))
    found = []
    for name in unknown:
        if name in known:
            continue
        of_listener = _OF_LISTENER.fullmatch(name)
        setting = of_listener[2] if of_listener is not None else name
        for mechanism in SUPPORTED:
            setting = setting.removeprefix(f"{mechanism.lower()}.")
        key = kafka_configs.NODE.get(setting)
        is_read = key is not None and (key.has_effect or key.why_refused)
        if _OF_SECURITY.match(setting) is None or (key is not None and not is_read):
            found.append(name)
            continue
        if of_listener is not None and of_listener[1] not in map(str.lower, names):
            problem = f"there is no such listener among {', '.join(sorted(names))}"
        elif key is None:
            found_hint = key_table.hint(kafka_configs.NODE, setting)
            problem = f"there is no setting {setting}{found_hint}"
        else:
            key.refuse(name, values.properties[name])
            problem = f"{setting} has no effect with this prefix"
        raise ConfigError(name, HIDDEN, problem)
    return found


def listener_security(values: Values, listener: str) -> ListenerSecurity:
    """Read the settings of a listener whose clients log in.

    Raises:
        ConfigError: a mechanism is not supported, PLAIN has no users, or OAUTHBEARER no issuer.
    """
    prefix = prefix_of(listener)
    own = _Own(values, prefix)
    key, words = own.name(ENABLED), own.words(ENABLED)
    for word in words:
        if word not in SUPPORTED:
            raise ConfigError(key, word, f"must be one of {', '.join(SUPPORTED)}")
    if not words:
        raise ConfigError(key, "", f"listener {listener} needs at least one mechanism")
    return ListenerSecurity(
        mechanisms=tuple(dict.fromkeys(words)),
        passwords=_passwords(values, f"{prefix}plain.{JAAS}") if PLAIN in words else {},
        tokens=_tokens(values, prefix) if OAUTHBEARER in words else None,
        sessions_ms={each: _own_of(values, prefix, each).integer(LIFETIME) for each in words},
        failure_delay_ms=values.integer("connection.failed.authentication.delay.ms"),
        max_receive_bytes=own.integer(RECEIVE_SIZE),
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
    handler = f"{prefix}oauthbearer.{CHECKS_TOKENS}"
    checks = values.properties.get(handler, VALIDATORS[0]).strip()
    if checks not in VALIDATORS:
        raise ConfigError(handler, checks, f"must be {VALIDATORS[0]}")
    own = _own_of(values, prefix, OAUTHBEARER)
    url, issuer = own.text(KEYS_URL), own.text(ISSUER)
    audiences = own.words(AUDIENCE)
    if not url.startswith(("file:///", "https://")):
        raise ConfigError(own.name(KEYS_URL), url, "OAUTHBEARER needs a URL, file:/// or https://")
    for key, value in ((ISSUER, issuer), (AUDIENCE, audiences)):
        if not value:
            raise ConfigError(own.name(key), "null", "OAUTHBEARER takes tokens for which it is set")
    return TokenSettings(
        url=url,
        issuer=issuer,
        audiences=audiences,
        subject_claim=own.text(SUBJECT),
        clock_skew_s=own.integer(CLOCK_SKEW),
        refresh_s=own.integer(REFRESH) / 1000,
    )


class _Own:
    """Settings of a listener or of one of its mechanisms; else those of all listeners.

    Args:
        values: All settings.
        prefixes: The strongest first.
    """

    def __init__(self, values: Values, *prefixes: str) -> None:
        self._values = values
        self._prefixes = prefixes

    def name(self, key: str) -> str:
        """Return the name under which a setting is found."""
        names = (prefix + key for prefix in self._prefixes)
        return next(filter(self._values.is_set, names), key)

    def text(self, key: str) -> str:
        """Return a setting; empty where it has neither value nor default."""
        name = self.name(key)
        if name == key:
            return (self._values.optional_text(key) or "").strip()
        return self._values.properties[name].strip()

    def words(self, key: str) -> tuple[str, ...]:
        """Return a comma-separated setting."""
        return tuple(filter(None, map(str.strip, self.text(key).split(","))))

    def integer(self, key: str) -> int:
        """Return a number that is 0 or more."""
        name = self.name(key)
        if name == key:
            return self._values.integer(key)
        text = self.text(key)
        try:
            number = parse_integer(text)
        except ValueError:
            raise ConfigError(name, text, "expected an integer") from None
        if number < 0:
            raise ConfigError(name, text, "must be at least 0")
        return number


def _own_of(values: Values, prefix: str, mechanism: str) -> _Own:
    return _Own(values, f"{prefix}{mechanism.lower()}.", prefix)
