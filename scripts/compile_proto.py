"""Compile `proto/` into `controller.binpb`, from which messages are made at run time.

    python scripts/compile_proto.py          writes it into the source tree
    python scripts/compile_proto.py FILE     writes it to FILE instead

Needs grpcio-tools. The file is committed, so that installing needs no compiler, and any version of
protobuf reads it; a test compiles it anew and compares.
"""

from __future__ import annotations

import sys
from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent.parent
PROTO = ROOT / "proto"


def compile_proto(target: Path) -> None:
    """Write the descriptors of every `.proto` file as one `FileDescriptorSet`.

    Raises:
        SystemExit: the compiler refused a file; it has said why.
    """
    sources = sorted(str(path.relative_to(PROTO)) for path in PROTO.rglob("*.proto"))
    status = protoc.main(
        ["protoc", f"--proto_path={PROTO}", f"--descriptor_set_out={target}", *sources]
    )
    if status != 0:
        raise SystemExit(status)


if __name__ == "__main__":
    default = ROOT / "jbodlab" / "controller_api" / "controller.binpb"
    compile_proto(Path(sys.argv[1]) if len(sys.argv) > 1 else default)
