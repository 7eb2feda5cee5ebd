"""Faults of disks while a broker is off: exchanged, replaced by an empty one, cloned.

    swapped   two directories of the broker have changed places
    emptied   an empty directory has taken the place, the full one lies aside; that of a
              controller's metadata is formatted anew, as no controller starts without
    twin      `meta.properties` is a copy of another directory's, so two carry one id

A broker that runs is stopped cleanly first and started again afterwards, both ways. Directories on
one disk are renamed, those on disks of their own are mounted over each other.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from fault_injection import check, mounts, process_control
from fault_injection.check import User
from fault_injection.journal import Fault
from fault_injection.kinds import FaultSpec
from fault_injection.mechanism import Broken, Healing, RecordUndo, Start, Target, TargetBroker
from fault_injection.mechanisms import file_operations
from fault_injection.mechanisms.file_operations import META_PROPERTIES
from jbodlab.metadata.log.quorum_state import FILE_NAME, read_quorum_state
from jbodlab.storage.directory.names import METADATA_DIR_NAME
from jbodlab.vocabulary import directory_id, kafka_uuid, properties
from jbodlab.vocabulary.errors import CorruptRecordError


class Directories:
    """The mechanism `directories`."""

    def refusal(self, spec: FaultSpec, target: Target) -> str:
        path, broker = target.path, target.broker
        if broker is None:
            return f"the broker of {path} is unknown: name the broker too"
        if spec.kind == "emptied" and mounts.is_mounted(path):
            return f"{path} is a mount point; name a folder inside it"
        if spec.other is not None:
            other = Path(os.path.realpath(spec.other))
            if other == path:
                return f"expected two directories, got {path} twice"
            if not (other / META_PROPERTIES).is_file():
                return f"{other} has no {META_PROPERTIES}"
            if spec.kind == "swapped" and _must_mount(path, other) and os.geteuid() != 0:
                return f"{path} and {other} are on two disks, which only root can exchange"
        if not (path / META_PROPERTIES).is_file():
            return f"{path} has no {META_PROPERTIES}"
        return process_control.refusal(broker, must_run=False)

    def prepare(self, spec: FaultSpec, target: Target, fault_id: int) -> dict[str, Any]:
        """Return what lies where, and how the broker is started again."""
        path, broker = target.path, target.broker
        assert broker is not None
        meta = path / META_PROPERTIES
        found = meta.stat()
        other = "" if spec.other is None else os.path.realpath(spec.other)
        undo: dict[str, Any] = {
            "inode": path.stat().st_ino,
            "device": path.stat().st_dev,
            "other": other,
            "other_device": Path(other).stat().st_dev if other else None,
            "other_inode": file_operations.inode(Path(other)) if other else None,
            "replicas": file_operations.replicas_in(path),
            "meta": meta.read_text("utf-8"),
            "meta_mode": stat.S_IMODE(found.st_mode),
            "meta_owner": [found.st_uid, found.st_gid],
            "was_running": broker.process is not None,
            "holds_metadata": broker.is_controller and (path / METADATA_DIR_NAME).is_dir(),
            "counts_by_node": _counts_by_node(path, broker),
        }
        if spec.kind == "emptied":
            folder = file_operations.aside_folder(path)
            undo["aside"] = file_operations.aside_of(path, folder, fault_id)
        if spec.kind == "swapped":
            undo["by_mount"] = _must_mount(path, Path(other))
            folder = path.parent if undo["by_mount"] else file_operations.aside_folder(path)
            undo["aside"] = file_operations.aside_of(path, folder, fault_id)
        if broker.process is not None:
            undo |= process_control.planned(broker)
        return undo

    def make(self, fault: Fault, record: RecordUndo, start: Start) -> int | None:
        """Stop the broker, change the directories, start it again."""
        struck_ns = None
        if fault.undo["was_running"]:
            struck_ns = process_control.end(fault, cleanly=True)
        path = fault.path
        match fault.kind:
            case "swapped":
                _swap(path, Path(fault.undo["other"]), fault.undo)
            case "emptied":
                path.rename(fault.undo["aside"])
                file_operations.make_like(path, Path(fault.undo["aside"]))
                if fault.undo["holds_metadata"]:
                    _write_meta(path, _formatted_anew(fault.undo["meta"]), fault.undo)
            case _:
                other = Path(fault.undo["other"]) / META_PROPERTIES
                _write_meta(path, other.read_text("utf-8"), fault.undo)
        if fault.undo["was_running"]:
            start(fault)
        return struck_ns

    def verify(self, fault: Fault) -> str:
        """Look at the directories as the broker's user."""
        path, user = fault.path, User(fault.uid, fault.gid)
        if fault.kind == "twin":
            other = (Path(fault.undo["other"]) / META_PROPERTIES).read_bytes()
            code = check.read_error(path / META_PROPERTIES, user, other)
            return (
                f"{path} does not have the other directory's id ({os.strerror(code)})"
                if code
                else ""
            )
        expected = fault.undo["meta"].encode()
        if check.read_error(path / META_PROPERTIES, user, expected) == 0:
            return f"uid {user.uid} still finds the former {META_PROPERTIES} in {path}"
        return ""

    def undo(self, fault: Fault, start: Start) -> Healing:
        """Stop the broker, bring all back to its place, start it again."""
        running = process_control.running(fault)
        if running is not None:
            process_control.end_process(running, fault.broker, cleanly=True)
        note = self._bring_back(fault)
        if fault.undo["was_running"]:
            start(fault)
        return Healing(note=note)

    def broken(self, fault: Fault) -> Broken:
        return Broken(what="replicas", count=fault.undo["replicas"])

    def _bring_back(self, fault: Fault) -> str:
        path, undo = fault.path, fault.undo
        match fault.kind:
            case "swapped":
                _swap_back(path, Path(undo["other"]), undo)
                return ""
            case "emptied":
                if undo["counts_by_node"] and _votes(path, undo["inode"]):
                    return (
                        f"the new directory stays: it is the voter now, and the former one, "
                        f"{undo['aside']}, lacks what it has acknowledged since"
                    )
                known = file_operations.Undo(inode=undo["inode"], modes={}, aside=undo["aside"])
                return file_operations.move_back(fault, known)
            case _:
                _write_meta(path, undo["meta"], undo)
                return ""


def _counts_by_node(path: Path, broker: TargetBroker) -> bool:
    """Return whether other controllers know a voter by its node id alone (kraft.version 0).

    To them the new directory is the same voter, so the former one must not come back: it would
    have forgotten votes and records that it has acknowledged since.
    """
    if not broker.is_controller or not any(peer.is_controller for peer in broker.peers):
        return False
    try:
        found = read_quorum_state(path / METADATA_DIR_NAME)
    except (OSError, CorruptRecordError):
        return True
    return found is not None and found.data_version == 0


def _votes(path: Path, former_inode: int) -> bool:
    """Return whether a new directory has taken part in the quorum.

    Our controllers write no election state before they vote and count; Apache Kafka's always do.
    """
    is_new = file_operations.inode(path) != former_inode
    return is_new and (path / METADATA_DIR_NAME / FILE_NAME).exists()


def _formatted_anew(meta: str) -> str:
    """Return `meta.properties` of the same node in another directory."""
    found = properties.parse(meta)
    if "directory.id" in found:
        own = directory_id.random_directory_id(os.urandom)
        found["directory.id"] = kafka_uuid.to_text(own)
    return properties.render(found)


def _must_mount(path: Path, other: Path) -> bool:
    places = (path, other)
    return path.stat().st_dev != other.stat().st_dev or any(map(mounts.is_mounted, places))


def _swap(path: Path, other: Path, undo: dict[str, Any]) -> None:
    aside = Path(undo["aside"])
    if not undo["by_mount"]:
        path.rename(aside)
        other.rename(path)
        aside.rename(other)
        return
    aside.mkdir()
    for source, place in ((path, aside), (other, path), (aside, other)):
        mounts.bind(source, place)


def _swap_back(path: Path, other: Path, undo: dict[str, Any]) -> None:
    aside = Path(undo["aside"])
    if undo["by_mount"]:
        for place, device in ((other, undo["other_device"]), (path, undo["device"])):
            # Its own disk is seen again once what lies over it is gone.
            if place.stat().st_dev != device:
                mounts.unmount(place)
        if mounts.is_mounted(aside):
            mounts.unmount(aside)
        with suppress(FileNotFoundError):
            aside.rmdir()
        return
    places = (path, other, aside)
    found = {file_operations.inode(place): place for place in places}
    if found.get(undo["inode"]) == other:
        other.rename(aside)
    if found.get(undo["other_inode"]) == path:
        path.rename(other)
    if file_operations.inode(aside) == undo["inode"]:
        aside.rename(path)


def _write_meta(directory: Path, text: str, undo: dict[str, Any]) -> None:
    meta = directory / META_PROPERTIES
    new = directory / f".{META_PROPERTIES}.jbod-fault"
    new.unlink(missing_ok=True)
    new.write_text(text, "utf-8")
    _give(new, undo["meta_mode"], undo["meta_owner"])
    new.rename(meta)


def _give(path: Path, mode: int, owner: Sequence[int]) -> None:
    if os.geteuid() == 0:
        os.chown(path, owner[0], owner[1])
    path.chmod(mode)
