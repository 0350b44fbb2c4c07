"""The package as a file that workers import from, without a Spark session."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
import zipfile
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

import kafkawire
from kafkawire.spark.errors import SparkError
from kafkawire.spark.session import shipping
from tests.audit_logs import LogDirectory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

USE = """
import sys
sys.path.insert(0, sys.argv[1])
# An editable install answers for modules that the package lacks.
sys.meta_path[:] = [one for one in sys.meta_path if not getattr(one, "__module__", "").startswith("__editable__")]
import kafkawire, kafkawire.spark
from kafkawire import columns, records
assert kafkawire.__file__.startswith(sys.argv[1]), kafkawire.__file__
from kafkawire.messages import TransactionLogValue
value = TransactionLogValue(producer_id=7)
assert TransactionLogValue.decode(value.encode(1), 1) == value
assert columns.decode(TransactionLogValue, [value.encode(1)], 1).column("producer_id").to_pylist() == [7]
(batch,) = records.read(records.build([records.Record(b"k")], codec="zstd"))
assert [record.key for record in batch.records] == [b"k"]
print(kafkawire.backend, kafkawire.load_schemas(sys.argv[2]).Parcel.spec.name)
"""


@pytest.mark.slow
def test_the_archive_is_the_package_without_its_engine() -> None:
    package = Path(kafkawire.__file__).parent
    with zipfile.ZipFile(shipping.package_archive()) as archive:
        assert archive.testzip() is None
        names = set(archive.namelist())
    sources = {f"kafkawire/{path.relative_to(package)}" for path in package.rglob("*.py")}
    assert sources <= names
    # The compiler and the schemas are links in a checkout.
    assert {"kafkawire/codegen/lower.py", "kafkawire/schemas/errors.json"} <= names
    assert not [name for name in names if "_native" in name]
    assert shipping.package_archive() is shipping.package_archive()


@pytest.mark.slow
def test_a_worker_that_has_only_the_archive_can_work(tmp_path: Path) -> None:
    (tmp_path / "Parcel.json").write_text(
        """{"type": "data", "name": "Parcel", "validVersions": "0", "flexibleVersions": "none", "fields": []}"""
    )
    program = [sys.executable, "-W", "ignore", "-c", USE, shipping.package_archive(), str(tmp_path)]
    anywhere = {name: value for name, value in os.environ.items() if name != "KAFKAWIRE_BACKEND"}
    done = subprocess.run(program, capture_output=True, text=True, timeout=120, cwd=tmp_path, env=anywhere)
    assert (done.stdout, done.stderr) == ("python Parcel\n", "")


class Taking:
    """A session that takes what it is sent."""

    def addArtifacts(self, *path: str, pyfile: bool) -> None:
        assert (path, pyfile) == ((shipping.package_archive(),), True)


@pytest.mark.slow
def test_shipping_warns_that_workers_run_pure_python() -> None:
    with pytest.warns(RuntimeWarning, match=r"^Spark's workers run kafkawire in pure Python, .* slower: install it"):
        shipping.ship(Taking())  # type: ignore[arg-type]


@pytest.mark.spark
def test_workers_with_the_native_engine_need_nothing(spark: SparkSession, recwarn: pytest.WarningsRecorder) -> None:
    shipping.ship_where_missing(spark)
    assert [one for one in recwarn if one.category is RuntimeWarning] == []


NATIVE, CHOSEN, MISSING = (
    shipping.TaskEngine("native", False), shipping.TaskEngine("python", True), shipping.TaskEngine("python", False)
)  # fmt: skip


@pytest.mark.parametrize(
    ("driver", "wanted", "workers", "raises", "warns"),
    [
        ("native", None, [NATIVE], False, False),
        ("native", None, [NATIVE, CHOSEN], False, True),
        ("native", None, [NATIVE, MISSING], True, False),
        ("python", None, [MISSING], False, True),  # a checkout whose engine is not built
        ("python", "python", [MISSING, CHOSEN], False, False),
    ],
)
def test_workers_in_pure_python_are_named_and_refused_where_the_driver_has_the_engine(
    monkeypatch: pytest.MonkeyPatch, driver: str, wanted: str | None, workers: list[shipping.TaskEngine], raises: bool,
    warns: bool,
) -> None:  # fmt: skip
    monkeypatch.setattr(shipping, "backend", driver)
    monkeypatch.delenv("KAFKAWIRE_BACKEND", raising=False)
    if wanted:
        monkeypatch.setenv("KAFKAWIRE_BACKEND", wanted)
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        refused = pytest.raises(SparkError, match="without its native engine, which this process has")
        with refused if raises else nullcontext():
            shipping.check_engines(workers)
    assert [str(one.message) for one in given] == [shipping.PURE_PYTHON] * warns


AUDIT = """
import sys
from kafkawire import spark
with spark.local_session("local[1]", conf={"spark.executorEnv.KAFKAWIRE_BACKEND": sys.argv[2]}) as session:
    spark.audit([sys.argv[1]], spark=session)
"""


@pytest.mark.spark
@pytest.mark.slow
def test_an_audit_whose_workers_run_pure_python_warns(tmp_path: Path) -> None:
    """With real workers: those of this session are asked to."""
    logs = LogDirectory(tmp_path / "logs", ids=0)
    logs.partition("orders").data(1)
    environment = {name: value for name, value in os.environ.items() if name != "KAFKAWIRE_BACKEND"}
    done = subprocess.run(
        [sys.executable, "-c", AUDIT, logs.write(), "python"], capture_output=True, text=True, timeout=600,
        env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert f"RuntimeWarning: {shipping.PURE_PYTHON}" in done.stderr
