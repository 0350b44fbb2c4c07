"""`kafkawire audit --bootstrap-server`: the audit of a live cluster over the wire, in this process or on Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

from kafkawire import rows
from kafkawire.cli.formatting import printable
from kafkawire.cli.notes import print_note
from kafkawire.cli.progress import spark_tasks
from kafkawire.cli.txn_options import Address, client_properties
from kafkawire.cli.wait_reports import Counting
from kafkawire.client import Admin, Search
from kafkawire.client.diagnosis.log_reading import Load, RangeReader, ReadWith
from kafkawire.client.diagnosis.reading_plan import ReadingPlan
from kafkawire.client.diagnosis.search import FETCH_BYTES
from kafkawire.client.diagnosis.wire_audit import WireAudit, audit
from kafkawire.transactions import Settings


def audit_cluster(
    cluster: Address,
    settings: Settings,
    confirm_after: float,
    topics: tuple[str, ...] | None,
    since_ms: int | None,
    load: tuple[int, int],
    journal: str | None,
    on_spark: tuple[str | None, dict[str, str]] | None = None,
) -> rows.Audit:
    """Audits the cluster. What will be read is announced on standard error before reading starts.

    Args:
        confirm_after, topics: the values of those options (`txn find-hanging`).
        settings: brokers' settings, as the audit of copied logs takes them.
        since_ms: from when on logs are read; None: from the oldest open transactions.
        load: bytes a second, and partitions side by side. `journal`: path of a file to continue from.
        on_spark: Spark's master and settings, where its tasks read the logs.
    """
    wanted = WireAudit(
        search=Search(
            topics=topics,
            max_timeout_ms=settings.max_timeout_ms,
            confirm_after_s=confirm_after,
            session_s=max(Search().session_s, confirm_after),
            impact=True,
            fetch_bytes=min(FETCH_BYTES, load[0]),
            show_records=settings.show_records,
            as_of=settings.as_of,
            blocked_after_ms=settings.blocked_after_ms,
            address=cluster.bootstrap,
            command_config=cluster.command_config,
        ),
        settings=settings,
        since_ms=since_ms,
        load=Load(*load),
        journal=journal,
    )
    counting = Counting("byte") if on_spark is None else None

    def announce(plan: ReadingPlan) -> None:
        if counting is not None:
            counting.total = plan.size or 0
        print_note("note", printable(str(plan)))

    def advance(size: int) -> None:
        if counting is not None:
            counting.advance(size, counting.total)

    with nullcontext() if on_spark is None else _reader(cluster, *on_spark) as reader:

        async def ask(admin: Admin) -> rows.Audit:
            return await audit(admin.cluster, wanted, announce=announce, progress=advance, reader=reader)

        return cluster.run(ask, counting)


@contextmanager
def _reader(cluster: Address, master: str | None, conf: dict[str, str]) -> Iterator[Callable[[ReadWith], RangeReader]]:
    from kafkawire.spark import session_on
    from kafkawire.spark.wire_audit import reader_on

    # Spark takes seconds to start: not for a cluster that does not answer.
    cluster.run(lambda admin: admin.cluster.metadata([]))
    properties = client_properties(cluster.command_config, cluster.timeout)
    with spark_tasks() as progress, session_on(master, conf=conf) as session:
        yield reader_on(session, cluster.bootstrap, properties, progress)
