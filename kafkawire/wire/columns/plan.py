"""Plans: a layout and a shape -> what to read, and into which columns.

A plan is all that an engine needs; engines do not know messages. Its walks describe how a value is read and which
column each step fills. Its columns describe what they hold, and the value of an absent entry. Its nodes give `build`
the field of each column.

Elements are counted in *spaces*: the values themselves are space 0, and the elements of each list are a space of their
own. A struct that is no list's element shares the space of what it lies in. Each column belongs to a space, and has an
entry for each of its elements:

- numbers: a fixed-size value; those that stand together are a *run*, which is read in one step
- blobs: a string or bytes
- arrays: an array of fixed-size values
- lists: an array of structs or of strings, whose elements are a space
- marks: whether a nullable struct is there
- unknown: tagged fields that the schema does not know
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from kafkawire.wire.columns.schema import FieldShape, Shape
from kafkawire.wire.layout import (
    ARRAY,
    COMPACT,
    FIXED_SIZES,
    KIND_MASK,
    NULLABLE,
    STRING,
    STRUCT,
    UUID,
    LayoutTag,
    Op,
    Table,
)
from kafkawire.wire.lowering import smallest

T = TypeVar("T")

#: What a step reads.
RUN, BLOB, NUMBERS, BLOBS, LIST, NESTED = range(6)

#: Column or walk of what is walked past.
NONE = -1


class WalkStep(NamedTuple):
    """One step of a walk.

    Attributes:
        what: RUN, BLOB (strings, bytes), NUMBERS (an array of fixed-size values), BLOBS (an array of strings or bytes),
            LIST (of structs), NESTED (a struct).
        column: the run, or the column of its kind (of BLOBS, the list), that it fills, or NONE.
        size: bytes of a run or of a number; of a list's element at least (1 or more).
        string, compact, nullable: how a length, or the mark of a nullable struct, is written.
        inner: the walk of a struct or of a list's elements; of BLOBS, the column of the elements, or NONE.
    """

    what: int
    column: int
    size: int = 0
    string: bool = False
    compact: bool = False
    nullable: bool = False
    inner: int = NONE


class Walk(NamedTuple):
    """How one struct is read. `unknown` is the column of its unknown tags."""

    flexible: bool
    steps: tuple[WalkStep, ...]
    tags: tuple[tuple[int, WalkStep], ...] = ()
    foreign_tags: tuple[int, ...] = ()
    unknown: int = NONE


class FixedRun(NamedTuple):
    """Fixed-size values that stand together: bytes in all."""

    space: int
    size: int


class Number(NamedTuple):
    """A column of fixed-size values, `offset` bytes after the begin of their run. An element that has none (a tagged
    field that is not there, what lies in a null struct, a value that was refused) has the default; uuids as bytes."""

    run: int
    offset: int
    kind: int
    default: Any


class Blob(NamedTuple):
    """A column of strings (`text`) or bytes. An element that has none is null, or has the default."""

    space: int
    text: bool
    null: bool
    default: bytes


class Array(NamedTuple):
    """A column of arrays of fixed-size values. An element that has none is null, or has an empty one."""

    space: int
    kind: int
    null: bool


class List(NamedTuple):
    """A column of lists, and the space of their elements, which follows that of the lists. An element that has
    none is null, or has an empty one."""

    space: int
    own: int
    null: bool


class Mark(NamedTuple):
    """A column of nullable structs. An element that has none is null, or has one of defaults."""

    space: int
    null: bool


class NumberNode(NamedTuple):
    """A fixed-size value."""

    kind: int
    column: int


class BlobNode(NamedTuple):
    """A string or bytes."""

    text: bool
    column: int


class ArrayNode(NamedTuple):
    """An array of fixed-size values."""

    kind: int
    column: int


class ListNode(NamedTuple):
    """An array of structs or strings."""

    column: int
    space: int
    item: Node


class StructNode(NamedTuple):
    """A struct: a node for each field of its shape, None where the version does not carry it."""

    mark: int
    fields: tuple[Node | None, ...]
    unknown: int


Node = NumberNode | BlobNode | ArrayNode | ListNode | StructNode


@dataclass(frozen=True, eq=False, slots=True)
class LayoutPlan:
    """Walks, the last of them that of the whole value; columns (of unknown tags, their spaces); the nodes.

    Equal to itself only, as shapes are.
    """

    walks: tuple[Walk, ...]
    spaces: int
    runs: tuple[FixedRun, ...]
    numbers: tuple[Number, ...]
    blobs: tuple[Blob, ...]
    arrays: tuple[Array, ...]
    lists: tuple[List, ...]
    marks: tuple[Mark, ...]
    unknown: tuple[int, ...]
    root: StructNode


def make_plan(table: Table, root: int, shape: Shape) -> LayoutPlan:
    """Makes the plan by which an engine reads a layout.

    Args:
        table: of the message.
        root: index of the layout of a version.
        shape: the selected fields.
    """
    planner = _ColumnPlanner(table)
    _, node = planner.struct(root, shape, 0, NONE)
    return LayoutPlan(
        tuple(planner.walks),
        planner.spaces,
        tuple(planner.runs),
        tuple(planner.numbers),
        tuple(planner.blobs),
        tuple(planner.arrays),
        tuple(planner.lists),
        tuple(planner.marks),
        tuple(planner.unknown),
        node,
    )


_NOTHING = Shape((), False)


class _ColumnPlanner:
    def __init__(self, table: Table) -> None:
        self.table = table
        self.walks: list[Walk] = []
        self.spaces = 1
        self.runs: list[FixedRun] = []
        self.numbers: list[Number] = []
        self.blobs: list[Blob] = []
        self.arrays: list[Array] = []
        self.lists: list[List] = []
        self.marks: list[Mark] = []
        self.unknown: list[int] = []

    def add(self, walk: Walk) -> int:
        self.walks.append(walk)
        return len(self.walks) - 1

    def struct(self, layout: int, shape: Shape, space: int, mark: int) -> tuple[int, StructNode]:
        """The walk of a struct, and its node."""
        found = self.table.layouts[layout]
        asked = {part.slot: part for part in shape.fields}
        nodes: dict[int, Node] = {}
        steps: list[WalkStep] = []
        run: list[Op | LayoutTag] = []
        for op in found.ops:
            if _is_number(op.code):
                run.append(op)
                continue
            self.run(run, asked, space, steps, nodes)
            run = []
            steps.append(self.step(op, asked.get(op.slot), space, nodes))
        self.run(run, asked, space, steps, nodes)
        tag_steps = []
        for tag in found.tags:
            if _is_number(tag.code):
                inner: list[WalkStep] = []
                self.run([tag], asked, space, inner, nodes)
                tag_steps.append((tag.tag, inner[0]))
            else:
                tag_steps.append((tag.tag, self.step(tag, asked.get(tag.slot), space, nodes)))
        unknown = NONE
        if shape.unknown_tags and found.flexible:
            unknown = _new(self.unknown, space)
        walk = self.add(Walk(found.flexible, tuple(steps), tuple(tag_steps), found.foreign_tags, unknown))
        return walk, StructNode(mark, tuple(nodes.get(part.slot) for part in shape.fields), unknown)

    def run(
        self,
        run: list[Op | LayoutTag],
        asked: dict[int, FieldShape],
        space: int,
        steps: list[WalkStep],
        nodes: dict[int, Node],
    ) -> None:
        """A run of fixed-size fields is one step."""
        if not run:
            return
        number = len(self.runs) if any(op.slot in asked for op in run) else NONE
        size = 0
        for op in run:
            kind = op.code & KIND_MASK
            if op.slot in asked:
                default = asked[op.slot].field.default
                column = _new(self.numbers, Number(number, size, kind, default.bytes if kind == UUID else default))
                nodes[op.slot] = NumberNode(kind, column)
            size += FIXED_SIZES[kind]
        if number != NONE:
            self.runs.append(FixedRun(space, size))
        steps.append(WalkStep(RUN, number, size))

    def step(self, op: Op | LayoutTag, part: FieldShape | None, space: int, nodes: dict[int, Node]) -> WalkStep:
        kind = op.code & KIND_MASK
        compact, nullable = bool(op.code & COMPACT), bool(op.code & NULLABLE)
        null = part is not None and part.field.default is None
        if op.code & ARRAY and kind in FIXED_SIZES:
            column = NONE if part is None else _new(self.arrays, Array(space, kind, null))
            nodes[op.slot] = ArrayNode(kind, column)
            return WalkStep(NUMBERS, column, FIXED_SIZES[kind], compact=compact, nullable=nullable)
        if op.code & ARRAY:
            column = own = NONE
            if part is not None:
                own = self.spaces
                self.spaces += 1
                column = _new(self.lists, List(space, own, null))
            item: Node
            if kind == STRUCT:
                what, string = LIST, False
                size = max(1, self.table.layouts[op.arg].min_size)
                inner, item = self.struct(op.arg, _inner(part), own, NONE)
            else:
                what, string = BLOBS, kind == STRING
                size = smallest(op.code & ~ARRAY, 0)
                step, item = self.blob(kind, compact, False, own, b"")
                inner = step.column
            nodes[op.slot] = ListNode(column, own, item)
            return WalkStep(what, column, size, string, compact, nullable, inner)
        if kind == STRUCT:
            mark = NONE if part is None or not nullable else _new(self.marks, Mark(space, null))
            walk, node = self.struct(op.arg, _inner(part), space, mark)
            nodes[op.slot] = node
            return WalkStep(NESTED, mark, compact=compact, nullable=nullable, inner=walk)
        default = None if part is None else part.field.default
        octets = default.encode() if isinstance(default, str) else default
        step, nodes[op.slot] = self.blob(kind, compact, nullable, NONE if part is None else space, octets)
        return step

    def blob(
        self, kind: int, compact: bool, nullable: bool, space: int, default: bytes | None
    ) -> tuple[WalkStep, BlobNode]:
        """A string or bytes, in a space or walked past; `default` is None for null."""
        text = kind == STRING
        column = NONE if space == NONE else _new(self.blobs, Blob(space, text, default is None, default or b""))
        return WalkStep(BLOB, column, 1, text, compact, nullable), BlobNode(text, column)


def _is_number(code: int) -> bool:
    return not code & ARRAY and code & KIND_MASK in FIXED_SIZES


def _inner(part: FieldShape | None) -> Shape:
    return _NOTHING if part is None or part.struct is None else part.struct


def _new(columns: list[T], column: T) -> int:
    columns.append(column)
    return len(columns) - 1
