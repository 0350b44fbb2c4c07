"""Control records: the markers that brokers write between data (KIP-98, KIP-595, KIP-630, KIP-853)."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, TypeVar

import msgspec

from kafkawire.errors import DecodeError

if TYPE_CHECKING:
    from kafkawire.messages import ControlRecordTypeSchema, EndTxnMarker
    from kafkawire.records.record import Record
    from kafkawire.wire.message import Message

M = TypeVar("M", bound="Message")

#: The type in a control record's key (Kafka's `ControlRecordType`).
CONTROL_TYPES = {
    0: "ABORT",
    1: "COMMIT",
    2: "LEADER_CHANGE",
    3: "SNAPSHOT_HEADER",
    4: "SNAPSHOT_FOOTER",
    5: "KRAFT_VERSION",
    6: "KRAFT_VOTERS",
}
ABORT, COMMIT = 0, 1
#: The message in a control record's value, by type. All but EndTxnMarker hold their version as a field.
CONTROL_MESSAGES = {
    0: "EndTxnMarker",
    1: "EndTxnMarker",
    2: "LeaderChangeMessage",
    3: "SnapshotHeaderRecord",
    4: "SnapshotFooterRecord",
    5: "KRaftVersionRecord",
    6: "VotersRecord",
}

#: A control batch without records: compaction removed its marker, the batch stays for the producer's state.
EMPTY = "EMPTY"
#: A control batch whose key cannot be read.
MALFORMED = "MALFORMED"

#: The names of control records that end a transaction, or may, by their codes; for ABORT and COMMIT these are their
#: types.
MARKERS = (CONTROL_TYPES[ABORT], CONTROL_TYPES[COMMIT], EMPTY, MALFORMED)
MARKER_CODES = {name: code for code, name in enumerate(MARKERS)}
ABORT_CODE, COMMIT_CODE, EMPTY_CODE, MALFORMED_CODE = range(len(MARKERS))
#: The code of a batch of data.
DATA_CODE = -1


class Control(msgspec.Struct, frozen=True, gc=False):
    """The control record of a batch.

    Attributes:
        name: COMMIT, ABORT, LEADER_CHANGE, ...; `UNKNOWN_9` for a type that Kafka does not name yet; EMPTY for a
            batch whose record compaction removed; MALFORMED where the key cannot be read.
        type: the number in the key; None where there is none.
        coordinator_epoch: of the transaction coordinator that wrote a COMMIT or ABORT; None for other types, and where
            the value cannot be read.
        problem: why the key or the value cannot be read.
    """

    name: str
    type: int | None = None
    coordinator_epoch: int | None = None
    problem: str | None = None

    def __str__(self) -> str:
        return self.name


def control_of(record: Record | None) -> Control:
    """The (first) record of a control batch; EMPTY for None, a batch without records."""
    if record is None:
        return Control(EMPTY)
    schema, marker = _messages()
    try:
        number = read_prefixed(schema, record.key).type
    except DecodeError as error:
        return Control(MALFORMED, problem=str(error))
    name = CONTROL_TYPES.get(number, f"UNKNOWN_{number}")
    if number not in (ABORT, COMMIT):
        return Control(name, number)
    try:
        return Control(name, number, read_prefixed(marker, record.value).coordinator_epoch)
    except DecodeError as error:
        return Control(name, number, problem=str(error))


def marker_name(control: Control, *, transactional: bool) -> str:
    """Which of `MARKERS` a control batch is to its producer's transaction. One outside of a transaction, of another
    type, or whose key cannot be read is MALFORMED: it ends none.

    Args:
        transactional: the bit in the batch's header.
    """
    is_marker = transactional and (control.type in (ABORT, COMMIT) or control.name == EMPTY)
    return control.name if is_marker else MALFORMED


def read_prefixed(message: type[M], data: bytes | None) -> M:
    """The message in bytes with an int16 version in front. A newer version is read as the newest that is known and may
    be longer, as in Kafka's `EndTransactionMarker.deserializeValue`, `ControlRecordType.parseTypeId` and
    `ConsumerProtocol.deserializeAssignment`.

    Raises:
        DecodeError: there is no version, or the bytes are not that message.
    """
    if data is None or len(data) < 2:
        found = "null" if data is None else f"{len(data)} bytes"
        raise DecodeError(expected="an int16 version", found=found, offset=0, message=message.spec.name)
    version = int.from_bytes(data[:2], "big", signed=True)
    if version < 0:
        raise DecodeError(expected="a version", found=str(version), offset=0, message=message.spec.name)
    return message.decode_from(data, min(version, message.spec.valid_versions[-1]), offset=2)[0]


@cache
def _messages() -> tuple[type[ControlRecordTypeSchema], type[EndTxnMarker]]:
    from kafkawire.messages import ControlRecordTypeSchema, EndTxnMarker

    return ControlRecordTypeSchema, EndTxnMarker
