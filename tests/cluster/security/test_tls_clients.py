"""Clients over TLS: unchanged libraries, certificates that change, and a disk that dies."""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
import struct
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from jbodlab.config.tls_keys import client_tls
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.peers.client import KafkaConnection
from jbodlab.peers.client_security import ClientSecurity
from jbodlab.security import tls_files
from jbodlab.vocabulary.properties import render
from lab.cluster import wait_for
from tests import secrets
from tests.broker.api.calls import fetch
from tests.certificates import DAY, Authority, now
from tests.cluster.lab_cluster import run_to_end
from tests.cluster.round_trips import all_read, by_kafka_python, fails, sent_and_received
from tests.cluster.secured import DEADLINE_S, USERS, Secured, served
from tests.command_lines import run

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("tls-clients")]


@pytest.fixture(scope="module")
def secured() -> Iterator[Secured]:
    with served(Secured, users=True) as secured:
        yield secured


@pytest.mark.parametrize("mechanism", USERS)
def test_librdkafka_logs_in_over_tls_by_each_mechanism(secured: Secured, mechanism: str) -> None:
    sent_and_received(secured.logged_in(mechanism), f"rd-{mechanism}")


def test_librdkafka_is_known_by_its_certificate(secured: Secured) -> None:
    sent_and_received(secured.with_certificate(), "rd-mtls")


def test_g02_a_broker_follows_by_its_own_certificate_only(secured: Secured) -> None:
    own, other, _ = (broker.id for broker in secured.cluster.brokers)
    settings = client_tls(secured.keys(f"broker-{own}"))

    async def code(replica_id: int) -> int:
        context = tls_files.client_context(settings, tls_files.read(settings, now()))
        connection = await KafkaConnection.open(
            "127.0.0.1",
            secured.ports["INTERNAL"][2],
            client_id="broker",
            timeout_s=DEADLINE_S,
            security=ClientSecurity(tls=lambda: context, random_bytes=os.urandom),
        )
        request = fetch(12, ("absent", [0]), replica_id=replica_id)
        response = await connection.call(ApiKey.FETCH, 12, request)
        connection.close()
        return int(response.responses[0].partitions[0].error_code)

    assert asyncio.run(code(other)) == 29
    assert asyncio.run(code(own)) == 3


@pytest.mark.parametrize("mechanism", [*USERS, ""])
def test_kafka_python_speaks_tls_with_a_login_or_a_certificate(
    secured: Secured, mechanism: str
) -> None:
    config: dict[str, Any] = {"ssl_cafile": str(secured.ca_file)}
    if mechanism:
        user, password = USERS[mechanism]
        config |= {
            "bootstrap_servers": secured.addresses("CLIENT"),
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": mechanism,
            "sasl_plain_username": user,
            "sasl_plain_password": password,
        }
    else:
        found = secured.with_certificate("emil")
        config |= {
            "bootstrap_servers": found["bootstrap.servers"],
            "security_protocol": "SSL",
            "ssl_certfile": found["ssl.certificate.location"],
            "ssl_keyfile": found["ssl.key.location"],
        }
    by_kafka_python(config, f"py-{mechanism}")


def openssl(secured: Secured, *options: str, listener: str = "CLIENT") -> str:
    words = ["openssl", "s_client", "-connect", secured.addresses(listener).split(",")[0]]
    words += ["-CAfile", str(secured.ca_file), "-verify_return_error"]
    done = subprocess.run(
        [*words, *options], input=b"Q\n", capture_output=True, timeout=DEADLINE_S, check=False
    )
    return (done.stdout + done.stderr).decode(errors="replace")


def test_openssl_verifies_the_broker_and_gets_no_old_version(secured: Secured) -> None:
    shown = openssl(secured, "-verify_ip", "127.0.0.1", "-brief")
    assert "Verification: OK" in shown
    assert "Protocol version: TLSv1.3" in shown
    assert "TLSv1.2" in openssl(secured, "-tls1_2", "-brief")
    old = openssl(secured, "-tls1_1", "-cipher", "ALL:@SECLEVEL=0")
    assert "alert protocol version" in old
    assert "No client certificate CA names sent" in openssl(secured)
    again = openssl(secured, "-reconnect", "-tls1_3")
    assert again.count("drop connection and then reconnect") == 5
    assert "Reused" not in again


@pytest.mark.parametrize(
    ("version", "command", "is_served"),
    [("-tls1_2", b"R\n", False), ("-tls1_3", b"k\n", True), ("-tls1_3", b"K\n", True)],
)
def test_t18_keys_may_be_updated_and_nothing_is_negotiated_again(
    secured: Secured, version: str, command: bytes, is_served: bool
) -> None:
    words = ["openssl", "s_client", "-connect", secured.addresses("CLIENT").split(",")[0], version]
    client = subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert client.stdin is not None
    assert client.stdout is not None
    try:
        while b"Verify return code" not in client.stdout.readline():
            pass
        rest = b""
        with contextlib.suppress(BrokenPipeError):
            # Then ApiVersions 0, whose bytes are none of the program's commands.
            for words_sent in (command, struct.pack(">ihhih", 10, 18, 0, 1, 0)):
                client.stdin.write(words_sent)
                client.stdin.flush()
                time.sleep(0.5)
            client.stdin.close()
        rest = client.stdout.read()
    finally:
        client.kill()
        client.wait()
        client.stdout.close()
        with contextlib.suppress(BrokenPipeError):
            client.stdin.close()
    assert (b"\x00\x00\x00\x01\x00\x00" in rest) == is_served


def test_a_client_that_does_not_know_the_authority_names_the_reason(secured: Secured) -> None:
    other = Authority("another CA").write(secured.folder / "other.pem")
    fails({**secured.logged_in("PLAIN"), "ssl.ca.location": str(other)}, "certificate")


def test_no_acknowledged_record_is_lost_over_tls_when_a_disk_dies(secured: Secured) -> None:
    topic = "dying"
    producer = Producer(
        {**secured.logged_in("SCRAM-SHA-512"), "acks": "all", "enable.idempotence": True}
    )
    acknowledged: list[int] = []
    errors: list[Any] = []

    def told(number: int, error: Any) -> None:
        (errors if error else acknowledged).append(error or number)

    producer.produce(topic, b"first", partition=0)
    assert producer.flush(DEADLINE_S) == 0
    leader = secured.cluster.leader(topic, 0)
    directory = leader.log_dir_of(topic, 0)
    with contextlib.ExitStack() as stack:
        for number in range(2000):
            if number == 1000:
                stack.enter_context(directory.fails("permission"))
            producer.produce(
                topic,
                b"%d" % number,
                partition=0,
                on_delivery=lambda error, _, number=number: told(number, error),
            )
            producer.poll(0.001)
        assert producer.flush(DEADLINE_S) == 0
        assert secured.cluster.leader(topic, 0) is not leader
    assert not errors
    assert sorted(acknowledged) == list(range(2000))

    values = [b"first", *(b"%d" % number for number in range(2000))]
    all_read(secured.with_certificate(), topic, values)


WRONG = "wrong-secret"
SCRAM_OF = (
    "org.apache.kafka.common.security.scram.ScramLoginModule required "
    'username="{user}" password="{password}";'
)
JAVA = {
    "SASL_SSL": (
        "CLIENT",
        {
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": SCRAM_OF.format(user="carol", password="carol-secret"),
        },
    ),
    "SSL": ("MTLS", {}),
}


@pytest.mark.parametrize("protocol", JAVA)
def test_commands_take_the_property_file_of_a_java_client(secured: Secured, protocol: str) -> None:
    listener, properties = JAVA[protocol]
    store = secured.ca.issue("fred").write(secured.folder / "fred.pem")
    file = secured.folder / f"{protocol}.properties"
    known = {
        "security.protocol": protocol,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(secured.ca_file),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(store),
        **properties,
    }
    file.write_text(render(known))
    there = ["--bootstrap-server", secured.addresses(listener), "--command-config", str(file)]
    topic = f"commands-{protocol}"

    def done(*words: str, text: str = "") -> str:
        found = run([*words, *there], text)
        assert found.code == 0, found
        return found.out

    done("topics", "create", topic, "--partitions", "1")
    done("records", "produce", topic, text="one\ntwo\n")
    consumed = done("records", "consume", topic, "--from", "beginning", "--max", "2")
    assert consumed.splitlines() == ["one", "two"]
    assert topic in done("topics", "list")
    assert "ONLINE" in done("dirs", "list")
    done("what-if", "--output", "json")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ssl.truststore.location": "other"}, "(see ssl.truststore.location)"),
        (
            {"sasl.jaas.config": SCRAM_OF.format(user="carol", password=WRONG)},
            "invalid credentials with SASL mechanism SCRAM-SHA-512 (user carol, SCRAM-SHA-512)",
        ),
    ],
)
def test_a_command_that_is_refused_names_the_property_that_decides(
    secured: Secured, change: dict[str, str], message: str
) -> None:
    other = Authority("another CA").write(secured.folder / "another.pem")
    known = {
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(secured.ca_file),
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": SCRAM_OF.format(user="carol", password="carol-secret"),
        **{key: str(other) if value == "other" else value for key, value in change.items()},
    }
    file = secured.folder / "refused.properties"
    file.write_text(render(known))
    first = secured.addresses("CLIENT").split(",")[0]
    for words in (["topics", "list"], ["records", "consume", "x", "--max", "1"]):
        found = run([*words, "--bootstrap-server", first, "--command-config", str(file)])
        assert found.code == 1
        assert WRONG not in found.err
        assert message in found.err
        assert len(found.err.splitlines()) == 1


def test_a_new_certificate_is_shown_without_a_restart(secured: Secured) -> None:
    broker = secured.cluster.brokers[0]
    producer = Producer(secured.with_certificate())
    producer.produce("renewed", b"before", partition=0)
    assert producer.flush(DEADLINE_S) == 0
    renewed = secured.ca.issue(f"broker-{broker.id}", valid_to=20 * DAY)
    serial = f"{renewed.certificate.serial_number:X}"

    def shown() -> bool:
        words = ["openssl", "s_client", "-connect", secured.addresses("CLIENT").split(",")[0]]
        got = subprocess.run(words, input=b"", capture_output=True, check=False, timeout=10)
        serials = subprocess.run(
            ["openssl", "x509", "-noout", "-serial"],
            input=got.stdout,
            capture_output=True,
            check=True,
        )
        return serial in serials.stdout.decode()

    assert not shown()
    secured.write(f"broker-{broker.id}", renewed)
    wait_for("the new certificate", shown, DEADLINE_S)
    producer.produce("renewed", b"after", partition=0)
    assert producer.flush(DEADLINE_S) == 0


def test_a_store_may_be_changed_by_a_setting_and_a_secret_may_not(secured: Secured) -> None:
    broker = secured.cluster.brokers[1]
    renewed = secured.ca.issue(f"broker-{broker.id}", valid_to=25 * DAY)
    path = secured.write("elsewhere", renewed)
    admin = secured.cluster.admin()

    def alter(name: str, value: str) -> None:
        entry = ConfigEntry(
            f"listener.name.client.{name}", value, incremental_operation=AlterConfigOpType.SET
        )
        resource = ConfigResource(ResourceType.BROKER, str(broker.id), incremental_configs=[entry])
        for result in admin.incremental_alter_configs([resource]).values():
            result.result(DEADLINE_S)

    with pytest.raises(KafkaException, match="Cannot update these configs dynamically"):
        alter("ssl.keystore.key", renewed.private_key())
    alter("ssl.keystore.location", str(path))

    host, port = secured.addresses("CLIENT").split(",")[1].split(":")
    wait_for(
        "the certificate of the other store",
        lambda: ssl.get_server_certificate((host, int(port))).strip() == renewed.chain.strip(),
        DEADLINE_S,
    )
    described = admin.describe_configs([ConfigResource(ResourceType.BROKER, str(broker.id))])
    for result in described.values():
        values = [str(each.value) for each in result.result(DEADLINE_S).values()]
        assert str(path) in values
        assert not any("secret" in each or "PRIVATE" in each for each in values)


def test_t21_a_broker_with_an_expired_certificate_does_not_start(secured: Secured) -> None:
    broker = secured.cluster.brokers[2]
    name = f"broker-{broker.id}"
    broker.stop()
    secured.write(name, secured.ca.issue(name, valid_from=-3 * DAY, valid_to=-DAY))
    try:
        code, line = run_to_end(broker)
        assert code == 1
        assert "ssl.keystore.location: its certificate has expired at" in line
    finally:
        secured.write(name, secured.ca.issue(name))
        broker.start()
    secured.cluster.wait_served()


def test_logins_and_handshakes_are_counted(secured: Secured) -> None:
    found = secured.metrics()

    def samples(name: str) -> dict[str, float]:
        lines = (line for line in found.splitlines() if line.startswith(f"jbodlab_{name}{{"))
        return {line.partition("{")[2].partition("}")[0]: float(line.split()[-1]) for line in lines}

    logins = samples("authentications_total")
    for mechanism in USERS:
        assert logins[f'listener="CLIENT",mechanism="{mechanism}",result="success"'] > 0
    assert samples("tls_handshakes_total")['listener="MTLS"'] > 0
    assert samples("tls_handshake_failures_total")
    states = samples("listener_connections")
    assert states['listener="INTERNAL",protocol="SSL",state="open"'] > 0
    assert states['listener="CLIENT",protocol="SASL_SSL",state="unauthenticated"'] == 0


def test_o01_no_secrets(secured: Secured) -> None:
    """Logs, metrics and what tools print of the files."""
    secured.cluster.hide_credentials()
    secured.cluster.check_logs()
    outputs = [node.output() for node in secured.cluster.nodes.values()]
    assert all("listening" in each or "serves brokers" in each for each in outputs)
    assert not any("PRIVATE KEY" in each for each in outputs)
    secrets.check("the metrics", [secured.metrics()])
    log = secured.cluster.controller.metadata_dir / "__cluster_metadata-0"
    for file in sorted(log.glob("*.log")):
        done = run(["storage", "dump", "--cluster-metadata-decoder", str(file)])
        assert "USER_SCRAM_CREDENTIAL_RECORD" in done.out
        secrets.check("the dump", [done.out, done.err])
