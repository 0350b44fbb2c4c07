"""`kafkawire capture --keylog`."""

from __future__ import annotations

import json
import ssl
from pathlib import Path

import pytest

from tests.capture.wiretap import pcap
from tests.cli.runner import Run


@pytest.fixture
def tls_capture(tmp_path: Path) -> tuple[Path, Path, str]:
    """A capture of one exchange over TLS, its key log, and its client random."""
    pytest.importorskip("cryptography")
    from tests.capture.test_capture_tls import MESSAGES, packets
    from tests.capture.tls_traffic import Endpoints

    ends = Endpoints(tmp_path, ssl.TLSVersion.TLSv1_3)
    sent = ends.connect(MESSAGES).sent
    path = tmp_path / "trace.pcap"
    path.write_bytes(pcap(packets(sent)))
    return path, ends.key_log, sent[0][1][11:43].hex()


def test_keylog_decrypts_and_stats_name_what_tls_has_chosen(tls_capture: tuple[Path, Path, str], run: Run) -> None:
    path, key_log, _ = tls_capture
    result = run("capture", str(path), "--keylog", str(key_log), "--stats", "--format", "jsonl")
    assert result.code == 0
    assert {json.loads(line)["api"] for line in result.out.splitlines()} == {"ApiVersions", "Metadata", "EndTxn"}
    assert result.err == (
        f"note: {path}: 1 connection with TLS 1.3 TLS_AES_256_GCM_SHA384, server name broker1.example, "
        "server certificate CN=broker1.example\n"
    )


def test_connection_without_its_secret_is_reported_with_its_client_random(
    tls_capture: tuple[Path, Path, str], run: Run
) -> None:
    path, key_log, client_random = tls_capture
    key_log.write_text(key_log.read_text().replace(client_random, "00" * 32))
    result = run("capture", str(path), "--keylog", str(key_log))
    assert result.code == 1
    assert f"10.0.0.1:40000 - 10.0.0.2:9092: no secret for client random {client_random}" in result.err


def test_malformed_line_of_a_key_log_is_reported_and_the_others_are_used(
    tls_capture: tuple[Path, Path, str], run: Run
) -> None:
    path, key_log, _ = tls_capture
    count = len(key_log.read_text().splitlines())
    with key_log.open("a") as file:
        file.write("CLIENT_RANDOM 00ff 00ff00\n")
    result = run("capture", str(path), "--keylog", str(key_log))
    assert result.code == 4
    assert result.err == (f"incomplete: {key_log}, line {count + 1} has a client random of 2 bytes, not 32\n")


def test_key_log_that_cannot_be_read_is_a_usage_error(tls_capture: tuple[Path, Path, str], run: Run) -> None:
    path, key_log, _ = tls_capture
    result = run("capture", str(path), "--keylog", f"{key_log}.not")
    assert result.code == 2
    assert "keys.log.not is not a file that can be read" in result.err


def test_file_that_is_no_key_log_is_refused_in_one_sentence(tls_capture: tuple[Path, Path, str], run: Run) -> None:
    path, key_log, _ = tls_capture
    key_log.write_bytes(path.read_bytes())
    result = run("capture", str(path), "--keylog", str(key_log))
    assert (result.code, result.out) == (1, b"")
    assert len(result.err.splitlines()) == 1
    assert f"{key_log} is not a TLS key log: no line of " in result.err


def test_key_log_without_the_library_of_ciphers_names_the_extra(
    tls_capture: tuple[Path, Path, str], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kafkawire._installation import install_command
    from kafkawire.capture.tls import protection

    path, key_log, _ = tls_capture
    monkeypatch.setattr(protection, "find_spec", lambda name: None)
    result = run("capture", str(path), "--keylog", str(key_log))
    assert result.code == 1
    assert f'decrypting TLS needs the "net" extra: {install_command("net")}' in result.err
    assert "Traceback" not in result.err
