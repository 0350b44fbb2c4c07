"""Workflows that only run elsewhere are at least valid: actionlint reads them."""

from __future__ import annotations

import os
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from tools.wheels import interpreters

ROOT = Path(__file__).parents[2]
ACTIONLINT = "github.com/rhysd/actionlint/cmd/actionlint@v1.7.12"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("go") is None, reason="needs Go")
def test_workflows_are_valid() -> None:
    command = ["go", "run", ACTIONLINT, *ROOT.glob(".github/workflows/*.yml")]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"GOTOOLCHAIN": "local"})
    if "dial tcp" in done.stderr or "proxyconnect" in done.stderr:
        pytest.skip("Go modules cannot be fetched")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_wheels_are_built_for_every_version_of_python() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["cibuildwheel"]
    assert {f"cp{major}{minor}-*" for major, minor in interpreters.supported()} <= set(settings["build"])
