"""`python -m tools.recordings [NAME ...]`: records clusters anew, from real clients and real brokers."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated

import confluent_kafka
import typer

from kafkawire.errors import KafkaWireError
from tools.broker import BrokerToolError

from . import (
    RecordingError,
    archive,
    client_batches,
    client_captures,
    clusters,
    deliveries,
    elections,
    every_offset,
    example_folder,
    hanging_transactions,
    isolation_levels,
    log_directories,
    read_committed,
    share_groups,
    tiered_storage,
)
from .log_directories import RECIPES

#: Bytes of all files of one archive.
MAX_BYTES = 4_000_000

#: Name of an archive -> what makes its files in a folder, with Kafka's jars from a cache.
ARCHIVES: Mapping[str, Callable[[Path, Path | None], None]] = {
    **{recipe.name: partial(log_directories.record, recipe) for recipe in RECIPES},
    "read-committed": read_committed.record,
    "isolation-levels": isolation_levels.record,
    "hanging-transactions": hanging_transactions.record,
    "tiered-storage": tiered_storage.record,
    "tier-objects": tiered_storage.record_objects,
    "every-offset": every_offset.record,
    "deliveries": deliveries.record,
    "group-deliveries": deliveries.record_groups,
    share_groups.NAME: share_groups.record,
    elections.NAME: elections.record,
    client_batches.NAME: client_batches.record,
    **{name: partial(client_captures.record, clients) for name, clients in client_captures.ARCHIVES.items()},
    **{one.archive: partial(clusters.record, one) for one in clusters.CONFIGURATIONS},
}
#: The recording that is a folder.
EXAMPLES = "examples"
#: A name for all clusters of `clusters.CONFIGURATIONS`.
CLUSTERS = "clusters"

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    names: Annotated[list[str] | None, typer.Argument(help="Which recordings; all by default.")] = None,
    output: Annotated[Path, typer.Option(help="The folder of the examples.")] = archive.ROOT / EXAMPLES,
    cache: Annotated[Path | None, typer.Option(help="Where Kafka's jars are kept, else KAFKAWIRE_CACHE.")] = None,
) -> None:
    """Starts brokers, lets clients write, and keeps what brokers have on disk: examples/ and tests/recordings."""
    known = (EXAMPLES, *ARCHIVES)
    for name in names or ():
        if name not in (*known, CLUSTERS):
            raise typer.BadParameter(f"no recording {name}; there are {', '.join((*known, CLUSTERS))}")
    try:
        for name in _each(names or known):
            with tempfile.TemporaryDirectory(prefix="kafkawire-recordings-") as scratch:
                folder = Path(scratch) / name
                folder.mkdir()
                if name == EXAMPLES:
                    example_folder.record(folder, cache)
                    for page in (example_folder.WITNESS, example_folder.SHARE_GROUPS):
                        example_folder.replace(archive.ROOT / "docs" / page, folder / page)
                        (folder / page).rmdir()
                    example_folder.replace(output, folder)
                else:
                    ARCHIVES[name](folder, cache)
                    _pack(name, folder)
    except (RecordingError, BrokerToolError, KafkaWireError, confluent_kafka.KafkaException, OSError) as e:
        print(f"error: {e}", file=sys.stderr)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


def _each(names: Iterable[str]) -> Iterator[str]:
    for name in names:
        if name == CLUSTERS:
            yield from (one.archive for one in clusters.CONFIGURATIONS)
        else:
            yield name


def _pack(name: str, folder: Path) -> None:
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    if size > MAX_BYTES:
        raise RecordingError(f"{name}: {size} bytes, {MAX_BYTES} are allowed")
    archive.replace(name, folder)
    print(f"{name}: {size} bytes", file=sys.stderr)


if __name__ == "__main__":
    app()
