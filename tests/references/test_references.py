"""The codecs against layouts written independently: equal bytes, equal values, both ways, in every engine."""

from __future__ import annotations

from typing import Any

import construct
import pytest

from kafkawire import messages as released
from kafkawire.drafts import kip_360, kip_664_adopted, kip_664_draft
from kafkawire.testing.comparison import carried
from kafkawire.testing.strategies import messages
from kafkawire.wire.message import Message, Struct
from tests.engines import round_trip
from tests.references.reference_layouts import (
    ABORTED_TXN,
    DESCRIBE_PRODUCERS_REQUEST,
    DESCRIBE_PRODUCERS_RESPONSE,
    DESCRIBE_TRANSACTIONS_REQUEST,
    DESCRIBE_TRANSACTIONS_RESPONSE,
    DRAFT_WRITE_TXN_MARKERS_REQUEST,
    END_TXN_MARKER,
    LIST_TRANSACTIONS_REQUEST,
    LIST_TRANSACTIONS_RESPONSE,
    STATE_INSTANCE_EPOCH,
    STATE_LAST_EPOCH,
    TRANSACTION_LOG_VALUE,
    WRITE_TXN_MARKERS_REQUEST,
    WRITE_TXN_MARKERS_RESPONSE,
    Kind,
)
from tests.strategies import for_all

pytestmark = pytest.mark.slow

CASES: list[tuple[type[Message], int, Kind]] = [
    (released.DescribeProducersRequest, 0, DESCRIBE_PRODUCERS_REQUEST),
    (released.DescribeProducersResponse, 0, DESCRIBE_PRODUCERS_RESPONSE),
    *((released.ListTransactionsRequest, version, kind) for version, kind in LIST_TRANSACTIONS_REQUEST.items()),
    *((released.ListTransactionsResponse, version, LIST_TRANSACTIONS_RESPONSE) for version in (0, 1, 2)),
    (released.DescribeTransactionsRequest, 0, DESCRIBE_TRANSACTIONS_REQUEST),
    (released.DescribeTransactionsResponse, 0, DESCRIBE_TRANSACTIONS_RESPONSE),
    *((released.WriteTxnMarkersRequest, version, kind) for version, kind in WRITE_TXN_MARKERS_REQUEST.items()),
    *(
        (released.WriteTxnMarkersResponse, version, WRITE_TXN_MARKERS_RESPONSE[min(version, 1)])
        for version in (0, 1, 2)
    ),
    *((released.TransactionLogValue, version, kind) for version, kind in TRANSACTION_LOG_VALUE.items()),
    (released.EndTxnMarker, 0, END_TXN_MARKER),
    (released.AbortedTxn, 0, ABORTED_TXN),
    *((draft.WriteTxnMarkersRequest, 0, WRITE_TXN_MARKERS_REQUEST[0]) for draft in (kip_664_draft, kip_664_adopted)),
    *((draft.WriteTxnMarkersRequest, 1, DRAFT_WRITE_TXN_MARKERS_REQUEST) for draft in (kip_664_draft, kip_664_adopted)),
    *(
        (draft.WriteTxnMarkersResponse, version, WRITE_TXN_MARKERS_RESPONSE[version])
        for draft in (kip_664_draft, kip_664_adopted)
        for version in (0, 1)
    ),
    (kip_360.TransactionStateValueLastEpoch, 1, STATE_LAST_EPOCH),
    (kip_360.TransactionStateValueInstanceEpoch, 1, STATE_INSTANCE_EPOCH),
]
BY_NAME = pytest.mark.parametrize(
    ("cls", "version", "kind"),
    CASES,
    ids=[f"{cls.__module__.removeprefix('kafkawire.').split('.')[-2]}-{cls.spec.name}-{v}" for cls, v, _ in CASES],
)


def as_plain(value: Any) -> Any:
    """A value of the codecs in the reference's terms."""
    if isinstance(value, tuple):
        return [as_plain(item) for item in value]
    if not isinstance(value, Struct):
        return value
    out = {name: as_plain(getattr(value, name)) for name in value.__struct_fields__}
    out["unknown_tagged_fields"] = [(tag.tag, tag.data) for tag in value.unknown_tagged_fields]
    return out


def check_equal(value: Any, plain: Any, path: str = "") -> None:
    """A value of the codecs is the reference's; fields that the reference's version lacks are at their default."""
    if isinstance(value, Struct):
        assert set(plain) <= set(value.__struct_fields__), path
        for name in value.__struct_fields__:
            item = getattr(value, name)
            if name == "unknown_tagged_fields":
                assert [(tag.tag, tag.data) for tag in item] == list(plain[name]), path
            elif name in plain:
                check_equal(item, plain[name], f"{path}.{name}")
            else:
                assert item == getattr(type(value)(), name), path
    elif isinstance(value, tuple):
        assert len(value) == len(plain), path
        for index, item in enumerate(value):
            check_equal(item, plain[index], f"{path}[{index}]")
    else:
        assert (value, type(value)) == (plain, type(plain)), path


@BY_NAME
def test_what_the_reference_writes_is_read_and_written_the_same(cls: type[Message], version: int, kind: Kind) -> None:
    def check(plain: dict[str, Any]) -> None:
        data = kind.bytes.build(plain)
        for strict in (False, True):
            check_equal(cls.decode(data, version, strict=strict), plain)
        value, end = cls.codec.interpret(data, version)
        check_equal(value, plain)
        assert end == len(data)
        assert round_trip(value, version, value) == data

    for_all(kind.values, 0.3, f"{cls.spec.name} {version}", check)


@BY_NAME
def test_what_the_codecs_write_is_read_and_written_the_same(cls: type[Message], version: int, kind: Kind) -> None:
    def check(value: Any) -> None:
        data = value.encode(version)
        check_equal(carried(value, version), kind.bytes.parse(data))
        assert kind.bytes.build(as_plain(value)) == data

    for_all(messages(cls, version), 0.3, f"{cls.spec.name} {version}", check)


@BY_NAME
def test_the_reference_reads_all_of_the_bytes_and_no_less(cls: type[Message], version: int, kind: Kind) -> None:
    data = cls().encode(version)
    with pytest.raises(construct.ConstructError):
        kind.bytes.parse(data[:-1])
    assert construct.Struct("value" / kind.bytes, "rest" / construct.GreedyBytes).parse(data + b"rest").rest == b"rest"


def test_every_version_of_the_named_messages_has_a_reference() -> None:
    covered = {(cls, version) for cls, version, _ in CASES}
    for cls in {cls for cls, _ in covered}:
        assert {(cls, version) for version in cls.spec.valid_versions} <= covered
