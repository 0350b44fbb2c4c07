"""Comparison of the bytes of two versions of messages, regardless of names.

Lowered layouts are compared, because they do not depend on how a schema is written.
"""

from __future__ import annotations

from collections.abc import Iterator

from kafkawire.codegen.lower import lower
from kafkawire.codegen.model import MessageModel
from kafkawire.wire.layout import BYTES, KIND_MASK, RECORDS, STRUCT, LayoutTag, Op


class Comparison:
    """Two messages, compared version by version. Each pair of layouts is looked at once: structs may share others."""

    def __init__(self, new: MessageModel, old: MessageModel) -> None:
        self._new, self._old = lower(new), lower(old)
        self._known: dict[tuple[int, int], bool] = {}

    def extends(self, now: int, was: int) -> bool:
        """Whether version `now` of the new message reads what version `was` of the old one writes.

        The two are the same except for tagged fields that only the new one knows.
        """
        new, old = (
            table.roots[version - table.first_version] for table, version in ((self._new, now), (self._old, was))
        )
        return self._layouts(new, old)

    def _layouts(self, new: int, old: int) -> bool:
        if (new, old) not in self._known:
            self._known[new, old] = self._compare(new, old)
        return self._known[new, old]

    def _compare(self, new: int, old: int) -> bool:
        one, other = self._new.layouts[new], self._old.layouts[old]
        tags = {tag.tag: tag for tag in one.tags}
        return (
            one.flexible == other.flexible
            and len(one.ops) == len(other.ops)
            and all(map(self._ops, one.ops, other.ops))
            and all(tag.tag in tags and self._ops(tags[tag.tag], tag) for tag in other.tags)
        )

    def _ops(self, new: Op | LayoutTag, old: Op | LayoutTag) -> bool:
        if bytes_code(new.code) != bytes_code(old.code):
            return False
        return new.code & KIND_MASK != STRUCT or self._layouts(new.arg, old.arg)


def bytes_code(code: int) -> int:
    """The code of an op (or a kind), `records` being bytes: on the wire they are the same."""
    return code & ~KIND_MASK | BYTES if code & KIND_MASK == RECORDS else code


def became_key(new: MessageModel, old: MessageModel) -> bool:
    """Whether `old` is `new` as it was before 4.0, when a coordinator key's int16 prefix was its version.

    Today the prefix is the key's apiKey, and the version 0 for all of them; the bytes are the same.
    """
    return new.kind == "coordinator-key" and old.kind != "coordinator-key"


def same_versions(new: MessageModel, old: MessageModel) -> Iterator[tuple[int, int]]:
    """The versions that both have, each with the number that it has in `new` and in `old`."""
    if became_key(new, old):
        if new.api_key is not None and new.api_key in old.valid:
            yield new.valid.low, new.api_key
    else:
        for version in new.valid & old.valid:
            yield version, version


def conflicts(new: MessageModel, old: MessageModel) -> list[int]:
    """The versions of `old` that `new` lays out otherwise."""
    comparison = Comparison(new, old)
    return [was for now, was in same_versions(new, old) if not comparison.extends(now, was)]
