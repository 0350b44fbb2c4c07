"""What is in the suite: objects that Java made, bytes that it accepts or refuses, and the header versions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tools.conformance.mutating import mutants
from tools.conformance.pairing import Pair, pairs
from tools.conformance.release_comparison import BEFORE_4, NEWEST, dropped
from tools.oracle import Oracle

FORMAT = 1

Line = dict[str, Any]


def write(folder: Path, *, objects: int, inputs: int, budget: int) -> dict[str, int]:
    """Writes the suite into `folder`; the number of lines by file. The same arguments give the same bytes.

    Args:
        folder: exists. `budget`: about how many bytes an object has.
        objects: random objects of each version, beside the default one. `inputs`: byte strings, each from a sound one.
    """
    counts: dict[str, int] = {}
    for release in (NEWEST, BEFORE_4):
        with Oracle(release) as oracle:
            found = pairs(release, oracle.one(op="list")["messages"]).same
            if release == BEFORE_4:
                found = dropped(found)
            files = {
                "messages": _messages(oracle, found, objects, budget),
                "inputs": _inputs(oracle, found, inputs),
                "headers": _headers(oracle, found),
            }
            for name, lines in files.items():
                path = folder / release / f"{name}.jsonl"
                path.parent.mkdir(parents=True, exist_ok=True)
                text = "".join(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n" for line in lines)
                path.write_text(text, encoding="utf-8", newline="\n")
                counts[f"{release}/{name}.jsonl"] = text.count("\n")
    index = {"format": FORMAT, "newest": NEWEST, "before": BEFORE_4, "lines": counts}
    (folder / "index.json").write_text(json.dumps(index, indent=2) + "\n", encoding="utf-8", newline="\n")
    return counts


def _messages(oracle: Oracle, found: list[Pair], objects: int, budget: int) -> Iterator[Line]:
    work = [(pair, seed) for pair in found for seed in range(objects + 1)]
    answers = oracle.ask(
        pair.question("make", style="random" if seed else "default", seed=seed, budget=budget) for pair, seed in work
    )
    for (pair, seed), answer in zip(work, answers, strict=True):
        yield {
            "message": pair.name,
            "version": pair.version,
            "object": f"random {seed}" if seed else "default",
            "bytes": answer["bytes"],
            "value": answer["value"],
            "json": answer["json"],
        }


def _inputs(oracle: Oracle, found: list[Pair], inputs: int) -> Iterator[Line]:
    # Before 4.4.0 a negative number of tagged fields was taken for none: no example to follow.
    work = [
        (pair, mutant)
        for pair in found
        for mutant in mutants(pair, 0, inputs, budget=100)
        if oracle.release == NEWEST or "count" not in mutant.what
    ]
    answers = oracle.ask(pair.question("read", mutant.data) for pair, mutant in work)
    for (pair, mutant), answer in zip(work, answers, strict=True):
        line: Line = {
            "message": pair.name,
            "version": pair.version,
            "change": mutant.what.strip("; "),
            "bytes": mutant.data.hex(),
            "accepted": "error" not in answer,
        }
        if line["accepted"]:
            line |= {"consumed": answer["consumed"], "written": answer.get("bytes")}
            if line["written"] is None:
                line["value"] = answer["value"]
        yield line


def _headers(oracle: Oracle, found: list[Pair]) -> Iterator[Line]:
    names = {(pair.ours.spec.api_key, pair.version): pair for pair in found if pair.ours.spec.kind == "request"}
    for header in oracle.one(op="headers")["headers"]:
        if (header["apiKey"], header["version"]) in names:
            yield header
