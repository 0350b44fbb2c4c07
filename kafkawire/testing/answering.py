"""`Answering`: a client's request -> the reply of a node: logins, faults, handlers of a test, the broker's own."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from contextlib import suppress

from kafkawire import frames, versions, visit
from kafkawire.errors import KafkaWireError
from kafkawire.kafka_errors import CODES
from kafkawire.messages import ApiVersionsResponse
from kafkawire.testing.apis import Apis
from kafkawire.testing.script import Answer, Fault, RequestLog, Script
from kafkawire.testing.server import Connection, Reply
from kafkawire.testing.state.call import Call, Wait
from kafkawire.testing.state.login import Login
from kafkawire.testing.state.nodes import GROUP, TRANSACTION, Nodes
from kafkawire.testing.state.transactions import Transactions
from kafkawire.wire.message import Message

UNSUPPORTED_VERSION = CODES["UNSUPPORTED_VERSION"]
NOT_COORDINATOR = CODES["NOT_COORDINATOR"]

_API_VERSIONS, _HANDSHAKE, _AUTHENTICATE = 18, 17, 36
_REFUSALS = 100
_CLOSED = Reply(end="close")
_IDS = {GROUP: visit.GROUP_ID, TRANSACTION: visit.TRANSACTIONAL_ID}
#: Api key -> whose coordinator has to answer. AddOffsetsToTxn and TxnOffsetCommit name both.
_COORDINATED = {
    **dict.fromkeys((8, 9, 11, 12, 13, 14, 15, 28, 68, 69), GROUP),
    **dict.fromkeys((22, 24, 25, 26), TRANSACTION),
}


class Answering:
    """See the module. All nodes share it: one state, one clock.

    Args:
        apis: the handlers. nodes: of the cluster. transactions: whose time is looked after.
        logs_in: whether clients have to log in.

    Attributes:
        lock: is held while the state is used. `script`: faults and answers.
        requests, refusals: as those of `MockBroker`.
    """

    def __init__(self, apis: Apis, nodes: Nodes, transactions: Transactions, *, logs_in: bool) -> None:
        self.lock = threading.RLock()
        self.script = Script()
        self.requests = RequestLog()
        self.refusals: deque[str] = deque(maxlen=_REFUSALS)
        self._apis = apis
        self._nodes = nodes
        self._transactions = transactions
        self._logs_in = logs_in
        self._ahead_ms = 0
        self._change = asyncio.Event()

    # Time and changes -------------------------------------------------------------------------------------------------

    def now(self) -> int:
        """The brokers' clock, epoch milliseconds."""
        return time.time_ns() // 1_000_000 + self._ahead_ms

    def advance(self, milliseconds: int) -> None:
        """Puts the clock forward."""
        with self.lock:
            self._ahead_ms += milliseconds
            self._transactions.expire(self.now())

    def changed(self) -> None:
        """Runs handlers again that wait for a change; in the event loop."""
        self._change.set()
        self._change = asyncio.Event()

    def refuse(self, reason: str) -> None:
        self.refusals.append(reason)

    # Requests ---------------------------------------------------------------------------------------------------------

    async def respond(self, node: int, frame: bytes, connection: Connection) -> Reply:
        """The reply of a node to a frame."""
        request = frames.decode_request(frame, registry=self._apis.registry)
        key, number = request.api_key, request.correlation_id
        if key == _API_VERSIONS and number is not None and request.version not in self._apis.versions.get(key, ()):
            return self._lower_api_versions(number)
        if isinstance(request, frames.UndecodedRequest):
            self.refuse(request.reason)
            return _CLOSED
        if request.version not in self._apis.versions.get(request.api_key, ()):
            self.refuse(f"{type(request.body).__name__} version {request.version} is not offered")
            return _CLOSED
        login = self._login(connection)
        if login is not None and login.user is None and key not in (_API_VERSIONS, _HANDSHAKE, _AUTHENTICATE):
            self.refuse(f"{type(request.body).__name__} before the login")
            return _CLOSED
        with self.lock:
            self.requests.add(request, len(frame), node)
            step = self.script.take(request.body, node)
        try:
            reply = await self._answered(request, step, node, connection)
        except KafkaWireError as error:
            self.refuse(f"{type(request.body).__name__}: no response: {error}")
            return _CLOSED
        except Exception as error:  # of a handler: the connection ends, and asyncio prints the traceback
            self.refuse(f"{type(request.body).__name__}: a handler raised {type(error).__name__}: {error}")
            raise
        if login is not None and login.failed:
            self.refuse(f"{type(request.body).__name__}: the login failed")
            return reply._replace(end="close")
        return reply

    def _login(self, connection: Connection) -> Login | None:
        if self._logs_in and connection.kept is None:
            connection.kept = Login()
        login: Login | None = connection.kept
        return login

    def _lower_api_versions(self, correlation_id: int) -> Reply:
        """The answer to an ApiVersions request of a version that is not offered: version 0 with an error (KIP-511)."""
        keys = versions.to_response(self._apis.versions).api_keys
        answer = ApiVersionsResponse(error_code=UNSUPPORTED_VERSION, api_keys=keys)
        return Reply(frames.encode_response(answer, version=0, correlation_id=correlation_id))

    async def _answered(
        self, request: frames.Request[Message], step: Fault | Answer | None, node: int, connection: Connection
    ) -> Reply:
        if step is not None and not isinstance(step, Fault):
            return self._reply(request, step(request.body) if callable(step) else step)
        fault = step or Fault()
        dropped = Reply(end="reset" if fault.reset else "close")
        if fault.delay_s:
            await asyncio.sleep(fault.delay_s)
        if fault.drop == "before":
            return dropped
        response = await self._carried_out(request, fault, node, connection)
        if fault.drop == "after":
            return dropped
        if response is None or fault.silent:
            return Reply()
        return self._reply(request, response, shift=int(fault.wrong_correlation_id))

    def _reply(self, request: frames.Request[Message], response: Message | bytes, shift: int = 0) -> Reply:
        if isinstance(response, bytes):
            return Reply(response)
        number = (request.correlation_id + shift) & 0x7FFFFFFF if shift else request.correlation_id
        response = self._apis.response(request.body, response)
        return Reply(frames.encode_response(response, version=request.version, correlation_id=number))

    async def _carried_out(
        self, request: frames.Request[Message], fault: Fault, node: int, connection: Connection
    ) -> Message | None:
        if not fault.error and (own := await self._apis.own(request.body, node)) is not None:
            return own
        found = self._apis.handler(request.body)
        if found is None:
            return frames.error_response(request, fault.error)
        handler, body = found
        call = Call(
            body,
            request.version,
            client_id=request.client_id,
            now_ms=self.now(),
            host=connection.address.host,
            port=connection.address.port,
            node=node,
            error=fault.error or self._elsewhere(body, node),
            login=connection.kept,
        )
        while True:
            change = self._change
            with self.lock:
                call.now_ms = self.now()
                self._transactions.expire(call.now_ms)
                result = handler(call)
            if not isinstance(result, Wait):
                self.changed()
                return None if result is None else self._apis.changed(request.body, result)
            with suppress(TimeoutError):
                await asyncio.wait_for(change.wait(), max(0.001, (result.until_ms - call.now_ms) / 1000))

    def _elsewhere(self, body: Message, node: int) -> int:
        """NOT_COORDINATOR where another node coordinates what a request is about; else 0."""
        kind = _COORDINATED.get(-1 if body.spec.api_key is None else body.spec.api_key)
        if kind is None or len(self._nodes.ids) == 1:
            return 0
        keys = (found.value for found in visit.find(body, _IDS[kind]))
        return NOT_COORDINATOR if any(self._nodes.coordinator(kind, key) != node for key in keys) else 0
