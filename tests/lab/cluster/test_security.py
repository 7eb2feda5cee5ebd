"""Keys, names and settings of the nodes of a closed cluster."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from cryptography import x509

from jbodlab.cli.lab_state import ClusterState
from jbodlab.vocabulary import properties
from lab.cluster import ClusterSpec, layout, security
from lab.cluster.engine import Engine
from lab.errors import LabError
from lab.machine import processes

KAFKA = Engine("4.3.1")


def closed(
    folder: Path, *, controllers: int = 1, kind: str = "sasl_ssl", engine: Engine = KAFKA
) -> ClusterState:
    """The state of a closed cluster of two brokers, with its keys and users."""
    user, ports = processes.own_user(), range(1, 3 + controllers)
    state = layout.plan(
        "x",
        folder,
        "id",
        user,
        ports,
        ClusterSpec(brokers=2, controllers=controllers, engine=engine, security=kind),
    )
    security.make(state, user)
    return state


def files(state: ClusterState) -> dict[int, dict[str, str]]:
    return {
        node.node_id: dict(properties.parse(layout.property_file(state, node)))
        for node in state.nodes
    }


def test_each_of_several_controllers_has_a_key_and_a_name_of_its_own(tmp_path: Path) -> None:
    state = closed(tmp_path, controllers=3)

    stores = {
        number: Path(found["ssl.keystore.location"]) for number, found in files(state).items()
    }
    assert {number: store.name for number, store in stores.items()} == {
        100: "controller-100.pem",
        101: "controller-101.pem",
        102: "controller-102.pem",
        1: "broker-1.pem",
        2: "broker-2.pem",
    }
    assert len({store.read_text() for store in stores.values()}) == 5
    names = ["admin", *(store.stem for store in stores.values())]
    for found in files(state).values():
        assert found["super.users"] == ";".join(f"User:{name}" for name in names)


def test_one_more_controller_is_known_by_the_authority_of_the_cluster_and_leaves_no_key(
    tmp_path: Path,
) -> None:
    state = closed(tmp_path, engine=Engine())
    node = layout.next_controller(state, (11, 12))

    security.admit(state, node, processes.own_user())

    store = Path(security.settings(state, node)["ssl.keystore.location"])
    assert store.name == "controller-101.pem"
    assert stat.S_IMODE(store.stat().st_mode) == 0o600
    authority = x509.load_pem_x509_certificate((tmp_path / "keys" / "ca.pem").read_bytes())
    own = x509.load_pem_x509_certificate(store.read_bytes())
    own.verify_directly_issued_by(authority)
    assert own.not_valid_after_utc <= authority.not_valid_after_utc
    security.dismiss(state, node)
    assert not store.exists()


def test_without_the_key_of_its_authority_a_cluster_takes_no_controller(tmp_path: Path) -> None:
    state = closed(tmp_path, engine=Engine())
    node = layout.next_controller(state, (11, 12))
    (tmp_path / "security" / "ca.key").unlink()

    with pytest.raises(LabError, match=r"controller-101 gets no certificate: .*ca\.key"):
        security.admit(state, node, processes.own_user())


def test_unknown_users_look_alike_at_all_brokers_and_after_each_start(tmp_path: Path) -> None:
    state = closed(tmp_path, engine=Engine())

    first, second = (files(state)[number]["jbodlab.scram.decoy.secret"] for number in (1, 2))

    assert first == second == files(state)[1]["jbodlab.scram.decoy.secret"]
    assert len(first) >= 32
    assert stat.S_IMODE((tmp_path / "keys" / security.DECOY_FILE).stat().st_mode) == 0o600


@pytest.mark.parametrize(("kind", "engine"), [("mtls", Engine()), ("sasl_ssl", KAFKA)])
def test_where_nobody_asks_for_passwords_of_ours_there_is_no_such_setting(
    tmp_path: Path, kind: str, engine: Engine
) -> None:
    for found in files(closed(tmp_path, kind=kind, engine=engine)).values():
        assert "jbodlab.scram.decoy.secret" not in found
