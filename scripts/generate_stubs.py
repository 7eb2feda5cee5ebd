"""Generate the gRPC stubs of `jbodlab.rpc` from `proto/`.

    python scripts/generate_stubs.py            writes them into the source tree
    python scripts/generate_stubs.py FOLDER     writes them below FOLDER instead

Needs grpcio-tools. The stubs are committed, so that installing needs no compiler; a test generates
them anew and compares.
"""

from __future__ import annotations

import sys
from importlib.resources import files
from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent.parent
PROTO = ROOT / "proto"


def generate(target: Path) -> None:
    """Write the stubs of every `.proto` file below `target`; the packages' folders are made.

    Raises:
        SystemExit: the compiler refused a file; it has said why.
    """
    target.mkdir(parents=True, exist_ok=True)
    sources = sorted(str(path.relative_to(PROTO)) for path in PROTO.rglob("*.proto"))
    status = protoc.main(
        [
            "protoc",
            f"--proto_path={PROTO}",
            f"--proto_path={files('grpc_tools') / '_proto'}",
            f"--python_out={target}",
            f"--pyi_out={target}",
            f"--grpc_python_out={target}",
            *sources,
        ]
    )
    if status != 0:
        raise SystemExit(status)


if __name__ == "__main__":
    generate(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT)
