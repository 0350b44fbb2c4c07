"""`FileSource`: the bytes of a file, read in windows."""

from __future__ import annotations

from io import FileIO
from pathlib import Path

import pytest

from kafkawire import logdir
from kafkawire.records import Damage, Record, build, read
from tests.logdir.logged import NAME, write


@pytest.mark.parametrize("window", [1, 100, 4096])
def test_reads_across_windows(tmp_path: Path, window: int) -> None:
    """However small the windows, the same batches."""
    data = b"".join(build([Record(b"x" * 37 * i)], base_offset=i, codec="gzip") for i in range(40))
    path = write(tmp_path / "a.log", data[:300] + b"junk" + data[300:] + bytes(5000))
    with FileIO(str(path)) as file:
        whole = path.read_bytes()
        assert list(read(logdir.FileSource(file, window))) == list(read(whole))


def test_read_of_a_truncated_file_returns_fewer_bytes(tmp_path: Path) -> None:
    one = build([Record(b"x" * 1000)])
    path = write(tmp_path / "t-0" / f"{NAME}.log", one * 10_000)  # several windows
    (file,) = logdir.open(path).files
    batches = file.batches()
    next(batches)
    with path.open("r+b") as shrinking:
        shrinking.truncate(len(one) + 100)
    rest = list(batches)
    assert isinstance(rest[-1], Damage)
    assert rest[-1].reason == "truncated"


@pytest.mark.slow
@pytest.mark.parametrize("window", [1, 1 << 16, 1 << 20])
@pytest.mark.parametrize("cut", [0, 1, 17, 100])
def test_reports_the_end_of_a_file_truncated_between_windows(tmp_path: Path, window: int, cut: int) -> None:
    """`cut` bytes of a batch are left; none are where the file ends with a batch, as a follower's does."""
    one = build([Record(b"x" * 1000)])
    path = write(tmp_path / "a.log", one * 5000)
    ended = 3 * len(one) + cut
    with FileIO(str(path)) as file:
        found = read(logdir.FileSource(file, window))
        next(found)
        with path.open("r+b") as shrinking:
            shrinking.truncate(ended)
        *_, damage = found
    assert isinstance(damage, Damage)
    assert (damage.reason, damage.resumed_at, damage.shortened) == ("truncated", None, True)
    assert damage.detail == f"ended at {ended}, was {5000 * len(one)} when opened"
