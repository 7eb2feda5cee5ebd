"""A cluster with a listener for each way in which clients are let in."""

from __future__ import annotations

import json
import os
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from joserfc import jwt
from joserfc.jwk import RSAKey

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
OAUTHBEARER = "OAUTHBEARER"
KEY = RSAKey.generate_key(2048, {"kid": "key"})
LISTENERS = {
    "INTERNAL": "SSL",
    "TLS": "SSL",
    "MTLS": "SSL",
    "CLIENT": "SASL_SSL",
    "LOGIN": "SASL_PLAINTEXT",
}
PROTOCOLS = ",".join(
    f"{name}:{protocol}"
    for name, protocol in {"CONTROLLER": "SSL", "PLAINTEXT": "PLAINTEXT", **LISTENERS}.items()
)
WAYS = ("ssl", "mtls", *USERS)
"""How a client may be let in, other than in plain text."""


class Secured:
    """Brokers reach each other and the controller by certificates, clients log in or have one."""

    def __init__(self, root: Path) -> None:
        self.ca = Authority()
        replicated = {"default.replication.factor": "3"}
        self.cluster = made(root, brokers=3, dirs=2, settings=replicated, variables=AT_DEBUG_LEVEL)
        self.folder = root / "keys"
        self.folder.mkdir(mode=0o755)
        self.ca_file = self.ca.write(self.folder / "ca.pem")
        keys_of_tokens = self.folder / "keys.json"
        keys_of_tokens.write_text(json.dumps({"keys": [KEY.as_dict(private=False)]}))
        self.ports = {name: self.cluster.more_ports(3) for name in LISTENERS}
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
                "group.initial.rebalance.delay.ms": "0",
                "sasl.enabled.mechanisms": ",".join((*USERS, OAUTHBEARER)),
                "sasl.oauthbearer.jwks.endpoint.url": keys_of_tokens.as_uri(),
                "sasl.oauthbearer.expected.issuer": "issuer",
                "sasl.oauthbearer.expected.audience": "kafka",
                "listener.name.client.plain.sasl.jaas.config": JAAS,
                "listener.name.login.plain.sasl.jaas.config": JAAS,
                "listener.name.internal.ssl.client.auth": "required",
                "listener.name.mtls.ssl.client.auth": "required",
                **self.keys(f"broker-{broker.id}"),
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

    def logged_in(self, mechanism: str, listener: str = "CLIENT") -> dict[str, Any]:
        """Settings of librdkafka with a login, over TLS where the listener does."""
        config = {
            "bootstrap.servers": self.addresses(listener),
            "security.protocol": LISTENERS[listener],
            "sasl.mechanism": mechanism,
        }
        if listener == "CLIENT":
            config["ssl.ca.location"] = str(self.ca_file)
        if mechanism != OAUTHBEARER:
            config["sasl.username"], config["sasl.password"] = USERS[mechanism]
        return config

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


def token(lifetime_s: int = 3600) -> tuple[str, float]:
    """Issue a token; return it and when it expires."""
    now = int(time.time())
    claims = {"iss": "issuer", "aud": "kafka", "sub": "dora", "iat": now, "exp": now + lifetime_s}
    return jwt.encode({"alg": "RS256", "kid": "key"}, claims, KEY), now + lifetime_s


def set_credentials(cluster: Cluster) -> None:
    """Make the users of SCRAM."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for mechanism, (user, password) in USERS.items():
        if mechanism != "PLAIN":
            info = ScramCredentialInfo(getattr(ScramMechanism, mechanism.replace("-", "_")), 4096)
            upsertion = UserScramCredentialUpsertion(user, info, password.encode())
            for result in admin.alter_user_scram_credentials([upsertion]).values():
                result.result(DEADLINE_S)


@contextmanager
def served() -> Iterator[Secured]:
    """Start such a cluster in a folder of its own, with the users of SCRAM."""
    root = make_folder()
    secured = Secured(root / "cluster")
    try:
        secured.cluster.start()
        set_credentials(secured.cluster)
        yield secured
    finally:
        secured.cluster.close()
        remove_folder(root)
