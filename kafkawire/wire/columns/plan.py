"""Plans: a layout and a shape -> what to read, and into which columns of positions.

Decoding many values takes two passes. The first walks over the bytes of every value and notes where things stand; the
second gathers what stands there, column by column. A plan tells both what to do: its walks for the first, its nodes
for the second. Engines execute plans; they know nothing of messages.

Elements are counted in *spaces*: the values themselves are space 0, and the elements of each list are a space of their
own. A struct that is no list's element shares the space of what it lies in. Each column belongs to a space:

- runs: where a run of fixed-size fields begins
- blobs: where a string, bytes, or an array of fixed-size values begins, and its size (in bytes, or in values)
- ends: how many elements of a list's own space belong to the list and those before it
- marks: whether a nullable struct is there
- unknown: tagged fields that the schema does not know
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from kafkawire.wire.columns.schema import FieldShape, Shape
from kafkawire.wire.layout import ARRAY, COMPACT, FIXED_SIZES, KIND_MASK, NULLABLE, STRING, STRUCT, Op, Table, Tag

T = TypeVar("T")

#: What a step reads.
RUN, BLOB, NUMBERS, LIST, NESTED = range(5)

#: Column, walk or space of what is walked past.
NONE = -1


class Step(NamedTuple):
    """One step of a walk.

    Attributes:
        what: RUN, BLOB (strings, bytes), NUMBERS (an array of fixed-size values), LIST, NESTED (a struct).
        column: the column of its kind that it fills, or NONE.
        size: bytes of a run or of a number; of a list's element at least (1 or more).
        string, compact, nullable: how a length, or the mark of a nullable struct, is written.
        walk, space: of a list's elements or a struct.
    """

    what: int
    column: int
    size: int = 0
    string: bool = False
    compact: bool = False
    nullable: bool = False
    walk: int = NONE
    space: int = NONE


class Walk(NamedTuple):
    """How one struct is read. `unknown` is the column of its unknown tags."""

    flexible: bool
    steps: tuple[Step, ...]
    tags: tuple[tuple[int, Step], ...] = ()
    foreign_tags: tuple[int, ...] = ()
    unknown: int = NONE


class NumberNode(NamedTuple):
    """A fixed-size value: `offset` bytes behind the begin of its run."""

    kind: int
    run: int
    offset: int


class BlobNode(NamedTuple):
    """A string or bytes."""

    kind: int
    blob: int


class NumbersNode(NamedTuple):
    """An array of fixed-size values."""

    kind: int
    blob: int


class ListNode(NamedTuple):
    """An array of structs or strings."""

    ends: int
    space: int
    item: Node


class StructNode(NamedTuple):
    """A struct: a node for each field of its shape, None where the version does not carry it."""

    mark: int
    fields: tuple[Node | None, ...]
    unknown: int


Node = NumberNode | BlobNode | NumbersNode | ListNode | StructNode


@dataclass(frozen=True, eq=False, slots=True)
class Plan:
    """Walks, the last of them that of the whole value; the space of each column; the nodes.

    `lists` has the space of a list's elements beside that of the list. Equal to itself only, as shapes are.
    """

    walks: tuple[Walk, ...]
    spaces: int
    runs: tuple[int, ...]
    run_sizes: tuple[int, ...]
    blobs: tuple[int, ...]
    lists: tuple[tuple[int, int], ...]
    marks: tuple[int, ...]
    unknown: tuple[int, ...]
    root: StructNode


def make_plan(table: Table, root: int, shape: Shape) -> Plan:
    """The plan for the layout with index `root`."""
    planner = _Planner(table)
    _, node = planner.struct(root, shape, 0, NONE)
    return Plan(
        tuple(planner.walks),
        planner.spaces,
        tuple(planner.runs),
        tuple(planner.run_sizes),
        tuple(planner.blobs),
        tuple(planner.lists),
        tuple(planner.marks),
        tuple(planner.unknown),
        node,
    )


_NOTHING = Shape((), False)


class _Planner:
    def __init__(self, table: Table) -> None:
        self.table = table
        self.walks: list[Walk] = []
        self.spaces = 1
        self.runs: list[int] = []
        self.run_sizes: list[int] = []
        self.blobs: list[int] = []
        self.lists: list[tuple[int, int]] = []
        self.marks: list[int] = []
        self.unknown: list[int] = []

    def add(self, walk: Walk) -> int:
        self.walks.append(walk)
        return len(self.walks) - 1

    def struct(self, layout: int, shape: Shape, space: int, mark: int) -> tuple[int, StructNode]:
        """The walk of a struct, and its node."""
        found = self.table.layouts[layout]
        asked = {part.slot: part for part in shape.fields}
        nodes: dict[int, Node] = {}
        steps: list[Step] = []
        run: list[Op | Tag] = []
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
                inner: list[Step] = []
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
        run: list[Op | Tag],
        asked: dict[int, FieldShape],
        space: int,
        steps: list[Step],
        nodes: dict[int, Node],
    ) -> None:
        """A run of fixed-size fields is one step."""
        if not run:
            return
        column = _new(self.runs, space) if any(op.slot in asked for op in run) else NONE
        size = 0
        for op in run:
            kind = op.code & KIND_MASK
            if op.slot in asked:
                nodes[op.slot] = NumberNode(kind, column, size)
            size += FIXED_SIZES[kind]
        if column != NONE:
            self.run_sizes.append(size)
        steps.append(Step(RUN, column, size))

    def step(self, op: Op | Tag, part: FieldShape | None, space: int, nodes: dict[int, Node]) -> Step:
        kind = op.code & KIND_MASK
        compact, nullable = bool(op.code & COMPACT), bool(op.code & NULLABLE)
        wanted = part is not None
        if op.code & ARRAY and kind in FIXED_SIZES:
            column = _new(self.blobs, space) if wanted else NONE
            nodes[op.slot] = NumbersNode(kind, column)
            return Step(NUMBERS, column, FIXED_SIZES[kind], compact=compact, nullable=nullable)
        if op.code & ARRAY:
            own = NONE
            if wanted:
                own = self.spaces
                self.spaces += 1
            column = _new(self.lists, (space, own)) if wanted else NONE
            item: Node
            if kind == STRUCT:
                walk, item = self.struct(op.arg, _inner(part), own, NONE)
                size = max(1, self.table.layouts[op.arg].min_size)
            else:
                step, item = self.blob(kind, compact, False, own)
                walk = self.add(Walk(False, (step,)))
                size = 1 if compact else 2 if kind == STRING else 4
            nodes[op.slot] = ListNode(column, own, item)
            return Step(LIST, column, size, compact=compact, nullable=nullable, walk=walk, space=own)
        if kind == STRUCT:
            mark = _new(self.marks, space) if wanted and nullable else NONE
            walk, node = self.struct(op.arg, _inner(part), space, mark)
            nodes[op.slot] = node
            return Step(NESTED, mark, compact=compact, nullable=nullable, walk=walk)
        step, nodes[op.slot] = self.blob(kind, compact, nullable, space if wanted else NONE)
        return step

    def blob(self, kind: int, compact: bool, nullable: bool, space: int) -> tuple[Step, BlobNode]:
        column = _new(self.blobs, space) if space != NONE else NONE
        return Step(BLOB, column, 1, kind == STRING, compact, nullable), BlobNode(kind, column)


def _is_number(code: int) -> bool:
    return not code & ARRAY and code & KIND_MASK in FIXED_SIZES


def _inner(part: FieldShape | None) -> Shape:
    return _NOTHING if part is None or part.struct is None else part.struct


def _new(columns: list[T], space: T) -> int:
    columns.append(space)
    return len(columns) - 1
