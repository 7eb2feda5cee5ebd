"""The environment of a server: clock, randomness, ids, threads, disks and network.

`machine.system_environment` is that of the machine. A server can get another value, for example
with a manual clock or disks in memory; broker, controller and this library reach the machine only
through it. Each part gets only the callables that it uses.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

import msgspec

from jbodlab.vocabulary import kafka_uuid

if TYPE_CHECKING:
    from random import Random

    from jbodlab.controller_api.rpc_tls import RpcKeys, RpcServerTls
    from jbodlab.controller_api.transport import RpcServer, RpcTransport
    from jbodlab.storage.compaction.compaction_plan import Compactor
    from jbodlab.storage.directory.filesystem import Disk
    from jbodlab.vocabulary.endpoint import Endpoint
    from jbodlab.vocabulary.threads import Threads


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """Clock, randomness, threads, disks and network of a server; tests pass fakes.

    Attributes:
        monotonic_s: Seconds on a clock that never goes back; it advances while a callback runs,
            which the clock of the event loop need not do.
        wall_ms: Milliseconds since 1970.
        random: Choices that need not be secret.
        random_bytes: Returns the given number of unique random bytes, as `os.urandom`.
        threads: Makes threads.
        fs_of: Returns the disk under a directory.
        connect_rpc: Makes the transport to the controller at `host:port`, on a running event loop,
            with keys where that is encrypted.
        compactor: Makes the compactor for the logs of one directory.
        rpc_server: Makes the server that listens for brokers, with keys and names of brokers where
            that is encrypted; raises ConfigError if it cannot.

    The event loop makes the connections of Kafka's protocol.
    """

    monotonic_s: Callable[[], float]
    wall_ms: Callable[[], int]
    random: Random
    random_bytes: Callable[[int], bytes]
    threads: Threads
    fs_of: Callable[[Path], Disk]
    connect_rpc: Callable[[str, Callable[[], RpcKeys] | None], RpcTransport]
    rpc_server: Callable[[Endpoint, RpcServerTls | None], RpcServer]
    compactor: Callable[[], Compactor]

    def monotonic_ms(self) -> int:
        """Return whole milliseconds on the monotonic clock."""
        return int(self.monotonic_s() * 1000)

    def new_id(self) -> UUID:
        """Draw an id as Kafka does for topics, directories and processes."""
        return kafka_uuid.random_uuid(self.random_bytes)

    def new_hex(self) -> str:
        """Draw the 32 hexadecimal digits that set apart folders of one replica."""
        return UUID(bytes=self.random_bytes(16), version=4).hex
