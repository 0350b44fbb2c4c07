"""A hook of MkDocs: pages outside docs/, where readers of the repository look for them, are in the site, too.

They keep their paths (`SECURITY.md`, `schemas/README.md`); links between them and docs/ work in both places.
"""

from __future__ import annotations

import gc
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
OUTSIDE = (
    "SECURITY.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "schemas/README.md",
    "examples/README.md",
    "examples/expected.json",
    "examples/capture/README.md",
    "examples/spark/README.md",
    "examples/spark/audit_to_lake.py",
    "examples/spark/keep_lake_current.py",
    "examples/kafka-logs/one-node/README.md",
    "examples/kafka-logs/three-nodes/README.md",
)


def on_startup(**_: Any) -> None:
    """A build ends before there is much garbage in cycles: it takes a sixth less time without a collector."""
    gc.disable()


def on_files(files: Any, config: Any) -> Any:
    from mkdocs.structure.files import File

    for path in OUTSIDE:
        files.append(File.generated(config, path, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """In the repository docs/ is a folder below those pages; in the site they are side by side."""
    if page.file.src_uri in OUTSIDE:
        return re.sub(r"\]\(((?:\.\./)*)docs/", r"](\1", markdown)
    up = "../" * page.file.src_uri.count("/")
    return markdown.replace(f"](../{up}", f"]({up}")
