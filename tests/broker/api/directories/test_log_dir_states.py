"""DescribeLogDirStates, as the bytes that a client gets."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from broker.api.directories.brokers_only import DescribeLogDirStatesApi
from broker.disk.condition.condition import DirectoryCondition
from broker.disk.directory.lifecycle import LogDirEvent
from broker.disk.directory.log_dir import LogDir
from jbodlab.kafka_wire.api_table import ApiKey, response_class, response_reader
from jbodlab.kafka_wire.codec import encode
from jbodlab.kafka_wire.describe_log_dir_states import DescribeLogDirStatesRequest
from jbodlab.kafka_wire.headers import read_request_header, request_header
from jbodlab.server.answer import RequestContext
from jbodlab.server.session import Session
from jbodlab.vocabulary.ids import DirectoryId

KEY = ApiKey.DESCRIBE_LOG_DIR_STATES
ONE, TWO = UUID(int=101), UUID(int=102)


def described(*log_dirs: LogDir) -> list[tuple[str, UUID | None, str, tuple[str, ...], str | None]]:
    parts: Any = SimpleNamespace(log_dirs=lambda: log_dirs)
    api = DescribeLogDirStatesApi(parts)
    header = read_request_header(memoryview(request_header(KEY, 0, 1, "client")))
    context = RequestContext(header, Session(listener_name="CLIENTS", peer="client:1"))
    body = encode(response_class(KEY, 0), api.answer(DescribeLogDirStatesRequest(), context))
    response, end = response_reader(KEY, 0)(memoryview(body), 0)
    assert end == len(body)
    assert response.error_code == 0
    return [
        (one.path, one.directory_id, one.state, one.conditions, one.cause)
        for one in response.log_dirs
    ]


def test_ids_states_conditions_and_causes_are_told() -> None:
    fresh = LogDir(Path("/data/a"), DirectoryId(ONE))
    full = LogDir(Path("/data/b"), DirectoryId(TWO))
    dead = LogDir(Path("/data/c"), None)
    full.handle(LogDirEvent.LOAD)
    full.handle(LogDirEvent.LOADED)
    full.condition = DirectoryCondition(is_full=True, is_slow=True)
    dead.condition = DirectoryCondition(is_full=True)
    dead.go_offline("[Errno 5] Input/output error")
    try:
        assert described(fresh, full, dead) == [
            ("/data/a", ONE, "INITIAL", (), None),
            ("/data/b", TWO, "ONLINE", ("FULL", "SLOW"), None),
            ("/data/c", None, "OFFLINE", (), "[Errno 5] Input/output error"),
        ]
        assert described() == []
    finally:
        for log_dir in (fresh, full, dead):
            log_dir.stop()
