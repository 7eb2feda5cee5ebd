"""Every record in every version against the serialisers in Kafka's released jars.

Kafka reads what was encoded here, prints its JSON and writes it again: both must be the same.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from jbodlab.records import frame
from jbodlab.records.cluster_records import UnregisterControllerRecord
from jbodlab.records.json_text import data_text
from jbodlab.records.kinds import Form
from jbodlab.records.schema import FieldSpec, Record
from tests.jbodlab.records.every_record import every_record, every_version, tagged

pytestmark = pytest.mark.kafka

SOURCE = Path(__file__).parent / "KafkaRecords.java"
POM = """<project><modelVersion>4.0.0</modelVersion>
<groupId>test</groupId><artifactId>test</artifactId><version>1</version><dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-metadata</artifactId>
<version>{release}</version></dependency></dependencies></project>
"""
FIRST_RELEASE = {UnregisterControllerRecord: "4.4.0"}


@pytest.fixture(scope="module", params=["4.3.1", "4.4.0"])
def release(request: pytest.FixtureRequest) -> str:
    for program in ("java", "javac", "mvn"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    found = str(request.param)
    try:
        _fetch(found)
    except (subprocess.SubprocessError, OSError) as error:
        pytest.skip(f"Maven cannot fetch Apache Kafka {found}: {error}")
    return found


def test_kafka_reads_every_record_and_writes_the_same_bytes(release: str) -> None:
    records = [one for one in every_record() if _is_known(release, type(one[0]))]
    data = [frame.encode(record, version).hex() for record, version in records]

    expected = [
        [record.NAME, str(version), data_text(record, version), text]
        for (record, version), text in zip(records, data, strict=True)
    ]
    assert through_kafka(release, data) == expected


def test_kafka_has_the_same_defaults_of_tagged_fields(release: str) -> None:
    written_out, without = [], []
    for cls, version in every_version():
        for spec in tagged(cls, version):
            explicit = cls(unknown_tags=((spec.tag or 0, _bytes_of_default(spec)),))
            written_out.append(frame.encode(explicit, version).hex())
            without.append(frame.encode(cls(), version).hex())

    assert [line[-1] for line in through_kafka(release, written_out)] == without
    assert len(written_out) == 42


def through_kafka(release: str, data: Sequence[str]) -> list[list[str]]:
    done = subprocess.run(
        ["java", "-Xmx256m", "-cp", f"{_folder(release)}/*", str(SOURCE)],
        input="".join(f"{line}\n" for line in data).encode(),
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return [line.split("\t") for line in done.stdout.decode().split("\n")[:-1]]


def _bytes_of_default(spec: FieldSpec) -> bytes:
    """Return a default as it stands in a tagged field when somebody writes it out."""
    if spec.default is None:
        return b"\x00"
    if spec.kind.form is Form.ARRAY:
        assert spec.default == ()
        return b"\x01"
    size = {"b": 1, "i": 4}[spec.kind.code]
    assert isinstance(spec.default, int)
    return spec.default.to_bytes(size, "big", signed=True)


def _is_known(release: str, cls: type[Record]) -> bool:
    return FIRST_RELEASE.get(cls, "") <= release


def _folder(release: str) -> Path:
    return Path(tempfile.gettempdir()) / f"jbodlab-kafka-metadata-{release}"


def _fetch(release: str) -> None:
    folder = _folder(release)
    if any(folder.glob("kafka-metadata-*.jar")):
        return
    folder.mkdir(exist_ok=True)
    (folder / "pom.xml").write_text(POM.format(release=release))
    subprocess.run(
        [
            *("mvn", "-q", "-B", "-f", str(folder / "pom.xml")),
            *("dependency:copy-dependencies", f"-DoutputDirectory={folder}"),
        ],
        check=True,
        capture_output=True,
        timeout=600,
    )
