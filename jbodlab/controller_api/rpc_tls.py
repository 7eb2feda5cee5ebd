"""Certificates between brokers and controllers: whose call it is, and which broker that may be.

A certificate speaks for one broker: the principal of its subject has to be the one that
`jbodlab.broker.principal` gives to the broker id of a message. So a broker cannot register, or take
anything over, as another one, even if it knows that one's epoch.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import msgspec

from jbodlab.controller_api.transport import Refusal, RpcRefusedError
from jbodlab.security import certificate, tls_files
from jbodlab.security.mapping_rules import SUBJECT_ITSELF, MappingRules
from jbodlab.security.node_names import NodeNames, node_names
from jbodlab.security.secret import Secret
from jbodlab.security.tls_files import Pem
from jbodlab.security.tls_settings import TlsSettings
from jbodlab.vocabulary.errors import ConfigError, DecodeError

BROKER_PRINCIPAL = "jbodlab.broker.principal"
USER = "User:"

OF_ONE_BROKER = frozenset(
    {
        "AllocateProducerIds",
        "AlterPartition",
        "AssignReplicasToDirs",
        "BrokerHeartbeat",
        "BrokerRegistration",
        "MetadataStream",
    }
)
"""Methods whose message names the broker that calls; the others forward what clients ask for."""

OF_ITSELF = frozenset({"DescribeQuorum"})
"""Methods that a controller may call, too, which asks how it is itself."""


class RpcKeys(msgspec.Struct, frozen=True, kw_only=True):
    """Key, certificates and whoever is trusted, all in PEM as gRPC takes them."""

    key: Secret[bytes]
    chain: bytes
    roots: bytes


def rpc_keys(settings: TlsSettings, pem: Pem) -> RpcKeys:
    """Return the keys of a node.

    Raises:
        ConfigError: a store is missing, or key and certificate do not fit.
    """
    if settings.key_store is None or settings.trust_store is None:
        missing = "keystore" if settings.key_store is None else "truststore"
        raise ConfigError(
            f"{settings.prefix}ssl.{missing}.location",
            "null",
            "brokers and controllers know each other by certificates",
        )
    # gRPC would say of keys that do not fit only that nobody can be reached.
    tls_files.client_context(settings, pem)
    return RpcKeys(
        key=Secret(tls_files.unencrypted(settings, pem)), chain=pem.chain, roots=pem.roots
    )


class RpcPeer(msgspec.Struct, frozen=True, kw_only=True):
    """Whose certificate a connection was made with.

    Attributes:
        name: Of the subject.
        until: When the certificate expires; the connection is of no use from then on.
    """

    name: str
    until: datetime.datetime

    def expired(self) -> RpcRefusedError:
        """Return what a caller is told whose certificate has expired."""
        return RpcRefusedError(
            Refusal.UNAUTHENTICATED,
            f"the certificate of {USER}{self.name} expired at {self.until.isoformat()}",
        )


class BrokerPrincipals(msgspec.Struct, frozen=True, kw_only=True):
    """Which certificate is which broker's.

    Attributes:
        rules: Make names of the subjects of certificates.
        names: Names of the brokers.
    """

    names: NodeNames
    rules: MappingRules = SUBJECT_ITSELF

    def caller_of(self, der: bytes, now: datetime.datetime) -> RpcPeer:
        """Return who a caller is.

        Raises:
            RpcRefusedError: UNAUTHENTICATED, no rule names it, or its certificate has expired since
                it connected.
        """
        try:
            found = certificate.read(der)
        except DecodeError as error:
            raise RpcRefusedError(Refusal.UNAUTHENTICATED, str(error)) from error
        caller = RpcPeer(name=self._name_of(found.subject), until=found.not_after)
        if now > caller.until:
            raise caller.expired()
        return caller

    def _name_of(self, subject: str) -> str:
        name = self.rules.name_of(subject) if subject else None
        if not name:
            raise RpcRefusedError(
                Refusal.UNAUTHENTICATED, f"no rule names the owner of certificate {subject!r}"
            )
        return name

    def check(self, name: str, method: str, message: Any) -> None:
        """Check that a caller may call a method, and is the broker that its message names.

        Raises:
            RpcRefusedError: PERMISSION_DENIED.
        """
        if method in OF_ONE_BROKER:
            if name != self.names.of(message.broker_id):
                raise RpcRefusedError(
                    Refusal.PERMISSION_DENIED, f"{USER}{name} is not broker {message.broker_id}"
                )
        elif self.names.id_of(name) is None:
            raise RpcRefusedError(Refusal.PERMISSION_DENIED, f"{USER}{name} is no broker")


def broker_principals(template: str, rules: MappingRules) -> BrokerPrincipals:
    """Read `jbodlab.broker.principal`, such as `User:CN=broker-{id}`.

    Raises:
        ConfigError: it is malformed.
    """
    return BrokerPrincipals(names=node_names(BROKER_PRINCIPAL, template), rules=rules)


class RpcServerTls(msgspec.Struct, frozen=True, kw_only=True):
    """Security of a controller's listener, besides its address.

    Attributes:
        keys: Returns those of the next connection.
        principals: Which certificate is which broker's.
        now: Clock of the certificates.
    """

    keys: Callable[[], RpcKeys]
    principals: BrokerPrincipals
    now: Callable[[], datetime.datetime]

    def admitted(self, der: bytes, method: str, message: Any) -> RpcPeer:
        """Return who calls a method.

        Raises:
            RpcRefusedError: the certificate does not allow it.
        """
        now = self.now()
        caller = self.principals.caller_of(der, now)
        if method not in OF_ITSELF or caller.name != self._own_name(now):
            self.principals.check(caller.name, method, message)
        return caller

    def _own_name(self, now: datetime.datetime) -> str:
        return self.principals.caller_of(tls_files.leaf_of(self.keys().chain), now).name
