"""Another certificate of a broker or controller, put in place while it runs.

The authority of the cluster signs it, or one that nobody trusts. The server finds it when it looks
at its key store again, and shows it to new connections; those of clients that are open keep what
they have. One that expires is valid for some seconds, since no server would take it later, and the
fault takes effect at its last moment.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import os
import socket
import ssl
import time
from pathlib import Path
from typing import Any

from fault_injection import closed_cluster
from fault_injection.closed_cluster import ClosedCluster
from fault_injection.errors import FaultError
from fault_injection.journal import Fault
from fault_injection.kinds import FaultSpec
from fault_injection.mechanism import Broken, Healing, RecordUndo, Start, Target

VALID = datetime.timedelta(days=30)
TAKEN_S = 15.0
"""Longest wait for a broker to show another certificate."""
LOOK_S = 0.1
HANDSHAKE_S = 3.0
KAFKA = "Apache Kafka looks at its key store again when an administrator sets it again, not before"
EXPIRES, UNTRUSTED = "certificate-expires", "certificate-untrusted"
EXPIRED = 10
"""X509_V_ERR_CERT_HAS_EXPIRED of OpenSSL."""


class Certificates:
    """The mechanism `certificates`."""

    def refusal(self, spec: FaultSpec, target: Target) -> str:
        broker, cluster = target.broker, target.cluster
        assert broker is not None
        if cluster is None:
            return f"{broker.name} has no certificate of an authority here: {target.advice.closed}"
        if cluster.is_kafka:
            return KAFKA
        if broker.process is None:
            return f"{broker.name} does not run"
        store = cluster.key_store(broker.name)
        if _kept(store).exists():
            return f"{broker.name} has another certificate already, by a fault that is open"
        if not os.access(store, os.R_OK | os.W_OK):
            return f"{store} cannot be written"
        try:
            import cryptography
        except ImportError:
            return "certificates take the library cryptography: pip install 'jbodlab[pkcs12]'"
        assert cryptography
        return ""

    def prepare(self, spec: FaultSpec, target: Target, fault_id: int) -> dict[str, Any]:
        """Return where the certificate lies, and who is connected to the broker."""
        broker, cluster = target.broker, target.cluster
        assert broker is not None
        assert cluster is not None
        own = [each for each in cluster.brokers if each.name == broker.name]
        return {
            "root": str(cluster.root),
            "security": cluster.security,
            "host": broker.host,
            "port": broker.ports[0],
            "lifetime_s": spec.lifetime_s,
            "before": closed_cluster.look(own, cluster.brokers),
        }

    def make(self, fault: Fault, record: RecordUndo, start: Start) -> int | None:
        """Put another certificate in place, and wait until it is shown, or has expired."""
        from jbodlab.security.authority import Authority

        cluster, store = _cluster(fault), _store(fault)
        expires = fault.kind == EXPIRES
        # Certificates know whole seconds.
        now = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
        length = datetime.timedelta(seconds=fault.undo["lifetime_s"] + 1) if expires else VALID
        until = now + length
        if fault.kind == UNTRUSTED:
            authority = Authority.new("an authority that nobody trusts", now, until)
        else:
            authority = Authority.load(
                (cluster.folder / "ca.pem").read_bytes(), (cluster.folder / "ca.key").read_bytes()
            )
        names = closed_cluster.hosts(fault.broker, fault.undo["host"])
        key, chain = authority.issue(fault.broker, names, now, until)
        if not _kept(store).exists():
            _write(_kept(store), store.read_bytes(), store)
        _write(store, (key + chain).encode(), store)
        shown = hashlib.sha256(ssl.PEM_cert_to_DER_cert(chain)).hexdigest()
        record({"shown": shown})
        _wait_shown(fault, shown)
        if not expires:
            return None
        while (left := until - datetime.datetime.now(datetime.UTC)) >= datetime.timedelta():
            time.sleep(left.total_seconds() + 0.01)
        return time.monotonic_ns()

    def verify(self, fault: Fault) -> str:
        """Connect as a new client does that trusts the authority."""
        try:
            shown = _handshake(fault, checks=True)
        except ssl.SSLCertVerificationError as error:
            why = EXPIRES if error.verify_code == EXPIRED else UNTRUSTED
            return "" if fault.kind == why else str(error)
        except OSError as error:
            return f"{fault.broker} does not answer: {error}"
        if fault.kind in (EXPIRES, UNTRUSTED):
            return f"a new client trusts {fault.broker}"
        return "" if shown == fault.undo["shown"] else f"{fault.broker} shows its old certificate"

    def undo(self, fault: Fault, start: Start) -> Healing:
        """Put the old certificate back, and wait until a running broker shows it."""
        store = _store(fault)
        kept = _kept(store)
        if not kept.exists():
            return Healing()
        data = kept.read_bytes()
        _write(store, data, kept)
        certificate = data[data.index(b"-----BEGIN CERTIFICATE") :].decode()
        wanted = hashlib.sha256(ssl.PEM_cert_to_DER_cert(certificate)).hexdigest()
        try:
            _wait_shown(fault, wanted)
        except ConnectionRefusedError:
            # It does not run, and shows it when it is started.
            note = f"{fault.broker} does not run"
        else:
            note = f"{fault.broker} shows its certificate again"
        kept.unlink()
        return Healing(note=note)

    def broken(self, fault: Fault) -> Broken:
        own = 1 if fault.kind in (EXPIRES, UNTRUSTED) and fault.injected_ns else 0
        clients = closed_cluster.became(fault.undo["before"], own_handshakes=own)
        return Broken(what="handshakes", count=clients.handshakes_failed or 0, clients=clients)


def _cluster(fault: Fault) -> ClosedCluster:
    return ClosedCluster(security=fault.undo["security"], root=Path(fault.undo["root"]), brokers=())


def _store(fault: Fault) -> Path:
    return _cluster(fault).key_store(fault.broker)


def _kept(store: Path) -> Path:
    """Return where the certificate lies that is put back."""
    return store.with_suffix(".kept")


def _write(path: Path, data: bytes, like: Path) -> None:
    """Write a secret file as a whole, for whoever owns another one."""
    owner = like.stat()
    new = path.with_suffix(".new")
    new.unlink(missing_ok=True)
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "wb") as file:  # noqa: PTH123 - with a mode
        if os.geteuid() == 0:
            os.fchown(descriptor, owner.st_uid, owner.st_gid)
        file.write(data)
        file.flush()
        os.fsync(descriptor)
    new.replace(path)


def _wait_shown(fault: Fault, wanted: str) -> None:
    """Wait until a broker shows a certificate, by its SHA-256.

    Raises:
        FaultError: it does not within the time.
        ConnectionRefusedError: it does not run.
    """
    end = time.monotonic() + TAKEN_S
    while True:
        with contextlib.suppress(TimeoutError, ConnectionResetError, ssl.SSLError):
            if _handshake(fault, checks=False) == wanted:
                return
        if time.monotonic() > end:
            raise FaultError(f"{fault.broker} does not show the other certificate")
        time.sleep(LOOK_S)


def _handshake(fault: Fault, *, checks: bool) -> str:
    """Return the SHA-256 of the certificate that a new client is shown.

    Args:
        fault: Of the broker.
        checks: Whether the client refuses what it does not trust.

    Raises:
        OSError, ssl.SSLError: it cannot connect, or refuses.
    """
    folder = _cluster(fault).folder
    context = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    own = folder / "admin.pem"
    if own.exists():
        context.load_cert_chain(own)
    context.check_hostname = False
    if not checks:
        context.verify_mode = ssl.CERT_NONE
    address = fault.undo["host"], fault.undo["port"]
    with (
        socket.create_connection(address, HANDSHAKE_S) as plain,
        context.wrap_socket(plain) as encrypted,
    ):
        found = encrypted.getpeercert(binary_form=True)
    assert found is not None
    return hashlib.sha256(found).hexdigest()
