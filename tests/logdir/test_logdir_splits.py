"""Parts of a segment, read one by one, are the whole; and where a segment that grows ends."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from itertools import accumulate
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.logdir import open as open_directory
from kafkawire.logdir import splits
from kafkawire.records import Batch, Damage, Record, build
from kafkawire.records.columns import Batches
from tests.logdir.test_logdir_jsonl import mutated_segments, segment, segments

DATA = b"".join(build([Record(b"k", bytes(300))] * 3, base_offset=3 * number) for number in range(40))
SIZE = len(DATA) // 40


def flat(items: Iterable[Batches | Batch | Damage]) -> list[object]:
    """Where batches are, and the damage, whatever came in one go."""
    found: list[object] = []
    for item in items:
        if isinstance(item, Batches):
            found += zip(item.position.tolist(), item.base_offset.tolist(), item.last_offset.tolist(), strict=True)
        else:
            found.append(item if isinstance(item, Damage) else (item.position, item.base_offset, item.last_offset))
    return found


@pytest.mark.slow
@given(segments() | mutated_segments(), st.integers(1, 400), st.booleans())
def test_parts_together_equal_the_whole(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, size: int, check_crc: bool
) -> None:
    file = segment(tmp_path_factory.mktemp("log"), data)
    parts = splits.ranges(file, size)
    assert parts[0][0] == 0
    assert [end for _, end in parts] == [*(start for start, _ in parts[1:]), None]
    found = [item for start, end in parts for item in flat(splits.batches_of(file, start, end, check_crc=check_crc))]
    assert found == flat(splits.batches_of(file, check_crc=check_crc))


@pytest.mark.parametrize("indexed", [True, False])
def test_parts_have_the_requested_size(tmp_path: Path, indexed: bool) -> None:
    file = segment(tmp_path, DATA)
    if indexed:
        entries = b"".join(struct.pack(">ii", 3 * number, SIZE * number) for number in range(1, 40, 3))
        Path(file.path).with_suffix(".index").write_bytes(entries + bytes(80))
    parts = splits.ranges(file, 5 * SIZE)
    assert parts == [*((5 * SIZE * part, 5 * SIZE * (part + 1)) for part in range(7)), (35 * SIZE, None)]
    assert splits.ranges(file, len(DATA)) == [(0, None)]


def test_wrong_index_moves_no_part(tmp_path: Path) -> None:
    file = segment(tmp_path, DATA)
    without = splits.ranges(file, 5 * SIZE)
    for entry in ((30, SIZE * 10 + 1), (1, SIZE * 10), (30, 1 << 30)):
        Path(file.path).with_suffix(".index").write_bytes(struct.pack(">ii", *entry))
        assert splits.ranges(file, 5 * SIZE) == without


OLD = [build([Record(b"k", bytes(20))], base_offset=number, magic=number % 2) for number in range(6)]
NEW = [build([Record(b"k", bytes(20))], base_offset=number) for number in range(6, 9)]


def test_splits_segments_of_old_formats(tmp_path: Path) -> None:
    """Message sets of magic 0 and 1, each a piece of its own, before batches of today: however they are cut."""
    file = segment(tmp_path, b"".join(OLD + NEW))
    whole = flat(splits.batches_of(file))
    bounds = [0, *accumulate(map(len, OLD + NEW))]
    assert whole == [(bounds[number], number, number) for number in range(9)]
    for cut in range(1, 9):
        first = flat(splits.batches_of(file, 0, bounds[cut]))
        assert first == whole[:cut]
        assert first + flat(splits.batches_of(file, bounds[cut])) == whole


def test_incomplete_batch_is_no_damage_of_the_part_before(tmp_path: Path) -> None:
    file = segment(tmp_path, DATA + DATA[: SIZE - 1])
    whole = flat(splits.batches_of(file, 0, len(DATA)))
    assert [type(item) for item in whole] == [tuple] * 40
    *before, damage = flat(splits.batches_of(file))
    assert before == whole
    assert isinstance(damage, Damage)
    assert (damage.position, damage.reason) == (len(DATA), "truncated")


def test_does_not_split_after_damage(tmp_path: Path) -> None:
    broken = bytearray(DATA)
    broken[12 * SIZE + 8 : 12 * SIZE + 12] = b"\xff" * 4  # a length
    assert splits.ranges(segment(tmp_path, bytes(broken)), 5 * SIZE) == [
        *((0, 5 * SIZE), (5 * SIZE, 10 * SIZE)),
        (10 * SIZE, None),
    ]


@pytest.mark.parametrize("entry", [None, (60, 20 * SIZE), (60, 20 * SIZE + 1), (60, 1 << 20)])
def test_a_log_ends_with_its_last_whole_batch(tmp_path: Path, entry: tuple[int, int] | None) -> None:
    old = build([Record(b"k", b"v")], magic=1)
    assert splits.end_offset([]) == 0
    for number, (data, end) in enumerate(
        (
            (b"", 0),
            (DATA, 120),
            (DATA + DATA[: SIZE - 1], 120),
            (DATA + bytes(4000), 120),
            (old, 1),
            (old + DATA[:20], 1),
        )
    ):
        file = segment(tmp_path, data, f"orders-{number}")
        if entry is not None:
            Path(file.path).with_suffix(".index").write_bytes(struct.pack(">ii", *entry))
        assert splits.end_offset([file]) == end


def test_batches_from_an_offset_on_are_of_each_segment_and_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    records = [Record(b"k", b"v")] * 3
    first, second, third = (build(records, base_offset=base) for base in (0, 3, 6))
    folder = tmp_path / "orders-0"
    folder.mkdir()
    for base, data in ((0, first), (3, second[:-1] + b"?" + third), (9, b"")):
        (folder / f"{base:020}.log").write_bytes(data)
    files = open_directory(folder).files
    Path(files[2].path).unlink()
    problems: list[str] = []
    found = [
        (file.offset, batch.base_offset)
        for file, item in splits.batches_from(files, 4, problems.append)
        for batch in splits.each_batch(item)
    ]
    assert found == [(3, 6)]
    assert problems[0].startswith(f"{files[1].path}: at byte 0: ")
    assert problems[1] == f"{files[2].path}: No such file or directory"
    assert len(problems) == 2
