from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.testing.clusters import Cluster
from tests.cluster.secured import Secured, served


@pytest.fixture(scope="package")
def secured() -> Iterator[Secured]:
    """A cluster of all tests of the xdist group `secured`."""
    with served() as secured:
        yield secured


@pytest.fixture(scope="package")
def closed() -> Iterator[Cluster]:
    """A cluster of the lab on which clients log in and have rights."""
    with Cluster(brokers=2, disks=1, security="sasl_ssl") as cluster:
        yield cluster
