from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from broker.disk.calls.replica_files import missing_folders
from jbodlab.storage.directory.posix_filesystem import PosixFileSystem

FS = PosixFileSystem()


def test_folder_that_was_removed_is_missing(tmp_path: Path) -> None:
    there, gone = tmp_path / "orders-0", tmp_path / "orders-1"
    there.mkdir()
    assert missing_folders(FS, tmp_path, [there, gone]) == [gone]


def test_file_in_the_place_of_a_folder_is_a_failure_of_the_directory(tmp_path: Path) -> None:
    folder = tmp_path / "orders-0"
    folder.write_text("")
    with pytest.raises(PermissionError, match="cannot access"):
        missing_folders(FS, tmp_path, [folder])


@pytest.mark.process
@pytest.mark.parametrize("mode", ["0", "555", "666"])
def test_folder_without_permissions_is_a_failure_of_the_directory(mode: str) -> None:
    # Permission bits do not bite root, so somebody else looks.
    as_user = ["setpriv", "--reuid=1500", "--regid=1500", "--clear-groups"]
    script = f"""
import os, sys
sys.path.insert(0, {str(Path.cwd())!r})
from pathlib import Path
from broker.disk.calls.replica_files import missing_folders
from jbodlab.storage.directory.posix_filesystem import PosixFileSystem
root = Path(sys.argv[1])
folder = root / "orders-0"
folder.mkdir()
folder.chmod(0o{mode})
try:
    missing_folders(PosixFileSystem(), root, [folder])
except PermissionError as error:
    print(error.strerror)
folder.chmod(0o755)
"""
    root = Path(subprocess.check_output(["mktemp", "-d"], text=True).strip())
    root.chmod(0o777)
    try:
        done = subprocess.run(
            [*(as_user if os.geteuid() == 0 else []), sys.executable, "-c", script, str(root)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        )
        if "encodings" in done.stderr or "No module" in done.stderr:
            pytest.skip("the tree cannot be read by another user")
        assert done.stdout == "cannot access the folder of a replica\n", done.stderr
    finally:
        subprocess.run(["rm", "-rf", str(root)], check=True)
