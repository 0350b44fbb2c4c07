"""This package on the workers of a session that do not have it."""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.errors import PySparkException

import kafkawire
from kafkawire.spark.errors import SparkError, first_line
from kafkawire.spark.session.jobs import job
from kafkawire.wire.backend import backend

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


#: As a warning.
PURE_PYTHON = (
    "Spark's workers run kafkawire in pure Python, which is many times slower: install it there with its native "
    "engine, or send a packed environment with spark.archives"
)


class TaskEngine(NamedTuple):
    """The engine that a task ran with.

    Attributes:
        name: `native` or `python`.
        chosen: pure Python was chosen: by the worker's `KAFKAWIRE_BACKEND`, or since the package was shipped.
    """

    name: str
    chosen: bool

    @classmethod
    def here(cls) -> TaskEngine:
        """That of this process."""
        shipped = not os.path.isdir(os.path.dirname(kafkawire.__file__))  # an archive
        return cls(backend, os.environ.get("KAFKAWIRE_BACKEND") == "python" or shipped)


def check_engines(found: Iterable[TaskEngine]) -> None:
    """Warn (`RuntimeWarning`) of workers that run pure Python, unless this process was asked to run it as well.

    Raises:
        SparkError: this process has the native engine, and they should have it.
    """
    slow = [one for one in found if one.name == "python"]
    if backend == "native" and not all(one.chosen for one in slow):
        raise SparkError(
            "Spark's workers run kafkawire without its native engine, which this process has: install it or build it "
            "where they run; KAFKAWIRE_BACKEND=python in their environment chooses pure Python"
        )
    if slow and os.environ.get("KAFKAWIRE_BACKEND") != "python":
        warnings.warn(PURE_PYTHON, RuntimeWarning, stacklevel=2)


def ship(session: SparkSession) -> None:
    """Send this package, without its native engine, to the workers of a session, and warn (`RuntimeWarning`) that they
    run pure Python. They need its dependencies only.

    Raises:
        SparkError: the session does not take it.
    """
    try:
        session.addArtifacts(package_archive(), pyfile=True)
    except PySparkException as error:
        raise SparkError(f"the workers were not sent this package: {first_line(error)}") from error
    warnings.warn(PURE_PYTHON, RuntimeWarning, stacklevel=2)


def ship_where_missing(session: SparkSession) -> None:
    """Check on one worker whether it has this version, and send the package otherwise; `RuntimeWarning` where it runs
    pure Python.

    Raises:
        SparkError: the worker does not start, or the session does not take the package.
    """
    found = _on_a_worker(session)
    if not found.same:
        ship(session)
    elif not found.native:
        warnings.warn(PURE_PYTHON, RuntimeWarning, stacklevel=2)


def check_workers(session: SparkSession) -> None:
    """Check on one worker whether it has this package, unless it runs this interpreter on this machine.

    Raises:
        SparkError: it does not.
    """
    context = getattr(session, "_sc", None)  # a session of Spark Connect has none
    if context is not None and context.master.startswith("local") and context.pythonExec == sys.executable:
        return
    if not _on_a_worker(session).there:
        raise SparkError(
            "the Python workers of this session have no kafkawire: kafkawire.spark.ship(session) sends it, or install "
            "it where they run"
        )


def _on_a_worker(session: SparkSession) -> Any:
    """A row: whether a worker has this package, in this version, and with the native engine."""
    wanted = f'__version__ = "{kafkawire.__version__}"'

    def installed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import importlib.util
        import os

        import pyarrow

        # Looked at and not imported: a worker that has imported another version keeps it.
        try:
            found = importlib.util.find_spec("kafkawire")
        except ImportError:
            found = None
        source = getattr(found.loader, "get_source", lambda name: None)("kafkawire") if found else None
        # No folder where the package is an archive, as the one that is shipped, which has no native engine.
        folders = filter(os.path.isdir, (found.submodule_search_locations if found else None) or ())
        native = any(name.endswith((".so", ".pyd")) for folder in folders for name in os.listdir(folder))
        answers = found is not None, wanted in (source or ""), native
        for batch in batches:
            arrays = [pyarrow.array([answer] * len(batch)) for answer in answers]
            yield pyarrow.RecordBatch.from_arrays(arrays, ["there", "same", "native"])

    types = "there boolean, same boolean, native boolean"
    with job(session, "kafkawire: look for the package on a worker"):
        (answer,) = session.range(0, 1, 1, 1).mapInArrow(installed, types).collect()
    return answer


@cache
def package_archive() -> str:
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
