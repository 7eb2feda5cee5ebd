"""TLS of brokers as tools, commands and others see it, and certificates that change."""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
import struct
import subprocess
import time

import pytest
from confluent_kafka import KafkaException
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
from tests.cluster.secured import DEADLINE_S, Secured
from tests.command_lines import run

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("secured")]


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


def test_o01_no_secrets(secured: Secured) -> None:
    """Logs, settings, metrics and what tools print of the files."""
    secured.cluster.hide_credentials()
    secured.cluster.check_logs()
    outputs = [node.output() for node in secured.cluster.nodes.values()]
    assert all("listening" in each or "serves brokers" in each for each in outputs)
    assert not any("PRIVATE KEY" in each for each in outputs)
    secrets.check("the metrics", [secured.metrics()])
    described = secured.cluster.admin().describe_configs([ConfigResource("BROKER", "1")])
    for result in described.values():
        secrets.check("settings", [str(each.value) for each in result.result(DEADLINE_S).values()])
    log = secured.cluster.controller.metadata_dir / "__cluster_metadata-0"
    for file in sorted(log.glob("*.log")):
        done = run(["storage", "dump", "--cluster-metadata-decoder", str(file)])
        assert "USER_SCRAM_CREDENTIAL_RECORD" in done.out
        secrets.check("the dump", [done.out, done.err])
