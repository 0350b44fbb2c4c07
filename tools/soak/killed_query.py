"""A streaming query whose driver and executors are killed (SIGKILL) within and between micro-batches, and started anew
from its checkpoint."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

from tools import ROOT
from tools.broker import jars

from .child_process import SoakError
from .query_process import DONE, READY, ROWS, TRIGGER, Query

#: Formats of the table; all but the first need jars.
FORMATS = ("parquet", "delta", "iceberg")
_PATIENCE_S = 600.0
_EXECUTOR = "CoarseGrainedExecutorBackend"


class KilledQuery:
    """A query with its processes.

    Attributes:
        errors: rows with errors, by their text.
        kills: what was killed: `driver` or `executor`, `within` a micro-batch or `between` two, as text.

    Args:
        options: of `kafka_segment`. `folder`: for the table and the checkpoint. `format`: one of `FORMATS`.

    Raises:
        BrokerUnavailableError: jars of the format cannot be had.
    """

    def __init__(self, options: dict[str, str], folder: Path, random: Random, format: str) -> None:
        self.random = random
        self.errors: Counter[str] = Counter()
        self.kills: Counter[str] = Counter()
        of_lake = format != FORMATS[0]
        self._query = Query(options, format, str(folder), str(jars.lake_jars()) if of_lake else None)
        self._spark = jars.lake_spark() if of_lake else None
        self._process: subprocess.Popen[str] | None = None
        folder.mkdir(parents=True)
        self._log = folder / "errors"
        self._seen: Counter[bytes] = Counter()
        self._took_s = 2.0

    def trigger(self) -> Counter[bytes] | None:
        """A micro-batch: what it delivered since the last one that ended; None: the driver was killed, and is started
        with the next one."""
        self._start()
        victim = self.random.choices(("", "driver", "executor"), (3, 3, 4))[0]
        delay = self.random.uniform(0, 0.9 * self._took_s)
        begun = time.monotonic()
        self._tell(TRIGGER)
        if victim:
            when = "between" if self._has_answer(delay) else "within"
            if self._kill(victim):
                self.kills[f"{victim} {when}"] += 1
            if victim == "driver":
                self.close()
                return None
        if (found := self._answer()) != DONE:
            raise SoakError(f"a query answers {found!r}: {self._tail()}")
        if not victim:
            self._took_s = time.monotonic() - begun
        return self._delivered()

    def close(self) -> None:
        """End all its processes, as a machine does that loses its power."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def _start(self) -> None:
        if self._process is not None:
            return
        spark = self._spark
        paths = [str(one) for one in (spark, ROOT) if one is not None]
        import pyspark

        home = Path(pyspark.__file__).parent if spark is None else spark / "pyspark"
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tools.soak.query_process", json.dumps(self._query._asdict())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                bufsize=1,
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "SPARK_HOME": str(home)},
                start_new_session=True,
            )
        while (line := self._answer()) != READY:
            if not line:
                raise SoakError(f"a query does not start: {self._tail()}")

    def _delivered(self) -> Counter[bytes]:
        self._tell(ROWS)
        rows: list[list[Any]] = json.loads(self._answer())
        self.errors = Counter(error for _, error in rows if error)
        every = Counter(value.encode() for value, error in rows if not error)
        found, self._seen = every - self._seen, every
        return found

    def _kill(self, victim: str) -> bool:
        """Kill the driver, which is the Python process and its Java, or an executor; whether there was one."""
        listed = subprocess.run(
            ["ps", "-A", "-ww", "-o", "pid=,pgid=,args="], capture_output=True, text=True, check=True
        )
        lines = (line.split(None, 2) for line in listed.stdout.splitlines())
        own = [(int(pid), args) for pid, group, *args in lines if int(group) == self._running.pid]
        executors = [pid for pid, args in own if any(_EXECUTOR in word for word in args)]
        if victim == "executor":
            victims = executors and [self.random.choice(executors)]
        else:
            victims = [pid for pid, _ in own if pid not in executors]
        for pid in victims:
            with suppress(ProcessLookupError):  # it ended by itself
                os.kill(pid, signal.SIGKILL)
        return bool(victims)

    @property
    def _running(self) -> subprocess.Popen[str]:
        assert self._process is not None
        return self._process

    def _tell(self, command: str) -> None:
        assert self._running.stdin is not None
        self._running.stdin.write(f"{command}\n")

    def _has_answer(self, seconds: float) -> bool:
        assert self._running.stdout is not None
        return bool(select.select([self._running.stdout], [], [], seconds)[0])

    def _answer(self) -> str:
        """The next line of its output; empty where it has ended."""
        assert self._running.stdout is not None
        if not self._has_answer(_PATIENCE_S):
            raise SoakError(f"a query does not answer within {_PATIENCE_S:g} s: {self._tail()}")
        return self._running.stdout.readline().strip()

    def _tail(self) -> str:
        return self._log.read_text(errors="replace")[-2000:]
