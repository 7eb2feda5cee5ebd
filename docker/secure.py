"""Makes what the closed cluster of the profile `secure` needs before its first start.

    /keys             volume of the servers: a key and a certificate each
    /disks/metadata   volume of the controller, formatted with the users and their rights
    /clients          folder of the host: files of users, for whoever owns the folder

Files name the folder as the host does: by CLIENTS. PORTS are those of the brokers at the host.
"""

import os
import shutil
from importlib import import_module
from pathlib import Path

from jbodlab.cli.lab_state import ClusterState, NodeState
from jbodlab.cli.program_names import name_of
from jbodlab.metadata.log.formatting import format_directories
from jbodlab.metadata.records.metadata_version import LATEST

security = import_module(name_of("lab.cluster.security"))
processes = import_module(name_of("lab.machine.processes"))

SERVERS = processes.ServerUser(uid=1500, gid=1500)
KEYS, CLIENTS, CONTROLLER = Path("/keys"), Path("/clients"), Path("/disks/metadata/data")
MADE = Path("/tmp/made")


def cluster() -> ClusterState:
    """Return the cluster as its clients see it."""
    controller = NodeState(role="controller", node_id=100, host="controller", port=9093)
    brokers = [
        NodeState(role="broker", node_id=number, host="127.0.0.1", port=int(port))
        for number, port in enumerate(os.environ["PORTS"].split(), start=1)
    ]
    return ClusterState(
        name="secure",
        root=str(MADE),
        cluster_id=os.environ["CLUSTER_ID"],
        uid=SERVERS.uid,
        gid=SERVERS.gid,
        mounts=(),
        nodes=(controller, *brokers),
        spec={"security": "sasl_ssl"},
    )


def give(path: Path, uid: int, gid: int) -> None:
    """Give a folder and all in it to a user, and to nobody else."""
    for each in (path, *path.rglob("*")):
        os.chown(each, uid, gid)
        each.chmod(0o700 if each.is_dir() else 0o600)


def main() -> None:
    """Make it, once."""
    if CONTROLLER.exists():
        return
    state = cluster()
    MADE.mkdir()
    security.make(state, SERVERS)
    shutil.copytree(MADE / "keys", KEYS, dirs_exist_ok=True)
    # Servers find their key by the name of their service.
    (KEYS / f"{state.controller.name}.pem").rename(KEYS / f"{state.controller.host}.pem")
    give(KEYS, SERVERS.uid, SERVERS.gid)
    owner = CLIENTS.stat()
    for made in (MADE / "security").iterdir():
        text = made.read_text().replace(str(MADE / "security"), os.environ["CLIENTS"])
        (CLIENTS / made.name).write_text(text)
    give(CLIENTS, owner.st_uid, owner.st_gid)
    # Last: only then all of it is there.
    format_directories(
        [CONTROLLER],
        cluster_id=state.cluster_id,
        node_id=state.controller.node_id,
        level=LATEST,
        security=security.records(state),
    )
    give(CONTROLLER, SERVERS.uid, SERVERS.gid)


main()
