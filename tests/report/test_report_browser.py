"""The report in headless Chromium: hostile text, layout, sorting, searching, and reading without scripts."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from kafkawire import logdir, report, transactions
from kafkawire.report.descriptions import REASONS, severity
from kafkawire.rows import Audit
from tests.report.audits import NOON, READ, every_kind, far_too_many, finding, hostile
from tools import browser
from tools.recordings.archive import unpacked

HANGING = unpacked("hanging-transactions")

Open = Callable[[Audit], Any]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    try:
        with browser.chromium(1280, 900) as driver:
            yield driver
    except browser.NoBrowserError as e:
        pytest.skip(str(e))


@pytest.fixture
def show(chromium: Any, tmp_path: Path) -> Iterator[Open]:
    """Shows an audit's report. Errors that the browser logs (of scripts and of the content policy) fail the test."""
    browser.resize(chromium, 1280, 900)
    browser.look(chromium)
    chromium.get_log("browser")

    def shown(audit: Audit) -> Any:
        page = tmp_path / "report.html"
        page.write_bytes(report.render(audit).encode())
        chromium.get(page.as_uri())
        return chromium

    yield shown
    assert [entry["message"] for entry in chromium.get_log("browser")] == []


def column(driver: Any, table: str, number: int) -> list[str]:
    """The texts of a table's column in their order, without hidden rows."""
    found: list[str] = driver.execute_script(
        """
        const [caption, number] = arguments;
        const rows = document.getElementById(caption).closest("table").tBodies[0].rows;
        return [...rows].filter(row => row.offsetParent !== null).map(row => row.cells[number].textContent);
        """,
        table,
        number,
    )
    return found


def head(driver: Any, table: str, number: int) -> Any:
    return driver.execute_script(
        "return document.getElementById(arguments[0]).closest('table').tHead.rows[0].cells[arguments[1]]", table, number
    )


def many() -> Audit:
    findings = [
        finding(partition=partition, start_offset=start, last_offset=start, age_ms=age, transactional_id=name)
        for partition, start, age, name in (
            (10, 5, 9_000, "b"),
            (2, 100, None, "a10"),
            (1, 20, 3 * 3_600_000, "a9"),
            (0, 3, 70_000, None),
        )
    ]
    return Audit(as_of=NOON, read=READ, findings=tuple(findings))


PARTITION, OFFSET, AGE, ID = 1, 2, 4, 6


def test_tables_sort_by_what_their_cells_mean(show: Open) -> None:
    driver = show(many())
    for number, ascending in (
        (PARTITION, ["orders-0", "orders-1", "orders-2", "orders-10"]),
        (OFFSET, ["3", "5", "20", "100"]),
        (AGE, ["9 s", "1 min 10 s", "3 h", "unknown"]),
        (ID, ["a9", "a10", "b", "none"]),
    ):
        button = head(driver, "findings", number).find_element("css selector", "button")
        button.click()
        assert column(driver, "findings", number) == ascending
        assert head(driver, "findings", number).get_attribute("aria-sort") == "ascending"
        button.click()
        known = [text for text in ascending if text not in ("unknown", "none")]
        assert column(driver, "findings", number) == known[::-1] + ascending[len(known) :]
        assert head(driver, "findings", number).get_attribute("aria-sort") == "descending"
    assert head(driver, "findings", OFFSET).get_attribute("aria-sort") is None


def test_tables_are_searched_by_all_words_in_any_case(show: Open) -> None:
    driver = show(many())
    box = driver.find_element("css selector", "#open .search input")
    status = driver.find_element("css selector", "#open .search [role=status]")
    box.send_keys("ORDERS-1 9")
    assert column(driver, "findings", PARTITION) == ["orders-10", "orders-1"] or column(
        driver, "findings", PARTITION
    ) == ["orders-1", "orders-10"]
    assert status.text == "2 of 4 rows"
    box.send_keys(" <b>")
    assert column(driver, "findings", PARTITION) == []
    box.clear()
    box.send_keys("a")
    assert status.text == "4 of 4 rows"
    box.send_keys("\b")
    assert status.text == ""


def test_copy_button_copies_the_shown_command(show: Open) -> None:
    driver = show(every_kind())
    driver.execute_cdp_cmd(
        "Browser.grantPermissions", {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]}
    )
    button = driver.find_element("css selector", "pre.command button")
    wait = pytest.importorskip("selenium.webdriver.support.ui").WebDriverWait(driver, 20)
    button.click()
    wait.until(lambda _: button.text != "Copy")
    assert button.text == "Copied"
    copied = driver.execute_async_script("navigator.clipboard.readText().then(arguments[0], e => arguments[0](`${e}`))")
    assert copied == every_kind().findings[0].action


def test_copy_button_selects_the_command_without_clipboard(show: Open) -> None:
    driver = show(every_kind())
    driver.execute_script("navigator.clipboard.writeText = () => Promise.reject(new Error('no'))")
    button = driver.find_element("css selector", "pre.command button")
    wait = pytest.importorskip("selenium.webdriver.support.ui").WebDriverWait(driver, 20)
    button.click()
    wait.until(lambda _: button.text == "Selected")
    selected = driver.execute_script("return getSelection().toString()")
    assert selected == every_kind().findings[0].action


def test_hostile_text_runs_no_script_and_loads_no_image(show: Open) -> None:
    driver = show(hostile())
    assert driver.execute_script("return document.scripts.length") == 1
    assert driver.execute_script("return document.images.length") == 0
    assert "alert('x')" in driver.find_element("tag name", "main").text


@pytest.mark.parametrize("width", [320, 390, 768, 1280])
def test_page_is_not_wider_than_the_screen(show: Open, width: int) -> None:
    long = "n" * 300
    findings = (finding(topic=long, transactional_id=long, evidence=(long,), action=f"kafkawire txn abort {long}"),)
    for audit in (every_kind(), hostile(), Audit(as_of=NOON, read=READ, findings=findings)):
        driver = show(audit)
        browser.resize(driver, width, 800, phone=width < 500)
        assert driver.execute_script("return document.documentElement.scrollWidth") <= width


def test_first_screen_shows_the_answer(show: Open) -> None:
    for audit in (every_kind(), far_too_many(1000)):
        driver = show(audit)
        for width, height in ((1280, 800), (390, 844)):
            browser.resize(driver, width, height, phone=width < 500)
            place = "return document.querySelector('.first li:first-child').getBoundingClientRect().bottom"
            assert driver.execute_script(place) < height


def unfolded(driver: Any) -> Any:
    """The page with all that is folded open, by clicks, the outer one first."""
    for summary in driver.find_elements("css selector", "main summary"):
        summary.click()
    return driver


def eleven() -> list[Audit]:
    """Eleven findings of a real audit that need attention, and eleven of which each has a reason of its own."""
    audit = transactions.audit(logdir.open(str(HANGING)))
    notable = [one for one in audit.findings if severity(one) != "fine"][:11]
    reasons = [*REASONS, "of_next_year"][:11]
    made = [finding(partition=number, reason=reason) for number, reason in enumerate(reasons)]
    assert len(notable) == len(made) == 11
    return [replace(audit, findings=tuple(notable)), replace(audit, findings=tuple(made))]


@pytest.mark.parametrize(("width", "height", "screens"), [(1920, 1080, 3), (1280, 1080, 3), (390, 844, 8)])
def test_eleven_findings_fit_on_a_few_screens(show: Open, width: int, height: int, screens: int) -> None:
    """The whole page, with what else was found and read, folded."""
    for audit in eleven():
        driver = show(audit)
        browser.resize(driver, width, height, phone=width < 500)
        assert len(driver.find_elements("css selector", "article.card")) == 11
        assert driver.execute_script("return document.documentElement.scrollHeight") <= screens * height


def test_link_opens_what_is_folded(show: Open) -> None:
    driver = show(every_kind())
    rules = driver.find_element("css selector", "#rules table")
    assert not rules.is_displayed()
    driver.find_element("css selector", 'nav a[href="#rules"]').click()
    assert rules.is_displayed()


def test_page_is_readable_without_scripts(show: Open) -> None:
    driver = show(every_kind())
    driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        driver.refresh()
        text = unfolded(driver).find_element("tag name", "body").text
        tables = driver.find_elements("css selector", "table.data")
        buttons = driver.find_elements("css selector", "button, input")
    finally:
        driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    assert len(tables) >= 5
    assert buttons == []
    assert "one_outcome" in text
    assert "kafkawire txn abort --bootstrap-server HOST:PORT" in text


def test_tables_and_headings_are_accessible(show: Open) -> None:
    driver = show(every_kind())
    tables, headings = driver.execute_script(
        """
        const tables = [...document.querySelectorAll("table")].map(
          table => [table.caption.textContent, [...table.tHead.rows[0].cells].every(head => head.scope === "col")]);
        const headings = [...document.querySelectorAll("h1, h2, h3, h4")].map(heading => Number(heading.tagName[1]));
        return [tables, headings];
        """
    )
    assert all(caption and scoped for caption, scoped in tables)
    assert headings[0] == 1
    assert headings.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(headings))
    unnamed = "return [...document.querySelectorAll('svg:not([aria-hidden])')].filter(e => !e.ariaLabel).length"
    assert driver.execute_script(unnamed) == 0
    assert driver.find_element("css selector", ".search input").accessible_name == "Search these rows"


def test_dark_scheme_and_print(show: Open, tmp_path: Path) -> None:
    driver = show(every_kind())
    ground = "return getComputedStyle(document.body).backgroundColor"
    light = driver.execute_script(ground)
    browser.look(driver, dark=True)
    assert driver.execute_script(ground) not in (light, "rgba(0, 0, 0, 0)")
    browser.look(driver, dark=True, medium="print")
    assert driver.execute_script(ground) == "rgb(255, 255, 255)"
    assert not driver.find_element("css selector", ".search").is_displayed()
    browser.printed(driver, tmp_path / "report.pdf")
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF-")


def test_screenshot_of_a_real_audit(show: Open, tmp_path: Path) -> None:
    """A real audit: one section for each finding that needs attention, each with its timeline."""
    audit = transactions.audit(logdir.open(str(HANGING)))
    driver = show(audit)
    cards = driver.find_elements("css selector", "article.card")
    assert len(cards) == 12  # 10 that hang, one that is stuck, one ghost that holds readers back
    assert len(driver.find_elements("css selector", "article.card figure.timeline")) == 12
    commands = [block.text.split()[0] for block in driver.find_elements("css selector", "pre.command code")]
    assert commands == ["kafkawire"] * 10 + ["kafka-transactions.sh"]
    browser.resize(driver, 1000, 700)
    browser.screenshot(driver, tmp_path / "shot.png")
    data = (tmp_path / "shot.png").read_bytes()
    assert struct.unpack(">II", data[16:24]) == (1000, 700)
