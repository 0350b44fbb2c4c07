"""The report's pictures: partitions by offset, transactions by time, and colours that can be read."""

from __future__ import annotations

import itertools
import re
from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.report.moments import CLOCK, COORDINATOR, PARTITION, story
from kafkawire.report.partitions import MOST, pictures
from kafkawire.report.words import TONES
from kafkawire.rows import Finding
from tests.report.audits import HOUR, NOON, finding

OFFSETS = st.integers(0, 2**63 - 1)
TIMES = st.none() | st.integers(-(2**62), 2**62)


@given(st.lists(st.tuples(OFFSETS, OFFSETS), min_size=1, max_size=30), OFFSETS | st.none(), OFFSETS | st.none(),
       OFFSETS | st.none())  # fmt: skip
def test_everything_lies_within_its_picture(
    ranges: list[tuple[int, int]], stable: int | None, high: int | None, log_start: int | None
) -> None:
    (one,) = pictures(
        finding(
            start_offset=start,
            last_offset=last,
            last_stable_offset=stable,
            high_watermark=high,
            log_start_offset=log_start,
        )
        for start, last in ranges
    )
    for bar in one.bars:
        assert bar.x >= 0
        assert bar.width > 0
        assert bar.x + bar.width <= 100
        assert 0 <= bar.caption <= 100
        assert bar.caption >= 65 if bar.caption_ends else bar.caption <= 35
    assert all(0 <= line.x <= 100 for line in one.lines)
    assert len(one.bars) + one.hidden == len(ranges)


def test_bars_stand_in_the_order_of_their_offsets_and_as_many_as_fit() -> None:
    (one,) = pictures(finding(start_offset=n, last_offset=n) for n in range(MOST + 5, 0, -1))
    assert [bar.finding.start_offset for bar in one.bars] == list(range(1, MOST + 1))
    assert one.hidden == 5


def test_what_readers_do_not_see_is_from_the_last_stable_offset_to_the_high_watermark() -> None:
    (one,) = pictures([finding(start_offset=10, last_offset=12, last_stable_offset=10, high_watermark=90)])
    assert one.waiting == 80
    lines = {line.name: line for line in one.lines}
    assert one.stuck is not None
    assert one.stuck[0] == lines["LSO"].x
    assert sum(one.stuck) == pytest.approx(lines["high watermark"].x)
    assert one.first < 10  # some of what they do see


def test_partitions_where_readers_wait_for_most_come_first_and_clusters_stay_apart() -> None:
    found = pictures(
        [
            finding(cluster_id="a", high_watermark=20),
            finding(cluster_id="b", high_watermark=50),
            finding(cluster_id="b", blocked=False, start_offset=30),
        ]
    )
    assert [(one.cluster_id, one.waiting, len(one.findings)) for one in found] == [("b", 40, 2), ("a", 10, 1)]


# Time ----------------------------------------------------------------------------------------------------------------


def told(of: Finding, as_of: int | None = NOON) -> list[tuple[int, str, str]]:
    found = story(of, as_of)
    return [] if found is None else [(moment.time, moment.lane, moment.what) for moment in found.moments]


def test_a_story_in_the_order_of_time() -> None:
    assert told(finding()) == [
        (NOON - 5 * HOUR, COORDINATOR, "the newest transaction of the id began"),
        (NOON - 4 * HOUR, PARTITION, "a marker, the newest before that data's last batch"),
        (NOON - 4 * HOUR, COORDINATOR, "CompleteCommit (all markers of the commit are written)"),
        (NOON - 3 * HOUR, PARTITION, "last batch of the data, up to offset 12 (the client's clock)"),
        (NOON, CLOCK, "the clock of this report"),
    ]


def test_a_timeout_that_is_still_to_come() -> None:
    ongoing = finding(
        coordinator_state="Ongoing",
        transaction_start_timestamp=NOON - HOUR,
        transaction_last_update_timestamp=NOON - HOUR,
        transaction_timeout_ms=2 * HOUR,
        marker_timestamp=None,
    )
    found = story(ongoing, NOON)
    assert found is not None
    assert [(moment.lane, moment.ahead) for moment in found.moments] == [
        (PARTITION, False), (COORDINATOR, False), (CLOCK, False), (COORDINATOR, True),
    ]  # fmt: skip
    assert found.moments[-1].time == NOON + HOUR


def test_two_phase_commit_has_no_timeout() -> None:
    ongoing = finding(coordinator_state="Ongoing", transaction_timeout_ms=2**31 - 1)
    assert not [what for _, _, what in told(ongoing) if "timeout" in what]


def test_the_clock_is_that_of_the_findings_own_cluster() -> None:
    assert told(finding(), as_of=NOON + HOUR)[-1][0] == NOON


def test_one_moment_is_no_story() -> None:
    alone = Finding(verdict="unknown", reason="x", topic="a", partition=0, producer_id=1, producer_epoch=0,
                    last_timestamp=NOON)  # fmt: skip
    assert story(alone, None) is None


@given(TIMES, TIMES, TIMES, TIMES, TIMES, st.sampled_from(["Ongoing", "PrepareCommit", "Empty", "Next"]))
def test_moments_stand_apart_and_in_order(
    last: int | None, marker: int | None, begun: int | None, changed: int | None, as_of: int | None, state: str
) -> None:
    found = story(
        finding(
            last_timestamp=last,
            age_ms=None,
            marker_timestamp=marker,
            transaction_start_timestamp=begun,
            transaction_last_update_timestamp=changed,
            coordinator_state=state,
        ),
        as_of,
    )
    if found is None:
        return
    places = [moment.x for moment in found.moments]
    assert all(after - before > 6.9 for before, after in itertools.pairwise(places))
    assert places[0] >= 3
    assert places[-1] <= 97
    assert [moment.time for moment in found.moments] == sorted(moment.time for moment in found.moments)
    assert all(span.x >= 0 and span.width >= 0 and span.x + span.width <= 100 for span in found.spans)


# Colours -------------------------------------------------------------------------------------------------------------

CSS = files("kafkawire.report").joinpath("templates", "report.css").read_text("utf-8")


def schemes() -> dict[str, dict[str, str]]:
    light, dark, paper = (dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", block))
                          for block in re.findall(r":root \{(.*?)\}", CSS, re.DOTALL))  # fmt: skip
    return {"light": light, "dark": dark, "print": paper}


def luminance(colour: str) -> float:
    """Relative luminance (WCAG 2.2)."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark", "print"])
def test_text_can_be_read_on_every_ground(scheme: str) -> None:
    """WCAG 2.2 AA: 4.5 to 1."""
    colours = schemes()[scheme]
    grounds = ["paper", "card", "ground", *(f"{tone}-tint" for tone in TONES)]
    for ink in ("ink", "quiet"):
        for ground in grounds:
            assert contrast(colours[ink], colours[ground]) >= 4.5, (ink, ground)
    assert contrast(colours["ink"], colours["waits"]) >= 4.5
    for tone in TONES:
        for ground in (f"{tone}-tint", "card", "paper"):
            assert contrast(colours[tone], colours[ground]) >= 4.5, (tone, ground)


def test_the_dark_and_the_printed_page_have_every_colour_of_the_light_one() -> None:
    light, dark, paper = schemes().values()
    assert set(light) == set(dark) == set(paper)
