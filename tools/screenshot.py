"""`python -m tools.screenshot`: docs/report.png, the first screen of the report on examples/kafka-logs/three-nodes."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from kafkawire import logdir, report, transactions
from tools import ROOT, browser

LOGS = Path("examples/kafka-logs/three-nodes")
PICTURE = ROOT / "docs" / "report.png"
SIZE = (1000, 836)


def page() -> str:
    """The report, with the path as anyone would give it."""
    directory = logdir.open(str(ROOT / LOGS))
    return report.render(transactions.audit(directory, paths=(str(LOGS),)))


def main() -> int:
    try:
        with tempfile.TemporaryDirectory() as scratch, browser.chromium(*SIZE) as driver:
            path = Path(scratch) / "report.html"
            path.write_text(page(), "utf-8")
            driver.get(path.as_uri())
            browser.picture(driver, PICTURE)
    except (browser.NoBrowserError, browser.PictureSizeError) as e:
        print(f"error: {e}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
