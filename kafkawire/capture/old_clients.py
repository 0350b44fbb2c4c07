"""`OldClients`: which clients of a capture use versions that a release of Kafka does not speak any more (KIP-896).

A client that sends ApiVersions uses the highest version that it and the broker share. If that is below the release's
lowest version, it is the client's own highest. Brokers speak to each other in versions of
`inter.broker.protocol.version`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kafkawire.capture.exchange import CapturedExchange
from kafkawire.messages import ApiVersionsRequest
from kafkawire.rows import OldClient

#: The request that names a client's software, whose versions any broker answers.
API_VERSIONS = 18
#: Connections whose software is remembered, and rows.
MOST = 100_000


class _Key(NamedTuple):
    client_id: str | None
    host: str | None
    api: str | None
    api_key: int
    version: int
    software: tuple[str, str] | None


class OldClients:
    """Counts requests.

    Args:
        release: its name. `speaks`: the versions that it speaks, by api key (`kafkawire.versions.of`).

    Attributes:
        left_out: number of requests that are in no row, because there are too many.
    """

    def __init__(self, release: str, speaks: Mapping[int, range]) -> None:
        self.left_out = 0
        self._release, self._speaks = release, speaks
        self._software: dict[tuple[str | None, int], tuple[str, str]] = {}
        self._found: dict[_Key, list[int]] = {}

    def add(self, exchange: CapturedExchange) -> None:
        """Take the next exchange; of ApiVersions with its request."""
        row = exchange.row
        if row.api_key is None or row.version is None or row.packet is None:
            return
        connection = row.file, row.connection or 0
        if row.api_key == API_VERSIONS:
            body = exchange.request
            if isinstance(body, ApiVersionsRequest) and body.client_software_name and len(self._software) < MOST:
                self._software[connection] = body.client_software_name, body.client_software_version
            return
        spoken = self._speaks.get(row.api_key)
        if spoken is not None and row.version >= spoken.start:
            return
        host = None if row.client is None else row.client.rpartition(":")[0]
        key = _Key(row.client_id, host, row.api, row.api_key, row.version, self._software.get(connection))
        if key not in self._found and len(self._found) >= MOST:
            self.left_out += 1
            return
        count = self._found.setdefault(key, [0, row.packet])
        count[0] += 1

    def rows(self) -> list[OldClient]:
        """A row for each client, software, request and version; the most frequent first."""
        ordered = sorted(self._found.items(), key=lambda item: (-item[1][0], item[1][1]))
        return [
            OldClient(
                client_id=key.client_id,
                host=key.host,
                software_name=None if key.software is None else key.software[0],
                software_version=None if key.software is None else key.software[1],
                api=key.api,
                api_key=key.api_key,
                version=key.version,
                release=self._release,
                speaks=self._text(key.api_key),
                count=count,
                packet=packet,
            )
            for key, (count, packet) in ordered
        ]

    def _text(self, api_key: int) -> str | None:
        spoken = self._speaks.get(api_key)
        return None if spoken is None else f"{spoken.start}-{spoken.stop - 1}"
