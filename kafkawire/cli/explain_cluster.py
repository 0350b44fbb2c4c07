"""`kafkawire explain --bootstrap-server`: the offsets of a live partition, from its leader's log."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from msgspec.structs import replace

from kafkawire import rows
from kafkawire.cli.arguments import InputError
from kafkawire.cli.txn_options import with_admin

if TYPE_CHECKING:
    from kafkawire.client import Admin
    from kafkawire.client.diagnosis.spooled_log import Spooled

_STOP = re.compile(r"(consumers stop at the last stable offset, )\d+")


class LiveCopy:
    """A live partition's log in a temporary folder. `root`: the folder. `spooled`: what is in it."""

    def __init__(self, root: str, address: str, spooled: Spooled) -> None:
        self.root, self.spooled = root, spooled
        self._address = address

    def shown(self, found: Iterator[rows.Row]) -> Iterator[rows.Row]:
        """Rows with the cluster in place of the folder, and with the last stable offset that the broker gave."""
        stable = self.spooled.lower_stable
        for row in found:
            if stable is not None and isinstance(row, rows.ReplicaBounds):
                row = replace(row, last_stable_offset=stable)
            elif stable is not None and isinstance(row, rows.OffsetStanding) and row.detail is not None:
                row = replace(row, detail=_STOP.sub(rf"\g<1>{stable}", row.detail))
            values = {
                name: value.replace(self.root, self._address)
                for name in row.__struct_fields__
                if isinstance(value := getattr(row, name), str) and self.root in value
            }
            yield replace(row, **values) if values else row


@contextmanager
def live_copy(
    bootstrap: str,
    command_config: str | None,
    place: tuple[str, int],
    wanted: tuple[int | None, int | None],
    offset: int | None,
    fetch_bytes: int,
) -> Iterator[LiveCopy]:
    """A partition's log, while the context lasts.

    Args:
        bootstrap, command_config: `HOST:PORT,...`, and a file of client properties or None.
        place: topic and partition. wanted: the first offset, and the one after the last; None: no bound.
        offset: the one whose story is wanted.
        fetch_bytes: of the partition, at most.

    Raises:
        ClientError: the cluster cannot be reached. InputError: there is no such partition.
    """
    with TemporaryDirectory(prefix="kafkawire-explain-") as root:

        async def ask(admin: Admin) -> Spooled:
            from kafkawire.client.diagnosis.spooled_log import spool
            from kafkawire.client.results import TopicPartition

            first, end = wanted
            return await spool(
                admin.cluster,
                TopicPartition(*place),
                Path(root),
                first=first,
                end=end,
                offset=offset,
                fetch_bytes=fetch_bytes,
            )

        try:
            spooled = with_admin(bootstrap, command_config, None, ask)
        except LookupError as error:
            raise InputError(str(error.args[0])) from None
        yield LiveCopy(root, bootstrap, spooled)
