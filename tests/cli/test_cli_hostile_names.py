"""Hostile names through every output of every command: none acts on a terminal, and all can be recognized.

`CASES` has command lines for every command; `READ` and `WRITTEN` name every option that takes a file. A new command or
such an option fails a test here until it has its row.
"""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator, Sequence
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from kafkawire.cli import _commands, main
from kafkawire.cli.output import Format
from kafkawire.messages import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from tests.cli.harmless import harmless
from tests.cli.hostile import (
    ALL,
    FORMULAS,
    NAMES,
    TEXTS,
    HostileBroker,
    as_file,
    cells,
    is_number,
    missing,
    strings,
    unstyled,
)
from tests.cli.hostile_cases import (
    BOTH,
    CASES,
    DRY,
    FOUND,
    IDS,
    LONG_FILE,
    PARTLY,
    QUICK,
    WRONG,
    Case,
    partition,
    txn,
)
from tests.cli.hostile_world import FILE_NAMES, World, write
from tests.cli.runner import Run
from tests.cli.terminal import many_on_a_terminal
from tests.client.partition_script import in_thread
from tests.client.scripted import ScriptedBroker

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("world")
    write(folder)
    with in_thread(HostileBroker()) as broker:
        assert isinstance(broker, HostileBroker)
        yield World(folder, broker)


def every_command(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """All commands, those that no help shows too."""
    if hasattr(command, "list_commands"):
        for name in command.list_commands(None):
            yield from every_command(command.get_command(None, name), (*words, name))
    else:
        yield " ".join(words), command


COMMANDS = dict(every_command(_commands()))


def options(command: str) -> set[str]:
    return {option for parameter in COMMANDS[command].params for option in parameter.opts}


def test_every_command_has_a_case() -> None:
    assert {case.command for case in CASES} == set(COMMANDS)


#: Options whose file is read, and those whose file is written: what is in it is looked at below.
READ = {
    "--command-config",
    "--files",
    "--captures",
    "--keylog",
    "--logs",
    "--schemas",
    "--tier-key",
    "--web-config",
    "files",
    "paths",
    "inputs",
    "name",
    "data",
    "text",
    "what",
    "old",
    "new",
}
WRITTEN = {
    "--output",
    "--report",
    "--frames-out",
    "--audit-log",
    "--textfile",
    "--listen",
    "--record",
    "--save",
    "--resume",
}


def test_every_file_option_has_a_case() -> None:
    found = {
        parameter.opts[0]
        for command in COMMANDS.values()
        for parameter in command.params
        if re.search(r"FILE|DIR|PATH|JAR|PORT\]", parameter.metavar or "")
    }
    assert found <= READ | WRITTEN


# What is printed ------------------------------------------------------------------------------------------------------


def check_lines(text: str) -> None:
    """Nothing acts, and no line is one that a stranger wrote."""
    assert harmless(text)
    assert not re.search("^error: forged", text, re.MULTILINE)


def check_stderr(text: str) -> None:
    check_lines(text)
    assert all(re.match(r"(error|note|warning|incomplete): ", line) for line in text.splitlines())


def check_csv(text: str) -> list[str]:
    """The cells; what a spreadsheet would run is guarded."""
    check_lines(text)
    lines = cells(text)
    assert len(lines) == text.count("\n")
    assert len({len(line) for line in lines}) <= 1
    found = [cell for line in lines for cell in line]
    assert not [cell for cell in found if cell.startswith(FORMULAS) and not is_number(cell)]
    return found


def check(format: Format | None, text: str) -> list[str]:
    """The names that an output contains; in JSON they are the exact texts."""
    check_lines(text)
    if format is Format.csv:
        return check_csv(text)
    if format is Format.json:
        return list(strings(json.loads(text)))
    if format is Format.jsonl:
        return [one for line in text.splitlines() for one in strings(json.loads(line))]
    return [text]


def formats(case: Case) -> Sequence[Format | None]:
    return case.formats if "--format" in options(case.command) else (None,)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.command)
def test_output_in_a_pipe_is_harmless(run: Run, world: World, case: Case) -> None:
    for format in formats(case):
        if format is Format.parquet:
            continue
        result = run(*case.line(world), *(() if format is None else ("--format", format.value)))
        assert result.code in case.codes, result.err
        check_stderr(result.err)
        printed = check(format, result.text) if result.text else []
        assert missing(case.names, [*printed, result.err]) == [], format


def test_output_on_a_terminal_is_harmless(world: World, tmp_path: Path) -> None:
    """A real one: with colours, progress bars, and tables as wide as it is."""
    shown = many_on_a_terminal([case.line(world) for case in CASES], tmp_path, columns=4000)
    for case, text in zip(CASES, shown, strict=True):
        plain = unstyled(text)
        check_lines(plain)
        assert missing(case.names, [plain]) == [], case


# What is written into files -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "case",
    [case for case in CASES if "--output" in options(case.command) and "--format" in options(case.command)],
    ids=lambda case: case.command,
)
def test_parquet_keeps_texts_unchanged(run: Run, world: World, tmp_path: Path, case: Case) -> None:
    """But for bytes that are no UTF-8, which Arrow's text cannot hold."""
    parquet = pytest.importorskip("pyarrow.parquet")
    file = tmp_path / f"{as_file(ALL)[:60]}.parquet"
    result = run(*case.line(world), "-o", file)
    assert result.code in case.codes, result.err
    check_stderr(result.err)
    if file.exists():
        printed = [text for row in parquet.read_table(file).to_pylist() for text in strings(_plain(row))]
        names = [name for name in case.names if name.isascii() or name.encode(errors="ignore").decode() == name]
        assert missing(names, [*printed, result.err]) == []


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _plain(inner) for name, inner in value.items()}
    return list(map(_plain, value)) if isinstance(value, (list, tuple)) else value


def test_report_is_harmless(run: Run, world: World, tmp_path: Path) -> None:
    for output in ("-", tmp_path / f"{as_file(ALL)[:60]}.html"):
        result = run("audit", world.path("logs"), "--txn-partitions", 3, "--report", output)
        assert result.code == FOUND
        html = result.text if output == "-" else Path(output).read_text()
        check_lines(html)
        tags = re.findall(r"<(\w+)", html)
        assert tags.count("script") == 1
        assert not {"img", "a:", "iframe"} & set(tags)
        assert missing(FILE_NAMES, [unescape(html)]) == []
    page = tmp_path / "offsets.html"
    assert run("explain", world.path("logs"), *partition(FILE_NAMES[0]), "--report", page).code == 0
    check_lines(page.read_text())
    assert missing(FILE_NAMES[:1], [unescape(page.read_text())]) == []


def test_frame_file_names_are_harmless(run: Run, world: World, tmp_path: Path) -> None:
    frames = tmp_path / as_file(ALL)[:100]
    assert run("capture", world.path("trace.pcap"), "--frames-out", frames, "-o", tmp_path / "rows").code == 0
    found = [file.name for file in frames.iterdir()]
    assert len(found) >= 2 * len(NAMES)
    assert all(re.fullmatch(r"\d{6}-\w+-v\d+\.(req|resp)\.(bin|withheld)", name) for name in found)


def test_names_in_tls_and_in_key_logs_are_harmless(run: Run, tmp_path: Path) -> None:
    from tests.capture.wiretap import Conversation, ethernet, pcap

    def vector(size: int, data: bytes) -> bytes:
        return len(data).to_bytes(size, "big") + data

    server_name = TEXTS["escape"].encode() + b"\n"
    extension = b"\0\0" + vector(2, vector(2, b"\0" + vector(2, server_name)))
    body = b"\3\3" + bytes(32) + vector(1, b"") + vector(2, b"\x13\1") + vector(1, b"\0") + vector(2, extension)
    hello = b"\x16\3\1" + vector(2, b"\1" + vector(3, body))
    file, key_log = tmp_path / "tls.pcap", tmp_path / LONG_FILE
    file.write_bytes(pcap(map(ethernet, Conversation().send(0, hello).close().packets)))
    key_log.write_text(f"CLIENT_RANDOM {'00' * 32} {'11' * 48}\n\x1b[2J\nerror: forged\n")
    done = run(
        "capture",
        str(file),
        str(Path(__file__).parents[2] / "examples" / "capture" / "transactions.pcap"),
        "--stats",
        "--keylog",
        str(key_log),
        "--format",
        "jsonl",
    )
    assert done.code == 4, done.err
    check_stderr(done.err)
    assert "server name" in done.err
    assert "is not a line of a key log" in done.err


def test_audit_log_is_harmless(run: Run, tmp_path: Path) -> None:
    path = tmp_path / as_file(ALL)[:120]
    given = ("--yes", "--force", ALL, "--audit-log", str(path), *QUICK)
    with in_thread(HostileBroker()) as broker:
        for name in NAMES:
            line = ("txn", "force-terminate", "--bootstrap-server", broker.address, "--transactional-id", name, *given)
            done = run(*line)
            assert done.code == 0, done.err
            check_stderr(done.err)
            assert missing([path.name], [done.err]) == []
    lines = path.read_text()
    check_lines(lines)
    read = list(map(json.loads, lines.splitlines()))
    assert [(line["target"]["transactional_id"], line["phase"], line["reason"]) for line in read] == [
        (name, phase, ALL) for name in NAMES for phase in ("before", "after")
    ]


def test_metrics_are_harmless(run: Run, world: World, tmp_path: Path) -> None:
    prometheus = pytest.importorskip("prometheus_client.parser")
    file = tmp_path / as_file(f"{TEXTS['escape']}.prom")
    result = run(*Case("txn watch", txn(*QUICK, "--once", "--textfile", str(file))).line(world))
    assert result.code == FOUND
    text = file.read_text()
    check_lines(text)
    topics = {
        sample.labels["topic"]
        for family in prometheus.text_string_to_metric_families(text)
        for sample in family.samples
        if "topic" in sample.labels
    }
    assert missing(NAMES, list(topics)) == []
    assert all(topic.isprintable() for topic in topics)


# Errors from brokers and libraries ------------------------------------------------------------------------------------


def test_error_messages_of_brokers_are_harmless(run: Run, tmp_path: Path) -> None:
    """Text of a broker's own, that it sends before the login."""
    broker = ScriptedBroker()
    broker.versions |= {17: (0, 1), 36: (0, 2)}
    broker.on |= {
        SaslHandshakeRequest: lambda _: SaslHandshakeResponse(mechanisms=("PLAIN",)),
        SaslAuthenticateRequest: lambda _: SaslAuthenticateResponse(error_code=58, error_message=ALL),
    }
    config = tmp_path / "sasl.properties"
    config.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config="
        'org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="b";\n'
    )
    with in_thread(broker) as running:
        result = run("txn", "list", "--bootstrap-server", running.address, "--command-config", config)
    assert (result.code, result.text) == (WRONG, "")
    check_stderr(result.err)
    assert missing(NAMES, [result.err]) == []


def test_unknown_states_are_harmless(run: Run) -> None:
    with in_thread(HostileBroker()) as broker:
        assert isinstance(broker, HostileBroker)
        broker.state = ""
        where = ("--bootstrap-server", broker.address)
        for command, arguments, codes in (
            ("list", (), (0,)),
            ("describe", IDS, (0,)),
            ("find-hanging", (*QUICK, "--all"), (FOUND, PARTLY, BOTH)),
        ):
            for format in (Format.table, Format.csv, Format.jsonl):
                result = run("txn", command, *where, *arguments, "--format", format.value)
                assert result.code in codes, result.err
                check_stderr(result.err)
                check(format, result.text)
                if format is Format.jsonl and command != "find-hanging":
                    assert {json.loads(line)["TransactionState"] for line in result.text.splitlines()} == set(NAMES)


def nowhere(host: Any, *rest: Any, **options: Any) -> Any:
    """A look-up without the network, which refuses what the real one refuses."""
    if host == "127.0.0.1":
        return _LOOK_UP(host, *rest, **options)
    if "\0" in host:
        raise ValueError("embedded null character")
    host.encode("idna")
    raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")


_LOOK_UP = socket.getaddrinfo


def test_invalid_broker_addresses_are_harmless(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", nowhere)
    broker = HostileBroker()
    names = (*NAMES, ALL, "", "a" * 70, "...", "é" * 300)
    broker.nowhere = [*((name, 1) for name in names), ("127.0.0.1", 70_000), ("127.0.0.1", -1)]
    broker.topics = {"here": {0: 1}} | {f"topic {node}": {0: node} for node in range(2, 2 + len(broker.nowhere))}
    with in_thread(broker) as running:
        where = ("--bootstrap-server", running.address, *QUICK, "--timeout", "2")
        result = run("txn", "find-hanging", *where, "--format", "json")
    assert result.code == PARTLY
    check_stderr(result.err)
    gaps = json.loads(result.text)["read"]["gaps"]
    assert len(gaps) == len(broker.nowhere)
    assert missing(names, gaps) == []


def test_tracebacks_are_harmless(world: World, monkeypatch: pytest.MonkeyPatch, capsysbinary: Any) -> None:
    monkeypatch.setenv("KAFKAWIRE_DEBUG", "1")
    assert main(["txn", "abort", *txn(*DRY, "--topic", ALL, "--partition", "0", "--start-offset", "1")(world)]) == WRONG
    text = capsysbinary.readouterr().err.decode()
    assert text.startswith("Traceback (most recent call last):\n")
    check_lines(text)
    assert missing(NAMES, [text]) == []


def test_suggested_commands_are_quoted(run: Run, world: World) -> None:
    """What an operator copies: a shell reads every name in it as one word, and runs nothing else."""
    result = run("txn", "find-hanging", *txn(*QUICK, "--all")(world), "--format", "json")
    actions = [finding["action"] for finding in json.loads(result.text)["findings"]]
    ran = [_read_by_a_shell(action[action.index("kafkawire txn ") :]) for action in actions if "\0" not in action]
    assert {line[2] for line in ran} == {"abort", "force-terminate"}
    assert {word for line in ran for word in line} >= {name for name in NAMES if "\0" not in name}


def _read_by_a_shell(command: str) -> list[str]:
    """Its words; bash, since POSIX's sh has no quotes for control characters."""
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("bash is not here")
    read = subprocess.run([bash, "-c", f"printf '%s\\0' {command}"], capture_output=True, check=True)
    return read.stdout.decode("utf-8", "surrogateescape").split("\0")[:-1]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_is_harmless(run: Run, command: str) -> None:
    text = run(*command.split(), "--help").text
    check_lines(text)
