"""The manual page has every command and option, and roff takes it without a warning."""

from __future__ import annotations

import shutil
import subprocess

import pytest
import typer
from typer.main import get_command

from kafkawire import __version__
from kafkawire.cli import app, manual
from tests.cli.runner import Run

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def page() -> str:
    return manual.page(get_command(app), __version__)


def test_prints_the_page(run: Run, page: str) -> None:
    result = run("--man")
    assert (result.code, result.text) == (0, page)


def test_has_every_command_and_option(page: str) -> None:
    plain = page.replace("\\-", "-")
    root = get_command(app)
    with root.make_context("kafkawire", [], resilient_parsing=True) as context:
        found = list(manual.commands(root, context))
    names = {context.command_path for _, context in found}
    assert {"kafkawire decode", "kafkawire txn find-hanging", "kafkawire schema emit"} <= names
    for command, context in found:
        section = plain.partition(f"\n.SS {context.command_path}\n")[2].partition("\n.S")[0]
        for parameter in command.get_params(context):
            if not getattr(parameter, "hidden", False):
                assert parameter.name == "help" or parameter.opts[0] in section or parameter.metavar in section
    assert "forceTerminateTransaction" not in plain  # hidden, as in the help


def test_text_starts_no_request_and_no_escape() -> None:
    group = typer.Typer(help=".SH x")
    group.command()(lambda: None)
    group.callback()(lambda: None)
    lines = manual.page(get_command(group), r"'a\-b").splitlines()
    assert [line for line in lines if ".SH x" in line] == [r"kafkawire \- \&.SH x", r"\&.SH x"]
    assert r"\&'a\e\-b" in lines[0]


@pytest.mark.skipif(shutil.which("groff") is None, reason="needs groff")
def test_roff_takes_the_page_without_a_warning(page: str) -> None:
    done = subprocess.run(
        ["groff", "-man", "-ww", "-k", "-Tutf8"], input=page.encode(), capture_output=True, check=True
    )
    assert done.stderr == b""
    assert "Ended by Ctrl-C" in done.stdout.decode()
