"""Three codecs of other projects against the vectors, each through an adapter of less than 60 lines (`adapters/`).

They have no JSON form in Kafka's names: they answer with the bytes that they encode what they decoded to. What is
listed here is what they do differently, as `kafkawire conformance` prints it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from kafkawire.messages import REGISTRY
from kafkawire.vectors.conformance import check
from kafkawire.vectors.vectors import CASES
from tools.broker.jars import cache_dir

pytestmark = pytest.mark.slow

ADAPTERS = Path(__file__).with_name("adapters")


class Found(NamedTuple):
    """What a codec does with the vectors.

    Attributes:
        passed: how many questions.
        values: "decode CASE MESSAGE VERSION" of values that it writes otherwise than it read them.
        refusals: kind of bytes that it does not refuse -> how many.
    """

    passed: int
    values: set[str]
    refusals: Counter[str]


def found(command: Sequence[str]) -> Found:
    passed, values, refusals = 0, set(), Counter[str]()
    for outcome in check(command, REGISTRY):
        passed += outcome.passed
        for case in outcome.cases:
            kind = case.removeprefix("decode ")
            if kind in CASES:
                values.add(f"{case} {outcome.message} {outcome.version}")
            else:
                refusals[kind.partition(" after")[0]] += 1
    return Found(passed, values, refusals)


def built(command: list[str], folder: Path, **environment: str) -> None:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, env={**os.environ, **environment}, check=False, timeout=600
    )
    assert done.returncode == 0, done.stderr[-2000:]


def fetched(command: list[str], folder: Path) -> None:
    """Skips where the toolchain is absent, or the codec cannot be had from its registry."""
    if shutil.which(command[0]) is None:
        pytest.skip(f"no {command[0]} in PATH")
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode:
        pytest.skip(f"{' '.join(command)}: {done.stderr.strip()[-200:]}")


@pytest.mark.parametrize("path", ["kafka_python.py", "kmsg/main.go", "kafka_protocol/src/main.rs"])
def test_adapters_are_short(path: str) -> None:
    assert len((ADAPTERS / path).read_text("utf-8").splitlines()) < 60


def test_franz_go() -> None:
    """kmsg takes bytes behind a message, and lengths that are below 0 for null; it knows no other difference."""
    fetched(["go", "mod", "download"], ADAPTERS / "kmsg")
    program = cache_dir() / "adapters" / "kmsg"
    program.parent.mkdir(parents=True, exist_ok=True)
    built(["go", "build", "-o", str(program), "."], ADAPTERS / "kmsg")
    result = found([str(program)])
    assert result.passed > 6500
    assert result.values == {"decode high StopReplicaRequest 4"}
    assert set(result.refusals) == {"a byte more", "lengths of ones", "lengths of 2 GiB"}


@pytest.mark.deployment
def test_kafka_protocol_rs() -> None:
    """All values are right. It allocates what a length claims, which ends the process."""
    fetched(["cargo", "fetch", "--locked"], ADAPTERS / "kafka_protocol")
    target = cache_dir() / "adapters" / "target"
    built(["cargo", "build", "-q", "-j2", "--locked"], ADAPTERS / "kafka_protocol", CARGO_TARGET_DIR=str(target))
    result = found([str(target / "debug" / "adapter")])
    assert result.passed > 6300
    assert result.values == set()
    assert set(result.refusals) == {"lengths of ones", "lengths of 2 GiB"}


def test_kafka_python() -> None:
    """It drops unknown tagged fields, and fields of ApiVersions behind its array; it takes much that is cut off."""
    pytest.importorskip("kafka.protocol.api_message")
    result = found([sys.executable, str(ADAPTERS / "kafka_python.py")])
    assert result.passed > 4500
    others = {value for value in result.values if not value.startswith("decode many ")}
    assert others == {
        f"decode {case} ApiVersionsResponse {version}" for case in ("low", "high") for version in range(1, 5)
    }
    assert set(result.refusals) == {"a byte more", "cut", "lengths of ones", "lengths of 2 GiB"}
