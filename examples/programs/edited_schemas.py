"""A request of one's own and an edited one of Kafka's, against a broker in memory: python edited_schemas.py SCHEMAS"""

import asyncio
import sys

import kafkawire
from kafkawire import frames
from kafkawire.messages import REGISTRY, MetadataRequest
from kafkawire.testing import MockBroker


async def ask(address: str, request, version: int, registry):
    """The response to one request on a connection of its own."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(frames.encode_request(request, version=version, correlation_id=1))
    size = int.from_bytes(await reader.readexactly(4), "big")
    frame = await reader.readexactly(size)
    writer.close()
    key = request.spec.api_key
    return frames.decode_response(frame, api_key=key, version=version, registry=registry).body


def run(folder: str) -> tuple[str, list[str]]:
    """The answer to a ping, and the topics that an edited Metadata request lists."""
    mine = kafkawire.load_schemas(folder)
    registry = mine.registry.over(REGISTRY)
    with MockBroker({"orders": 1}, registry=registry) as broker:
        broker.on(mine.PingRequest, lambda request: mine.PingResponse(text=request.text.upper()))
        pong = asyncio.run(ask(broker.address, mine.PingRequest(text="hello"), 1, registry))
        newest = broker.versions[MetadataRequest.spec.api_key][-1]
        metadata = asyncio.run(ask(broker.address, mine.MetadataRequest(topics=None), newest, registry))
        return pong.text, [topic.name for topic in metadata.topics]


if __name__ == "__main__":
    print(*run(sys.argv[1]))
