"""The writer of messages as JSON text, directly from their bytes: the text of `to_json` without intermediate objects.

Only the native engine writes it. What it refuses (bytes that are not the message, strings that are not UTF-8, floats
with many digits) is left to `decode` and `to_json`, which also describe errors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from kafkawire.errors import EncodeError
from kafkawire.wire.backend import native
from kafkawire.wire.json_form import tag_defaults
from kafkawire.wire.layout import INT16

if TYPE_CHECKING:
    from kafkawire.wire.message import Message
    from kafkawire.wire.spec import Field


def text_writer(
    cls: type[Message],
    *,
    counted: Callable[[Field], bool] = lambda field: False,
    header_version: Callable[[int], int] = lambda version: 0,
    names: Sequence[bytes] = (),
    roles: Sequence[bytes] = (),
) -> Any | None:
    """The writer of a message (`_native.MessageText`); None where there is none.

    Args:
        counted: whether values other than 0 of an int16 field are counted, wherever it is in the message.
        header_version: the version of the header in a frame, for a version of the message.
        names: of each class of the codec a byte for each field: what its values name; those that are not 0 are found.
        roles: in the same form what a field is for what is inside of bytes (`native/src/json/inside.rs`).
    """
    if native is None:
        return None
    codec = cls.codec
    fields = [
        [(field.json_name, field.type == "int16" and field.kind == INT16 and counted(field)) for field in spec.fields]
        for spec in (struct.spec for struct in codec.classes)
    ]
    try:
        defaults = [
            [msgspec.json.encode(default) for default in tag_defaults(cls, layout)] for layout in codec.table.layouts
        ]
        headers = bytes(map(header_version, cls.spec.valid_versions))
        writer: Any = native.MessageText(codec.table, fields, defaults, headers, list(names), list(roles))
        return writer
    except (ValueError, EncodeError):
        return None
