"""The proxy's own login at a broker, for clients that do not log in: ApiVersions and SASL before their first
request."""

from __future__ import annotations

import asyncio

from kafkawire.client.transport.config import Config
from kafkawire.client.transport.connection import Connection
from kafkawire.client.transport.oauth import get_token
from kafkawire.client.transport.sasl import OAUTHBEARER, Credentials

_CHUNK = 1 << 16


async def log_in(streams: tuple[asyncio.StreamReader, asyncio.StreamWriter], address: str, config: Config) -> None:
    """Logs in on a new connection.

    Args:
        streams: of the connection, which are read here alone meanwhile.
        address: of the broker, for errors.
        config: whose `credentials` or `tokens` are used.

    Raises:
        ConnectError: the broker refuses the login, or the address is not a broker's.
    """
    credentials = config.credentials
    if credentials is None and config.tokens is not None:
        token = await asyncio.to_thread(get_token, config.tokens, config.connect_timeout_s)
        credentials = Credentials(mechanism=OAUTHBEARER, token=token)
    reader, writer = streams
    connection = Connection(address, client_id=config.client_id, credentials=credentials)
    writer.write(connection.start())
    while not connection.ready:
        connection.receive(await reader.read(_CHUNK))
        writer.write(connection.outgoing())
