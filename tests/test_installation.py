"""`install_command`: what is typed to get an extra, for each way in which pip notes that it installed (PEP 610)."""

from __future__ import annotations

import json
import shlex
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from kafkawire import _installation
from kafkawire._installation import install_command


class Distribution:
    def __init__(self, stated: str | None) -> None:
        self._stated = stated

    def read_text(self, name: str) -> str | None:
        assert name == "direct_url.json"
        return self._stated


@pytest.mark.parametrize(
    ("stated", "command"),
    [
        (None, 'pip install "kafkawire[cli]"'),
        ({"url": "file:///src/kafka%20wire", "dir_info": {"editable": True}}, "pip install -e '/src/kafka wire[cli]'"),
        ({"url": "file:///src/kafkawire", "dir_info": {}}, "pip install '/src/kafkawire[cli]'"),
        (
            {"url": "file:///dist/kafkawire-0.2.0-py3-none-any.whl", "archive_info": {}},
            "pip install 'kafkawire[cli] @ file:///dist/kafkawire-0.2.0-py3-none-any.whl'",
        ),
        (
            {"url": "https://host.example/kw.git", "vcs_info": {"vcs": "git", "commit_id": "4f2a"}},
            "pip install 'kafkawire[cli] @ git+https://host.example/kw.git@4f2a'",
        ),
    ],
)
def test_command_follows_the_note_of_pip(stated: Any, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = None if stated is None else json.dumps(stated)
    monkeypatch.setattr(metadata, "distribution", lambda name: Distribution(text))
    assert install_command("cli") == command
    assert shlex.split(command)[:2] == ["pip", "install"]


@pytest.mark.parametrize("text", ["{", "[]", '{"url": 5}', "null"])
def test_note_that_is_not_understood(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "distribution", lambda name: Distribution(text))
    assert install_command("net") == 'pip install "kafkawire[net]"'


def test_source_tree_that_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", missing)
    (tmp_path / "kafkawire").mkdir()
    monkeypatch.setattr(_installation, "__file__", str(tmp_path / "kafkawire" / "_installation.py"))
    assert install_command("arrow") == 'pip install "kafkawire[arrow]"'
    (tmp_path / "pyproject.toml").touch()
    assert install_command("arrow") == f"pip install {shlex.quote(f'{tmp_path}[arrow]')}"
