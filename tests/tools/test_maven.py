"""tools/maven: Maven's error in one sentence, which every tool that fetches reports."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools import maven

pytestmark = pytest.mark.slow

PROJECT = (
    "Failed to execute goal on project broker: Could not resolve dependencies for project kafkawire:broker:pom:1: "
)
REMEMBERED = (
    "during a previous attempt. This failure was cached in the local repository and resolution is not reattempted "
    "until the update interval of central has elapsed or updates are forced -> [Help 1]"
)
MIRROR = "https://repo.example/maven2"
REST = "\n[ERROR] \n[ERROR] To see the full stack trace of the errors, re-run Maven with the -e switch.\n\x1b[0m"


@pytest.mark.parametrize(
    ("printed", "meant"),
    [
        (
            f"{PROJECT}Could not find artifact org.apache.kafka:kafka_2.13:jar:9.9.9 in central ({MIRROR}) -> [Help 1]",
            "no repository has kafka_2.13 9.9.9",
        ),
        (
            f"{PROJECT}org.apache.kafka:kafka_2.13:jar:9.9.9 was not found in {MIRROR} {REMEMBERED}",
            "no repository has kafka_2.13 9.9.9",
        ),
        (
            f"{PROJECT}Failure to find org.apache.kafka:kafka_2.13:jar:9.9.9 in {MIRROR} was cached -> [Help 1]",
            "no repository has kafka_2.13 9.9.9",
        ),
        (
            "Failed to execute goal org.apache.maven.plugins:maven-dependency-plugin:2.8:copy (default-cli) on project "
            "x: Unable to find artifact. Could not find artifact org.apache.kafka:kafka-clients:jar:test:9.9.9 in "
            f"central ({MIRROR})",
            "no repository has kafka-clients 9.9.9",
        ),
        (
            f"[ERROR] Some problems were encountered while processing the POMs:\n[ERROR] 'version' is bad{REST}",
            "Some problems were encountered while processing the POMs:",
        ),
        (f"the registry is away -> [Help 1]{REST}", "the registry is away"),
    ],
)
def test_failure_is_one_sentence_without_markup(printed: str, meant: str) -> None:
    assert maven.reason(f"\x1b[0m[ERROR] {printed}{REST}", "\x1b[0m\x1b[0m") == meant


def test_first_line_is_the_reason_without_an_error_line() -> None:
    assert maven.reason("\n", "\x1b[1mJAVA_HOME\x1b[m is not defined\nmore\n") == "JAVA_HOME is not defined"
    assert maven.reason("", "") == "it gives no reason"


def fake(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    (folder / "mvn").write_text("#!/bin/sh\n" + script)
    (folder / "mvn").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)


def test_endless_maven_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(tmp_path, monkeypatch, "exec sleep 600\n")
    monkeypatch.setattr(maven, "TIMEOUT_S", 0.2)
    with pytest.raises(maven.MavenError, match=r"Maven has not fetched Kafka 9 in 0\.2 s"):
        maven.run(["goal"], "Kafka 9")


def test_maven_that_cannot_be_run_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(tmp_path, monkeypatch, "")
    (tmp_path / "mvn").write_bytes(b"\0\0")
    with pytest.raises(maven.MavenError, match="cannot run mvn to fetch Kafka 9: Exec format error"):
        maven.run(["goal"], "Kafka 9")


TOOLS = [
    ("tools.soak", "--kafka-version"),
    ("tools.broker", "--kafka-version"),
    ("tools.conformance", "--release"),
    ("tools.import_schemas", "--add"),
]


@pytest.mark.parametrize(("tool", "option"), TOOLS, ids=[tool for tool, _ in TOOLS])
def test_unknown_release_is_one_sentence(
    tool: str, option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script prints what Maven 3.8 prints."""
    artifact = "kafka_2.13" if tool in ("tools.soak", "tools.broker") else "kafka-clients"
    problem = f"Could not find artifact org.apache.kafka:{artifact}:jar:9.9.9 in central ({MIRROR}) -> [Help 1]"
    fake(tmp_path, monkeypatch, f"printf '\\033[0m[ERROR] {PROJECT}{problem}\\n[ERROR] \\n'; exit 1\n")
    monkeypatch.setenv("KAFKAWIRE_CACHE", str(tmp_path / "cache"))
    done = subprocess.run([sys.executable, "-m", tool, option, "9.9.9"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    *before, last = done.stderr.splitlines()
    assert last.endswith(f"no repository has {artifact} 9.9.9")
    assert "Maven cannot fetch" in last
    assert all(line.startswith("fetching ") for line in before)
