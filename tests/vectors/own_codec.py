"""This project's codec as a foreign one, for `kafkawire conformance`: its adapter, and bugs to be found.

`python own_codec.py [BUG]`: the bug's name is one of BUGS. With BYTES in front of it, it has no JSON form: it
answers with what it encodes.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from kafkawire import from_json, lookup, to_json
from kafkawire.errors import KafkaWireError

#: Names of bugs, as codecs have had them.
BUGS = (
    "null-is-empty",
    "no-unknown-tags",
    "int64-as-int32",
    "accepts-more-bytes",
    "version-7-is-6",
    "no-last-element",
    "true-is-false",
    "text-of-127",
    "no-tags-written",
    "believes-lengths",
    "crash",
    "hang-up",
)


def broken(value: Any, bug: str) -> Any:
    if isinstance(value, dict):
        return {k: broken(v, bug) for k, v in value.items() if bug != "no-unknown-tags" or k != "_unknownTaggedFields"}
    if isinstance(value, list):
        return [broken(one, bug) for one in (value[:-1] if bug == "no-last-element" else value)]
    if bug == "true-is-false" and value is True:
        return False
    if bug == "text-of-127" and isinstance(value, str):
        return value[:127]
    if bug == "null-is-empty" and value is None:
        return ""
    if bug == "int64-as-int32" and isinstance(value, int) and not isinstance(value, bool) and abs(value) > 1 << 32:
        return value & 0x7FFFFFFF
    return value


def answer(question: dict[str, Any], bug: str) -> dict[str, Any]:
    message, version = lookup(question["message"]), question["version"]
    if message.spec.family == "share":
        return {"unsupported": True}
    if bug == "version-7-is-6" and version == 7:
        version = 6
    try:
        if question["op"] == "encode":
            given = broken(question["json"], "no-unknown-tags") if bug == "no-tags-written" else question["json"]
            return {"bytes": from_json(message, given, version).encode(version).hex()}
        data = bytes.fromhex(question["bytes"])
        value = message.decode_from(data, version)[0] if bug == "accepts-more-bytes" else message.decode(data, version)
        return {"json": broken(to_json(value, version, unknown_tags=True), bug)}
    except KafkaWireError as error:
        if bug == "believes-lengths" and "length" in str(error):
            return {"json": to_json(message(), version)}
        return {"error": str(error)}


def in_bytes(question: dict[str, Any], bug: str) -> dict[str, Any]:
    if question["op"] == "encode":
        return {"unsupported": True}
    found = answer(question, bug)
    return found if "json" not in found else answer({**question, "op": "encode", "json": found["json"]}, bug)


if __name__ == "__main__":
    ask = in_bytes if sys.argv[1:2] == ["BYTES"] else answer
    bug = sys.argv[-1] if len(sys.argv) > 1 else ""
    for number, line in enumerate(sys.stdin):
        if number == 100 and bug == "hang-up":
            sys.exit(0)
        print("oops" if number == 100 and bug == "crash" else json.dumps(ask(json.loads(line), bug)), flush=True)
