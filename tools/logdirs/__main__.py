"""`python -m tools.logdirs`: makes `tests/logdir/data/` again, from real clients and real brokers of three releases."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any

import confluent_kafka
import typer

from tools.broker import BrokerError, cluster
from tools.examples.errors import ExamplesError

from .clients import read_all
from .errors import LogdirsError
from .recipes import RECIPES, SMALL, Recipe, Scene, create_topics

MAX_BYTES = 900_000
TARGET = Path("tests/logdir/data")
#: The metadata log's indexes have a size of their own, 10 MiB each: a copy keeps this much of their zeros.
METADATA_INDEX_BYTES = 2048

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    names: Annotated[list[str] | None, typer.Argument(help="Which folders; all by default.")] = None,
    target: Annotated[Path, typer.Option(help="Where the folders are; each is replaced when it is made.")] = TARGET,
    cache: Annotated[Path | None, typer.Option(help="Where Kafka's jars are kept, else KAFKAWIRE_CACHE.")] = None,
) -> None:
    """Starts brokers, lets clients write, copies the log directories and writes down what a consumer read."""
    known = {recipe.name: recipe for recipe in RECIPES}
    try:
        for name in names or known:
            if name not in known:
                raise typer.BadParameter(f"no folder {name}; there are {', '.join(known)}")
            with tempfile.TemporaryDirectory(prefix="kafkawire-logdirs-") as scratch:
                made = Path(scratch) / name
                _make(known[name], made, cache)
                shutil.rmtree(target / name, ignore_errors=True)
                shutil.copytree(made, target / name)
            size = sum(path.stat().st_size for path in (target / name).rglob("*") if path.is_file())
            print(f"{target / name}: {size} bytes", file=sys.stderr)
        size = sum(path.stat().st_size for path in target.rglob("*") if path.is_file())
        if size > MAX_BYTES:
            raise LogdirsError(f"{size} bytes are too many, {MAX_BYTES} may be")
    except (LogdirsError, ExamplesError, BrokerError, confluent_kafka.KafkaException, OSError) as e:
        print(f"error: {e}", file=sys.stderr)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


def _make(recipe: Recipe, folder: Path, cache: Path | None) -> None:
    with cluster(version=recipe.version, config={**SMALL, **recipe.config}, cache=cache) as running:
        scene = Scene(running)
        create_topics(scene, recipe.topics)
        recipe.act(scene)
        expected = {f"{topic}-0": read_all(running.bootstrap, topic, 0) for topic in recipe.topics}
        log_dir = running.log_dirs[1]
        if not recipe.running and not (running.stop() and (log_dir / ".kafka_cleanshutdown").exists()):
            raise LogdirsError(f"{recipe.name}: the broker was not shut down cleanly")
        _copy(log_dir, folder / "data")
        scene.left_open.clear()
    _write_expected(folder / "expected.json", {"version": recipe.version, "records": expected})


def _copy(log_dir: Path, target: Path) -> None:
    """Copies as an operator would; files that go away meanwhile are passed over."""

    def copy(source: str, to: str) -> None:
        try:
            size = os.path.getsize(source)
            if Path(source).parent.name.startswith("__cluster_metadata") and source.endswith("index"):
                size = max(METADATA_INDEX_BYTES, _used(source)) if size > METADATA_INDEX_BYTES else size
            with open(source, "rb") as read, open(to, "wb") as write:
                write.write(read.read(size))
        except FileNotFoundError:
            pass

    shutil.copytree(log_dir, target, copy_function=copy)
    (target / ".lock").unlink(missing_ok=True)


def _used(path: str) -> int:
    """Bytes up to the last entry of an index that is not zeros."""
    entry = 12 if path.endswith("timeindex") else 8
    return -(-len(Path(path).read_bytes().rstrip(b"\0")) // entry) * entry


def _write_expected(path: Path, expected: dict[str, Any]) -> None:
    """JSON with a record a line."""
    lines = []
    for place, found in expected["records"].items():
        rows = ",\n".join("  " + json.dumps(record) for record in found)
        lines.append(f" {json.dumps(place)}: [\n{rows}\n ]")
    text = f'{{"version": {json.dumps(expected["version"])}, "records": {{\n' + ",\n".join(lines) + "\n}}\n"
    path.write_text(text)


if __name__ == "__main__":
    app()
