"""Compile the folders of `proto/` into descriptors, from which messages are made at run time.

    python scripts/compile_proto.py          writes them into the source tree
    python scripts/compile_proto.py FOLDER   writes them below FOLDER instead

Needs grpcio-tools. The files are committed, so that installing needs no compiler, and any version
of protobuf reads them; a test compiles them anew and compares.
"""

from __future__ import annotations

import sys
from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent.parent
PROTO = ROOT / "proto"
TARGETS = {
    "jbodlab": "jbodlab/controller_api/controller.binpb",
    "opentelemetry": "broker/telemetry/metrics.binpb",
}
"""Folder of `proto/` to the file with its descriptors."""


def compile_proto(folder: str, target: Path) -> None:
    """Write the descriptors of every `.proto` file of a folder as one `FileDescriptorSet`.

    Raises:
        SystemExit: the compiler refused a file; it has said why.
    """
    sources = sorted(str(path.relative_to(PROTO)) for path in (PROTO / folder).rglob("*.proto"))
    target.parent.mkdir(parents=True, exist_ok=True)
    status = protoc.main(
        ["protoc", f"--proto_path={PROTO}", f"--descriptor_set_out={target}", *sources]
    )
    if status != 0:
        raise SystemExit(status)


if __name__ == "__main__":
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT
    for folder, target in TARGETS.items():
        compile_proto(folder, root / target)
