"""A cluster on which nothing travels unencrypted but what the harness itself asks."""

from __future__ import annotations

import json
import os
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar

from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from jbodlab.security.jaas import PLAIN_MODULE, SCRAM_MODULE
from jbodlab.vocabulary.properties import render
from lab.machine.folders import make_folder, remove_folder
from tests.certificates import Authority, Issued
from tests.cluster.harness import Cluster, made
from tests.cluster.lab_cluster import set_property
from tests.secrets import AT_DEBUG_LEVEL, secret

DEADLINE_S = 20.0
USERS = {
    "PLAIN": ("bob", secret("bob-secret")),
    "SCRAM-SHA-256": ("alice", secret("alice-secret")),
    "SCRAM-SHA-512": ("carol", secret("carol-secret")),
}
METRICS_TOKEN = secret("token-of-metrics")
JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_bob="bob-secret";'
JAVA_MODULES = {"PLAIN": PLAIN_MODULE, "SCRAM": SCRAM_MODULE}
PROTOCOLS = "CONTROLLER:SSL,PLAINTEXT:PLAINTEXT,INTERNAL:SSL,TLS:SSL,MTLS:SSL,CLIENT:SASL_SSL"
WAYS = ("ssl", "mtls", *USERS)
"""How a client may be let in, other than in plain text."""


def _at_debug_level(root: Path, **options: Any) -> Cluster:
    return made(root, variables=AT_DEBUG_LEVEL, **options)


class Secured:
    """Brokers reach each other and the controller by certificates, clients log in or have one."""

    def __init__(
        self, root: Path, make: Callable[..., Cluster] = _at_debug_level, **settings: str
    ) -> None:
        self.ca = Authority()
        self.cluster = make(root, brokers=3, dirs=2, settings={"default.replication.factor": "3"})
        self.folder = root / "keys"
        self.folder.mkdir(mode=0o755)
        self.ca_file = self.ca.write(self.folder / "ca.pem")
        self.ports: dict[str, list[int]] = {}
        for listener in ("INTERNAL", "TLS", "MTLS", "CLIENT"):
            self.ports[listener] = self.cluster.more_ports(3)
        (self.metrics_port,) = self.cluster.more_ports(1)
        set_property(self.cluster.brokers[0], "jbodlab.metrics.port", str(self.metrics_port))
        set_property(self.cluster.brokers[0], "jbodlab.metrics.token", METRICS_TOKEN)
        for number, broker in enumerate(self.cluster.brokers):
            both = ",".join(
                [f"PLAINTEXT://{broker.address}"]
                + [f"{name}://127.0.0.1:{ports[number]}" for name, ports in self.ports.items()]
            )
            for key, value in {
                "listeners": both,
                "advertised.listeners": both,
                "inter.broker.listener.name": "INTERNAL",
                "sasl.enabled.mechanisms": ",".join(USERS),
                "listener.name.client.plain.sasl.jaas.config": JAAS,
                # Apache Kafka wants one of each mechanism.
                **{
                    f"listener.name.client.{each.lower()}.sasl.jaas.config": (
                        f"{SCRAM_MODULE} required;"
                    )
                    for each in USERS
                    if each != "PLAIN"
                },
                "listener.name.internal.ssl.client.auth": "required",
                "listener.name.mtls.ssl.client.auth": "required",
                **self.keys(f"broker-{broker.id}"),
                **settings,
            }.items():
                set_property(broker, key, value)
        for key, value in self.keys("controller").items():
            set_property(self.cluster.controller, key, value)

    def metrics(self) -> str:
        """Return what the first broker tells who shows the token."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.metrics_port}/metrics",
            headers={"Authorization": f"Bearer {METRICS_TOKEN}"},
        )
        with urllib.request.urlopen(request, timeout=DEADLINE_S) as answer:
            text: str = answer.read().decode()
            return text

    def keys(self, name: str) -> dict[str, str]:
        """Write a node's key store, and return its settings."""
        self.write(name, self.ca.issue(name))
        return {
            "listener.security.protocol.map": PROTOCOLS,
            "jbodlab.ssl.reload.interval.ms": "200",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.folder / f"{name}.pem"),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.ca_file),
        }

    def write(self, name: str, issued: Issued) -> Path:
        """Write key and certificate so that the servers may read them."""
        path = self.folder / f"{name}.tmp"
        issued.write(path)
        if self.cluster.user.is_other:
            os.chown(path, self.cluster.user.uid, self.cluster.user.gid)
        return path.rename(self.folder / f"{name}.pem")

    def addresses(self, listener: str) -> str:
        """Return where clients begin."""
        return ",".join(f"127.0.0.1:{port}" for port in self.ports[listener])

    def logged_in(self, mechanism: str) -> dict[str, Any]:
        """Settings of librdkafka with a login over TLS."""
        user, password = USERS[mechanism]
        return {
            "bootstrap.servers": self.addresses("CLIENT"),
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.ca_file),
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": password,
        }

    def with_certificate(self, user: str = "dora") -> dict[str, Any]:
        """Settings of librdkafka with a certificate in place of a login."""
        issued = self.ca.issue(user)
        key = self.folder / f"{user}.key"
        key.write_text(issued.private_key())
        chain = self.folder / f"{user}.chain"
        chain.write_text(issued.chain)
        return {
            "bootstrap.servers": self.addresses("MTLS"),
            "security.protocol": "SSL",
            "ssl.ca.location": str(self.ca_file),
            "ssl.key.location": str(key),
            "ssl.certificate.location": str(chain),
        }

    def told(self, way: str) -> list[str]:
        """Return words that, before the command of a program of a client, let it in that way."""
        if way == "mtls":
            config = self.with_certificate()
        elif way == "ssl":
            config = {"security.protocol": "SSL", "ssl.ca.location": str(self.ca_file)}
        else:
            config = self.logged_in(way)
        names = {
            "protocol": "security.protocol",
            "mechanism": "sasl.mechanism",
            "user": "sasl.username",
            "password": "sasl.password",
            "ca": "ssl.ca.location",
            "certificate": "ssl.certificate.location",
            "key": "ssl.key.location",
        }
        found = {name: config[key] for name, key in names.items() if key in config}
        file = self.folder / f"{way}.json"
        file.write_text(json.dumps(found))
        store = self.folder / "java.pem"
        java = {
            "security.protocol": found["protocol"],
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": found["ca"],
        }
        if "key" in found:
            store.write_text(
                Path(found["key"]).read_text() + Path(found["certificate"]).read_text()
            )
            java |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(store)}
        if "mechanism" in found:
            module = JAVA_MODULES[found["mechanism"].split("-")[0]]
            login = f'username="{found["user"]}" password="{found["password"]}"'
            java |= {
                "sasl.mechanism": found["mechanism"],
                "sasl.jaas.config": f"{module} required {login};",
            }
        of_java = self.folder / f"{way}.properties"
        of_java.write_text(render(java))
        return ["env", f"SECURED={file}", f"SECURED_PROPERTIES={of_java}"]

    def door(self, way: str) -> str:
        """Return where clients begin that are let in that way."""
        return self.addresses({"ssl": "TLS", "mtls": "MTLS"}.get(way, "CLIENT"))


def listens_for_logins(cluster: Cluster, **settings: str) -> list[str]:
    """Give each broker a listener in plain text on which clients log in; returns where they are."""
    addresses = [f"127.0.0.1:{port}" for port in cluster.more_ports(len(cluster.brokers))]
    for broker, address in zip(cluster.brokers, addresses, strict=True):
        both = f"PLAINTEXT://{broker.address},CLIENT://{address}"
        for key, value in {
            "listeners": both,
            "advertised.listeners": both,
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.security.protocol.map": (
                "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,CLIENT:SASL_PLAINTEXT"
            ),
            **settings,
        }.items():
            set_property(broker, key, value)
    return addresses


def set_credentials(cluster: Cluster) -> None:
    """Make the users of SCRAM."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for mechanism, (user, password) in USERS.items():
        if mechanism != "PLAIN":
            info = ScramCredentialInfo(getattr(ScramMechanism, mechanism.replace("-", "_")), 4096)
            upsertion = UserScramCredentialUpsertion(user, info, password.encode())
            for result in admin.alter_user_scram_credentials([upsertion]).values():
                result.result(DEADLINE_S)


class HasCluster(Protocol):
    """The product of a fixture."""

    cluster: Cluster


H = TypeVar("H", bound=HasCluster)


@contextmanager
def served(make: Callable[[Path], H], *, users: bool = False) -> Iterator[H]:
    """Start a cluster in a folder of its own, with the users of SCRAM if asked to."""
    root = make_folder()
    made_cluster = make(root / "cluster")
    try:
        made_cluster.cluster.start()
        if users:
            set_credentials(made_cluster.cluster)
        yield made_cluster
    finally:
        made_cluster.cluster.close()
        remove_folder(root)
