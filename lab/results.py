"""Files that the demo keeps when the cluster is gone, and where.

OUTPUT/demo.txt              what was printed
OUTPUT/result.json           the figures, as those of a rehearsal; events.jsonl has every event
OUTPUT/report.html           the same as a page
OUTPUT/faults.jsonl          what was injected and healed, from the journal
OUTPUT/controller-metadata/  the controller's metadata log
OUTPUT/tables/, report.txt   what jbodlab replay made of it
OUTPUT/config/, logs/        property files and output of every process

With several engines OUTPUT/ENGINE/ has what one has, but for demo.txt; OUTPUT/report.html shows
them side by side, and OUTPUT/engines.json has their verdicts.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from jbodlab.cli import lab_state
from jbodlab.cli.lab_state import ClusterState
from jbodlab.record_batch.record_batch import iterate_headers
from jbodlab.vocabulary import properties
from jbodlab.vocabulary.ids import METADATA_TOPIC
from lab.cluster.engine import Engine
from lab.errors import LabError
from lab.hiding import hidden


class Results:
    """The folder of one demo, and the paths of what is kept in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.printed = folder / "demo.txt"
        self.figures = folder / "result.json"
        self.page = folder / "report.html"
        self.faults = folder / "faults.jsonl"
        self.metadata = folder / "controller-metadata"
        self.tables = folder / "tables"
        self.report = folder / "report.txt"
        self.logs = folder / "logs"

    def of(self, engine: Engine) -> Results:
        """Return the folder of the demo on one engine of several, below this one."""
        folder = self.folder / engine.folder_name
        folder.mkdir()
        return Results(folder)

    def remove_if_empty(self) -> None:
        """Leave no folder behind when there is nothing to keep."""
        with contextlib.suppress(OSError):
            self.folder.rmdir()  # Only an empty directory lets itself be removed.


def make_folder(wanted: Path | None) -> Results:
    """Create the folder: the one wanted, else one below this folder, else a temporary one.

    Raises:
        LabError: the wanted one cannot be created, or is in use.
    """
    if wanted is None:
        stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
        folder = Path.cwd() / "demo-output" / stamp
        with contextlib.suppress(OSError):
            folder.mkdir(parents=True)
            return Results(folder)
        return Results(Path(tempfile.mkdtemp(prefix="jbodlab-demo-")))
    folder = wanted.absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        in_use = any(folder.iterdir())
    except OSError as error:
        raise LabError(f"cannot create {folder}: {error.strerror}") from error
    if in_use:
        raise LabError(f"{folder} is not empty")
    return Results(folder)


def keep_metadata(state: ClusterState, results: Results) -> None:
    """Copy the controller's metadata log while the cluster runs, up to its last whole batch."""
    log_name = f"{METADATA_TOPIC}-0"
    target = results.metadata / log_name
    shutil.copytree(Path(state.controller.metadata_log_dir) / log_name, target)
    for segment in target.glob("*.log"):
        data = segment.read_bytes()
        complete = max((at + header.size for at, header in iterate_headers(data)), default=0)
        segment.write_bytes(data[:complete])


def keep_folders(root: Path, results: Results) -> None:
    """Copy property files, without passwords, and the output of the servers."""
    for name in ("config", "logs"):
        if (root / name).exists():
            shutil.copytree(root / name, results.folder / name, dirs_exist_ok=True)
    for file in (results.folder / "config").glob("*.properties"):
        values = properties.parse(file.read_text("utf-8"))
        file.write_text(properties.render(hidden(values)), "utf-8")


def keep_faults(root: Path, state_dir: Path, results: Results) -> None:
    """Copy the journal's lines about faults below a folder."""
    ids: set[int] = set()
    lines = []
    with contextlib.suppress(FileNotFoundError):
        for line in lab_state.journal_file(state_dir).read_text("utf-8").splitlines():
            entry = json.loads(line)
            if entry["event"] == "begin" and root in Path(entry["path"]).parents:
                ids.add(entry["id"])
            if entry["id"] in ids:
                lines.append(line)
    results.faults.write_text("".join(f"{line}\n" for line in lines), "utf-8")
