from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

ROOT = Path(__file__).resolve().parent.parent


def test_the_committed_descriptors_are_what_the_proto_files_say(tmp_path: Path) -> None:
    pytest.importorskip("grpc_tools", reason="the compiler of .proto files is not installed")

    subprocess.run(
        [sys.executable, ROOT / "scripts" / "compile_proto.py", tmp_path], check=True, timeout=60
    )

    made = {path.relative_to(tmp_path): path.read_bytes() for path in tmp_path.rglob("*.binpb")}
    assert len(made) == 2
    assert made == {path: (ROOT / path).read_bytes() for path in made}
