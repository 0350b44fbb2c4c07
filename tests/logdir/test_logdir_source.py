"""Files in windows."""

from __future__ import annotations

from pathlib import Path

import pytest
from logged import NAME, write

from kafkawire import logdir
from kafkawire.records import Damage, Record, build


@pytest.mark.parametrize("window", [1, 100, 4096])
def test_windows(tmp_path: Path, window: int) -> None:
    """However small the windows, the same batches."""
    from io import FileIO

    from kafkawire.records import read

    data = b"".join(build([Record(b"x" * 37 * i)], base_offset=i, codec="gzip") for i in range(40))
    path = write(tmp_path / "a.log", data[:300] + b"junk" + data[300:] + bytes(5000))
    with FileIO(str(path)) as file:
        whole = path.read_bytes()
        assert list(read(logdir.FileSource(file, window))) == list(read(whole))


def test_a_file_that_is_truncated_meanwhile(tmp_path: Path) -> None:
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
