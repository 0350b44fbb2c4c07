"""`python -m tools.wheels.sizes [LABEL=]WHEEL...`: a section of docs/install.md with what an install brings.

Every wheel is installed into an environment of its own, the last one with each set of extras, too. Bytecode does not
count: pip compiles it, and `--no-compile` spares it. Seconds include what pip downloads, or reads from its cache. Rows
of wheels that were not given stay.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from tools import ROOT
from tools.pages import kept_rows, sections, write_section
from tools.wheels import building

HEAD = ("| installed | wheel, MB | packages | MB | seconds |", "|---|---:|---:|---:|---:|")
EXTRAS = ("", "cli", "cli,net", "arrow", "all")


def measured(wheel: str, extras: str, folder: Path) -> tuple[int, float, float]:
    """Packages, MB without bytecode, seconds."""
    python = building.environment(Path(sys.executable), folder)
    start = time.monotonic()
    what = f"{wheel}[{extras}]" if extras else wheel
    building.run([*building.pip(python), "install", "-q", "--no-compile", what], building.PINNED)
    seconds = time.monotonic() - start
    (site,) = folder.glob("lib/python*/site-packages")
    size = sum(path.stat().st_size for path in site.rglob("*") if path.is_file() and path.suffix != ".pyc")
    return len(list(site.glob("*.dist-info"))), size / 1e6, seconds


def main() -> None:
    rows = []
    with tempfile.TemporaryDirectory(prefix="sizes-") as folder:
        for number, argument in enumerate(sys.argv[1:]):
            label, _, wheel = argument.rpartition("=")
            last = number == len(sys.argv) - 2
            for extras in EXTRAS if last else EXTRAS[:1]:
                packages, size, seconds = measured(wheel, extras, Path(folder, f"{number}{extras}"))
                name = f"`kafkawire[{extras}]`" if extras else "`kafkawire`"
                rows.append(
                    f"| {name}{', ' * bool(label)}{label} | {Path(wheel).stat().st_size / 1e6:.1f} | {packages} | "
                    f"{size:.0f} | {seconds:.0f} |"
                )
                print(rows[-1], flush=True)
    page = ROOT / "docs" / "install.md"
    lines = kept_rows(sections(page.read_text("utf-8")).get("sizes", ""), HEAD, rows, ordered=False)
    write_section(page, "sizes", "\n".join([*lines, "", f"Measured at {building.commit()}."]))


if __name__ == "__main__":
    main()
