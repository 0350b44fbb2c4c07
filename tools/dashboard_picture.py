"""`python -m tools.dashboard_picture`: docs/deploy/dashboard.png, the panels of the Grafana dashboard with real data.

A broker has short transactions, and one of a job that is slow; one hangs, and is aborted. A group commits how far it
has read. `txn watch` watches, Prometheus scrapes it, and answers the queries of the panels. They are drawn here, not by
Grafana.
"""

from __future__ import annotations

import asyncio
import html
import json
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode
from urllib.request import urlopen

from kafkawire.client import Admin, TopicPartition
from tools import broker, browser
from tools.grafana_dashboard import PANELS, Panel
from tools.polling import until
from tools.recordings.clients import create_topics
from tools.recordings.raw_client import RawCluster

PICTURE = Path(__file__).parents[1] / "docs" / "deploy" / "dashboard.png"
_RULES = PICTURE.parent / "prometheus-rules.yml"
_SIZE = (1000, 1168)
_CALM_S, _HANGING_S = 15, 40
_TOPIC, _GROUP, _PARTITIONS = "orders", "shipments", 3
#: Polls are each second here, not each minute: what is counted over minutes is, too.
_WINDOWS = {"[5m]": "[15s]", "[15m]": "[45s]"}
_COLOURS = ("#3274a1", "#e1812c", "#3a923a", "#c03d3e", "#9372b2", "#845b53")

Ask = Callable[..., Any]


class PanelSeries(NamedTuple):
    """A line: its legend, and values by time in seconds."""

    legend: str
    points: Sequence[tuple[float, float]]


class PictureSpan(NamedTuple):
    """What is drawn: times in seconds, and those of them that each graph marks."""

    start: float
    end: float
    marks: Sequence[float] = ()


# The data -------------------------------------------------------------------------------------------------------------


@contextmanager
def scraped_watch(bootstrap: str, folder: Path, *more: str) -> Iterator[Ask]:
    """A `txn watch` over a cluster, and a Prometheus that scrapes it each second and evaluates docs/deploy's rules.

    Yields: a function that asks Prometheus: a path below /api/v1, parameters -> `data` of the answer.

    Args:
        bootstrap: HOST:PORT of a broker. `folder`: for the configuration and data of Prometheus.
        more: options of the watch.

    Raises:
        FileNotFoundError: Prometheus is not installed.
    """
    prometheus = shutil.which("prometheus")
    if prometheus is None:
        raise FileNotFoundError("prometheus is not installed")
    with ExitStack() as stack:
        options = ["--bootstrap-server", bootstrap, "--listen", "0", "--interval", "1", "--confirm-after", "0.1"]
        command = [sys.executable, "-m", "kafkawire", "txn", "watch", *options, *more]
        watch = stack.enter_context(_process(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True))
        line = watch.stderr.readline() if watch.stderr else ""
        found = re.search(r"http://(\S+)/metrics", line)
        if not found:
            raise RuntimeError(f"txn watch serves no metrics: {line}")
        job = {"job_name": "kafkawire", "static_configs": [{"targets": [found[1]]}]}
        settings = {"scrape_interval": "1s", "evaluation_interval": "1s"}
        config = {"global": settings, "rule_files": [str(_RULES)], "scrape_configs": [job]}
        (folder / "prometheus.yml").write_text(json.dumps(config))  # JSON is YAML
        with socket.create_server(("127.0.0.1", 0)) as free:
            address = f"127.0.0.1:{free.getsockname()[1]}"
        files = [f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]
        command = [prometheus, *files, f"--web.listen-address={address}", "--log.level=error"]
        stack.enter_context(_process(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

        def ask(path: str, **parameters: object) -> Any:
            with urlopen(f"http://{address}/api/v1/{path}?{urlencode(parameters)}", timeout=20) as answer:
                return json.load(answer)["data"]

        def scraped() -> bool:
            try:
                return bool(ask("query", query="kafkawire_poll_success")["result"])
            except OSError:
                return False

        until(scraped, "a scrape by Prometheus", seconds=60)
        yield ask


@contextmanager
def _process(command: list[str], **options: Any) -> Iterator[subprocess.Popen[Any]]:
    started = subprocess.Popen(command, stdin=subprocess.DEVNULL, **options)
    try:
        yield started
    finally:
        started.kill()
        started.communicate()


def answers(ask: Ask, panel: Panel, span: PictureSpan) -> list[PanelSeries]:
    """The lines of a panel, one for each series that its queries return."""
    found = []
    for query, legend in panel.queries.items():
        for window, shorter in _WINDOWS.items():
            query = query.replace(window, shorter)
        parameters = {"query": query.replace("$job", ".*"), "start": span.start, "end": span.end, "step": 1}
        for one in ask("query_range", **parameters)["result"]:
            labels: Mapping[str, str] = one["metric"]
            name = re.sub(r"{{(\w+)}}", lambda match, labels=labels: labels.get(match[1], ""), legend)  # type: ignore[misc]
            found.append(PanelSeries(name, [(float(at), float(value)) for at, value in one["values"]]))
    return found


def _night(bootstrap: str) -> PictureSpan:
    """Transactions come and go; one hangs after a while, and is aborted later."""
    over = threading.Event()
    worker = threading.Thread(target=_work, args=(bootstrap, over))
    start = time.time()
    worker.start()
    try:
        with RawCluster(bootstrap) as wire:
            time.sleep(_CALM_S)
            hanging = time.time()
            two_hours_ago = int((hanging - 7200) * 1000)
            offset = wire.produce(_TOPIC, 0, [b"lost"], wire.init_producer("late"), timestamp=two_hours_ago)
        time.sleep(_HANGING_S)
        asyncio.run(_abort(bootstrap, offset))
        aborted = time.time()
        time.sleep(_CALM_S)
    finally:
        over.set()
        worker.join()
    return PictureSpan(start, time.time(), (hanging, aborted))


def _work(bootstrap: str, over: threading.Event) -> None:
    """A transaction of two seconds after the other, one that is open for twelve of each thirty seconds, and records
    without transactions; a group that commits how far it may read."""
    import confluent_kafka

    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": _GROUP})
    with closing(consumer), RawCluster(bootstrap) as wire:
        plain, producer, written = wire.init_producer(None), wire.init_producer("short"), 0
        slow, batches = wire.init_producer("slow-job"), 0
        for number in range(10_000):
            now = int(time.time() * 1000)
            if number % 15 == 2:
                wire.add_partitions(slow, {_TOPIC: [2]})
                wire.produce(_TOPIC, 2, [b"row"], slow, timestamp=now, sequence=batches)
                batches += 1
            elif number % 15 == 8:
                wire.end(slow, committed=True)
            if number % 5 == 4:
                _commit(consumer, confluent_kafka.TopicPartition)
            wire.add_partitions(producer, {_TOPIC: [1]})
            wire.produce(_TOPIC, 1, [b"row"], producer, timestamp=now, sequence=number)
            rows = [b"row"] * 20
            wire.produce(_TOPIC, 0, rows, plain, timestamp=now, sequence=written, transactional=False)
            written += len(rows)
            if over.wait(2):
                return
            wire.end(producer, committed=True)


def _commit(consumer: Any, place: Callable[..., Any]) -> None:
    """Commits the last stable offsets, which is where a read_committed consumer of all partitions is."""
    ends = [
        place(_TOPIC, number, consumer.get_watermark_offsets(place(_TOPIC, number), timeout=10)[1])
        for number in range(_PARTITIONS)
    ]
    consumer.commit(offsets=ends, asynchronous=False)


async def _abort(bootstrap: str, offset: int) -> None:
    async with Admin.connect(bootstrap) as admin:
        await admin.abort_transaction(TopicPartition(_TOPIC, 0), start_offset=offset)


# The picture ----------------------------------------------------------------------------------------------------------

_STYLE = """body{margin:12px;font:12px/1.35 sans-serif;color:#222;background:#f4f5f7}h1{font-size:16px;margin:0 0 2px}
p{margin:0 0 8px;color:#555}main{display:grid;grid-template-columns:repeat(24,1fr);gap:8px}
section{background:#fff;border:1px solid #d8dadf;border-radius:2px;padding:6px 8px}h2{font-size:12px;margin:0}
b{font-size:26px;font-weight:500;display:block}svg{display:block}text{font:10px sans-serif;fill:#666}
i{display:inline-block;width:12px;height:3px;margin:0 4px 3px 0}span{margin-right:12px;color:#444;white-space:nowrap}
em{color:#888}"""


def page(panels: Sequence[tuple[Panel, list[PanelSeries]]], span: PictureSpan, text: str) -> str:
    """The panels as an HTML page.

    Args:
        panels: each with its lines. `text`: a sentence above them.
    """
    sections = "".join(_section(panel, lines, span) for panel, lines in panels)
    heading = f"<h1>Kafka transactions (kafkawire)</h1><p>{html.escape(text)}</p>"
    return f"<!DOCTYPE html><meta charset=utf-8><style>{_STYLE}</style>{heading}<main>{sections}</main>"


def _section(panel: Panel, lines: list[PanelSeries], span: PictureSpan) -> str:
    content = "<em>No data</em>"
    if lines and panel.stat:
        last = max((line.points[-1] for line in lines), key=lambda point: point[0])
        graph = _graph(lines, panel.unit, span, _width(panel), 34, axes=False)
        content = f"<b>{amount(last[1], panel.unit)}</b>{graph}"
    elif lines:
        names = "".join(
            f"<span><i style='background:{colour}'></i>{html.escape(line.legend)}</span>"
            for line, colour in zip(lines, cycle(_COLOURS), strict=False)
        )
        content = _graph(lines, panel.unit, span, _width(panel), 140, axes=True) + names
    return f"<section style='grid-column:span {panel.width}'><h2>{html.escape(panel.title)}</h2>{content}</section>"


def _width(panel: Panel) -> int:
    """Of its graph, in the columns of the page."""
    return round(panel.width * (976 + 8) / 24 - 8 - 18)


def _graph(lines: list[PanelSeries], unit: str, span: PictureSpan, width: int, height: int, *, axes: bool) -> str:
    left, bottom, above = (52, 16, 6) if axes else (0, 1, 2)
    top = (max(value for line in lines for _, value in line.points) or 1) * 1.05
    scale = (width - left) / (span.end - span.start)

    def x(at: float) -> float:
        return left + (at - span.start) * scale

    def y(value: float) -> float:
        return above + (height - bottom - above) * (1 - value / top)

    parts = []
    if axes:
        for share in (0, 0.5, 1):
            value = top / 1.05 * share
            parts.append(f"<path d='M{left} {y(value):.1f}H{width}' stroke='#e4e5e9'/>")
            parts.append(f"<text x='{left - 4}' y='{y(value) + 3:.1f}' text-anchor='end'>{amount(value, unit)}</text>")
        for second in range(-int(-span.start // 30) * 30, int(span.end), 30):
            clock = time.strftime("%H:%M:%S", time.gmtime(second))
            parts.append(f"<text x='{x(second):.1f}' y='{height - 3}' text-anchor='middle'>{clock}</text>")
        for at in span.marks:
            parts.append(f"<path d='M{x(at):.1f} {above}V{height - bottom}' stroke='#999' stroke-dasharray='3 3'/>")
    for line, colour in zip(lines, cycle(_COLOURS), strict=False):
        before, path = None, ""
        for at, value in line.points:  # a gap is not bridged
            path += f"{'L' if before is not None and at - before < 1.5 else 'M'}{x(at):.1f} {y(value):.1f}"
            before = at
        path += "h2" if len(line.points) == 1 else ""
        parts.append(f"<path d='{path}' fill='none' stroke='{colour}' stroke-width='1.6'/>")
    return f"<svg width='{width}' height='{height}'>{''.join(parts)}</svg>"


def amount(value: float, unit: str) -> str:
    """A value with Grafana's unit `s` or `short`: `1.5 s`, `2 h`, `1.2 K`."""
    steps = ((3600, " h"), (60, " min"), (1, " s"), (0.001, " ms")) if unit == "s" else ((1000, " K"), (1, ""))
    size, name = next((step for step in steps if value >= step[0]), steps[-1] if value else (1, " s" * (unit == "s")))
    return f"{value / size:.3g}{name}"


def main() -> int:
    """Writes the picture, in about two minutes."""
    config = {"transaction.partition.verification.enable": False}
    try:
        with (
            browser.chromium(*_SIZE) as driver,
            tempfile.TemporaryDirectory() as scratch,
            broker.cluster(1, config=config) as running,
            ExitStack() as stack,
        ):
            create_topics(running.bootstrap, {_TOPIC: _PARTITIONS}, replicas=1, config={})
            ask = stack.enter_context(
                scraped_watch(running.bootstrap, Path(scratch), "--lag", _GROUP, "--blocked-after", "0")
            )
            span = _night(running.bootstrap)
            hanging, aborted = (time.strftime("%H:%M:%S", time.gmtime(at)) for at in span.marks)
            text = (
                f"A transaction hangs at {hanging} UTC, and is aborted at {aborted} (dashed lines); a slow one holds "
                "readers back twice (--blocked-after 0). "
                "Drawn by kafkawire's tools from Prometheus' answers, not by Grafana."
            )
            path = Path(scratch) / "dashboard.html"
            path.write_text(page([(panel, answers(ask, panel, span)) for panel in PANELS], span, text), "utf-8")
            driver.get(path.as_uri())
            browser.picture(driver, PICTURE)
    except (browser.NoBrowserError, broker.BrokerUnavailableError, FileNotFoundError, browser.PictureSizeError) as e:
        print(f"error: {e}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
