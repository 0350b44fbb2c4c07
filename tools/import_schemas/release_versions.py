"""The versions of Kafka's messages, release by release: `schemas/release_versions.json`.

One release a minor version, from 2.4 on; the messages of `kafka-clients`, whose versions clients and brokers agree on.
"""

import json
from collections.abc import Iterable
from pathlib import Path

from kafkawire.codegen.importing import decisions
from kafkawire.codegen.importing.sources import Release
from kafkawire.codegen.versions import VersionRange
from tools import ROOT
from tools.import_schemas import schema_jars

FILE = ROOT / "schemas" / "release_versions.json"
#: Oldest first.
RELEASES = (
    "2.4.1", "2.5.1", "2.6.3", "2.7.2", "2.8.2", "3.0.2", "3.1.2", "3.2.3", "3.3.2", "3.4.1", "3.5.2", "3.6.2", "3.7.2",
    "3.8.1", "3.9.1", "4.0.0", "4.1.0", "4.2.0", "4.3.1", "4.4.0",
)  # fmt: skip


def text(cache: Path) -> str:
    """The file's text, from the jars in `cache`; those that are missing are fetched."""
    wanted = [("kafka-clients", release) for release in RELEASES]
    schema_jars.fetch(cache, wanted)
    return table(reversed(schema_jars.load(cache, wanted)))


def table(oldest_first: Iterable[Release]) -> str:
    """The table of these releases: for each message the releases that changed its versions, each with the new ones.

    A third entry are the versions without one that brokers offer only if unstable versions are enabled.
    """
    entries: dict[str, list[list[str]]] = {}
    labels = []
    for release in oldest_first:
        labels.append(release.label)
        messages = {decisions.new_name(name): schema for name, (_, schema) in release.messages.items()}
        for name in sorted({*entries, *messages}):
            schema = messages.get(name, {"validVersions": "none"})
            valid = VersionRange.parse(schema["validVersions"])
            entry = [str(valid)]
            if schema.get("latestVersionUnstable"):
                stable = VersionRange(valid.low, valid.high - 1)
                entry.append(str(stable))
            history = entries.setdefault(name, [])
            if entry != (history[-1][1:] if history else ["none"]):
                history.append([release.label, *entry])
    lines = ",\n".join(
        f"    {json.dumps(name)}: {json.dumps(history)}" for name, history in sorted(entries.items()) if history
    )
    return f'{{\n  "releases": {json.dumps(labels)},\n  "messages": {{\n{lines}\n  }}\n}}\n'
