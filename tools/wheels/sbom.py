"""A wheel's bill of materials (CycloneDX 1.6, PEP 770): what it holds that was written elsewhere.

That is, the schemas, which are derived from Apache Kafka's message definitions, and the crates of the native engine
with the C libraries in them. What pip installs beside a wheel is in its metadata, not here. Only the standard library
is needed: setup.py imports this module.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from tools import ROOT
from tools.wheels.crates import Crate

#: The file's place in a wheel.
PLACE = "sboms/kafkawire.cdx.json"
RELEASES = ROOT / "tools" / "import_schemas" / "releases.json"


def bill(version: str, crates: Iterable[Crate]) -> str:
    """The document. It has no time and no serial number, so that two builds give the same.

    Args:
        version: of kafkawire. `crates`: those of the engine, none without one.
    """
    crates = list(crates)
    root = f"pkg:pypi/kafkawire@{version}"
    engine = f"{root}#native"
    components = _schemas()
    needs = {root: [component["bom-ref"] for component in components]}
    if crates:
        needs[root].append(engine)
        components.append(_component("kafkawire-native", version, "Apache-2.0", engine))
        needed = {key for crate in crates for key in crate.needs}
        needs[engine] = [_purl(*key) for key in sorted({(c.name, c.version) for c in crates} - needed)]
    for crate in crates:
        component = _component(crate.name, crate.version, crate.licence, _purl(crate.name, crate.version))
        component["hashes"] = [{"alg": "SHA-256", "content": crate.sha256}]
        libraries = _bundled(crate)
        components += [component, *libraries]
        needs[component["bom-ref"]] = [
            *(_purl(*key) for key in crate.needs),
            *(library["bom-ref"] for library in libraries),
        ]
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": _component("kafkawire", version, "Apache-2.0", root)},
        "components": components,
        "dependencies": [{"ref": ref, "dependsOn": wanted} for ref, wanted in needs.items()],
    }
    return json.dumps(document, indent=1) + "\n"


def _schemas() -> list[dict[str, Any]]:
    """The releases of Apache Kafka whose definitions the schemas unite."""
    return [
        _component("kafka-clients", release, "Apache-2.0", f"pkg:maven/org.apache.kafka/kafka-clients@{release}")
        | {"group": "org.apache.kafka", "description": "Message definitions, from which the schemas are derived."}
        for release in json.loads(RELEASES.read_text("utf-8"))
    ]


def _bundled(crate: Crate) -> list[dict[str, Any]]:
    """The C library inside of a crate, which its version names: 2.1.3+zstd.1.5.7, 1.11.1+lz4-1.10.0."""
    found = re.search(r"\+([a-z]+\d*)[.-](\d+\.\d+.*)$", crate.version)
    if not found:
        return []
    licence = {"zstd": "BSD-3-Clause", "lz4": "BSD-2-Clause"}[found[1]]
    return [_component(found[1], found[2], licence, f"pkg:generic/{found[1]}@{found[2]}")]


def _component(name: str, version: str, licence: str, purl: str) -> dict[str, Any]:
    return {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": version,
        "licenses": [{"expression": licence}],
        "purl": purl,
    }


def _purl(name: str, version: str) -> str:
    return f"pkg:cargo/{name}@{version.replace('+', '%2B')}"
