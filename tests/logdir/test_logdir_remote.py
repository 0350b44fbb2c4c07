"""Log directories by URI: files in another store are read like local ones."""

from __future__ import annotations

import glob
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from kafkawire.errors import MissingExtraError

pytest.importorskip("pyarrow", reason="pyarrow is not installed")

from kafkawire import logdir, transactions
from kafkawire.logdir import remote

EXAMPLE = Path(__file__).parents[2] / "examples" / "kafka-logs" / "one-node"
URI = EXAMPLE.as_uri()


def rows(path: str) -> Iterator[str]:
    for file in logdir.open(path).files:
        for row in file:
            yield str(row).replace("file://", "")


def test_remote_rows_equal_local_rows() -> None:
    found = list(rows(URI))
    assert found == list(rows(str(EXAMPLE)))
    assert found


def test_remote_findings_equal_local_findings() -> None:
    """The audit looks at checkpoints beside the partitions too."""
    there, here = (transactions.audit(logdir.open(path)).findings for path in (URI, str(EXAMPLE)))
    assert msgspec.json.encode(there).decode() == msgspec.json.encode(here).decode().replace(str(EXAMPLE), URI)
    assert there
    assert any(premise.source.startswith(f"{URI}/") for one in there for premise in one.premises if premise.source)
    assert logdir.open(URI).brokers[0].node_id == 1


def test_opens_one_file() -> None:
    (file,) = logdir.open(f"{URI}/broker-1/orders-0/{0:020}.log").files
    assert (file.kind, file.topic, file.partition, file.offset) == ("log", "orders", 0, 0)
    assert file.size == (EXAMPLE / "broker-1" / "orders-0" / f"{0:020}.log").stat().st_size
    assert file.beside("index").path.endswith(".index")


def test_remote_files_can_be_pickled() -> None:
    """Workers of a cluster open what a driver has listed."""
    files = logdir.open(URI).files
    sent = pickle.loads(pickle.dumps(files))
    assert sent == files
    assert [list(file) for file in sent[:5]] == [list(file) for file in files[:5]]


def test_missing_paths_are_errors() -> None:
    with pytest.raises(FileNotFoundError):
        logdir.open(f"{URI}/nothing")


def test_unknown_store_is_an_error() -> None:
    with pytest.raises(OSError, match="cannot be opened"):
        logdir.open("s5://bucket/logs")


@pytest.mark.parametrize(
    "uri", ["s3://user:secret@bucket/logs?region=x", "s3://user:secret@bucket/logs/", "hdfs://me@name:8020/logs"]
)
def test_paths_contain_no_secret(uri: str) -> None:
    shown = remote.without_secrets(uri)
    assert "secret" not in shown
    assert "@" not in shown
    assert shown.endswith("/logs")


def test_errors_contain_no_secret() -> None:
    """A key with a slash that is not escaped is no URI for pyarrow, whose error has all of it."""
    with pytest.raises(OSError, match="cannot be opened: Cannot parse URI") as caught:
        logdir.open("s3://me:sec/ret@bucket/logs")
    assert "ret" not in str(caught.value).replace("retention", "")
    assert remote.without_secrets("hdfs://name:8020/users/me@here") == "hdfs://name:8020/users/me@here"


def test_reports_the_time_of_the_last_write_and_a_removed_file(tmp_path: Path) -> None:
    path = tmp_path / "leader-epoch-checkpoint"
    path.write_text("0\n0\n")
    (file,) = logdir.open(path.as_uri()).files
    assert file.modified == pytest.approx(path.stat().st_mtime, abs=1e-3)
    path.unlink()
    with pytest.raises(FileNotFoundError, match="No such file"):
        _ = file.size


def test_missing_pyarrow_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"s3://bucket/logs.*arrow"):
        logdir.open("s3://bucket/logs?not=opened&before")


def test_globs_in_uris_match_as_on_this_machine(tmp_path: Path) -> None:
    for name in ("broker-1/a-0", "broker-1/a-1", "broker-2/a-0", "broker-3/b-0", ".hidden/a-0"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "file").touch()
    for pattern in ("broker-[12]/a-0", "*/a-*", "broker-*", "broker-3", "*/none", "*", "[!b]*", "file/*"):
        expected = sorted(found.as_uri() for found in map(Path, glob.glob(f"{tmp_path}/{pattern}")))
        assert list(remote.matching(f"{tmp_path.as_uri()}/{pattern}")) == expected
    assert list(remote.matching(f"{tmp_path.as_uri()}/*-1/a-[01]")) == [
        f"{tmp_path.as_uri()}/broker-1/a-{number}" for number in (0, 1)
    ]
    with pytest.raises(FileNotFoundError):
        list(remote.matching(f"{tmp_path.as_uri()}/none/*"))
