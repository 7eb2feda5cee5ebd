"""The state file that `jbodlab up` writes about a cluster on this machine.

One JSON file per cluster, `STATE_DIR/clusters/NAME.json`: where everything lies and which processes
run. `jbodlab` writes it before it starts anything, so that a cluster whose starter was killed can
still be ended.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from stat import S_ISVTX
from typing import Any

import msgspec

from jbodlab.vocabulary.addresses import address_text
from jbodlab.vocabulary.errors import DecodeError

VERSION = 2
STATE_DIR_VARIABLE = "JBODLAB_STATE_DIR"
ROOT_STATE_DIR = Path("/var/lib/jbodlab")
ROOT_CACHE_DIR = Path("/var/cache/jbodlab")

# Fields of /proc/PID/stat behind the name in parentheses.
STATE, START_TICKS = 0, 19
ENDED = ("Z", "X")


class ProcessState(msgspec.Struct, frozen=True, kw_only=True):
    """A process of ours.

    Attributes:
        start_ticks: Start time from `/proc/PID/stat`; tells the process from a later one that was
            given the same pid.
    """

    pid: int
    start_ticks: int


class NodeState(msgspec.Struct, frozen=True, kw_only=True):
    """One controller or broker.

    Attributes:
        log_dirs: The entries of `log.dirs`, in the order of the file.
        log_file: Where its output goes.
        controller_port: Of a broker that is a controller as well; else 0.
        grpc_port: Where brokers reach a controller that has another port for controllers; else 0.
        metrics_port: Where a broker shows its metrics, Apache Kafka's by JMX; 0 where it does not.
        client_file: Properties of a client that may do everything; empty where it needs none.
        process: None before it was started.
    """

    role: str
    node_id: int
    host: str
    port: int
    properties_file: str = ""
    log_file: str = ""
    metadata_log_dir: str = ""
    log_dirs: tuple[str, ...] = ()
    controller_port: int = 0
    grpc_port: int = 0
    metrics_port: int = 0
    client_file: str = ""
    process: ProcessState | None = None

    @property
    def name(self) -> str:
        """Its name, such as `broker-1` or `controller-100`."""
        return f"{self.role}-{self.node_id}"

    @property
    def folder(self) -> Path:
        """Folder that all its directories lie in; `.` where nothing is known of its files."""
        return Path(self.metadata_log_dir).parent.parent


class ClusterState(msgspec.Struct, frozen=True, kw_only=True):
    """One cluster.

    Attributes:
        root: Folder that holds all of it, mounts included.
        uid, gid: User of the server processes.
        mounts: Mount points below `root`, empty where disks are plain folders.
        spec: Settings that it was made from, by their names (`lab.cluster.spec`).
        owner: The process that ends the cluster when it ends; None once `up` has left it running.
    """

    name: str
    root: str
    cluster_id: str
    uid: int
    gid: int
    mounts: tuple[str, ...]
    nodes: tuple[NodeState, ...]
    spec: dict[str, Any] = {}
    owner: ProcessState | None = None

    @property
    def brokers(self) -> tuple[NodeState, ...]:
        """The brokers, by rising id."""
        return tuple(node for node in self.nodes if node.role == "broker")

    @property
    def controllers(self) -> tuple[NodeState, ...]:
        """The controllers, which may be brokers as well."""
        return tuple(
            node for node in self.nodes if node.role == "controller" or node.controller_port
        )

    @property
    def controller(self) -> NodeState:
        """The first controller."""
        return self.controllers[0]

    @property
    def bootstrap(self) -> str:
        """Addresses of all brokers, as clients want them."""
        return ",".join(address_text(node.host, node.port) for node in self.brokers)


def state_dir(environment: Mapping[str, str], uid: int) -> Path:
    """Return where state is kept: `$JBODLAB_STATE_DIR`, else a place after the user.

    Root keeps it in `/var/lib/jbodlab`, others in `$XDG_STATE_HOME/jbodlab`, which is
    `~/.local/state/jbodlab` by default; a user without a home of their own in `/tmp/jbodlab-UID`.
    """
    if named := environment.get(STATE_DIR_VARIABLE):
        return Path(named).absolute()
    if uid == 0:
        return ROOT_STATE_DIR
    if xdg := environment.get("XDG_STATE_HOME"):
        return Path(xdg).absolute() / "jbodlab"
    if home := _home(environment, uid):
        return home / ".local" / "state" / "jbodlab"
    return Path(tempfile.gettempdir()) / f"jbodlab-{uid}"


def cache_dirs(environment: Mapping[str, str], uid: int) -> list[Path]:
    """Return where what is made once may be kept, best first.

    Root keeps it in `/var/cache/jbodlab`, where other users can read it; others in
    `$XDG_CACHE_HOME/jbodlab`, which is `~/.cache/jbodlab` by default. Where there is none, or it
    cannot be used, `/tmp/jbodlab-cache-UID` is left.
    """
    xdg, home = environment.get("XDG_CACHE_HOME", ""), _home(environment, uid)
    if uid == 0:
        usual = [ROOT_CACHE_DIR]
    elif xdg.startswith("/"):
        usual = [Path(xdg) / "jbodlab"]
    else:
        usual = [home / ".cache" / "jbodlab"] if home else []
    return [*usual, Path(tempfile.gettempdir()) / f"jbodlab-cache-{uid}"]


def make_cache(folder: Path, uid: int) -> str:
    """Make a folder that every user may read, and this one, of the process, alone may write.

    Returns:
        Why it cannot be trusted: what lies in it is executed, and in the folder for temporary files
        somebody else may have been first. Empty if it can.

    Raises:
        OSError: it cannot be made.
    """
    if not folder.exists():
        folder.mkdir(parents=True)
    # A link is as good as what it leads to if it is this user's own.
    owners, around = {folder.lstat().st_uid, folder.stat().st_uid}, folder.parent.stat()
    # In a folder such as /tmp a name belongs to its maker, whoever owns the folder.
    is_kept = around.st_mode & S_ISVTX or around.st_uid in (0, uid)
    if owners != {uid} or not is_kept:
        return "it, or the folder that it lies in, belongs to another user"
    # Whatever the umask was: brokers run as another user. In an image it may lie where nothing can
    # be written any more.
    if folder.stat().st_mode & 0o777 != 0o755:
        folder.chmod(0o755)
    return ""


def cluster_file(directory: Path, name: str) -> Path:
    """Return the file that describes one cluster."""
    return directory / "clusters" / f"{name}.json"


def journal_file(directory: Path) -> Path:
    """Return the file in which injected faults are written down."""
    return directory / "faults.jsonl"


def known_clusters(environment: Mapping[str, str], uid: int) -> list[ClusterState]:
    """Return the clusters of a user that are written down, by name.

    Raises:
        DecodeError: a file cannot be read, so that nobody knows whether its cluster runs.
    """
    found = []
    for file in sorted((state_dir(environment, uid) / "clusters").glob("*.json")):
        try:
            found.append(from_json(file.read_text("utf-8")))
        except FileNotFoundError:
            # Its cluster has ended meanwhile.
            continue
        except (OSError, DecodeError) as error:
            raise DecodeError(f"cannot read {file}: {error}") from error
    return found


def running_clusters(environment: Mapping[str, str], uid: int) -> list[ClusterState]:
    """Return the clusters of a user of which a node runs, by name; raises as `known_clusters`."""
    return [state for state in known_clusters(environment, uid) if running_nodes(state)]


def running_nodes(state: ClusterState) -> list[NodeState]:
    """Return the nodes whose process, as it is written down, still runs."""
    return [node for node in state.nodes if node.process is not None and is_alive(node.process)]


def is_alive(process: ProcessState) -> bool:
    """Return whether this very process still runs; one that nobody waited for yet does not.

    Its first thread may be gone while others still hold its files.
    """
    fields = stat(process.pid)
    if fields is None or int(fields[START_TICKS]) != process.start_ticks:
        return False
    return fields[STATE] not in ENDED or _has_threads(process.pid)


def stat(pid: int) -> list[str] | None:
    """Return the fields of `/proc/PID/stat` behind the name; None where there is no process."""
    try:
        # The name of a program is bytes of somebody's choice.
        text = Path(f"/proc/{pid}/stat").read_text("latin-1")
    except OSError:
        return None
    # The name may hold blanks and parentheses; the last one closes it.
    return text[text.rindex(")") + 2 :].split()


def to_json(state: ClusterState) -> str:
    """Return the text of a cluster's file."""
    return json.dumps(
        {"version": VERSION, "bootstrap": state.bootstrap, **msgspec.to_builtins(state)}, indent=1
    )


def from_json(text: str) -> ClusterState:
    """Read the text of a cluster's file; fields that are not known here are left out.

    Raises:
        DecodeError: it is not JSON, of another version, or lacks a field.
    """
    try:
        data = json.loads(text)
        if data["version"] != VERSION:
            raise DecodeError(f"state file of version {data['version']}, expected {VERSION}")
        return msgspec.convert(data, ClusterState)
    except (ValueError, KeyError, TypeError, msgspec.ValidationError) as error:
        raise DecodeError(f"not the state of a cluster: {error!r}") from error


def _has_threads(pid: int) -> bool:
    """Return whether a process has threads beside the first one, which has ended."""
    try:
        return len(list(Path(f"/proc/{pid}/task").iterdir())) > 1
    except OSError:
        return False


def _home(environment: Mapping[str, str], uid: int) -> Path | None:
    """Return the home of a user; None without one of its own, as of many users in containers."""
    home = Path(environment.get("HOME", "/nonexistent"))
    try:
        return home if home.is_absolute() and home.stat().st_uid == uid else None
    except OSError:
        return None
