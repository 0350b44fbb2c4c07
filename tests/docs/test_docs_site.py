"""The guide builds with the command of `make docs`: it loads nothing from other hosts, and works from a disk."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest

import kafkawire
from tests.docs.guide import ROOT
from tools import browser

pytestmark = pytest.mark.slow

#: Elements that a browser fetches without a click; `a` and canonical links are not among them.
LOADED = re.compile(
    r"""<(?:script|img|iframe|source|link[^>]*rel="?(?:stylesheet|preload|preconnect|icon)[^>]*?)
    [^>]*?\b(?:src|href)="?(?:https?:)?//""",
    re.VERBOSE,
)
IMPORTED = re.compile(r"""(?:@import\s*|url\(\s*)["']?(?:https?:)?//""")
#: The theme's scripts contain addresses of other hosts (for diagrams); the policy blocks them.
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


def test_every_message_has_a_page_that_the_guide_links_to(site: Path) -> None:
    for name in kafkawire.messages.__all__:
        assert (site / f"reference/{name}.html").is_file(), name
    assert 'href="reference/AbortedTxn.html"' in (site / "file-formats.html").read_text("utf-8")


def test_examples_are_of_a_real_exchange_where_one_was_recorded(site: Path) -> None:
    for name in ("FindCoordinatorRequest", "WriteTxnMarkersResponse", "TransactionLogValue", "TopicRecord"):
        text = (site / f"reference/{name}.html").read_text("utf-8")
        assert re.search(r"From (packet \d+ of|__\w+-\d, offset \d+, in) examples/", text), name


def test_api_pages_show_code_as_code_and_no_internal_modules(site: Path) -> None:
    for page in (site / "api").glob("*.html"):
        text = page.read_text("utf-8")
        assert "Modules:</span>" not in text, page
        for paragraph in re.findall(r"<p>(.*?)</p>", text, re.DOTALL):
            shown = unescape(re.sub(r"<[^>]*>", "", paragraph))
            assert not re.search(r"^\w+ = |^(async )?with .*:$|^for \w+ in .*:$", shown, re.MULTILINE), (page, shown)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    try:
        with browser.chromium(1280, 900) as driver:
            yield driver
    except browser.NoBrowserError as e:
        pytest.skip(str(e))


@pytest.mark.parametrize(
    ("words", "page"),
    [
        ("FindCoordinatorRequest", "FindCoordinatorRequest.html"),
        ("NOT_COORDINATOR", "error-codes.html"),
        ("transaction_start_timestamp_ms", "TransactionLogValue.html"),
    ],
)
def test_search_works_from_a_disk(site: Path, chromium: Any, words: str, page: str) -> None:
    from selenium.webdriver.support.wait import WebDriverWait

    chromium.get((site / "index.html").as_uri())
    chromium.execute_script("document.querySelector('#__search').click()")
    chromium.find_element("css selector", "input.md-search__input").send_keys(words)
    found = WebDriverWait(chromium, 60).until(lambda it: it.find_elements("css selector", ".md-search-result__link"))
    assert found[0].get_attribute("href").partition("?")[0] == (site / "reference" / page).as_uri()
    assert not chromium.get_log("browser")


def test_no_page_scrolls_sideways_on_a_phone(site: Path, chromium: Any) -> None:
    browser.resize(chromium, 390, 844, scale=2, phone=True)
    pages = sorted(site.rglob("*.html"))
    reference = [page for page in pages if page.parent.name == "reference"]
    large = sorted(reference, key=lambda page: page.stat().st_size)[-12:]
    for page in [*(page for page in pages if page not in reference), *reference[::24], *large]:
        chromium.get(page.as_uri())
        assert chromium.execute_script("return document.documentElement.scrollWidth") <= 390, page


def test_site_is_dark_where_the_system_is(site: Path, chromium: Any) -> None:
    for dark in (True, False):
        browser.look(chromium, dark=dark)
        chromium.get((site / "reference/index.html").as_uri())
        colour = chromium.execute_script("return getComputedStyle(document.body).backgroundColor")
        red, green, blue = map(int, re.findall(r"\d+", colour)[:3])
        assert (red + green + blue < 200) is dark, colour
