"""`kafkawire explain --bootstrap-server`: the offsets of a live partition, from its leader's log."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from kafkawire import rows
from kafkawire.cli.arguments import InputError
from kafkawire.cli.txn_options import Address

if TYPE_CHECKING:
    from kafkawire.client import Admin
    from kafkawire.client.diagnosis.spooled_log import Spooled

R = TypeVar("R", bound=rows.Row)

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
            yield from renamed([row], self.root, self._address)


def renamed(found: Iterable[R], root: str, address: str) -> Iterator[R]:
    """Rows with a cluster's address in place of the folder that its log is in."""
    for row in found:
        values = {
            name: value.replace(root, address)
            for name in row.__struct_fields__
            if isinstance(value := getattr(row, name), str) and root in value
        }
        yield replace(row, **values) if values else row


@contextmanager
def live_copy(
    cluster: Address,
    place: tuple[str, int],
    wanted: tuple[int | None, int | None],
    offset: int | None,
    fetch_bytes: int,
) -> Iterator[LiveCopy]:
    """A partition's log, while the context lasts.

    Args:
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
            chosen = {"first": first, "end": end, "offset": offset}
            return await spool(admin.cluster, TopicPartition(*place), Path(root), **chosen, fetch_bytes=fetch_bytes)

        try:
            spooled = cluster.run(ask)
        except LookupError as error:
            raise InputError(str(error.args[0])) from None
        yield LiveCopy(root, cluster.bootstrap, spooled)
