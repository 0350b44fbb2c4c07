"""Log directories of transactions and the records of their coordinators."""

from __future__ import annotations

from pathlib import Path

import crc32c
import numpy as np
import numpy.typing as npt

from kafkawire import records
from kafkawire.messages import TransactionLogKey, TransactionLogValue
from kafkawire.transactions.coordinator.coordinator_rules import partition_list, partition_of_id, status_of

_NOW = 1_795_288_900_000
_PARTITIONS = 50
#: Transactions whose batches are made at once.
_AT_ONCE = 1 << 16
#: In a batch: base offset; checksum, and the first byte that it covers.
_OFFSET_AT, _CRC_AT, _CRC_FROM = 0, 17, 21
#: Numbers that stand for what is filled in.
_ID, _EPOCH, _TIME = 0x4142434445464748, 0x5152, 0x0102030405060708


def write_transactions(root: Path, transactions: int, ids: int, *, coordinators: bool = True) -> int:
    """One partition with transactions of version 2, a batch and its marker each; and the records of their coordinators,
    in batches of their own: Ongoing, PrepareCommit, CompleteCommit. Returns bytes.

    Args:
        ids: number of transactional ids, which take turns. Each ends less than 2^15 transactions.
    """
    numbers = np.arange(transactions)
    data = records.build(
        [records.Record(b"key", bytes(40), timestamp=_TIME)],
        producer_id=_ID, producer_epoch=_EPOCH, base_sequence=0, transactional=True,
    )  # fmt: skip
    marker = records.build_marker(
        "COMMIT", producer_id=_ID, producer_epoch=_EPOCH, coordinator_epoch=0, offset=0, timestamp=_TIME
    )
    templates = [(data, 0), (marker, 1)]
    size = _write(root / "orders-0", templates, numbers, ids)
    if coordinators:
        homes = np.array([partition_of_id(_name(number), _PARTITIONS) for number in range(ids)])
        for home in range(_PARTITIONS):
            own = numbers[homes[numbers % ids] == home]
            size += _write(root / f"__transaction_state-{home}", _steps(), own, ids, begins=True)
    return size


def _name(number: int) -> str:
    return f"orders-{number:06}"


def _steps() -> list[tuple[bytes, int]]:
    """Batches of the three records, and how far the epoch is ahead of the data's."""
    return [(_step(state), state != "Ongoing") for state in ("Ongoing", "PrepareCommit", "CompleteCommit")]


def _step(state: str) -> bytes:
    idle = state in ("Empty", "CompleteCommit")
    value = TransactionLogValue(
        producer_id=_ID, previous_producer_id=_ID, producer_epoch=_EPOCH, transaction_timeout_ms=60_000,
        transaction_status=status_of(state), client_transaction_version=2,
        transaction_partitions=() if idle else partition_list([("orders", 0)]),
        transaction_last_update_timestamp_ms=_TIME, transaction_start_timestamp_ms=_TIME,
    )  # fmt: skip
    if state == "Empty":
        value = value.replace(transaction_partitions=None, transaction_start_timestamp_ms=-1)
    key = TransactionLogKey(transactional_id=_name(0)).encode_prefixed(version=0)
    return records.build([records.Record(key, value.encode_prefixed(version=1), timestamp=_TIME)])


def _write(
    folder: Path, templates: list[tuple[bytes, int]], numbers: npt.NDArray[np.int64], ids: int, *, begins: bool = False
) -> int:
    """`begins`: each id begins with a record in state Empty."""
    if not len(numbers):
        return 0
    folder.mkdir(parents=True)
    offset = 0
    with (folder / f"{0:020}.log").open("wb") as file:
        if begins:
            first = np.unique(numbers % ids)
            file.write(_filled(_step("Empty"), first, np.zeros(len(first), int), first % ids, 0, 1))
            offset = len(first)
        for at in range(0, len(numbers), _AT_ONCE):
            some = numbers[at : at + _AT_ONCE]
            rows = [
                _rows(template, some, some // ids + ahead, some % ids, offset + place, len(templates))
                for place, (template, ahead) in enumerate(templates)
            ]
            width = sum(map(len, (template for template, _ in templates)))
            file.write(np.hstack(rows).reshape(-1, width).tobytes())
            offset += len(some) * len(templates)
        return file.tell()


def _filled(*given: object) -> bytes:
    return _rows(*given).tobytes()  # type: ignore[arg-type]


def _rows(
    template: bytes,
    numbers: npt.NDArray[np.int64],
    epochs: npt.NDArray[np.int64],
    ids: npt.NDArray[np.int64],
    offset: int,
    step: int,
) -> npt.NDArray[np.uint8]:
    """A row of bytes for each transaction."""
    rows = np.tile(np.frombuffer(template, np.uint8), (len(numbers), 1))

    def fill(sought: bytes, values: npt.NDArray[np.int64], kind: str) -> None:
        cells, at = values.astype(kind).view(np.uint8).reshape(len(values), -1), template.find(sought)
        while at >= 0:
            rows[:, at : at + len(sought)] = cells
            at = template.find(sought, at + 1)

    fill(_ID.to_bytes(8), 4000 + ids, ">i8")
    fill(_EPOCH.to_bytes(2), epochs, ">i2")
    # A transaction is over before its id's next: a second for each round.
    fill(_TIME.to_bytes(8), _NOW + 10 * numbers, ">i8")
    name = _name(0).encode()
    at = template.find(name)
    if at >= 0:
        names = np.array([_name(number).encode() for number in ids.tolist()], f"S{len(name)}")
        rows[:, at : at + len(name)] = names.view(np.uint8).reshape(len(names), -1)
    offsets = offset + step * np.arange(len(numbers))
    rows[:, _OFFSET_AT : _OFFSET_AT + 8] = offsets.astype(">i8").view(np.uint8).reshape(len(rows), -1)
    sums = np.array([crc32c.crc32c(memoryview(row)) for row in np.ascontiguousarray(rows[:, _CRC_FROM:])], ">u4")
    rows[:, _CRC_AT : _CRC_AT + 4] = sums.view(np.uint8).reshape(len(rows), -1)
    return rows
