"""`python -m tools.guide.rules` writes the table of the rules of batches into docs/audit.md."""

from __future__ import annotations

from kafkawire.transactions.batch_rules import RULES
from tools.pages import write_section
from tools.recordings.archive import ROOT

PAGE = ROOT / "docs" / "audit.md"
SECTION = "batch-rules"


def table() -> str:
    """The lines of the table."""
    rows = (f"| `{rule.name}` | {rule.sentence} | {rule.source} |" for rule in RULES)
    return "\n".join(("| rule | what it asks for | from |", "|---|---|---|", *rows))


if __name__ == "__main__":
    write_section(PAGE, SECTION, table())
