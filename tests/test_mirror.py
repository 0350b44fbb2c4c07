"""Whoever opens a source file finds its tests: in a test file of its name, or in the one that is named here.

`kafkawire/capture/side.py` has `tests/capture/test_capture_side.py` (or `test_side.py`, with the names of inner folders
in front where there are any). Files that are a part of what other tests show stand in `ELSEWHERE`.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ["capture", "cli", "client", "frames", "logdir", "records", "report", "rows", "spark", "transactions", "wire"]

#: Source -> the test file that shows it.
ELSEWHERE = {
    "capture/packet.py": "capture/test_capture_packets.py",
    "cli/arguments.py": "cli/test_cli_errors.py",
    "cli/capture_frames.py": "cli/test_cli_capture.py",
    "cli/capture_options.py": "cli/test_cli_capture.py",
    "cli/capture_summary.py": "cli/test_cli_capture.py",
    "cli/findings.py": "cli/test_cli_audit.py",
    "cli/layouts.py": "cli/test_cli_schema.py",
    "cli/parquet.py": "cli/test_cli_dump_options.py",
    "cli/txn_audit_log.py": "cli/test_cli_txn_abort.py",
    "cli/txn_describe.py": "cli/test_cli_txn.py",
    "cli/txn_ending.py": "cli/test_cli_txn_abort.py",
    "cli/txn_find_hanging.py": "cli/test_cli_txn.py",
    "cli/txn_force_terminate.py": "cli/test_cli_txn_abort.py",
    "cli/txn_list.py": "cli/test_cli_txn.py",
    "cli/txn_options.py": "cli/test_cli_txn.py",
    "cli/txn_producers.py": "cli/test_cli_txn.py",
    "cli/usage.py": "cli/test_cli_errors.py",
    "client/absence.py": "client/test_client_confirm.py",
    "client/admin.py": "client/test_client_faults.py",
    "client/calls.py": "client/test_client_aborting.py",
    "client/cluster.py": "client/test_client_reach.py",
    "client/driver.py": "client/test_client_faults.py",
    "client/errors.py": "client/test_client_fault_table.py",
    "client/fencing.py": "client/test_client_terminating.py",
    "client/fetching.py": "client/test_client_fault_table.py",
    "client/groups.py": "cli/test_cli_txn.py",
    "client/leadership.py": "client/test_client_confirm.py",
    "client/link.py": "client/test_client_reach.py",
    "client/markers.py": "client/test_client_abort.py",
    "client/offsets.py": "client/test_client_fault_table.py",
    "client/reading.py": "client/test_client_confirm.py",
    "client/results.py": "client/test_client_faults.py",
    "client/routing.py": "client/test_client_faults.py",
    "client/sasl.py": "client/test_client_connection.py",
    "client/state_log.py": "client/test_client_fault_table.py",
    "client/visibility.py": "client/test_client_principals.py",
    "logdir/arrays.py": "logdir/test_logdir_tables.py",
    "logdir/entries.py": "logdir/test_logdir_indexes.py",
    "logdir/options.py": "logdir/test_logdir_selection.py",
    "records/arrays.py": "records/test_records_columns.py",
    "records/lockstep.py": "records/test_records_engine.py",
    "rows/audits.py": "rows/test_rows.py",
    "rows/captures.py": "rows/test_rows_base.py",
    "rows/watches.py": "client/test_client_watch_state.py",
    "spark/lake.py": "spark/test_spark_audit_job.py",
    "spark/segment_columns.py": "spark/test_spark_segments_reader.py",
    "spark/transaction_sql.py": "spark/test_spark_transaction_table.py",
    "transactions/assembly.py": "transactions/test_local.py",
    "transactions/checks/answers.py": "transactions/test_transactions_cluster.py",
    "transactions/checks/batches.py": "transactions/checks/test_partition_checks.py",
    "transactions/checks/cases.py": "transactions/checks/test_injected.py",
    "transactions/checks/files.py": "transactions/checks/test_partition_checks.py",
    "transactions/checks/partition.py": "transactions/checks/test_partition_checks.py",
    "transactions/committed.py": "transactions/test_replay_properties.py",
    "transactions/copies.py": "transactions/test_local.py",
    "transactions/facts.py": "transactions/test_local.py",
    "transactions/producers.py": "transactions/test_replay_recorded.py",
    "transactions/reading.py": "transactions/test_local.py",
    "transactions/replay.py": "transactions/test_replay_properties.py",
    "wire/columns/build.py": "wire/test_columns.py",
    "wire/columns/decoding.py": "wire/test_columns_inputs.py",
    "wire/columns/gather.py": "wire/test_columns.py",
    "wire/columns/lockstep.py": "wire/test_columns.py",
    "wire/columns/objects.py": "wire/test_columns.py",
    "wire/columns/schema.py": "wire/test_columns_inputs.py",
    "wire/columns/walked.py": "wire/test_columns.py",
    "wire/interpreter.py": "wire/test_interpreter_errors.py",
    "wire/message.py": "wire/test_message_inputs.py",
    "wire/read.py": "wire/test_read_write.py",
    "wire/write.py": "wire/test_read_write.py",
}


def sources() -> list[str]:
    """Every source file of the rooms, from `kafkawire` on."""
    package = ROOT / "kafkawire"
    found = (path for room in ROOMS for path in (package / room).rglob("*.py") if path.stem != "__init__")
    return sorted(str(path.relative_to(package)) for path in found)


def own_tests(source: str) -> list[Path]:
    """The test files of a source's name."""
    room, *inner = source.removesuffix(".py").split("/")
    names = {"_".join(inner[at:]) for at in range(len(inner))}
    wanted = {f"test_{name}.py" for name in names} | {f"test_{room}_{name}.py" for name in names}
    return [path for path in (ROOT / "tests" / room).rglob("test_*.py") if path.name in wanted]


@cache
def imported_by(path: Path) -> frozenset[Path]:
    """The files of this checkout that a file imports, wherever in it, or names for `import_module`."""
    text = path.read_text("utf-8")
    lazy = "import_module" in text
    found = set()
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Import():
                found |= {name.name for name in node.names}
            case ast.ImportFrom(module=str(module)):
                found |= {module, *(f"{module}.{name.name}" for name in node.names)}
            case ast.Constant(value=str(name)) if lazy and re.fullmatch(r"\w+(\.\w+)*(:\w+)?", name):
                found.add(name.partition(":")[0])
    places = [root / name.replace(".", "/") for name in found for root in (ROOT, path.parent, ROOT / "tests")]
    beside = [path.parent / "conftest.py"] if ROOT / "tests" in path.parents else []
    files = [file for place in places for file in (place.with_suffix(".py"), place / "__init__.py")]
    return frozenset(file for file in files + beside if file.is_file())


@cache
def reached_from(path: Path) -> set[Path]:
    """All files that a file imports, and those that these import, ..."""
    found, left = set(), [path]
    while left:
        for file in imported_by(left.pop()) - found:
            found.add(file)
            if file.parent.name != "messages":  # generated: hundreds that lead nowhere
                left.append(file)
    return found


def test_every_source_file_has_tests_where_they_are_looked_for() -> None:
    without = {source for source in sources() if not own_tests(source)}
    assert without - ELSEWHERE.keys() == set(), "neither a test file of its name, nor a row in ELSEWHERE"
    assert ELSEWHERE.keys() - set(sources()) == set(), "a row of a file that is gone"


@pytest.mark.parametrize("source", ELSEWHERE)
def test_the_tests_elsewhere_reach_it(source: str) -> None:
    assert ROOT / "kafkawire" / source in reached_from(ROOT / "tests" / ELSEWHERE[source])
