"""Values that stand outside of a property file, in the files of servers and of clients."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from broker.config import load
from jbodlab.cli.command_line import read_properties
from jbodlab.config.value_sources import BrokerLayers, describe_broker
from jbodlab.peers.client_properties import client_properties
from jbodlab.vocabulary import errors, properties
from jbodlab.vocabulary.errors import ConfigError

PACKAGE = "org.apache.kafka.common.config.provider"
FILE = {
    "config.providers": "file",
    "config.providers.file.class": f"{PACKAGE}.FileConfigProvider",
}
FOLDER = {
    "config.providers": " dir , env",
    "config.providers.dir.class": f"{PACKAGE}.DirectoryConfigProvider",
    "config.providers.env.class": f"{PACKAGE}.EnvVarConfigProvider",
}
BROKER = {
    "process.roles": "broker",
    "node.id": "2",
    "controller.quorum.voters": "1@localhost:9093",
    "controller.listener.names": "CONTROLLER",
    "listeners": "INTERNAL://localhost:9092,CLIENT://localhost:9094",
    "listener.security.protocol.map": (
        "CONTROLLER:PLAINTEXT,INTERNAL:PLAINTEXT,CLIENT:SASL_PLAINTEXT"
    ),
    "inter.broker.listener.name": "INTERNAL",
    "listener.name.client.sasl.enabled.mechanisms": "PLAIN",
    "log.dirs": "/d1",
}
JAAS = "listener.name.client.plain.sasl.jaas.config"
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"


@pytest.fixture(autouse=True)
def _nothing_is_provided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors, "_PROVIDED", {})


def read(folder: Path, settings: dict[str, str]) -> dict[str, str]:
    file = folder / "node.properties"
    file.write_text(properties.render(settings))
    return read_properties(file)


def test_a_password_of_a_file_is_that_of_the_user(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    secrets = tmp_path / "secrets.properties"
    secrets.write_text("bob=geheim\nrack=keller\n")
    file = tmp_path / "broker.properties"
    file.write_text(
        properties.render(
            {
                **BROKER,
                **FILE,
                JAAS: f'{MODULE} user_bob="${{file:{secrets}:bob}}";',
                "broker.rack": f"${{file:{secrets}:rack}}",
            }
        )
    )

    config = load(file)

    assert config.security["CLIENT"].passwords["bob"].reveal() == "geheim"
    assert config.broker_rack == "keller"
    assert "geheim" not in caplog.text
    assert "config.providers" not in caplog.text
    layers = BrokerLayers(broker={}, all_brokers={}, static=config.values.properties)
    (described,) = (each for each in describe_broker(layers) if each.name == "broker.rack")
    assert (described.value, described.is_sensitive) == (None, True)
    assert [each.value for each in described.synonyms] == [None]


def test_folders_and_variables_are_read_in_the_file_of_a_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "password").write_text("ge:heim")
    monkeypatch.setenv("KAFKA_USER", "bob")
    found = read(
        tmp_path,
        {
            **FOLDER,
            "config.providers.env.param.allowlist.pattern": r"KAFKA_\p{Upper}+",
            "config.providers.dir.param.allowed.paths": f"/run,{tmp_path}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "${env:KAFKA_USER}",
            "sasl.password": f"${{dir:{tmp_path}/./x/..:password}}",
        },
    )

    client = client_properties(found)

    assert (client.user, client.password.reveal()) == ("bob", "ge:heim")
    assert dict(client.others) == {}


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"a": "${file:/x:k}"}, "'${file:/x:k}' for configuration a: config.providers has no file"),
        ({**FILE, "a": "${vault:k}"}, "configuration a: config.providers has no vault"),
        ({**FILE, "a": "${file:/nowhere:k}"}, "configuration a: No such file or directory"),
        ({**FILE, "a": "${file:TMP/s:k}"}, "configuration a: there is no such value"),
        ({**FILE, "a": "x${file:TMP/s:b}${file:TMP/s:}y"}, "configuration a: there is no such"),
        ({**FILE, "a": "${file:k}"}, "for configuration a: "),
        ({**FILE, "a": "${file:TMP:k}"}, "configuration a: Is a directory"),
        ({**FILE, "a": "${file:TMP/bad:k}"}, "configuration a: the file is not UTF-8"),
        (
            {**FILE, "config.providers.file.param.allowed.paths": "/run", "a": "${file:TMP/s:b}"},
            "is not below allowed.paths",
        ),
        (
            {
                **FILE,
                "config.providers.file.param.allowed.paths": "TMP/sub",
                "a": "${file:TMP/sub/../s:b}",
            },
            "is not below allowed.paths",
        ),
        (
            {**FILE, "config.providers.file.param.allowed.paths": "run"},
            "configuration config.providers.file.param.allowed.paths: expected an absolute path",
        ),
        (
            {**FILE, "config.providers.file.param.allowed.path": "/run"},
            "configuration config.providers.file.param.allowed.path: ",
        ),
        ({**FOLDER, "a": "${dir:TMP:../s}"}, "configuration a: '../s' is no name of a file"),
        ({**FOLDER, "a": "${dir:TMP:none}"}, "configuration a: No such file or directory"),
        ({**FOLDER, "a": "${env:JBODLAB_NONE}"}, "configuration a: there is no such value"),
        ({**FOLDER, "a": "${env:x:HOME}"}, "configuration a: a variable of the environment has no"),
        (
            {**FOLDER, "config.providers.env.param.allowlist.pattern": "K.*", "a": "${env:HOME}"},
            "configuration a: allowlist.pattern does not allow it",
        ),
        (
            {**FOLDER, "config.providers.env.param.allowlist.pattern": r"\p{L}"},
            "configuration config.providers.env.param.allowlist.pattern: ",
        ),
        ({"config.providers": "x"}, "'x' for configuration config.providers: config.providers.x."),
        (
            {"config.providers": "x", "config.providers.x.class": "com.example.Vault"},
            "'com.example.Vault' for configuration config.providers.x.class: expected one of ",
        ),
    ],
)
def test_what_cannot_be_looked_up_ends_the_program_with_the_name_of_the_setting(
    settings: dict[str, str], line: str, tmp_path: Path
) -> None:
    (tmp_path / "s").write_text("b=geheim")
    (tmp_path / "sub").mkdir()
    (tmp_path / "bad").write_bytes(b"k=\xff")
    given = {name: value.replace("TMP", str(tmp_path)) for name, value in settings.items()}

    with pytest.raises(ConfigError) as raised:
        read(tmp_path, given)

    assert line in str(raised.value)
    assert "geheim" not in str(raised.value)


@pytest.mark.parametrize(
    "key",
    [
        *("num.io.threads", "listeners", "log.dirs", JAAS),
        *("listener.security.protocol.map", "ssl.principal.mapping.rules", "queued.max.requests"),
        *("connections.max.reauth.ms", "listener.name.client.connections.max.reauth.ms"),
        *("listener.name.client.sasl.enabled.mechanisms", "authorizer.class.name"),
    ],
)
def test_a_provided_value_is_in_no_error(key: str, tmp_path: Path) -> None:
    (tmp_path / "s").write_text("b=RULE:(ge\\heim")
    file = tmp_path / "node.properties"
    others = {JAAS: f'{MODULE} user_bob="pw";', "ssl.keystore.location": "/x"}
    given = {**BROKER, **others, **FILE, key: f"${{file:{tmp_path}/s:b}}"}
    if key == "ssl.principal.mapping.rules":
        given["listener.security.protocol.map"] = BROKER["listener.security.protocol.map"].replace(
            "INTERNAL:PLAINTEXT", "INTERNAL:SSL"
        )
    file.write_text(properties.render(given))

    with pytest.raises(ConfigError) as raised:
        load(file)

    assert "heim" not in str(raised.value)
    assert "heim" not in str(raised.value.value)


def test_text_that_looks_like_no_reference_stays(tmp_path: Path) -> None:
    given = {"a": "${name}", "b": "$1", "c": "{x:y}", "d": "${", "e": "a$b:c"}
    assert read(tmp_path, given) == given
