from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

ROOT = Path(__file__).resolve().parent.parent


def test_the_committed_descriptors_are_what_the_proto_files_say(tmp_path: Path) -> None:
    pytest.importorskip("grpc_tools", reason="the compiler of .proto files is not installed")

    target = tmp_path / "controller.binpb"
    subprocess.run(
        [sys.executable, ROOT / "scripts" / "compile_proto.py", target], check=True, timeout=60
    )

    committed = ROOT / "jbodlab" / "controller_api" / "controller.binpb"
    assert committed.read_bytes() == target.read_bytes()
