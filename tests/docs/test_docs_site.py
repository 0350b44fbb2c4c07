"""The guide builds with the command of `make docs`, and the site loads nothing from other hosts."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.guide import ROOT

pytestmark = pytest.mark.slow

#: Elements that a browser fetches without a click; `a` and canonical links are not among them.
LOADED = re.compile(
    r"""<(?:script|img|iframe|source|link[^>]*rel="?(?:stylesheet|preload|preconnect|icon)[^>]*?)
    [^>]*?\b(?:src|href)="?(?:https?:)?//""",
    re.VERBOSE,
)
IMPORTED = re.compile(r"""(?:@import\s*|url\(\s*)["']?(?:https?:)?//""")
#: The theme's scripts contain addresses of other hosts (for diagrams, and search from disk); the policy blocks them.
POLICY = (
    """<meta http-equiv="Content-Security-Policy" content="default-src 'self' file: data: blob: 'unsafe-inline'">"""
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mkdocs", reason="needs the extra `docs`")
    pytest.importorskip("mkdocstrings", reason="needs the extra `docs`")
    folder = tmp_path_factory.mktemp("guide") / "site"
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_site_has_every_page(site: Path) -> None:
    for name in ("index", "codecs", "audit", "SECURITY", "schemas/index", "api/records", "api/client"):
        assert (site / f"{name}.html").is_file(), name
    assert "find_batch" in (site / "api/records.html").read_text("utf-8")  # a docstring's heading
    assert (site / "report.png").is_file()


def test_site_loads_nothing_from_other_hosts(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text("utf-8")
        assert not LOADED.search(text), page
        assert POLICY in text, page
    for sheet in site.rglob("*.css"):
        assert not IMPORTED.search(sheet.read_text("utf-8")), sheet
