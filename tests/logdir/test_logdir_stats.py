"""Partitions in numbers: which segments count, and what of them (the numbers: tests/cli/test_cli_dump_options.py)."""

from __future__ import annotations

from pathlib import Path

from kafkawire import logdir, rows
from kafkawire.logdir.stats import by_partition, stats_of
from kafkawire.records import Record, build
from tests.logdir.logged import write


def test_groups_segments_by_partition_without_replaced_ones(tmp_path: Path) -> None:
    for name in ("t-0", "u-1"):
        for offset in (9, 0):
            write(tmp_path / name / f"{offset:020}.log", build([Record()], base_offset=offset))
        write(tmp_path / name / f"{5:020}.log.deleted", build([Record()], base_offset=5))
        write(tmp_path / name / f"{0:020}.index", b"")
    found = by_partition(logdir.open(tmp_path).files)
    assert [[file.offset for file in group] for group in found] == [[0, 9], [0, 9]]
    (stats,) = stats_of(found[0])
    assert isinstance(stats, rows.Stats)
    assert (stats.topic, stats.segments, stats.batches, stats.missing_offsets) == ("t", 2, 2, 8)
    assert (stats.compression_ratio, stats.producers, stats.codecs) == (None, 0, {"none": 2})


def test_counts_stored_and_decompressed_bytes_and_unreadable_records(tmp_path: Path) -> None:
    value = [Record(value=bytes(1000))] * 9
    data = [build(value, codec="gzip"), build(value, base_offset=9, codec="gzip", magic=1)]
    torn = bytearray(build(value, base_offset=18, codec="lz4"))
    torn[61:70] = b"no frames"
    write(tmp_path / "t-0" / f"{0:020}.log", b"".join(data) + bytes(torn))
    (group,) = by_partition(logdir.open(tmp_path).files)
    damage, stats = stats_of(group, logdir.Options(check_crc=False))
    assert isinstance(damage, rows.DamageRow)
    assert isinstance(stats, rows.Stats)
    assert (damage.reason, damage.position) == ("bad_records", sum(map(len, data)))
    assert (stats.damaged, stats.magics, stats.records) == (1, {"1": 1, "2": 2}, 27)
    assert stats.uncompressed_bytes > 18_000 > 10 * stats.compressed_bytes
    assert stats.compression_ratio == round(stats.uncompressed_bytes / stats.compressed_bytes, 3)


def test_folders_that_no_broker_uses_have_their_state(tmp_path: Path) -> None:
    """KAFKA-16234: two rows of one partition are told apart."""
    folder = "t-0.9f86d081884c7d659a2feaa0c55ad015"
    for name in ("t-0", f"{folder}-stray", f"{folder}-future", f"{folder}-delete"):
        write(tmp_path / name / f"{0:020}.log", build([Record()]))
    states = {}
    for group in by_partition(logdir.open(tmp_path).files):
        (stats,) = stats_of(group)
        assert isinstance(stats, rows.Stats)
        states[stats.state] = stats.topic, stats.partition
    assert states == dict.fromkeys(("", "stray", "future", "delete"), ("t", 0))


def test_wide_table_has_every_field() -> None:
    """But for what its title has."""
    from kafkawire.cli.dump import _VIEWS

    assert {*_VIEWS[rows.Stats].columns, "kind", "file"} == set(rows.Stats.__struct_fields__)
