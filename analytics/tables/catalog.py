"""The tables of the result: what the heads of the files beside this one declare.

The data dictionary has their columns. Those that Python names stand here by their names.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from analytics.tables.sql_files import sql_files
from analytics.tables.table import Table

TABLES: tuple[Table, ...] = tuple(
    file.table for file in sql_files().values() if file.table is not None
)
"""Tables that the replay writes, each behind those that it is made of."""

BY_NAME: Mapping[str, Table] = MappingProxyType({table.name: table for table in TABLES})

LOGS = BY_NAME["logs"]
RECORDS = BY_NAME["records"]
SNAPSHOT_RECORDS = BY_NAME["snapshot_records"]
BROKERS = BY_NAME["brokers"]
BROKER_HISTORY = BY_NAME["broker_history"]
TOPIC_HISTORY = BY_NAME["topic_history"]
LOG_DIRS = BY_NAME["log_dirs"]
TOPICS = BY_NAME["topics"]
PARTITIONS = BY_NAME["partitions"]
PARTITION_HISTORY = BY_NAME["partition_history"]
BROKER_SESSIONS = BY_NAME["broker_sessions"]
REPLICA_PLACEMENT = BY_NAME["replica_placement"]
CONFIGS = BY_NAME["configs"]
FEATURES = BY_NAME["features"]
ACLS = BY_NAME["acls"]
SCRAM_USERS = BY_NAME["scram_users"]
CONTROLLER_EPOCHS = BY_NAME["controller_epochs"]
