"""Key logs: which secrets their lines give, and what is reported of lines that give none."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.capture.tls import KeyLogFile, Secrets, key_log
from kafkawire.errors import KeyLogError

RANDOM, MASTER, TRAFFIC = b"\x11" * 32, b"\x22" * 48, b"\x33" * 32
LINE = f"CLIENT_RANDOM {RANDOM.hex()} {MASTER.hex()}"


def secrets_in(text: str | bytes) -> Secrets:
    secrets = Secrets()
    secrets.add(text.encode() if isinstance(text, str) else text, "keys.log")
    return secrets


def test_reads_secrets_of_both_versions_and_skips_comments() -> None:
    secrets = secrets_in(f"# a comment\n\n{LINE}\r\nSERVER_TRAFFIC_SECRET_0 {RANDOM.hex()} {TRAFFIC.hex()}\n")
    assert secrets.master_secrets(RANDOM, ()) == (MASTER,)
    assert secrets.traffic_secrets("SERVER_TRAFFIC_SECRET_0", RANDOM) == (TRAFFIC,)
    assert secrets.traffic_secrets("CLIENT_TRAFFIC_SECRET_0", RANDOM) == ()
    assert (secrets.count, secrets.problems) == (2, [])


def test_reads_lines_of_java_agents_by_session_id() -> None:
    secrets = secrets_in(f"RSA Session-ID:{b'session'.hex()} Master-Key:{MASTER.hex().upper()}\n")
    assert secrets.master_secrets(RANDOM, (b"", b"session")) == (MASTER,)
    assert secrets.master_secrets(RANDOM, (b"another",)) == ()


def test_reads_premaster_secrets_by_random_and_by_their_encrypted_beginning() -> None:
    secrets = secrets_in(f"RSA {'ab' * 8} {MASTER.hex()}\nPMS_CLIENT_RANDOM {RANDOM.hex()} {MASTER.hex()}\n")
    assert secrets.premaster_secrets(b"", b"\xab" * 8) == (MASTER,)
    assert secrets.premaster_secrets(RANDOM, b"") == (MASTER,)


def test_accepts_labels_that_decrypt_nothing_here() -> None:
    secrets = secrets_in(f"EXPORTER_SECRET {RANDOM.hex()} {TRAFFIC.hex()}\nQUIC_X {RANDOM.hex()} {TRAFFIC.hex()}\n")
    assert secrets.problems == []


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("hello", "is not a line of a key log"),
        (LINE[:-1], "has half a byte at its end"),
        (LINE[:-2], "has a secret of 47 bytes, not 48"),
        (f"CLIENT_RANDOM {RANDOM[1:].hex()} {MASTER.hex()}", "has a client random of 31 bytes, not 32"),
        (f"CLIENT_TRAFFIC_SECRET_0 {RANDOM.hex()} {MASTER[:33].hex()}", "has a secret of 33 bytes, not 32 or 48"),
        ("RSA Session-ID:00 Master-Key:00", "has a secret of 1 bytes, not 48"),
        ("A " * 5000, "is not a line of a key log"),
    ],
)
def test_reports_malformed_lines_by_number_without_their_content(line: str, problem: str) -> None:
    secrets = secrets_in(f"{LINE}\n{line}\n{LINE}\n")
    assert secrets.problems == [f"keys.log, line 2 {problem}"]
    assert secrets.count == 2


@given(st.binary(max_size=400))
def test_any_bytes_are_secrets_or_problems(data: bytes) -> None:
    secrets = secrets_in(data)
    assert secrets.malformed >= len(secrets.problems)
    assert not any(char in "".join(secrets.problems) for char in "\x1b\n")


def test_reads_what_a_file_gains(tmp_path: Path) -> None:
    path = tmp_path / "keys.log"
    path.write_text(LINE[:100])
    secrets = Secrets([KeyLogFile(path)], grows=True)
    secrets.read()
    assert (secrets.count, secrets.problems) == (0, [])
    with path.open("a") as file:
        file.write(LINE[100:] + "\nno\n")
    secrets.read()
    assert secrets.count == 1
    assert secrets.problems == [f"{path}, line 2 is not a line of a key log"]


def test_reads_a_last_line_without_its_end_unless_the_file_grows(tmp_path: Path) -> None:
    path = tmp_path / "keys.log"
    path.write_text(LINE)
    secrets = Secrets([KeyLogFile(path)])
    secrets.read()
    assert secrets.count == 1


@pytest.mark.parametrize("content", [b"hello\n" * 50, bytes(range(256)) * 9, b"CLIENT_RANDOM x y"])
def test_file_without_a_line_of_a_key_log_is_one_problem(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "keys.log"
    path.write_bytes(content)
    secrets = Secrets([KeyLogFile(path)])
    secrets.read()
    (problem,) = secrets.problems
    assert problem == secrets.refused
    assert problem.startswith(f"{path} is not a TLS key log: no line of ")
    with path.open("a") as file:
        file.write(f"\n{LINE}\n")
    secrets.read()
    assert secrets.count == 1
    assert secrets.refused is None


@pytest.mark.parametrize("content", ["", "# only a comment\n\n", LINE[:-2]])
def test_file_with_nothing_foreign_is_not_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "keys.log"
    path.write_text(content)
    secrets = Secrets([KeyLogFile(path)])
    secrets.read()
    assert secrets.refused is None


def test_memory_of_a_line_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "keys.log"
    path.write_bytes(b"A" * (5 << 20) + b"\n" + LINE.encode() + b"\n")
    secrets = Secrets([KeyLogFile(path)])
    secrets.read()
    assert secrets.problems == [f"{path}, line 1 is not a line of a key log"]
    assert secrets.count == 1


def test_repr_shows_no_secret() -> None:
    assert repr(secrets_in(LINE)) == "<Secrets: 1>"


def test_every_secret_of_a_name_is_kept_up_to_a_limit() -> None:
    """The first lines, and the newest one."""
    masters = [number.to_bytes(48, "big") for number in range(100)]
    lines = "\n".join(f"CLIENT_RANDOM {RANDOM.hex()} {master.hex()}" for master in [*masters, masters[0]])
    assert secrets_in(lines).master_secrets(RANDOM, ()) == (*masters[:15], masters[-1])


@pytest.mark.parametrize("device", ["/dev/zero", os.devnull])
def test_a_device_is_refused(device: str) -> None:
    with pytest.raises(KeyLogError, match=f"{device} is a device"):
        Secrets([KeyLogFile(device)]).read()


def test_a_pipe_is_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_text, args=(f"{LINE}\n",))
    writer.start()
    secrets = Secrets([KeyLogFile(path)])
    secrets.read()
    writer.join()
    assert secrets.count == 1


def test_a_pipe_that_grows_is_never_waited_for(tmp_path: Path) -> None:
    """It may have no writer yet, or one that writes no more and does not close it."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    secrets = Secrets([KeyLogFile(path)], grows=True)
    secrets.read()
    with path.open("w") as writer:
        for text, count in ((LINE[:100], 0), (f"{LINE[100:]}\n", 1), ("", 1), (f"{LINE}\n{LINE}\n", 3)):
            writer.write(text)
            writer.flush()
            secrets.read()
            assert secrets.count == count
    secrets.read()
    with path.open("w") as another:
        another.write(f"{LINE}\nno\n")
    secrets.read()
    assert (secrets.count, secrets.problems) == (4, [f"{path}, line 5 is not a line of a key log"])


@pytest.mark.parametrize(("limit", "text"), [("_MOST_BYTES", "bytes"), ("_MOST_LINES", "lines")])
def test_a_key_log_without_an_end_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, text: str
) -> None:
    monkeypatch.setattr(key_log, limit, 100)
    path = tmp_path / "keys.log"
    path.write_bytes(b"\n" * 100)
    Secrets([KeyLogFile(path)]).read()
    path.write_bytes(b"\n" * 101)
    with pytest.raises(KeyLogError, match=f"has more than 100 {text}"):
        Secrets([KeyLogFile(path)]).read()
