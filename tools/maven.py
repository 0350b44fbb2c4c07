"""Maven, which fetches Kafka's jars and the tools' libraries: one way to start it, its failures in one sentence."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

TIMEOUT_S = 900

_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
_ABSENT = re.compile(r"[\w.-]+:(?P<artifact>[\w.-]+):(?:[\w.-]+:)+(?P<version>\S+) (?:was not found )?in ")


class MavenError(Exception):
    """Maven is absent, or could not fetch an artifact; the message is one line with the artifact and the reason."""


def run(goals: list[str], what: str, pom: str | None = None) -> None:
    """Runs Maven in an empty folder: it looks for settings and a parent beside a POM. Raises MavenError.

    Args:
        goals: arguments of mvn. `what`: what is fetched, for the texts of errors.
        pom: the text of the POM, if there is one.
    """
    mvn = shutil.which("mvn")
    if mvn is None:
        raise MavenError(f"no mvn in PATH: Maven fetches {what}")
    command = [mvn, "-q", "-B", "-Dstyle.color=never", *goals]
    try:
        with tempfile.TemporaryDirectory() as folder:
            if pom is not None:
                (Path(folder) / "pom.xml").write_text(pom, encoding="utf-8")
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        raise MavenError(f"Maven has not fetched {what} in {TIMEOUT_S} s") from None
    except OSError as error:
        raise MavenError(f"cannot run mvn to fetch {what}: {error.strerror}") from None
    if done.returncode:
        raise MavenError(f"Maven cannot fetch {what}: {reason(done.stdout, done.stderr)}")


def reason(stdout: str, stderr: str) -> str:
    """Why Maven failed, on one line: which artifact it did not find, else the first error that it names."""
    lines = [_ESCAPES.sub("", line).strip() for line in (*stdout.splitlines(), *stderr.splitlines())]
    errors = [line for line in lines if line.startswith("[ERROR]")]
    message = next(
        (text for line in errors or lines if (text := line.replace("[ERROR]", "").strip())), "it gives no reason"
    )
    if found := _ABSENT.search(message):
        return f"no repository has {found['artifact']} {found['version']}"
    return message.removesuffix("-> [Help 1]").strip()[:600]
