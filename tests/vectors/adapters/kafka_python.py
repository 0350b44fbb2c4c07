"""An adapter of kafka-python for `kafkawire conformance`: it decodes bytes, and answers with what it encodes."""

import json
import sys
from typing import Any

import kafka.protocol.admin
import kafka.protocol.consumer
import kafka.protocol.metadata
import kafka.protocol.producer
import kafka.protocol.sasl
from kafka.protocol.api_message import ApiMessage

PACKAGES = (
    kafka.protocol.admin,
    kafka.protocol.consumer,
    kafka.protocol.metadata,
    kafka.protocol.producer,
    kafka.protocol.sasl,
)
MESSAGES = {
    name: found
    for package in PACKAGES
    for name, found in vars(package).items()
    if isinstance(found, type) and issubclass(found, ApiMessage) and found is not ApiMessage
}


def answer(question: dict[str, Any]) -> dict[str, Any]:
    message, version = MESSAGES.get(question["message"]), question["version"]
    if message is None or question["op"] != "decode" or not version <= message.max_version:
        return {"unsupported": True}
    try:
        value = message.decode(bytes.fromhex(question["bytes"]), version=version)
        value._header = None
        return {"bytes": bytes(value.encode(version=version)).hex()}
    except Exception as error:  # struct.error, IndexError, ValueError, ...: all are its refusals
        return {"error": f"{type(error).__name__}: {error}"}


for line in sys.stdin:
    print(json.dumps(answer(json.loads(line))), flush=True)
