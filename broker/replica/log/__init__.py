"""The log of one replica: state on the event loop, files on the threads of its directory."""

from broker.replica.log.directory_writer import DirectoryWriter, WriteCheckpoints
from broker.replica.log.partition_log import PartitionLog
from broker.replica.log.tail_cache import EMPTY_SLICE, Slice, TailCacheBudget

__all__ = [
    "EMPTY_SLICE",
    "DirectoryWriter",
    "PartitionLog",
    "Slice",
    "TailCacheBudget",
    "WriteCheckpoints",
]
