"""The manifest for Kubernetes: its schema, its references, and the files that its pods make."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from broker.config import from_properties
from controller.config import controller_config
from jbodlab.vocabulary import properties
from tests.config.documents import ROOT

OBJECTS: list[dict[str, Any]] = list(
    yaml.safe_load_all((ROOT / "docker" / "kubernetes.yaml").read_text())
)


def of_kind(kind: str) -> dict[str, dict[str, Any]]:
    return {one["metadata"]["name"]: one for one in OBJECTS if one["kind"] == kind}


SETS = of_kind("StatefulSet")
FILES = of_kind("ConfigMap")["jbodlab"]["data"]


@pytest.mark.parametrize("one", OBJECTS, ids=lambda one: f"{one['kind']}-{one['metadata']['name']}")
def test_each_object_has_the_form_that_kubernetes_gives_it(one: dict[str, Any]) -> None:
    validating = pytest.importorskip("kubernetes_validate", reason="no schemas of Kubernetes here")

    validating.validate(one, "1.37", strict=True)


@pytest.mark.parametrize("name", SETS)
def test_what_an_object_names_is_there(name: str) -> None:
    spec = SETS[name]["spec"]
    pod = spec["template"]["spec"]
    labels = spec["template"]["metadata"]["labels"]
    (container,) = pod["containers"]

    assert spec["selector"]["matchLabels"].items() <= labels.items()
    service = of_kind("Service")[spec["serviceName"]]["spec"]
    assert service["selector"].items() <= labels.items()
    named = {(one["name"], one["port"]) for one in service["ports"]}
    assert named == {(one["name"], one["containerPort"]) for one in container["ports"]}
    for volume in pod["volumes"]:
        assert "configMap" not in volume or volume["configMap"]["name"] in of_kind("ConfigMap")
    volumes = [one["name"] for one in pod["volumes"]]
    claimed = [one["metadata"]["name"] for one in spec["volumeClaimTemplates"]]
    mounts = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}
    assert sorted(mounts) == sorted(volumes + claimed)
    assert {
        Path(word).name for word in container["command"] if word.startswith(mounts["settings"])
    } <= set(FILES)


def started(name: str, number: int, folder: Path) -> tuple[Path, str]:
    """Run a pod's script with programs that only tell; returns its file and their words."""
    (folder / "etc").mkdir()
    for file, text in FILES.items():
        (folder / "etc" / file).write_text(text)
    for each in ("bin", "run"):
        (folder / each).mkdir()
    for each in ("jbod-storage", "jbod-controller", "jbod-broker"):
        (folder / "bin" / each).write_text(f'#!/bin/sh\necho {each} "$@"\n')
        (folder / "bin" / each).chmod(0o755)
    script = FILES["start.sh"].replace("/etc/jbodlab/", f"{folder}/etc/")
    script = script.replace("/run/jbodlab/", f"{folder}/run/").replace(
        "/disks/", f"{folder}/disks/"
    )
    done = subprocess.run(
        ["sh", "-c", script, "start.sh", name],
        env={"PATH": f"{folder}/bin:{os.environ['PATH']}", "HOSTNAME": f"{name}-{number}"},
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    return folder / "run" / "server.properties", done.stdout


@pytest.mark.process
@pytest.mark.parametrize("number", range(3))
def test_the_servers_take_the_property_files_that_the_pods_make(
    number: int, tmp_path: Path
) -> None:
    for each in SETS:
        (tmp_path / each).mkdir()
    file, _ = started("controller", number, tmp_path / "controller")
    leading, unknown = controller_config(properties.parse(file.read_text()))
    assert unknown == []
    file, told = started("broker", number, tmp_path / "broker")
    serving, unknown = from_properties(properties.parse(file.read_text()))
    assert unknown == []

    formatted, server = told.splitlines()
    assert formatted == f"jbod-storage format -g -t {FILES['cluster-id']} -c {file}"
    assert server == f"jbod-broker -c {file}"
    assert (leading.node.node_id, serving.node_id) == (100 + number, 1 + number)
    assert leading.node.controller_listener_names == ("CONTROLLER", "CONTROLLER_GRPC")
    (address,) = serving.advertised_listeners
    assert (address.host, address.port) == (f"broker-{number}.brokers", 9092)
    mounts = SETS["broker"]["spec"]["template"]["spec"]["containers"][0]["volumeMounts"]
    assert {str(path.parent) for path in serving.log_dirs} <= {one["mountPath"] for one in mounts}


@pytest.mark.process
def test_a_pod_is_formatted_once(tmp_path: Path) -> None:
    (tmp_path / "disks" / "metadata" / "data").mkdir(parents=True)
    (tmp_path / "disks" / "metadata" / "data" / "meta.properties").touch()

    _, told = started("broker", 0, tmp_path)

    assert told.startswith("jbod-broker")
