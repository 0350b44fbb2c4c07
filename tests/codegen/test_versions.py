"""Ranges of versions: what schemas may write, and the laws of ranges."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.codegen.versions import ALL_VERSIONS, HIGHEST, NO_VERSIONS, VersionRange

VERSION = st.integers(0, HIGHEST)
RANGES = st.one_of(
    st.just(NO_VERSIONS),
    st.tuples(VERSION, VERSION).map(lambda ends: VersionRange(min(ends), max(ends))),
    st.tuples(st.integers(0, 9), st.integers(0, 9)).map(lambda ends: VersionRange(min(ends), max(ends))),
)


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [("3", 3, 3), ("0-2", 0, 2), ("3+", 3, HIGHEST), ("none", 0, -1), (" 1 ", 1, 1), ("32767", HIGHEST, HIGHEST)],
)
def test_what_a_range_means(text: str, low: int, high: int) -> None:
    assert VersionRange.parse(text) == VersionRange(low, high)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "'' is no range of versions (as in '3', '0-2', '3+', 'none')"),
        ("-1", "'-1' is no range of versions (as in '3', '0-2', '3+', 'none')"),
        ("1 - 2", "'1 - 2' is no range of versions (as in '3', '0-2', '3+', 'none')"),
        ("1,2", "'1,2' is no range of versions (as in '3', '0-2', '3+', 'none')"),
        ("٣", "'٣' is no range of versions (as in '3', '0-2', '3+', 'none')"),
        ("0-2+", "'0-2+' is no range of versions (as in '3', '0-2', '3+', 'none')"),
        ("5-2", "'5-2' ends before it begins"),
        ("0-32768", "'0-32768' goes beyond 32767, the highest version there can be"),
        ("40000+", "'40000+' goes beyond 32767, the highest version there can be"),
        ("1" * 5000, f"'{'1' * 40}...' is no range of versions (as in '3', '0-2', '3+', 'none')"),
    ],
)
def test_what_is_no_range(text: str, reason: str) -> None:
    with pytest.raises(ValueError) as caught:
        VersionRange.parse(text)
    assert str(caught.value) == reason


@given(RANGES)
def test_text_and_range_are_one(versions: VersionRange) -> None:
    assert VersionRange.parse(str(versions)) == versions


@given(RANGES, RANGES, VERSION)
def test_and_holds_what_both_hold(a: VersionRange, b: VersionRange, version: int) -> None:
    both = a & b
    assert (version in both) == (version in a and version in b)
    assert both == b & a
    assert a & a == a
    assert a & ALL_VERSIONS == a
    assert a & NO_VERSIONS == NO_VERSIONS
    assert bool(both) == any(end in a and end in b for end in (a.low, b.low))


@given(RANGES, RANGES)
def test_covers_is_and_that_takes_nothing(a: VersionRange, b: VersionRange) -> None:
    assert a.covers(b) == (a & b == b)
    assert a.covers(a & b)
    assert (a.covers(b) and b.covers(a)) == (a == b)


@given(RANGES, RANGES)
def test_hull_is_the_smallest_range_over_both(a: VersionRange, b: VersionRange) -> None:
    hull = a.hull(b)
    assert hull.covers(a)
    assert hull.covers(b)
    assert hull == b.hull(a)
    if hull:
        ends = [end for versions in (a, b) if versions for end in (versions.low, versions.high)]
        assert (hull.low, hull.high) == (min(ends), max(ends))


@given(st.integers(0, 50), st.integers(0, 50))
def test_iteration_goes_over_what_is_in_it(low: int, high: int) -> None:
    versions = VersionRange(low, high)
    assert list(versions) == [version for version in range(60) if version in versions]
    assert bool(versions) == bool(list(versions))


def test_open_ended() -> None:
    assert VersionRange.parse("0+").open_ended
    assert not VersionRange.parse("0-5").open_ended
    assert not NO_VERSIONS.open_ended
