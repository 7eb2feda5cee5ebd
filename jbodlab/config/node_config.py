"""The settings that every node has, whatever its role: its id, its listeners, its directories.

Source: `org.apache.kafka.server.config` (KRaftConfigs, SocketServerConfigs, ServerLogConfigs).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePosixPath

import msgspec
from msgspec.structs import replace

from jbodlab.config import kafka_configs, key_table, tls_keys
from jbodlab.config.key_table import Values
from jbodlab.config.listener_security import prefix_of
from jbodlab.security.tls_settings import TlsSettings
from jbodlab.vocabulary.endpoint import Endpoint
from jbodlab.vocabulary.errors import ConfigError
from jbodlab.vocabulary.ids import BrokerId

PROTOCOLS = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}
"""Security protocols, and their numbers in the metadata."""

_ENDPOINT = re.compile(r"^([A-Za-z0-9_.-]+)://(\[[0-9A-Fa-f:.%]+\]|[^:/\[\]]*):([0-9]+)$")
_VOTER = re.compile(r"^([0-9]+)@(\[[0-9A-Fa-f:.%]+\]|[^:/@\[\]]+):([0-9]+)$")
_ADDRESS = re.compile(r"^(\[[0-9A-Fa-f:.%]+\]|[^:/@\[\]]+):([0-9]+)$")

CONTROLLERS = "jbodlab.controller.bootstrap.servers"
VOTERS = "controller.quorum.voters"
BOOTSTRAP_SERVERS = "controller.quorum.bootstrap.servers"

TWO_FILES = (
    "a node has one role; write two property files, both with "
    "controller.quorum.voters=1@localhost:9093 instead of controller.quorum.bootstrap.servers. "
    "Controller: process.roles=controller, node.id=1, listeners=CONTROLLER://:9093, without "
    "advertised.listeners and inter.broker.listener.name. Broker: process.roles=broker, another "
    "node.id, other log.dirs, without CONTROLLER in listeners and advertised.listeners"
)
"""Advice for a file with both roles, such as the one of Kafka's quick start."""


class VoterAddress(msgspec.Struct, frozen=True, kw_only=True):
    """A controller and its address."""

    node_id: BrokerId
    host: str
    port: int


class NodeConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Roles, id, listeners and directories of one node.

    Attributes:
        voters: The controllers of a static quorum; empty where their log names them.
        bootstrap_servers: Host and port of controllers that may know who leads.
        controllers: Host and port wherever a controller may serve brokers.
        controller_listener_names: That of controllers among themselves, then that of brokers; a
            sole controller, which speaks to brokers only, may have one.
        listeners: Addresses to bind, the host may be empty for all interfaces.
        advertised_listeners: Addresses for clients and other brokers; never an empty host.
        advertised_controllers: Where other nodes reach a controller, by its listeners.
        controller_protocol: Whether brokers and controllers encrypt between them; of `PROTOCOLS`.
        log_dirs: Absolute data directories, in the order of the file.
        metadata_log_dir: Directory that holds `__cluster_metadata-0`.
    """

    roles: frozenset[str]
    node_id: BrokerId
    voters: tuple[VoterAddress, ...]
    bootstrap_servers: tuple[tuple[str, int], ...]
    controllers: tuple[tuple[str, int], ...]
    controller_listener_names: tuple[str, ...]
    listeners: tuple[Endpoint, ...]
    advertised_listeners: tuple[Endpoint, ...]
    advertised_controllers: tuple[Endpoint, ...]
    inter_broker_listener_name: str
    controller_protocol: int
    log_dirs: tuple[PurePosixPath, ...]
    metadata_log_dir: PurePosixPath

    @property
    def has_quorum(self) -> bool:
        """Whether controllers speak to each other, be it only one yet."""
        return len(self.controller_listener_names) > 1

    @property
    def grpc_listener_name(self) -> str:
        """Name of the listener at which a controller serves brokers, in upper case."""
        return self.controller_listener_names[self.has_quorum].upper()

    def controller_listener(self, name: str) -> Endpoint:
        """Return a listener of this controller."""
        return next(each for each in self.listeners if each.name == name.upper())

    @property
    def all_dirs(self) -> tuple[PurePosixPath, ...]:
        """Data directories and the metadata directory, each once, sorted by text."""
        return tuple(sorted({*self.log_dirs, self.metadata_log_dir}, key=str))


def read_values(properties: Mapping[str, str]) -> tuple[Values, list[str]]:
    """Check a property file; returns its values and the keys that are not known.

    Raises:
        ConfigError: a value is of the wrong kind or out of range.
    """
    return key_table.read(kafka_configs.NODE, properties)


def node_config(values: Values) -> NodeConfig:
    """Read the settings that every node has.

    Raises:
        ConfigError: one of them is missing, malformed or contradicts another.
    """
    roles = node_roles(values)
    node_id = _node_id(values)
    voters = tuple(_voter(word) for word in values.words(VOTERS))
    bootstrap_servers = _addresses(values, BOOTSTRAP_SERVERS)
    controller_names = values.words("controller.listener.names")
    if not controller_names:
        raise ConfigError(
            "controller.listener.names", "", "must contain at least one name when running KRaft"
        )
    protocols = _protocols(values)
    listeners = _endpoints("listeners", values, protocols)
    controller_names = _check_listeners(
        roles, listeners, controller_names, is_quorum=len(voters) > 1 or bool(bootstrap_servers)
    )
    inter_broker_name = _inter_broker_name(values, roles, listeners, controller_names)
    if not voters and not bootstrap_servers:
        raise ConfigError(
            VOTERS,
            "",
            f"must name the controllers, such as 1@localhost:9093, unless {BOOTSTRAP_SERVERS} does",
        )
    if voters:
        _check_voters(roles, node_id, voters)
    log_dirs = _log_dirs(values)
    advertised = _advertised(values, protocols, listeners)
    controllers = {name.upper() for name in controller_names}
    metadata = values.optional_text("metadata.log.dir")
    return NodeConfig(
        roles=roles,
        node_id=node_id,
        voters=voters,
        bootstrap_servers=bootstrap_servers,
        controllers=_controllers(values, roles, voters, has_quorum=len(controller_names) > 1),
        controller_listener_names=controller_names,
        listeners=listeners,
        advertised_listeners=tuple(each for each in advertised if each.name not in controllers),
        advertised_controllers=_reached_at(
            advertised,
            controller_names,
            next((each for each in voters if each.node_id == node_id), None),
        ),
        inter_broker_listener_name=inter_broker_name,
        controller_protocol=_controller_protocol(protocols, controller_names),
        log_dirs=log_dirs,
        metadata_log_dir=(
            _absolute("metadata.log.dir", metadata.strip())
            if metadata and metadata.strip()
            else log_dirs[0]
        ),
    )


def node_roles(values: Values) -> frozenset[str]:
    """Read `process.roles`.

    Returns:
        The only role: each server program has one.

    Raises:
        ConfigError: the file names no role, or both.
    """
    words = [word.lower() for word in values.words("process.roles")]
    if not words:
        raise ConfigError("process.roles", "", "must be broker or controller")
    if len(set(words)) != len(words):
        raise ConfigError("process.roles", ",".join(words), "duplicate role")
    if len(words) > 1:
        raise ConfigError("process.roles", ",".join(words), TWO_FILES)
    return frozenset(words)


def _node_id(values: Values) -> BrokerId:
    node_id, broker_id = values.integer("node.id"), values.integer("broker.id")
    if node_id < 0:
        node_id = broker_id
    if values.is_set("broker.id") and broker_id != node_id:
        raise ConfigError("broker.id", broker_id, f"must equal node.id, which is {node_id}")
    if node_id < 0:
        raise ConfigError("node.id", node_id, "must be at least 0")
    return BrokerId(node_id)


def _voter(word: str) -> VoterAddress:
    match = _VOTER.match(word)
    if match is None:
        raise ConfigError(VOTERS, word, "expected id@host:port")
    port = _port(VOTERS, word, match[3])
    if port == 0:
        raise ConfigError(VOTERS, word, "the port must be at least 1")
    return VoterAddress(node_id=BrokerId(int(match[1])), host=match[2].strip("[]"), port=port)


def _addresses(values: Values, key: str) -> tuple[tuple[str, int], ...]:
    found = []
    for word in values.words(key):
        match = _ADDRESS.match(word)
        if match is None:
            raise ConfigError(key, word, "expected host:port")
        found.append((match[1].strip("[]"), _port(key, word, match[2])))
    return tuple(found)


def _controllers(
    values: Values,
    roles: frozenset[str],
    voters: tuple[VoterAddress, ...],
    *,
    has_quorum: bool,
) -> tuple[tuple[str, int], ...]:
    """Return where brokers reach controllers; the address of a voter in a quorum is another one."""
    found = _addresses(values, CONTROLLERS)
    if not has_quorum:
        found = (*((voter.host, voter.port) for voter in voters), *found)
    elif "broker" in roles and not found:
        raise ConfigError(
            CONTROLLERS,
            "",
            "must name host:port of the second controller listener of each controller",
        )
    return tuple(dict.fromkeys(found))


def _protocols(values: Values) -> dict[str, str]:
    protocols = {}
    for word in values.words("listener.security.protocol.map"):
        name, colon, protocol = word.partition(":")
        if not colon or not name or not protocol:
            raise ConfigError("listener.security.protocol.map", word, "expected NAME:PROTOCOL")
        protocols[name.upper()] = protocol.upper()
    for name in values.words("controller.listener.names"):
        # As in Kafka, controller listeners are PLAINTEXT unless a file maps any listener itself.
        if not values.is_set("listener.security.protocol.map"):
            protocols.setdefault(name.upper(), "PLAINTEXT")
    return protocols


def _endpoints(key: str, values: Values, protocols: Mapping[str, str]) -> tuple[Endpoint, ...]:
    endpoints = tuple(_endpoint(key, word, protocols) for word in values.words(key))
    names = [endpoint.name for endpoint in endpoints]
    if not endpoints:
        raise ConfigError(key, "", "at least one listener is required")
    if len(set(names)) != len(names):
        raise ConfigError(key, ",".join(names), "each listener must have a different name")
    return endpoints


def _endpoint(key: str, word: str, protocols: Mapping[str, str]) -> Endpoint:
    match = _ENDPOINT.match(word)
    if match is None:
        raise ConfigError(key, word, "expected NAME://host:port")
    name = match[1].upper()
    protocol = protocols.get(name)
    if protocol is None:
        raise ConfigError(
            key,
            word,
            f"listener.security.protocol.map has no security protocol for listener {name}",
        )
    if protocol not in PROTOCOLS:
        raise ConfigError(
            key,
            word,
            f"unsupported security protocol {protocol}, expected {' or '.join(PROTOCOLS)}",
        )
    return Endpoint(
        name=name,
        host=match[2].strip("[]"),
        port=_port(key, word, match[3]),
        security_protocol=PROTOCOLS[protocol],
    )


def _port(key: str, word: str, text: str) -> int:
    port = int(text)
    if port > 65_535:
        raise ConfigError(key, word, "the port must be at most 65535")
    return port


def _check_listeners(
    roles: frozenset[str],
    listeners: tuple[Endpoint, ...],
    controller_names: tuple[str, ...],
    *,
    is_quorum: bool,
) -> tuple[str, ...]:
    """Return the names of the listeners that controllers have: those that are used."""
    controllers = {name.upper() for name in controller_names}
    names = {listener.name for listener in listeners}
    if "controller" in roles and not names & controllers:
        raise ConfigError(
            "listeners", ",".join(sorted(names)), "must contain a name of controller.listener.names"
        )
    if roles == {"broker"} and names & controllers:
        raise ConfigError(
            "listeners",
            ",".join(sorted(names)),
            "must not contain a name of controller.listener.names on a broker",
        )
    if "broker" in roles and not names - controllers:
        raise ConfigError(
            "listeners", ",".join(sorted(names)), "a broker needs a listener for clients"
        )
    used = controller_names
    if "controller" in roles:
        used = tuple(name for name in controller_names if name.upper() in names)
    if is_quorum and len(used) < 2:
        raise ConfigError(
            "controller.listener.names",
            ",".join(used),
            "must name two listeners in a quorum, the second one for brokers, such as "
            "CONTROLLER,CONTROLLER_GRPC; listeners of a controller must have both",
        )
    return used


def encrypts(protocol: int) -> bool:
    """Return whether a protocol is TLS."""
    return protocol in (PROTOCOLS["SSL"], PROTOCOLS["SASL_SSL"])


def logs_in(protocol: int) -> bool:
    """Return whether clients have to log in."""
    return protocol in (PROTOCOLS["SASL_PLAINTEXT"], PROTOCOLS["SASL_SSL"])


def controller_tls(values: Values, node: NodeConfig) -> TlsSettings | None:
    """Read how brokers and controllers encrypt between them; None where they do not.

    Both sides have the same settings, those of the controller's listener.

    Raises:
        ConfigError: a setting is wrong.
    """
    if not encrypts(node.controller_protocol):
        return None
    return tls_keys.client_tls(values.properties, prefix_of(node.grpc_listener_name))


def _controller_protocol(protocols: Mapping[str, str], names: tuple[str, ...]) -> int:
    """Return the protocol of all controller listeners."""
    found = {name.upper(): protocols.get(name.upper(), "PLAINTEXT") for name in names[:2]}
    for name, word in found.items():
        protocol = PROTOCOLS.get(word)
        if protocol is None or logs_in(protocol):
            raise ConfigError(
                "listener.security.protocol.map",
                f"{name}:{word}",
                "must be PLAINTEXT, or SSL with certificates of brokers: they do not log in",
            )
    if len(set(found.values())) > 1:
        raise ConfigError(
            "listener.security.protocol.map",
            ",".join(f"{name}:{word}" for name, word in found.items()),
            "both controller listeners must have the same security protocol",
        )
    return PROTOCOLS[found[names[0].upper()]]


def _check_voters(
    roles: frozenset[str], node_id: BrokerId, voters: tuple[VoterAddress, ...]
) -> None:
    ids = {voter.node_id for voter in voters}
    shown = ",".join(str(i) for i in sorted(ids))
    if len(ids) < len(voters):
        raise ConfigError(VOTERS, shown, "names a controller twice")
    if "controller" in roles and node_id not in ids:
        raise ConfigError(VOTERS, shown, f"must contain node.id {node_id}")
    if roles == {"broker"} and node_id in ids:
        raise ConfigError(VOTERS, shown, f"must not contain broker {node_id}")


def _advertised(
    values: Values, protocols: Mapping[str, str], listeners: tuple[Endpoint, ...]
) -> tuple[Endpoint, ...]:
    """Return where the listeners are reached; those of a controller need not be named."""
    bound = tuple(
        Endpoint(
            name=listener.name,
            host=listener.host or "localhost",
            port=listener.port,
            security_protocol=listener.security_protocol,
        )
        for listener in listeners
    )
    if not values.is_set("advertised.listeners"):
        return bound
    advertised = _endpoints("advertised.listeners", values, protocols)
    names = {listener.name for listener in listeners}
    for endpoint in advertised:
        if endpoint.host in ("", "0.0.0.0"):
            raise ConfigError(
                "advertised.listeners", endpoint.host, "expected an address that clients can reach"
            )
        if endpoint.name not in names:
            raise ConfigError("advertised.listeners", endpoint.name, "must be a name of listeners")
    controllers = {name.upper() for name in values.words("controller.listener.names")}
    named = {endpoint.name for endpoint in advertised}
    return advertised + tuple(each for each in bound if each.name in controllers - named)


def _reached_at(
    advertised: tuple[Endpoint, ...],
    controller_names: tuple[str, ...],
    own: VoterAddress | None,
) -> tuple[Endpoint, ...]:
    """Return where a controller is reached; a static quorum says so of the first listener."""
    by_name = {endpoint.name: endpoint for endpoint in advertised}
    found = [by_name[name.upper()] for name in controller_names if name.upper() in by_name]
    if own is not None and found:
        found = [replace(each, host=own.host) for each in found]
        found[0] = replace(found[0], port=own.port)
    return tuple(found)


def _inter_broker_name(
    values: Values,
    roles: frozenset[str],
    listeners: tuple[Endpoint, ...],
    controller_names: tuple[str, ...],
) -> str:
    controllers = {name.upper() for name in controller_names}
    clients = [listener.name for listener in listeners if listener.name not in controllers]
    name = values.optional_text("inter.broker.listener.name")
    key = "security.inter.broker.protocol"
    if values.is_set(key):
        protocol = values.text(key).upper()
        if name is not None:
            raise ConfigError(key, protocol, "inter.broker.listener.name is set, too")
        if "broker" in roles and protocol not in clients:
            raise ConfigError(key, protocol, "must be a name of listeners")
        return protocol
    if name is not None:
        if "broker" in roles and name.strip().upper() not in clients:
            raise ConfigError("inter.broker.listener.name", name, "must be a name of listeners")
        return name.strip().upper()
    if "PLAINTEXT" in clients or not clients:
        return "PLAINTEXT"
    return clients[0]


def _log_dirs(values: Values) -> tuple[PurePosixPath, ...]:
    key = "log.dirs" if values.is_set("log.dirs") else "log.dir"
    words = values.words(key)
    if not words:
        raise ConfigError(key, values.optional_text(key), "at least one log directory is required")
    return tuple(_absolute(key, word) for word in words)


def _absolute(key: str, word: str) -> PurePosixPath:
    path = PurePosixPath(word)
    if not path.is_absolute():
        raise ConfigError(key, word, "expected an absolute path")
    return path
