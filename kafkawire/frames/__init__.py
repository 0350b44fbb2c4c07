"""Frames: the size-prefixed requests and responses on a connection to a broker.

```python
for frame in reader.feed(data):                       # reader = FrameReader()
    request = decode_request(frame)                   # Request(header, body) or UndecodedRequest(..., reason)
response = decode_response(frame, api_key=61, version=0)
data = encode_request(body, version=0, correlation_id=1, client_id="me")
```
"""

from kafkawire.frames.error_responses import error_response
from kafkawire.frames.headers import request_header_version, response_header_version
from kafkawire.frames.reader import MAX_FRAME_BYTES, FrameReader
from kafkawire.frames.rpc import (
    Request,
    Response,
    UndecodedRequest,
    UndecodedResponse,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    with_size,
)

__all__ = [
    "MAX_FRAME_BYTES",
    "FrameReader",
    "Request",
    "Response",
    "UndecodedRequest",
    "UndecodedResponse",
    "decode_request",
    "decode_response",
    "encode_request",
    "encode_response",
    "error_response",
    "request_header_version",
    "response_header_version",
    "with_size",
]
