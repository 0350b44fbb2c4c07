"""A run as text: on a terminal, and as a section of docs/performance.md."""

from __future__ import annotations

from pathlib import Path
from statistics import median

from rich.console import Console
from rich.markdown import Markdown

from tools.pages import templates

from .memory_samples import FLAT_BYTES, FLAT_PART
from .soak_results import MemorySeries, SoakResults

_TEMPLATE = "soak.md.jinja"
_PARTS = 6


def markdown(found: SoakResults) -> str:
    """The section."""
    environment = templates(Path(__file__).parent)
    environment.filters |= {"mib": _mib, "verdict": _verdict, "course": _course}
    return environment.get_template(_TEMPLATE).render(
        found=found, every=f"{found.every_s:g}", part=f"{100 * FLAT_PART:g}", least=FLAT_BYTES >> 20
    )


def show(found: SoakResults, console: Console) -> None:
    """The same on a terminal."""
    console.print(Markdown(markdown(found)))


def _mib(size: float) -> str:
    return f"{size / 2**20:,.1f} MiB"


def _course(series: MemorySeries) -> str:
    """The medians of equal parts of the run, MiB: whether it rose on and on, or once."""
    sizes = [size for _, size in series.points]
    parts = [sizes[len(sizes) * i // _PARTS : len(sizes) * (i + 1) // _PARTS] for i in range(_PARTS)]
    return " ".join(f"{median(part) / 2**20:.1f}" for part in parts if part)


def _verdict(series: MemorySeries) -> str:
    if not series.judged:
        return "reported, not judged"
    return "flat" if series.flat else "**grows**"
