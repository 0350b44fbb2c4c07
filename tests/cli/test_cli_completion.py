"""Shell completion: the shell asks, and `--install-completion` makes it ask."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def completed(line: str) -> list[str]:
    """The completions that bash gets for a line that ends in the word to complete."""
    words = line.split(" ")
    asked = {"_KAFKAWIRE_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    done = subprocess.run(
        [sys.executable, "-m", "kafkawire"], cwd=ROOT, env={**os.environ, **asked}, capture_output=True, text=True
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("kafkawire sch", ["schema"]),
        ("kafkawire txn fi", ["find-hanging"]),
        ("kafkawire dump --ver", ["--verify-index-only"]),
        ("kafkawire audit --engine s", ["spark"]),
    ],
)
def test_completes_commands_options_and_values(line: str, words: list[str]) -> None:
    assert completed(line) == words


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_installs_completion_where_the_shell_looks(tmp_path: Path) -> None:
    command = f"{shlex.quote(sys.executable)} -m kafkawire --install-completion; :"  # the shell must stay its parent
    done = subprocess.run(
        ["bash", "-c", command], cwd=ROOT, env={**os.environ, "HOME": str(tmp_path)}, capture_output=True, text=True
    )
    assert "completion installed" in done.stdout, done.stderr
    (line,) = (tmp_path / ".bashrc").read_text().split("\n")[1:2]
    script = Path(shlex.split(line)[1])
    assert "_KAFKAWIRE_COMPLETE=complete_bash" in script.read_text()
    assert subprocess.run(["bash", "-n", script], capture_output=True).returncode == 0
