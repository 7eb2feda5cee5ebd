"""A scanner of TLS (sslyze) finds no old protocol and no known weakness on closed listeners.

The controller's is not scanned: it hangs up on a client that does not speak HTTP/2, in the middle
of what the scanner takes for a handshake.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.secured import Secured

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.xdist_group("secured"),
    pytest.mark.soak,
    pytest.mark.timeout(900),
]

OLD = ("ssl_2_0", "ssl_3_0", "tls_1_0", "tls_1_1")
SCANS = ("sslv2", "sslv3", "tlsv1", "tlsv1_1", "tlsv1_2", "tlsv1_3", "compression", "heartbleed")
MORE_SCANS = ("robot", "openssl_ccs", "reneg", "fallback", "ems")
SCANNED_S = 300.0


def scanned(secured: Secured, listener: str, tmp_path: Path) -> dict[str, Any]:
    """Return what the scanner tells of a listener; one that demands a certificate gets one."""
    if (program := shutil.which("sslyze")) is None:
        pytest.skip("sslyze is not on the path")
    address = secured.addresses(listener).split(",")[0]
    issued = secured.ca.issue("scanner")
    (tmp_path / "chain.pem").write_text(issued.chain)
    (tmp_path / "key.pem").write_text(issued.private_key())
    words = [program, "--cert", str(tmp_path / "chain.pem"), "--key", str(tmp_path / "key.pem")]
    words += [f"--{scan}" for scan in (*SCANS, *MORE_SCANS)]
    told = tmp_path / "told.json"
    words += ["--slow_connection", "--mozilla_config=disable", f"--json_out={told}", address]
    done = subprocess.run(words, capture_output=True, text=True, timeout=SCANNED_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (server,) = json.loads(told.read_text())["server_scan_results"]
    assert server["scan_status"] == "COMPLETED", server["connectivity_error_trace"]
    found: dict[str, Any] = server["scan_result"]
    failed = {name: one["error_trace"] for name, one in found.items() if one["status"] == "ERROR"}
    assert not failed, failed
    return {name: one["result"] for name, one in found.items() if one and one["result"]}


@pytest.mark.parametrize("listener", ["CLIENT", "TLS", "MTLS"])
def test_a_scanner_finds_no_weakness(secured: Secured, listener: str, tmp_path: Path) -> None:
    found = scanned(secured, listener, tmp_path)

    for name in OLD:
        assert found[f"{name}_cipher_suites"]["accepted_cipher_suites"] == []
    assert found["tls_1_3_cipher_suites"]["accepted_cipher_suites"] != []
    for suite in found["tls_1_2_cipher_suites"]["accepted_cipher_suites"]:
        # Each has forward secrecy, and ciphers that authenticate what they encrypt.
        assert suite["ephemeral_key"] is not None, suite
        assert "GCM" in suite["cipher_suite"]["name"] or "POLY1305" in suite["cipher_suite"]["name"]
    assert not found["heartbleed"]["is_vulnerable_to_heartbleed"]
    assert not found["openssl_ccs_injection"]["is_vulnerable_to_ccs_injection"]
    assert found["robot"]["robot_result"].startswith("NOT_VULNERABLE")
    assert not found["tls_compression"]["supports_compression"]
    assert not found["session_renegotiation"]["is_vulnerable_to_client_renegotiation_dos"]
    assert found["tls_extended_master_secret"]["supports_ems_extension"]
