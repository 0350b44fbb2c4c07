"""CONTRIBUTING.md's way from a field of a schema to a decoded capture, taken in a copy of the checkout."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.docs.guide import ROOT
from tests.docs.test_docs_add_a_rule import TEXT, copied_checkout, run

STEPS = TEXT.partition("## One change, from a schema")[2].partition("\n## ")[0]
RPC = Path("schemas/kafka/rpc")
LAST_FIELD = (
    '        "about": "Name of the coordinator\'s state, for example Ongoing; the request\'s StateFilters lists them."}'
)


def block(language: str) -> str:
    """The only block of a language in the steps, without its indentation."""
    (found,) = re.findall(rf"^   ```{language}\n(.*?)^   ```$", STEPS, re.DOTALL | re.MULTILINE)
    return textwrap.dedent(found)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy with the field, generated."""
    root = copied_checkout(tmp_path_factory.mktemp("field"))
    (root / "schemas").unlink()
    shutil.rmtree(root / "kafkawire" / "schemas")
    shutil.copytree(ROOT / "schemas", root / "schemas")
    (root / "kafkawire" / "schemas").symlink_to(root / "schemas")
    for name in ("ListTransactionsRequest", "ListTransactionsResponse"):
        schema = root / RPC / f"{name}.json"
        text = schema.read_text("utf-8").replace('"validVersions": "0-2"', '"validVersions": "0-3"')
        if name == "ListTransactionsResponse":
            assert text.count(LAST_FIELD) == 1
            text = text.replace(LAST_FIELD, f"{LAST_FIELD},\n{textwrap.indent(block('json').rstrip(), ' ' * 6)}")
        schema.write_text(text, "utf-8")
    run(root, "-m", "kafkawire.codegen")
    (root / "new_field.py").write_text(block("python"), "utf-8")
    return root


@pytest.mark.slow
def test_the_class_has_the_field_from_its_version_on(checkout: Path) -> None:
    generated = (checkout / "kafkawire/messages/list_transactions_response.py").read_text("utf-8")
    assert re.search(r"^    start_time_ms: ", generated, re.MULTILINE)
    assert generated.count("if version >= 3:") >= 2  # a reader and a writer
    assert "start_time_ms" not in (ROOT / "kafkawire/messages/list_transactions_response.py").read_text("utf-8")


@pytest.mark.slow
def test_a_capture_shows_the_field(checkout: Path) -> None:
    run(checkout, "new_field.py")
    rows = run(checkout, "-m", "kafkawire", "capture", "new-field.pcap", "--body").splitlines()
    ending = re.search(r"The row ends with `(.*?)`", STEPS)
    assert ending is not None
    assert rows[-1].rstrip('}]"').endswith(ending[1].rstrip("}]")), rows[-1]


@pytest.mark.slow
def test_the_one_test_that_the_steps_name_fails(checkout: Path) -> None:
    named = re.search(r"One test fails, as it must:\s+`(.*?)`", STEPS)
    assert named is not None
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", named[1]]
    done = subprocess.run(
        command, cwd=checkout, env={"PYTHONPATH": str(checkout)}, capture_output=True, text=True, check=False
    )
    assert re.findall(r"^FAILED \S+::(\w+)", done.stdout, re.MULTILINE) == [
        "test_every_message_of_both_releases_is_there"
    ], done.stdout[-3000:]
