"""This package on the workers of a session that do not have it."""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

import kafkawire
from kafkawire.spark.errors import SparkError, first_line

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


def ship(session: SparkSession) -> None:
    """Send this package, without its native engine, to the workers of a session. They need its dependencies only; where
    it is installed with the engine, reading is faster.

    Raises:
        SparkError: the session does not take it.
    """
    try:
        session.addArtifacts(_archive(), pyfile=True)
    except PySparkException as error:
        raise SparkError(f"the workers were not sent this package: {first_line(error)}") from error


def ship_where_missing(session: SparkSession) -> None:
    """Check on one worker whether it has this version, and send the package otherwise."""
    wanted = f'__version__ = "{kafkawire.__version__}"'

    def installed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import importlib.util

        import pyarrow

        # Looked at and not imported: a worker that has imported another version keeps it.
        found = importlib.util.find_spec("kafkawire")
        source = getattr(found.loader, "get_source", lambda name: None)("kafkawire") if found else None
        for batch in batches:
            yield pyarrow.RecordBatch.from_arrays([pyarrow.array([wanted in (source or "")] * len(batch))], ["same"])

    try:
        answers = session.range(0, 1, 1, 1).mapInArrow(installed, "same boolean").collect()
    except PySparkException as error:
        raise SparkError(f"the Spark job failed: {first_line(error)}") from error
    if not all(answer.same for answer in answers):
        ship(session)


@cache
def _archive() -> str:
    """The package as a file that Python imports from; it is there as long as this process, since workers fetch it when
    they start. Its name has a digest of its content: Spark keeps the first file of a name."""
    folder = Path(tempfile.mkdtemp(prefix="kafkawire-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    package = Path(kafkawire.__file__).parent
    with zipfile.ZipFile(folder / "kafkawire.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for place, _, names in os.walk(package, followlinks=True):
            for name in sorted(names):
                if name.endswith((".py", ".json", ".jinja")):
                    path = Path(place, name)
                    archive.write(path, Path("kafkawire") / path.relative_to(package))
    digest = hashlib.sha256((folder / "kafkawire.zip").read_bytes()).hexdigest()[:12]
    return str((folder / "kafkawire.zip").rename(folder / f"kafkawire-{digest}.zip"))
