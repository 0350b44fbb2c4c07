"""`python -m tools.broker`: a real Kafka cluster until Ctrl-C. Prints its bootstrap address on standard output."""

from __future__ import annotations

import contextlib
import signal
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from .cluster import RunningCluster, cluster
from .errors import BrokerToolError
from .jars import BROKER_VERSION

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    nodes: Annotated[int, typer.Option(min=1, help="How many combined broker and controller nodes.")] = 1,
    config: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="A broker property; repeatable.")
    ] = None,
    feature: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=LEVEL", help="A feature level, such as transaction.version=0; repeatable."),
    ] = None,
    version: Annotated[str, typer.Option("--kafka-version", help="The release of Kafka.")] = BROKER_VERSION,
    port: Annotated[int | None, typer.Option(help="Node 1's port, node 2 gets the next; free ones by default.")] = None,
    folder: Annotated[
        Path | None, typer.Option(help="Where the nodes' folders are made; temporary by default.")
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the folders behind.")] = False,
    log_level: Annotated[str, typer.Option(help="How much the brokers log.")] = "info",
    cache: Annotated[Path | None, typer.Option(help="Where jars are kept, else KAFKAWIRE_CACHE.")] = None,
) -> None:
    """Runs a Kafka cluster until Ctrl-C (or SIGTERM) and removes it."""
    settings = _pairs("--config", config or [])
    levels: dict[str, int] = {}
    for name, level in _pairs("--feature", feature or []).items():
        if not level.isdecimal():
            raise typer.BadParameter(f"{name}={level}: a level is a number", param_hint="--feature")
        levels[name] = int(level)
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        with cluster(
            nodes,
            config=settings,
            feature_levels=levels,
            version=version,
            port=port,
            folder=folder,
            keep=keep,
            log_level=log_level,
            cache=cache,
        ) as running:
            print(running.bootstrap, flush=True)
            for node in running.nodes:
                print(f"node {node.node_id}: {node.address}  logs {node.log_dir}", file=sys.stderr)
            print("Ctrl-C stops it.", file=sys.stderr, flush=True)
            _watch(running)
    except KeyboardInterrupt:
        pass
    except (BrokerToolError, OSError) as e:
        print(f"error: {e}", file=sys.stderr)
        raise typer.Exit(1) from None


def _watch(running: RunningCluster) -> None:
    while True:
        for node in running.nodes:
            if not node.running:
                raise BrokerToolError(f"node {node.node_id} has ended; the end of its log:\n{node.log_tail()}")
        time.sleep(0.5)


def _pairs(option: str, texts: list[str]) -> dict[str, str]:
    pairs = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise typer.BadParameter(f"{text!r} is not of the form KEY=VALUE", param_hint=option)
        pairs[key.strip()] = value.strip()
    return pairs


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        app()
