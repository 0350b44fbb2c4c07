"""`python -m tools.soak.stream_job LOGS FOLDER`: the Spark stream, a process of its own.

Reads the records of growing partition directories (LOGS is a glob) into Parquet files, and prints JSON lines on
standard output: the process id of its JVM, and every few seconds the heap that is in use after a collection.

On standard input: `process` (all that is there now, then it confirms), `end`.
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import Any

from kafkawire.spark import register
from kafkawire.spark.session.sessions import local_session

COLUMNS = ("partition", "offset", "control", "key", "error")
_TRIGGER = "5 seconds"
_HEAP_EVERY_S = 15.0
_COLLECTIONS = 3


def main(logs: str, folder: Path) -> None:
    temporary = folder / "spark"
    temporary.mkdir()
    settings = {
        "spark.driver.memory": "600m",
        "spark.local.dir": str(temporary),
        "spark.driver.extraJavaOptions": f"-XX:TieredStopAtLevel=1 -Djava.io.tmpdir={temporary}",
        "spark.sql.shuffle.partitions": "2",
    }
    with local_session("local[2]", settings) as spark:
        register(spark)
        jvm: Any = spark.sparkContext._jvm
        query = (
            spark.readStream.format("kafka_segment")
            .option("highWatermark", "true")
            .load(logs)
            .select(*COLUMNS)
            .writeStream.format("parquet")
            .option("checkpointLocation", str(folder / "checkpoint"))
            .trigger(processingTime=_TRIGGER)
            .start(str(folder / "rows"))
        )
        _print(pid=jvm.java.lang.ProcessHandle.current().pid())
        ended = threading.Event()

        def report_heap() -> None:
            beans = jvm.java.lang.management.ManagementFactory.getMemoryMXBean()
            while not ended.wait(_HEAP_EVERY_S):
                used = []
                for _ in range(_COLLECTIONS):  # other threads allocate at the same time
                    jvm.java.lang.System.gc()
                    used.append(beans.getHeapMemoryUsage().getUsed())
                _print(heap=min(used))

        reporting = threading.Thread(target=report_heap, daemon=True)
        reporting.start()
        for line in sys.stdin:
            if line.strip() == "end":
                break
            query.processAllAvailable()  # raises what the query failed with
            _print(processed=True)
        ended.set()
        reporting.join()
        query.stop()


def _print(**what: object) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
