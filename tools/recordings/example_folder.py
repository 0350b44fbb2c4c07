"""`examples/`: a capture and log directories of real brokers, and what the brokers answered about them."""

from __future__ import annotations

import importlib.metadata
import json
import re
import shutil
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import confluent_kafka

from tools.broker.jars import BROKER_VERSION, TOOLS_VERSION, java
from tools.pages import templates

from . import RecordingError, example_capture, example_share_groups, example_witness, transaction_recipes
from .tcpdump import measured

MAX_BYTES = 5_000_000
CAPTURE = "transactions.pcap"
#: Beside the pages about them, docs/witness.md and docs/share-groups.md: an audit of examples/ reads whole log
#: directories only.
WITNESS, SHARE_GROUPS = "witness", "share-groups"


def record(folder: Path, cache: Path | None = None) -> None:
    """Makes everything of `examples/` that brokers and clients make, with READMEs, in `folder`.

    Raises:
        RecordingError: Kafka answered other than the recipe expects, a tool is missing, or the files are too large.
    """
    (folder / "capture").mkdir(parents=True)
    expected: dict[str, Any] = {"made": _versions(), "capture": {}, "kafka-logs": {}}
    pcap = folder / "capture" / CAPTURE
    _note(f"capture/{CAPTURE} ...")
    expected["capture"][CAPTURE] = example_capture.make(pcap, cache=cache)
    for recipe in transaction_recipes.RECIPES:
        _note(f"kafka-logs/{recipe.name} ...")
        expected["kafka-logs"][recipe.name] = transaction_recipes.make(
            recipe, folder / "kafka-logs" / recipe.name, cache=cache
        )
    _note("witness ...")
    expected["witness"] = example_witness.record(folder / WITNESS, cache)
    (folder / WITNESS / ".gitattributes").write_text("** -text\n")
    _note("share-groups ...")
    expected["share-groups"] = example_share_groups.record(folder / SHARE_GROUPS, cache)
    (folder / SHARE_GROUPS / ".gitattributes").write_text("** -text\n")
    (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")
    (folder / ".gitattributes").write_text("capture/** -text\nkafka-logs/** -text\n")  # bytes, whatever they look like
    _write_readmes(folder, expected)
    refuse_paths(folder)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    if size > MAX_BYTES:
        raise RecordingError(f"{size} bytes are too many for examples, {MAX_BYTES} may be")
    _note(f"{size} bytes")


def _versions() -> dict[str, str]:
    printed = subprocess.run([java(), "-version"], capture_output=True, text=True, check=True).stderr
    if (tcpdump := shutil.which("tcpdump")) is None:
        raise RecordingError("no tcpdump in PATH: install it (apt-get install tcpdump)")
    sniffer = subprocess.run([tcpdump, "--version"], capture_output=True, text=True, check=True)
    found = re.search(r"tcpdump version (\S+)", sniffer.stdout + sniffer.stderr)
    runtime = re.search(r'version "([^"]+)"', printed)
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "kafka": BROKER_VERSION,
        "kafka_tools": TOOLS_VERSION,
        "confluent_kafka": importlib.metadata.version("confluent-kafka"),
        "librdkafka": str(confluent_kafka.libversion()[0]),
        "java": runtime[1] if runtime else "unknown",
        "tcpdump": found[1] if found else "unknown",
    }


def _write_readmes(folder: Path, expected: dict[str, Any]) -> None:
    environment = templates(Path(__file__).parent / "templates")

    def write(target: Path, template: str, **values: Any) -> None:
        target.write_text(environment.get_template(template).render(made=expected["made"], **values))

    made = expected["made"]
    versions = ", ".join(f"{name.replace('_', ' ')} {version}" for name, version in made.items() if name != "date")
    described = {
        name: {
            **truth,
            "brokers": len(list((folder / "kafka-logs" / name).glob("broker-*"))),
            "asked": datetime.fromtimestamp(truth["asked_at"] / 1000, UTC).isoformat(timespec="seconds"),
            "segment_ms": [
                topic for recipe in transaction_recipes.RECIPES if recipe.name == name for topic in recipe.config
            ],
        }
        for name, truth in expected["kafka-logs"].items()
    }
    write(folder / "README.md", "examples.md.j2", versions=versions, expected={"kafka-logs": described})
    for name, truth in described.items():
        target = folder / "kafka-logs" / name / "README.md"
        write(target, "logs.md.j2", name=name, logs=truth, topics=_topics(truth["topics"]), age=_age)
    write(folder / WITNESS / "README.md", "witness.md.j2", name=example_witness.CAPTURE, **expected["witness"])
    write(folder / SHARE_GROUPS / "README.md", "share-groups.md.j2", **expected["share-groups"])
    pcap = folder / "capture" / CAPTURE
    truth = expected["capture"][CAPTURE]
    shape = {**truth, **measured(pcap)._asdict()}
    target = folder / "capture" / "README.md"
    write(target, "capture.md.j2", name=CAPTURE, capture=shape, topics=_topics(truth["topics"]))


def refuse_paths(folder: Path) -> None:
    """No path of the machine that made them may be in the examples."""
    paths = (tempfile.gettempdir(), str(Path.home()), str(Path.cwd()))
    for path in folder.rglob("*"):
        data = path.read_bytes() if path.is_file() else b""
        for prefix in paths:
            if f"{prefix}/".encode() in data:
                raise RecordingError(f"{path.relative_to(folder)} contains the path {prefix}")


def _topics(topics: dict[str, int]) -> str:
    return ", ".join(f"{name} ({count} partition{'s' if count > 1 else ''})" for name, count in topics.items())


def _age(milliseconds: int) -> str:
    seconds = milliseconds // 1000
    return f"{seconds // 3600} h {seconds % 3600 // 60} min" if seconds >= 3600 else f"{seconds} s"


def replace(output: Path, made: Path) -> None:
    """Moves what `record` made to `output`; other files there stay."""
    output.mkdir(parents=True, exist_ok=True)
    for new in sorted(made.iterdir()):
        old = output / new.name
        if old.is_dir():
            shutil.rmtree(old)
        shutil.move(new, old)


def _note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
