from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

ROOT = Path(__file__).resolve().parent.parent
STUBS = ("controller_pb2.py", "controller_pb2.pyi", "controller_pb2_grpc.py")


def test_committed_stubs_are_what_the_proto_files_generate(tmp_path: Path) -> None:
    pytest.importorskip("grpc_tools", reason="the stubs' compiler (grpcio-tools) is not installed")

    subprocess.run(
        [sys.executable, ROOT / "scripts" / "generate_stubs.py", tmp_path], check=True, timeout=60
    )

    generated = tmp_path / "jbodlab" / "rpc"
    assert sorted(path.name for path in generated.iterdir()) == sorted(STUBS)
    for name in STUBS:
        committed = ROOT / "jbodlab" / "rpc" / name
        assert committed.read_bytes() == (generated / name).read_bytes(), name
