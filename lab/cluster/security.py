"""A closed cluster of the lab: its authority, certificates, users and the files of clients.

ROOT/security/                  of whoever runs the lab, for nobody else
    ca.pem  ca.key              the authority of this one cluster
    users.json                  passwords, by user
    alice.properties            a user's file in Java's words ...
    alice.librdkafka.properties, alice.kafka-python.json, alice.franz-go.json    ... and in others'
    alice.pem  alice.key        of a user with a certificate
    admin.properties ...        by which the lab's own clients, and `--cluster`, reach it
ROOT/keys/                      of the servers
    broker-1.pem, controller-100.pem, ca.pem

Brokers and controller show each other certificates in every case. `ssl` lets clients in without
one, `mtls` with one only; by `sasl_ssl` they log in by SCRAM-SHA-512, and so do brokers among
themselves. The rights of users are in `rights`.
"""

from __future__ import annotations

import datetime
import json
import os
import secrets
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fault_injection.closed_cluster import hosts
from jbodlab.cli.lab_state import ClusterState, NodeState
from jbodlab.vocabulary import properties
from lab.cluster import rights
from lab.cluster.spec import Security, spec_of
from lab.errors import LabError
from lab.machine.processes import ServerUser

if TYPE_CHECKING:
    from jbodlab.controller_api.rpc_tls import RpcKeys
    from jbodlab.metadata.records.schema import Record
    from jbodlab.peers.client_properties import ClientProperties
    from jbodlab.peers.client_security import ClientSecurity
    from jbodlab.security.authority import Authority

VALID = datetime.timedelta(days=30)
MECHANISM = "SCRAM-SHA-512"
ITERATIONS = 4096
SALT_BYTES = PASSWORD_BYTES = 24
RELOAD_MS = "500"
"""Servers find a new certificate within two looks."""
LISTENER = "CLIENT"
GRPC = "CONTROLLER_GRPC"
"""Listener of a controller for brokers, beside the one for controllers."""
NAMES = "RULE:^CN=([A-Za-z0-9-]+)$/$1/,DEFAULT"
"""A user with a certificate has the same name as one that logs in."""
JAAS = (
    "org.apache.kafka.common.security.scram.ScramLoginModule required "
    'username="{user}" password="{password}";'
)


DECOY_FILE = "decoy"
"""Beside the keys of the servers: what the answers to unknown users are made of."""

PROTOCOLS = {
    Security.SSL: "SSL",
    Security.MTLS: "SSL",
    Security.SASL_SSL: "SASL_SSL",
}


def folder(state: ClusterState) -> Path:
    """Return where the files of clients lie."""
    return Path(state.root) / "security"


def make(state: ClusterState, user: ServerUser) -> None:
    """Make authority, certificates, users and the files of clients.

    Raises:
        LabError: the library for certificates is missing.
    """
    security = Security(spec_of(state).security)
    now = datetime.datetime.now(datetime.UTC)
    authority = _authority(now)
    own, keys = folder(state), Path(state.root) / "keys"
    for each in (own, keys):
        each.mkdir(mode=0o700)
        (each / "ca.pem").write_text(authority.pem)
    _write(own / "ca.key", authority.key_pem)
    for node in state.nodes:
        _issue(authority, keys, node, now)
    brokers = [node.name for node in state.brokers]
    users = [*rights.USERS, *brokers] if security is Security.SASL_SSL else []
    passwords = {name: secrets.token_urlsafe(PASSWORD_BYTES) for name in users}
    _write(own / "users.json", json.dumps(passwords))
    if passwords:
        _write(keys / DECOY_FILE, secrets.token_urlsafe(PASSWORD_BYTES))
    if user.is_other:
        for path in (keys, *keys.iterdir()):
            os.chown(path, user.uid, user.gid)
    for name in rights.USERS:
        if _has_key(security, name):
            key, chain = authority.issue(name, (), now, now + VALID)
            _write(own / f"{name}.key", key)
            _write(own / f"{name}.pem", key + chain)
        for path, text in _files(state, security, name, passwords.get(name, "")).items():
            _write(path, text)


def admit(state: ClusterState, node: NodeState, user: ServerUser) -> None:
    """Give one more server a certificate of the cluster's own authority.

    It is valid for as long as that of the authority, and for `VALID` at most.

    Raises:
        LabError: the authority's certificate has expired, or its files cannot be read.
    """
    from jbodlab.security.authority import Authority

    own, keys = folder(state), Path(state.root) / "keys"
    now = datetime.datetime.now(datetime.UTC)
    try:
        authority = Authority.load((own / "ca.pem").read_bytes(), (own / "ca.key").read_bytes())
        if now > authority.until:
            raise LabError(f"the cluster's authority expired at {authority.until.isoformat()}")
        path = _issue(authority, keys, node, now)
        if user.is_other:
            os.chown(path, user.uid, user.gid)
    except (OSError, ValueError) as error:
        raise LabError(f"{node.name} gets no certificate: {error}") from error


def dismiss(state: ClusterState, node: NodeState) -> None:
    """Remove the key of a server that is no more; harmless where it has none."""
    _key_store(Path(state.root) / "keys", node).unlink(missing_ok=True)


def keys_of(state: ClusterState, node: NodeState) -> RpcKeys:
    """Return by what a server is known to others; raises OSError where it cannot be read."""
    from jbodlab.controller_api.rpc_tls import RpcKeys
    from jbodlab.security.secret import Secret

    keys = Path(state.root) / "keys"
    pem = _key_store(keys, node).read_bytes()
    return RpcKeys(key=Secret(pem), chain=pem, roots=(keys / "ca.pem").read_bytes())


def settings(state: ClusterState, node: NodeState) -> dict[str, str]:
    """Return what the property file of a node says about security."""
    security = Security(spec_of(state).security)
    keys = Path(state.root) / "keys"
    name = node.name
    names = ("CONTROLLER", GRPC) if state.controller.grpc_port else ("CONTROLLER",)
    of_controllers = "".join(f"{each}:SSL," for each in names)
    found = {
        "listener.security.protocol.map": f"{of_controllers}{LISTENER}:{PROTOCOLS[security]}",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(_key_store(keys, node)),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(keys / "ca.pem"),
        "ssl.principal.mapping.rules": NAMES,
        **rights.settings(node.name for node in state.nodes),
    }
    if spec_of(state).runs.is_kafka:
        found["listener.name.controller.ssl.client.auth"] = "required"
    else:
        found |= {
            "jbodlab.broker.principal": "User:broker-{id}",
            "jbodlab.controller.principal": "User:controller-{id}",
            "jbodlab.ssl.reload.interval.ms": RELOAD_MS,
        }
        if node.metrics_port:
            found["jbodlab.metrics.port"] = str(node.metrics_port)
    if node.role != "broker":
        return found
    if security is Security.SASL_SSL and not spec_of(state).runs.is_kafka:
        # The same at all brokers and after each start: a user who is unknown looks like one who is.
        found["jbodlab.scram.decoy.secret"] = (keys / DECOY_FILE).read_text("utf-8")
    prefix = f"listener.name.{LISTENER.lower()}."
    found["inter.broker.listener.name"] = LISTENER
    if security is Security.SASL_SSL:
        password = _passwords(state)[name]
        found |= {
            f"{prefix}sasl.enabled.mechanisms": MECHANISM,
            "sasl.mechanism.inter.broker.protocol": MECHANISM,
            f"{prefix}{MECHANISM.lower()}.sasl.jaas.config": JAAS.format(
                user=name, password=password
            ),
        }
    else:
        # Brokers have a certificate also where clients need none.
        auth = "required" if security is Security.MTLS else "requested"
        found[f"{prefix}ssl.client.auth"] = auth
    return found


def records(state: ClusterState) -> list[Record]:
    """Return the users, and what they may do, that a cluster has from its first start on."""
    from jbodlab.metadata.records.scram import credential_record
    from jbodlab.security.scram import MECHANISMS, salted_password

    mechanism = MECHANISMS[MECHANISM]
    known = Security(spec_of(state).security) is not Security.SSL
    found: list[Record] = [*rights.entries(applications_are_known=known)]
    for name, password in _passwords(state).items():
        salt = secrets.token_bytes(SALT_BYTES)
        salted = salted_password(mechanism, password, salt, ITERATIONS)
        found.append(credential_record(name, mechanism, salted, salt, ITERATIONS))
    return found


def client_files(state: ClusterState, user: str = rights.ALICE) -> dict[str, str]:
    """Return the files of a user, by the client; empty where a cluster is open."""
    if not spec_of(state).security:
        return {}
    return {client: str(folder(state) / f"{user}{end}") for client, end in ENDS.items()}


def client_config(state: ClusterState, client: str, user: str = rights.ALICE) -> dict[str, Any]:
    """Return the settings of a user's file, or of an open cluster.

    Args:
        state: The cluster.
        client: `java`, `librdkafka`, `kafka_python` or `franz_go`.
        user: One of `rights.USERS`; the same for all in an open cluster.

    Raises:
        ValueError: there is no such client, or no such user.
    """
    for noun, name, known in (("client", client, ENDS), ("user", user, rights.USERS)):
        if name not in known:
            raise ValueError(f"expected a {noun} of {', '.join(known)}, got {name!r}")
    if not spec_of(state).security:
        key = {"kafka_python": "bootstrap_servers", "franz_go": "seed_brokers"}.get(client)
        addresses = state.bootstrap.split(",")
        return {key: addresses} if key else {"bootstrap.servers": state.bootstrap}
    text = Path(client_files(state, user)[client]).read_text("utf-8")
    found: dict[str, Any] = READERS[client](text)
    return found


ENDS = {
    "java": ".properties",
    "librdkafka": ".librdkafka.properties",
    "kafka_python": ".kafka-python.json",
    "franz_go": ".franz-go.json",
}


READERS: Mapping[str, Callable[[str], Any]] = {
    "java": properties.parse,
    "librdkafka": lambda text: dict(line.split("=", 1) for line in text.splitlines()),
    "kafka_python": json.loads,
    "franz_go": json.loads,
}


@cache
def client(file: str) -> ClientProperties:
    """Return how the file of a client reaches a cluster.

    Raises:
        FormatError, ConfigError: it cannot be read.
    """
    from jbodlab.cli.command_line import read_properties
    from jbodlab.peers.client_properties import client_properties

    return client_properties(read_properties(Path(file)))


def of_node(node: NodeState) -> ClientSecurity | None:
    """Return how the lab's own client reaches a node; None where that is open."""
    return client(node.client_file).security if node.client_file else None


def librdkafka(client_file: str) -> dict[str, str]:
    """Return what librdkafka needs besides the addresses; empty where a cluster is open."""
    return client(client_file).librdkafka() if client_file else {}


def _has_key(security: Security, user: str) -> bool:
    """Return whether a user shows a certificate; applications do not have to for `ssl`."""
    if security is Security.SSL:
        return user != rights.ALICE
    return security is Security.MTLS


def _passwords(state: ClusterState) -> Mapping[str, str]:
    found: dict[str, str] = json.loads((folder(state) / "users.json").read_text())
    return found


def _files(state: ClusterState, security: Security, user: str, password: str) -> Mapping[Path, str]:
    """Return the texts of a user's files."""
    own = folder(state)
    logs_in, has_key = security is Security.SASL_SSL, _has_key(security, user)
    java = {
        "bootstrap.servers": state.bootstrap,
        "security.protocol": PROTOCOLS[security],
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(own / "ca.pem"),
    }
    rdkafka = {
        "bootstrap.servers": state.bootstrap,
        "security.protocol": PROTOCOLS[security].lower(),
        "ssl.ca.location": str(own / "ca.pem"),
    }
    python: dict[str, Any] = {
        "bootstrap_servers": state.bootstrap.split(","),
        "security_protocol": PROTOCOLS[security],
        "ssl_cafile": str(own / "ca.pem"),
    }
    go: dict[str, Any] = {
        "seed_brokers": state.bootstrap.split(","),
        "tls": {"ca_file": str(own / "ca.pem")},
    }
    if logs_in:
        java |= {
            "sasl.mechanism": MECHANISM,
            "sasl.jaas.config": JAAS.format(user=user, password=password),
        }
        rdkafka |= {
            "sasl.mechanism": MECHANISM,
            "sasl.username": user,
            "sasl.password": password,
        }
        python |= {
            "sasl_mechanism": MECHANISM,
            "sasl_plain_username": user,
            "sasl_plain_password": password,
        }
        go["sasl"] = {"mechanism": MECHANISM, "user": user, "password": password}
    if has_key:
        java |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(own / f"{user}.pem")}
        rdkafka |= {
            "ssl.key.location": str(own / f"{user}.key"),
            "ssl.certificate.location": str(own / f"{user}.pem"),
        }
        python |= {
            "ssl_certfile": str(own / f"{user}.pem"),
            "ssl_keyfile": str(own / f"{user}.key"),
        }
        go["tls"] |= {"cert_file": str(own / f"{user}.pem"), "key_file": str(own / f"{user}.key")}
    texts = {
        "java": properties.render(java),
        # As kcat and others read it: nothing is escaped.
        "librdkafka": "".join(f"{key}={value}\n" for key, value in rdkafka.items()),
        "kafka_python": json.dumps(python, indent=1),
        "franz_go": json.dumps(go, indent=1),
    }
    return {own / f"{user}{end}": texts[client] for client, end in ENDS.items()}


def _issue(authority: Authority, keys: Path, node: NodeState, now: datetime.datetime) -> Path:
    """Write key and certificate of a server; returns the file."""
    until = min(now + VALID, authority.until)
    key, chain = authority.issue(node.name, hosts(node.name, node.host), now, until)
    path = _key_store(keys, node)
    _write(path, key + chain)
    return path


def _key_store(keys: Path, node: NodeState) -> Path:
    return keys / f"{node.name}.pem"


def _write(path: Path, text: str) -> None:
    """Write a file that only its owner may read."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:  # noqa: PTH123 - with a mode
        file.write(text)


def _authority(now: datetime.datetime) -> Authority:
    try:
        from jbodlab.security.authority import Authority
    except ImportError:
        raise LabError(
            "--security takes the library cryptography: pip install 'jbodlab[pkcs12]'"
        ) from None
    return Authority.new("jbodlab CA", now, now + VALID)
