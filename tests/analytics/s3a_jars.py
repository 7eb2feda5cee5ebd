"""Hadoop's connector for S3, which a Spark cluster has where its tables lie there.

Of Amazon's SDK it needs a few parts (16 MB); Hadoop's own dependency is all of it (600 MB). Netty
and the log are Spark's.
"""

from __future__ import annotations

from pathlib import Path

from tests.kafka.jars import CACHE, once, require, run

HADOOP = "3.5.0"
"""Of Spark 4.2."""
SDK = "2.35.4"
FETCH_DEADLINE_S = 300

_ARTIFACTS = (
    f"org.apache.hadoop:hadoop-aws:{HADOOP}:*",
    "software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3:1.3.1:*",
    *(
        f"software.amazon.awssdk:{name}:{SDK}:io.netty"
        for name in ("s3-transfer-manager", "sts", "apache-client")
    ),
)
"""Group, name, version, and the group of what comes with Spark or is not needed."""

_DEPENDENCY = (
    "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version><exclusions>"
    "<exclusion><groupId>{}</groupId><artifactId>*</artifactId></exclusion>"
    "<exclusion><groupId>org.slf4j</groupId><artifactId>*</artifactId></exclusion>"
    "</exclusions></dependency>"
)
_POM = (
    "<project><modelVersion>4.0.0</modelVersion><groupId>jbodlab</groupId>"
    "<artifactId>s3a</artifactId><version>1</version><dependencies>{}</dependencies></project>"
)


def s3a_jars() -> list[Path]:
    """Return the jars; Maven fetches them once.

    Raises:
        NoKafkaError: they cannot be fetched, with the reason.
    """
    return sorted(once(CACHE, f"jars-s3a-{HADOOP}", _fetch).glob("*.jar"))


def _fetch(folder: Path) -> None:
    require("mvn")
    pom = folder / "pom.xml"
    pom.write_text(_POM.format("".join(_DEPENDENCY.format(*one.split(":")) for one in _ARTIFACTS)))
    run(
        "Hadoop's connector for S3 cannot be fetched",
        *("mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies"),
        f"-DoutputDirectory={folder}",
        deadline_s=FETCH_DEADLINE_S,
    )
