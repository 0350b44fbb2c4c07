"""Errors of typical mistakes at the command line, all in one table: tests/golden/cli/errors.md.

Read it as a new user: each is one sentence with its place and, where there is one, a way
on.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import golden
from tests.cli.runner import Run

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
LOGS = "one-node"
NOWHERE = "--bootstrap-server 127.0.0.1:1"
DECODE = "decode DescribeProducersRequest --version 0"
ENCODE = "encode DescribeProducersRequest --version 0"

#: Command lines by what is wrong; blanks part arguments.
MISTAKES: dict[str, list[str]] = {
    "No such command, option, or value of one": [
        "frob",
        "schema frob",
        "txn frob",
        "captur x.pcap",
        "schema dif",
        "decode",
        "capture",
        "dump",
        "audit",
        "schema generate",
        "schema emit lua",
        f"{DECODE} --verzion 1 00",
        "decode DescribeProducersRequest --version x 00",
        "capture text --slow -1",
        "capture text --slow soon",
        "capture text --time yesterday..",
        "capture text --time 1795241506..",
        "capture text --api Nope",
        f"dump {LOGS} --format xml",
        f"dump {LOGS} --offset x",
        f"dump {LOGS} --offset 5..1",
        f"dump {LOGS} --time x",
        f"dump {LOGS} --time 1795241506..1795241507",
        f"explain {LOGS} --topic order --partition 0",
        f"explain {LOGS} --topic orders --partition 7",
        f"explain {LOGS} --topic orders --partition 0 --offset 99",
        f"explain {LOGS} --topic orders --partition 0 --from 5 --to 5",
        f"audit {LOGS} --as-of x",
        f"audit {LOGS} --engine foo",
        "schema list --kind foo",
        f"txn watch {NOWHERE} --listen x",
        f"txn find-hanging {NOWHERE} --timeout 0",
    ],
    "Options that do not go together": [
        f"{DECODE} --prefixed 00",
        "decode --frame --api-key 61 00",
        "capture text --stats --timeline a",
        "capture text text --follow",
        "capture text --format parquet",
        f"dump {LOGS} --offsets-decoder --transaction-log-decoder",
        f"audit {LOGS} --master local",
        "schema export",
        "schema export --all",
        f"txn describe {NOWHERE}",
        f"txn abort {NOWHERE} --topic a",
        f"txn abort {NOWHERE} --topic a --partition 0",
        f"txn abort {NOWHERE} --topic a --partition 0 --start-offset 4",
    ],
    "Unknown messages and versions": [
        "decode Nope --version 0 00",
        "decode describeproducersresponse --version 0 00",
        "decode kip-664-draft:Nope --version 0 00",
        "decode foo:Nope --version 0 00",
        "decode FetchRequest 00",
        "decode DescribeProducersRequest --version 9 00",
        "encode DescribeProducersRequest --version 5 {}",
        "schema show FetchRequest --version 99",
        "decode TransactionLogValue --prefixed 0009",
    ],
    "Bytes and JSON that are wrong": [
        f"{DECODE} zz",
        f"{DECODE} 0",
        f"{DECODE} 05",
        f"{DECODE} 010000",
        "decode --frame 00",
        "decode --frame --api-key 999 --version 0 00000001",
        f"{ENCODE} {{",
        f"{ENCODE} []",
        f"{ENCODE} {{}}",
        f'{ENCODE} {{"topics":5}}',
        f"{ENCODE} text",
    ],
    "Files that are missing, or something else": [
        f"{DECODE} missing.bin",
        f"{DECODE} folder",
        f"{DECODE} --hex text",
        f"{DECODE} --schemas missing 00",
        f"{DECODE} --schemas folder 00",
        f"{ENCODE} missing.json",
        f"{ENCODE} folder",
        "capture missing.pcap",
        "capture folder",
        "capture empty",
        "capture text",
        "dump missing",
        "dump folder",
        "dump text",
        f"dump {LOGS} -o missing/x.jsonl",
        f"dump {LOGS} -o folder",
        "explain missing --topic orders --partition 0",
        "explain folder --topic orders --partition 0",
        "audit missing",
        "audit folder",
        "audit text",
        f"audit {LOGS} --report missing/x.html",
        "schema generate --schemas missing -o out",
        "schema generate --schemas folder -o out",
        "schema diff a b",
        "schema diff kafka text",
        "schema import missing.jar -o out",
        "schema import text -o out",
        "schema import folder -o out",
        "schema emit wireshark -o missing/x.lua",
    ],
    "Clusters that are not there, and how to reach them": [
        "txn list",
        "txn list --bootstrap-server localhost",
        "txn list --bootstrap-server localhost:99999",
        f"txn list {NOWHERE}",
        f"txn list {NOWHERE} --command-config missing",
        f"txn list {NOWHERE} --command-config folder",
        f"txn list {NOWHERE} --command-config kerberos.properties",
        f"txn list {NOWHERE} --command-config protocol.properties",
        f"txn list {NOWHERE} --command-config escape.properties",
        f"txn list {NOWHERE} --command-config store.properties",
        f"txn watch {NOWHERE} --once",
    ],
}

#: What is not installed -> what needs it.
EXTRAS = {
    "pyarrow": [f"dump {LOGS} -o x.parquet", "dump s3://logs/broker-1"],
    "pyspark": [f"audit {LOGS} --engine spark"],
    "prometheus_client": [f"txn watch {NOWHERE} --listen 0"],
}

#: A process in which a module is not there, although it is installed.
WITHOUT = """
import sys
sys.modules[sys.argv[1]] = None
from kafkawire.cli import main
sys.exit(main(sys.argv[2:]))
"""

FILES = {
    "empty": "",
    "text": "hello\n",
    "kerberos.properties": "security.protocol=SASL_SSL\nsasl.mechanism=GSSAPI\n",
    "protocol.properties": "security.protocol=FOO\n",
    "escape.properties": "a=\\uZZZZ\n",
    "store.properties": "security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location=missing.pem\n",
}


def test_errors_match_the_golden_table(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "folder").mkdir()
    (tmp_path / LOGS).symlink_to(ROOT / "examples" / "kafka-logs" / LOGS)

    lines = ["# Errors of typical mistakes", ""]

    def row(command: str, code: int, err: str) -> None:
        printed = err.splitlines()
        assert code in (1, 2), command
        assert len(printed) == 1, command
        assert printed[0].startswith("error: "), command
        lines.append(f"| `{command.replace(NOWHERE, '...')}` | {code} | {printed[0].removeprefix('error: ')} |")

    def heading(text: str) -> None:
        lines.extend([f"## {text}", "", "| kafkawire ... | exit code | error: ... |", "|---|---|---|"])

    for title, commands in MISTAKES.items():
        heading(title)
        for command in commands:
            result = run(*command.split(" "))
            row(command, result.code, result.err)
        lines.append("")
    for module, commands in EXTRAS.items():
        heading(f"Without {module}")
        for command in commands:
            done = subprocess.run(
                [sys.executable, "-c", WITHOUT, module, *command.split(" ")],
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                capture_output=True,
                text=True,
            )
            # How this copy was installed is for `tests/test_installation.py`.
            text = re.sub(r"pip install (?:-e )?\S*\[([\w,-]+)\]\S*", r'pip install "kafkawire[\1]"', done.stderr)
            row(command, done.returncode, text)
        lines.append("")
    golden.check("cli/errors.md", "\n".join(lines))
