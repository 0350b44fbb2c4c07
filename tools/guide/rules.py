"""`python -m tools.guide.rules` writes the tables of the rules of batches into docs/audit.md, and of share groups into
docs/share-groups.md."""

from __future__ import annotations

from kafkawire.offsets.share_rules import RULES as SHARE_RULES
from kafkawire.transactions.log.batch_rules import RULES
from tools.pages import write_section
from tools.recordings.archive import ROOT

PAGE = ROOT / "docs" / "audit.md"
SECTION = "batch-rules"
SHARE_PAGE, SHARE_SECTION = ROOT / "docs" / "share-groups.md", "share-rules"


def table() -> str:
    """The lines of the table."""
    rows = (f"| `{rule.name}` | {rule.sentence} | {rule.source} |" for rule in RULES)
    return "\n".join(("| rule | what it asks for | from |", "|---|---|---|", *rows))


def share_table() -> str:
    """The lines of the table of the rules of share groups."""
    rows = (f"| `{rule.name}` | {rule.sentence} | {rule.source} |" for rule in SHARE_RULES)
    return "\n".join(("| rule | what it asks for | from |", "|---|---|---|", *rows))


if __name__ == "__main__":
    write_section(PAGE, SECTION, table())
    write_section(SHARE_PAGE, SHARE_SECTION, share_table())
