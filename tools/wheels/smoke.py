"""Checks of an installed kafkawire. This file runs in the environment of the install, without the rest of the
repository.

    python -I smoke.py native|python [FOLDER]

With a folder, the package and its dependencies are there instead of in the environment (`pip install --target`).
Prints one line with where it runs, or fails.
"""

from __future__ import annotations

import contextlib
import io
import platform
import subprocess
import sys
import sysconfig
from pathlib import Path
from threading import Thread

FOLDER = sys.argv[2:]
sys.path[:0] = FOLDER

import kafkawire  # noqa: E402
from kafkawire import records  # noqa: E402
from kafkawire.errors import DecodeError  # noqa: E402
from kafkawire.messages import DescribeProducersResponse, EndTxnMarker, MetadataResponse  # noqa: E402


def must(holds: object, what: str) -> None:
    if not holds:
        sys.exit(f"smoke: {what}")


def installed() -> None:
    place = FOLDER[0] if FOLDER else sys.prefix
    must(Path(kafkawire.__file__).is_relative_to(place), f"{kafkawire.__file__} is not in {place}")


def versions(wanted: str) -> None:
    must(kafkawire.backend == wanted, f"{kafkawire.backend} runs, not {wanted}")
    if not FOLDER:
        command = Path(sys.executable).with_name("kafkawire")
        printed = subprocess.run([command, "--version"], capture_output=True, text=True, check=True).stdout
    else:  # an emulated interpreter may be unable to start itself
        from kafkawire.cli import app

        with contextlib.redirect_stdout(io.StringIO()) as output:
            app(["--version"], standalone_mode=False)
        printed = output.getvalue()
    must(wanted in printed, f"--version does not print {wanted}: {printed}")


def messages() -> None:
    for value, version in ((DescribeProducersResponse(throttle_time_ms=5), 0), (MetadataResponse(cluster_id="é"), 13)):
        data = value.encode(version)
        must(type(value).decode(data, version) == value, f"{value!r} is not read as it was written")
        must(type(value).decode(data, version, strict=True) == value, f"{value!r} is not canonical")
    try:
        MetadataResponse.decode(bytes(7), 12)
    except DecodeError as error:
        must("at byte" in str(error), f"an error without its place: {error}")
    else:
        must(False, "wrong bytes were read")


def batches() -> None:
    """Every codec's library is there and works."""
    for codec in records.CODECS:
        data = records.build([records.Record(b"key", b"value" * 100)], codec=codec)
        found = [record.value for batch in records.read(data) for record in batch.records]
        must(found == [b"value" * 100], f"records compressed by {codec} are not read as they were written")


def threads() -> None:
    """Threads share codecs; where there is no global lock, loading the engine must not bring it back."""
    data = DescribeProducersResponse(throttle_time_ms=5).encode(0)
    done: list[int] = []

    def work() -> None:
        for _ in range(1000):
            must(DescribeProducersResponse.decode(data, 0).encode(0) == data, "threads disturb each other")
            must(EndTxnMarker.decode(bytes(4), 0).encode(0) == bytes(4), "threads disturb each other")
        done.append(1)

    workers = [Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    must(len(done) == 4, "a thread failed")
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        must(not sys._is_gil_enabled(), "the engine brought the global lock back")  # type: ignore[attr-defined,unused-ignore]


def main() -> None:
    wanted = sys.argv[1]
    installed()
    versions(wanted)
    messages()
    batches()
    threads()
    threading = " free-threaded" if sysconfig.get_config_var("Py_GIL_DISABLED") else ""
    system = " ".join(platform.libc_ver()).strip() or platform.system()
    print(f"{platform.python_implementation()} {platform.python_version()}{threading}, {platform.machine()}, {system}")


if __name__ == "__main__":
    main()
