"""Lines that the native engine writes: byte for byte those of the rows."""

from __future__ import annotations

import random
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire import logdir, rows
from kafkawire.cli.formatting import json_bytes, printable_characters
from kafkawire.logdir import jsonl
from kafkawire.logdir.batch_runs import Fields
from kafkawire.logdir.jsonl import lines_of, writer_of
from kafkawire.records import CODECS, Header, Record, build, build_marker, read
from kafkawire.wire.backend import native
from tests.records.record_bytes import kip853_header, snapshot_footer
from tools.recordings.archive import unpacked

EXAMPLES = Path(__file__).parents[2] / "examples" / "kafka-logs"
NAME = "00000000000000000000.log"
WAYS = [
    logdir.Options(deep=deep, payloads=payloads, check_crc=check_crc)
    for deep, payloads in ((False, False), (True, False), (True, True))
    for check_crc in (True, False)
]

pytestmark = pytest.mark.skipif(native is None, reason="the native engine is not installed")


def both(file: Any, options: logdir.Options) -> tuple[bytes, int]:
    """The file's lines, after a look at that they are those of its rows, and how many bytes of them came as `Lines`."""
    out, written = [], 0
    for item in lines_of(file, options, encode=json_bytes, printable=printable_characters):
        if isinstance(item, rows.Lines):
            written += len(item.data)
            out.append(bytes(item.data))
        else:
            out.append(json_bytes(item) + b"\n")
    found = b"".join(out)
    assert found == b"".join(json_bytes(row) + b"\n" for row in logdir.rows_of(file, options))
    return found, written


def segment(folder: Path, data: bytes, name: str = "orders-0") -> Any:
    path = folder / name / NAME
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    (file,) = logdir.open(path.parent).files
    return file


def controls_in_a_snapshot(folder: Path, options: logdir.Options) -> tuple[Any, list[str | None]]:
    """A snapshot of the metadata log, with markers of two kinds in one batch as no broker writes them; and the kinds
    that rows of its records have."""
    marker = build_marker("ABORT", offset=0, timestamp=1, producer_id=1, producer_epoch=0, coordinator_epoch=3)
    (abort,) = next(iter(read(marker))).records
    both = build(
        [Record(key=key, value=abort.value) for key in (abort.key, b"\0\0\0\1")],
        base_offset=3,
        control=True,
        transactional=True,
        producer_id=1,
        producer_epoch=0,
    )
    path = folder / "__cluster_metadata-0" / f"{9:020}-0000000001.checkpoint"
    path.parent.mkdir()
    path.write_bytes(kip853_header() + both + snapshot_footer(5))
    (file,) = logdir.open(path).files
    named = [row.control for row in logdir.rows_of(file, options) if isinstance(row, rows.RecordRow)]
    return file, named


def test_each_record_of_a_control_batch_has_its_own_name(tmp_path: Path) -> None:
    options = logdir.Options(deep=True)
    file, named = controls_in_a_snapshot(tmp_path, options)
    assert named == ["SNAPSHOT_HEADER", "KRAFT_VERSION", "KRAFT_VOTERS", "ABORT", "COMMIT", "SNAPSHOT_FOOTER"]
    assert b'"control":"KRAFT_VOTERS"' in both(file, options)[0]


def test_every_field_of_the_rows_is_known(tmp_path: Path) -> None:
    """Otherwise everything would quietly go the slow way."""
    for options in WAYS:
        assert writer_of(segment(tmp_path, b""), options, json_bytes, printable_characters) is not None


@pytest.mark.slow
@pytest.mark.parametrize("options", WAYS)
def test_lines_equal_rows_for_examples(options: logdir.Options) -> None:
    total = 0
    for file in logdir.open(EXAMPLES).files:
        total += both(file, options)[1]
    assert total > 10_000


TEXTS = st.text('aé€😀\0"\\/\n\t\x7f\x85\u2028\u202e\u00a0\u3000\U00020000', max_size=40).map(str.encode)
VALUES = st.none() | TEXTS | st.binary(max_size=40) | st.just(b"x" * 100 + b'"')
HEADERS = st.lists(st.builds(Header, st.text('aé"\u202e\udcff', max_size=5), VALUES), max_size=3).map(tuple)
RECORDS = st.lists(st.builds(Record, VALUES, VALUES, HEADERS, timestamp=st.integers(-1, 1 << 42)), max_size=5)


@st.composite
def segments(draw: st.DrawFn) -> bytes:
    """A few batches of all kinds."""
    offset = 0
    out = []
    for _ in range(draw(st.integers(1, 4))):
        offset += draw(st.integers(-2, 40))
        offset = max(0, offset)
        if draw(st.integers(0, 4)) == 0:
            name = draw(st.sampled_from(["COMMIT", "ABORT"]))
            marker: dict[str, Any] = {"producer_id": 7, "producer_epoch": 1, "coordinator_epoch": 3}
            out.append(build_marker(name, offset=offset, timestamp=5, **marker))
            offset += 1
            continue
        listed = draw(RECORDS)
        last = offset + max(len(listed) - 1, 0) + draw(st.integers(0, 3))
        out.append(
            build(
                listed,
                base_offset=offset,
                last_offset=last,
                codec=draw(st.sampled_from(CODECS)),
                append_time=draw(st.none() | st.integers(0, 1 << 42)),
                delete_horizon=draw(st.none() | st.integers(0, 1 << 42)),
                transactional=draw(st.booleans()),
                control=draw(st.integers(0, 9)) == 0,
                producer_id=draw(st.integers(-1, 1 << 62)),
                producer_epoch=draw(st.integers(-1, 1 << 14)),
                base_sequence=draw(st.integers(-1, (1 << 31) - 1)),
            )
        )
        offset = last + 1
    return b"".join(out)


@st.composite
def mutated_segments(draw: st.DrawFn) -> bytes:
    """The same, with some bytes changed, dropped or put in."""
    changed = bytearray(draw(segments()))
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, len(changed)))
        changed[place : place + draw(st.integers(0, 4))] = draw(st.binary(max_size=4))
    return bytes(changed)


@pytest.mark.slow
@given(segments(), st.sampled_from(WAYS))
def test_lines_equal_rows_for_built_segments(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, options: logdir.Options
) -> None:
    both(segment(tmp_path_factory.mktemp("log"), data), options)


def ranges(most: int) -> st.SearchStrategy[tuple[int | None, int | None] | None]:
    ends = st.none() | st.integers(0, most) | st.sampled_from([5, 6])
    return st.none() | st.tuples(ends, ends)


SELECTIONS = st.builds(
    logdir.Selection,
    offsets=ranges(60),
    times=ranges(1 << 42),
    producer_id=st.none() | st.sampled_from([7, -1]),
    control=st.none() | st.booleans(),
)


@pytest.mark.slow
@given(segments() | mutated_segments(), st.sampled_from(WAYS), SELECTIONS)
def test_lines_equal_rows_of_a_selection(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, options: logdir.Options, selection: logdir.Selection
) -> None:
    both(segment(tmp_path_factory.mktemp("log"), data), msgspec.structs.replace(options, selection=selection))


def test_whole_batches_of_a_selection_are_written_as_lines(tmp_path: Path) -> None:
    """Of those at the ends, and of those that are old and new, only some records are selected: they are rows."""
    listed = [[Record(b"k", b"v" * 50, timestamp=10 * batch + place) for place in range(3)] for batch in range(9)]
    data = b"".join(build(some, base_offset=3 * place) for place, some in enumerate(listed))
    file = segment(tmp_path, data)
    for selection, count in (
        (logdir.Selection(offsets=(4, 20)), 16),
        (logdir.Selection(times=(11, 71)), 18),
        (logdir.Selection(producer_id=-1), 27),
    ):
        options = logdir.Options(deep=True, payloads=True, selection=selection)
        lines, written = both(file, options)
        assert lines.count(b'"kind":"record"') == count
        assert written > len(lines) * 2 // 3


@pytest.mark.slow
@given(mutated_segments(), st.sampled_from(WAYS))
def test_lines_equal_rows_for_mutated_segments(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, options: logdir.Options
) -> None:
    both(segment(tmp_path_factory.mktemp("log"), data), options)


@pytest.mark.parametrize("options", WAYS)
def test_lines_equal_rows_for_old_message_formats(options: logdir.Options) -> None:
    """Compressed message sets, whose first offset and count are only known inside, whether checksums count or not."""
    for path in sorted(unpacked("kafka-2.8.2").glob("data/magic[01]-*")):
        for file in logdir.open(path).files:
            both(file, options)


def mutated_examples() -> Iterator[tuple[str, bytes]]:
    """The examples' segments, each with some bytes changed."""
    choice = random.Random(5)
    for path in sorted(EXAMPLES.glob("*/*/*/" + NAME)):
        data = bytearray(path.read_bytes())
        for _ in range(5):
            if data:
                data[choice.randrange(len(data))] ^= 1 << choice.randrange(8)
        yield path.parent.name, bytes(data)


@pytest.mark.slow
@pytest.mark.parametrize("options", WAYS)
def test_lines_equal_rows_for_mutated_examples(tmp_path: Path, options: logdir.Options) -> None:
    for name, data in mutated_examples():
        both(segment(tmp_path, data, name), options)


def test_plain_batches_are_written_as_lines(tmp_path: Path) -> None:
    """Whatever their codec; and the one that is not plain, between them, is not."""
    plain = [build([Record(b"k", b"v")] * 3, base_offset=10 * i, codec=codec) for i, codec in enumerate(CODECS)]
    odd = build([Record(headers=(Header("\udcff"),))], base_offset=60)
    after = build([Record(b"k", b"v")], base_offset=70)
    found = list(
        lines_of(
            segment(tmp_path, b"".join(plain) + odd + after),
            logdir.Options(deep=True, payloads=True),
            encode=json_bytes,
            printable=printable_characters,
        )
    )
    kinds = [type(item).__name__ for item in found]
    assert kinds == ["Lines", "BatchRow", "RecordRow", "Lines"]
    assert bytes(found[0].data).count(b"\n") == 5 * 4  # type: ignore[union-attr]
    assert found[3].position == found[1].position + len(odd)  # type: ignore[union-attr, operator]


def test_descending_offsets_have_a_line_of_damage(tmp_path: Path) -> None:
    data = b"".join(build([Record(b"k")] * 2, base_offset=offset) for offset in (10, 4, 6, 5, 20))
    lines, written = both(segment(tmp_path, data), logdir.Options(deep=True))
    assert lines.count(b"offset_backwards") == 2
    assert written


def test_large_batches_are_rows(tmp_path: Path) -> None:
    """Their lines are made one by one: never all of them at once."""
    large = build([Record(value=bytes(1 << 20))] * 20, codec="zstd")
    found = lines_of(segment(tmp_path, large), WAYS[-1], encode=json_bytes, printable=printable_characters)
    assert {type(item).__name__ for item in found} == {"BatchRow", "RecordRow"}


@pytest.mark.parametrize(
    ("topic", "options"),
    [
        ("__transaction_state-0", logdir.Options(deep=True, payloads=True)),
        ("orders-0", logdir.Options(deep=True, payloads=True, decode_as="__consumer_offsets")),
        ("orders-0", logdir.Options(max_bytes=100)),
        ("orders-0", logdir.Options(indexes="verify")),
        ("orders-0", logdir.Options(deep=True, metadata=False)),
        ("orders-0", logdir.Options(selection=logdir.Selection(key=b"k"))),
    ],
)
def test_batches_that_need_python_are_rows(tmp_path: Path, topic: str, options: logdir.Options) -> None:
    file = segment(tmp_path, build([Record(b"k", b"v")]), topic)
    assert both(file, options)[1] == 0


def test_pieces_are_of_bounded_size(tmp_path: Path) -> None:
    data = b"".join(build([Record(value=b"\xff" * 1000)] * 50, base_offset=50 * i) for i in range(200))
    sizes = [
        len(item.data)
        for item in lines_of(segment(tmp_path, data), WAYS[-1], encode=json_bytes, printable=printable_characters)
        if isinstance(item, rows.Lines)
    ]
    assert sum(sizes) > 13 << 20
    assert max(sizes) < 3 << 20


@pytest.mark.parametrize("codec", [codec for codec in CODECS if codec != "none"])
def test_records_that_are_thousands_of_times_their_compressed_size_are_written(tmp_path: Path, codec: str) -> None:
    batches = (build([Record(value=bytes(3 << 20))], base_offset=i, codec=codec) for i in range(2))
    found, written = both(segment(tmp_path, b"".join(batches)), WAYS[2])
    assert written == len(found)


def test_a_piece_ends_with_the_batch_that_fills_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = segment(tmp_path, b"".join(build([Record(b"k")], base_offset=i) for i in range(4)))
    first, *_ = both(file, WAYS[0])[0].splitlines(keepends=True)
    monkeypatch.setattr(jsonl, "_PIECE", len(first))
    found = list(lines_of(file, WAYS[0], encode=json_bytes, printable=printable_characters))
    assert [bytes(item.data).count(b"\n") for item in found if isinstance(item, rows.Lines)] == [1, 1, 1, 1]


def test_unknown_field_falls_back_to_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl, "fields_of", lambda file, options: Fields(("a field of tomorrow",), ()))
    file = segment(tmp_path, build([Record(b"k", b"v")]))
    assert writer_of(file, WAYS[0], json_bytes, printable_characters) is None
    assert both(file, WAYS[0])[1] == 0


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("threads", [2, 3, 8])
def test_threads_write_the_lines_of_one(tmp_path: Path, threads: int, deep: bool) -> None:
    """Batches of every codec and of sizes that are far apart, with refused ones, damage and large ones between them, so
    that parts end early; over several windows."""
    dice = random.Random(threads)
    data, offset = bytearray(), 0
    for number in range(900 if deep else 30_000):
        count, size = (dice.choice((1, 3, 40)), dice.choice((5, 900, 3000))) if deep else (1, 5)
        codec = dice.choice(CODECS) if deep else "none"
        value = dice.choice((b"x", b"\xff", b'"')) * size
        listed = [Record(b"%d" % number, value, headers=(Header("\udcff"),) if number % 97 == 50 else ())] * count
        if deep and number % 211 == 100:
            listed = [Record(value=bytes(1 << 20))] * 17
        batch = build(listed, base_offset=offset, codec=codec, producer_id=5 if number % 3 else -1)
        if number % (301 if deep else 10_000) == 200:
            batch = batch[:-1] + bytes([batch[-1] ^ 1])
        data += batch
        offset += len(listed)
    file = segment(tmp_path, bytes(data))
    options = logdir.Options(deep=deep, payloads=deep)

    def written(threads: int) -> tuple[str, list[int]]:
        whole, sizes = sha256(), []
        for item in lines_of(file, options, encode=json_bytes, printable=printable_characters, threads=threads):
            if isinstance(item, rows.Lines):
                sizes.append(len(item.data))
            whole.update(item.data if isinstance(item, rows.Lines) else json_bytes(item) + b"\n")
        return whole.hexdigest(), sizes

    (expected, of_one), (found, of_many) = written(1), written(threads)
    assert found == expected
    assert max(of_many) > max(of_one)  # parts of several threads in one piece
