"""A Python contestant: a process with one job.

`python -m tools.bench.worker REPLIES JOB key=value...`: prepares the job, writes `ready CHECK` (a digest of its result)
or `absent REASON` to the file REPLIES, then answers each line of standard input: a number runs the job that many times
and gives the CPU time of the thread and of the process in nanoseconds; `memory` gives the bytes that a result keeps,
and the most that making it takes. The Java contestants use the same protocol (`java/`).
"""

from __future__ import annotations

import gc
import importlib
import resource
import sys
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

from tools.bench.job import AbsentError, Job

#: Results that are kept while memory is measured: this many bytes of input's worth, but at least two.
_KEPT_INPUT = 1 << 20


def _time(run: Callable[[], Any], times: int) -> str:
    thread, process, children = time.thread_time_ns(), time.process_time_ns(), _children_ns()
    for _ in range(times):
        run()
    commands = _children_ns() - children
    return f"{time.thread_time_ns() - thread + commands} {time.process_time_ns() - process + commands}"


def _children_ns() -> int:
    """CPU time of child processes that have ended, for jobs that run commands."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return round((used.ru_utime + used.ru_stime) * 1e9)


def _memory(job: Job) -> str:
    """Bytes and blocks that one result keeps, and the most bytes that making one takes."""
    count = max(2, min(2000, _KEPT_INPUT // max(1, job.size)))
    kept: list[Any] = [None] * count
    gc.collect()
    tracemalloc.start()
    for i in range(count):
        kept[i] = job.run()
    retained = tracemalloc.get_traced_memory()[0] / count
    del kept[1:]
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    job.run()
    peak = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    kept = [None] * count
    gc.collect()
    blocks = sys.getallocatedblocks()
    for i in range(count):
        kept[i] = job.run()
    return f"{retained:.0f} {(sys.getallocatedblocks() - blocks) / count:.0f} {peak}"


def main(replies: str, name: str, *options: str) -> None:
    module, function = name.split(":")
    with open(replies, "w", encoding="utf-8") as out:

        def reply(text: str) -> None:
            out.write(text + "\n")
            out.flush()

        try:
            prepare = getattr(importlib.import_module(module), function)
            job: Job = prepare(**dict(option.split("=", 1) for option in options))
        except AbsentError as error:
            reply(f"absent {error}")
            return
        gc.collect()
        gc.freeze()  # imported objects are not collected during the job
        reply(f"ready {job.check}")
        for line in sys.stdin:
            match line.split():
                case ["memory"]:
                    reply(_memory(job))
                case [times]:
                    reply(_time(job.run, int(times)))


if __name__ == "__main__":
    main(*sys.argv[1:])
