"""CONTRIBUTING.md's way to add a rule of share groups, taken in a copy of the checkout: its fault is planted into the
logs of real brokers, and found; on Spark and over the wire the same rules are made."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

from tests.docs.guide import ROOT
from tests.docs.test_docs_add_a_rule import copied_checkout, run

NAME = "share_short_runs"
TEXT = (ROOT / "CONTRIBUTING.md").read_text("utf-8")

FINDS = """
import sys
from pathlib import Path
from kafkawire.report.descriptions import check_sentence
from tools.audit_faults import shares
from tools.guide.rules import share_table

folder = Path(sys.argv[1])
found = shares.outcomes(folder, "4.4.0", rounds=1)
assert (found.missed, found.false) == ([], []), found
assert found.by_rule["share_short_runs"] == 1
planted = [one for one in shares.found(folder) if one.check == "share_short_runs"]
assert planted[0].what.endswith("orders-0: a run of 10001 offsets"), planted
assert "| `share_short_runs` |" in share_table()
assert check_sentence("share_short_runs").endswith("at most 10,000 offsets in a run.")
print("found")
"""


@pytest.mark.slow
def test_a_rule_of_share_groups_is_a_file_and_finds_its_fault(tmp_path: Path) -> None:
    root = copied_checkout(tmp_path / "checkout")
    rule = re.search(rf"`kafkawire/\S+/{NAME}\.py`:\n\n   ```python\n(.*?)   ```\n", TEXT, re.DOTALL)
    assert rule is not None
    rules = root / "kafkawire" / "offsets" / "share_rules"
    (rules / f"{NAME}.py").write_text(textwrap.dedent(rule[1]), "utf-8")
    package = (rules / "__init__.py").read_text("utf-8")
    package = package.replace("import (\n", f"import (\n    {NAME},\n", 1)
    package = package.replace("    share_delivery_limit.RULE,\n", f"    share_delivery_limit.RULE,\n    {NAME}.RULE,\n")
    (rules / "__init__.py").write_text(package, "utf-8")
    names = root / "kafkawire" / "transactions" / "checks" / "check_names.py"
    listed = names.read_text("utf-8")
    assert '"share_delivery_limit", ' in listed
    names.write_text(listed.replace('"share_delivery_limit", ', f'"share_delivery_limit", "{NAME}", '), "utf-8")
    (root / "finds.py").write_text(FINDS, "utf-8")
    assert run(root, "finds.py", str(tmp_path / "copy")) == "found\n"
