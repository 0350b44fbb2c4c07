"""The examples of docs/spark.md, in their order, as a program: `python guide.py FOLDER [URL]`.

Arguments: where they write. A URL of Spark Connect; without, the session is the one of spark-submit.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def examples(folder: Path, root: str = "") -> list[str]:
    """The blocks of Python.

    Args:
        folder: where they write. `root`: what goes before the paths that they read; empty: they run in the root.
    """
    text = (ROOT / "docs" / "spark.md").read_text()
    text = re.sub(r'"lake/', rf'"{folder}/lake/', text)
    text = re.sub(r"""(["'])(examples|docs)/""", rf"\1{root}\2/", text)
    return re.findall(r"^```python\n(.*?)^```", text, re.S | re.M)


def run(spark: Any, blocks: list[str]) -> int:
    """Run them, one after another, with the names of those before; how many."""
    names: dict[str, Any] = {"spark": spark}
    for number, block in enumerate(blocks, 1):
        exec(compile(block, f"docs/spark.md, example {number}", "exec"), names)
    return len(blocks)


def main(folder: str, url: str | None = None) -> None:
    from pyspark.sql import SparkSession

    os.chdir(folder)
    builder = SparkSession.builder
    spark = builder.getOrCreate() if url is None else builder.remote(url).getOrCreate()
    print(f"examples: {run(spark, examples(Path(folder), f'{ROOT}/'))}")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
