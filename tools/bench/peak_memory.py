"""The most memory that the processes of `kafkawire dump` and `capture` hold at once, as the kernel counts it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping

from tools import ROOT
from tools.bench.cases import LARGE_CAPTURE, LARGE_SEGMENT, SEGMENT, Inputs
from tools.bench.results import Peak

#: What is printed -> options.
_SHAPES = {
    "jsonl": ("--deep-iteration", "--print-data-log", "--format", "jsonl"),
    "Parquet": ("--deep-iteration", "--print-data-log", "--format", "parquet"),
    "jsonl, batches only": ("--format", "jsonl"),
}
#: Exit codes of success, and of a capture that could not be decoded completely.
_CLEAR = (0, 4)


def peaks(inputs: Inputs, *, large: bool) -> Iterator[Peak]:
    """Peaks of `dump`, for a segment of usual size and, if `large`, for one of 2 GB."""
    wanted = [("segment", SEGMENT), *([("large", LARGE_SEGMENT)] if large else [])]
    for name, size in wanted:
        path, _ = inputs.segment("none", size, name)
        for shape, options in _SHAPES.items():
            for engine in ("native", "python"):
                if engine == "python" and (name == "large" or shape == "Parquet"):
                    continue  # takes minutes, without more information
                if (peak := _peak(engine, "dump", str(path), *options)) is not None:
                    size = path.stat().st_size
                    yield Peak(title=f"dump to {shape}", contestant=f"kafkawire {engine}", size=size, peak=peak)


def capture_peaks(inputs: Inputs, *, large: bool) -> Iterator[Peak]:
    """Peaks of `capture`, for the measured capture and, if `large`, for one of 2 GB, which is deleted."""
    for size in (None, *([LARGE_CAPTURE] if large else [])):
        path, _ = inputs.capture(size)
        for options in ((), ("--body",)):
            if (peak := _peak("native", "capture", str(path), *options)) is not None:
                title = " ".join(("capture", *options))
                yield Peak(title=title, contestant="kafkawire native", size=path.stat().st_size, peak=peak)
        if size is not None:
            path.unlink()


#: Runs a command and prints its exit code and peak. A peak begins with that of the process that forked the command,
#: which is large here and small there.
_SMALL_PARENT = """
import resource, subprocess, sys
code = subprocess.call(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
print(code, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def _peak(engine: str, command: str, path: str, *options: str) -> int | None:
    """Bytes; None if the command failed."""
    with tempfile.TemporaryDirectory() as folder:
        written = ["-o", f"{folder}/rows.parquet"] if "parquet" in options else []
        return child_peak(
            [sys.executable, "-m", "kafkawire", command, path, *options, *written],
            {**os.environ, "KAFKAWIRE_BACKEND": engine},
        )


def child_peak(command: list[str], environment: Mapping[str, str]) -> int | None:
    """The most memory of a command in bytes, without that of this process; None if the command failed."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _SMALL_PARENT, *command],
        stdout=subprocess.PIPE,
        env=environment,
        cwd=ROOT,
        check=True,
    )
    code, kilobytes = map(int, done.stdout.split())
    return kilobytes * 1024 if code in _CLEAR else None
