"""The NumPy engine: all values at once, step by step.

Decoding takes two passes. The first walks over the bytes of all values and notes where things stand; the second
(`gather`) makes columns of what stands there.

Each step of a plan is done for all values before the next: a vector of positions moves over them in lockstep. A value
at which a step fails is left behind and is *refused*; so are values with what is rare (tags twice or out of order),
and those whose lists are so much longer than all others' that going on with them alone is not worth a step. Whoever
asked decodes those one by one.

A space's elements get their numbers as they are found: those of the lists that one step found together are a block,
list by list. Where there were several blocks the numbers are put in order at the end.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kafkawire.wire.columns import gather
from kafkawire.wire.columns.gather import ABSENT, NULL
from kafkawire.wire.columns.inputs import Bytes, Ints, Values
from kafkawire.wire.columns.plan import BLOB, LIST, NONE, NUMBERS, RUN, Plan, Step, Walk
from kafkawire.wire.columns.walked import Blobs, Validity, Walked
from kafkawire.wire.values import MAX_STRING, MAX_TAGS

Mask = NDArray[np.bool_]

#: From this element of a list on (or tag of a struct), a step must be worth its while: so many must have one.
PATIENCE, FEW = 8, 64


class Active(NamedTuple):
    """Elements that a step is done for: their numbers in their space (ascending), the values they belong to, where
    those end, and where the step begins to read."""

    element: Ints
    row: Ints
    end: Ints
    at: Ints

    def some(self, chosen: Any) -> Active:
        """Those that a mask or indexes choose."""
        return Active(self.element[chosen], self.row[chosen], self.end[chosen], self.at[chosen])

    def moved(self, at: Ints) -> Active:
        return self._replace(at=at)


class Space:
    """Elements that are counted together: how many, the blocks they came in, and the columns that lie in the space."""

    def __init__(self) -> None:
        self.total = 0
        self.blocks = 0
        self.columns: list[Positions] = []

    def grow(self, count: int) -> int:
        """Room for more elements; the number of the first of them."""
        first = self.total
        self.total += count
        self.blocks += 1
        return first


class Positions:
    """Where an element's bytes begin, and their size, by the element's number."""

    def __init__(self, space: Space, *, sized: bool) -> None:
        self.space = space
        self.at: Ints = np.zeros(0, np.int64)
        self.size: Ints = np.zeros(0, np.int64)
        self.sized = sized
        space.columns.append(self)

    def fill(self) -> None:
        """An entry for every element of the space: what has none is absent."""
        more = self.space.total - len(self.at)
        if more > 0:
            # Twice as many as there are, so that many small blocks do not cost the square of their number.
            more = max(more, len(self.at))
            self.at = np.concatenate((self.at, np.full(more, ABSENT)))
            if self.sized:
                self.size = np.concatenate((self.size, np.zeros(more, np.int64)))

    def put(self, elements: Ints, at: Ints, size: Ints | None = None) -> None:
        if len(elements) == self.space.total:  # all of them, in order
            self.at = at
            if size is not None:
                self.size = size
            return
        self.fill()
        self.at[elements] = at
        if size is not None:
            self.size[elements] = size

    def trim(self) -> None:
        self.fill()
        total = self.space.total
        self.at, self.size = self.at[:total], self.size[:total]

    def forget(self, elements: Ints) -> None:
        self.at[elements] = ABSENT
        if self.sized:
            self.size[elements] = 0

    def reorder(self, order: Ints) -> None:
        self.at = self.at[order]
        if self.sized:
            self.size = self.size[order]


class Lockstep:
    """Walks over values, and gathers columns from the positions it found."""

    def __init__(self, plan: Plan, values: Values) -> None:
        self.plan = plan
        self.data = values.data
        self.spaces = [Space() for _ in range(plan.spaces)]
        self.runs = [Positions(self.spaces[run.space], sized=False) for run in plan.runs]
        self.blobs = [Positions(self.spaces[blob.space], sized=True) for blob in plan.blobs]
        self.arrays = [Positions(self.spaces[array.space], sized=True) for array in plan.arrays]
        # Of lists: the number of the first element, and how many there are.
        self.lists = [Positions(self.spaces[list_.space], sized=True) for list_ in plan.lists]
        self.marks = [Positions(self.spaces[mark.space], sized=False) for mark in plan.marks]
        # Of structs' unknown tags, as they were found: elements, tags, positions, sizes.
        self.tag_finds: list[list[tuple[Ints, Ints, Ints, Ints]]] = [[] for _ in plan.unknown]
        self.left_out: Mask = values.starts < 0
        self.walk_all(values)
        self.settle()

    def walk_all(self, values: Values) -> None:
        rows = np.arange(len(values))
        self.spaces[0].grow(len(rows))
        active = Active(rows, rows, values.ends, values.starts.copy())
        if self.left_out.any():
            active = active.some(~self.left_out)
        active = self.struct(self.plan.walks[-1], active)
        self.refuse(active.row[active.at != active.end])

    # Steps: each takes the elements it is for, and returns those that are still in step, moved behind what was read.

    def refuse(self, rows: Ints) -> None:
        self.left_out[rows] = True

    def without(self, active: Active, bad: Mask, *others: NDArray[Any]) -> tuple[Any, ...]:
        """Leaves the bad ones behind, in all that is given."""
        if not bad.any():
            return active, *others
        self.refuse(active.row[bad])
        good = ~bad
        return active.some(good), *(other[good] for other in others)

    def struct(self, walk: Walk, active: Active) -> Active:
        for step in walk.steps:
            active = self.step(step, active)
        return self.tags(walk, active) if walk.flexible else active

    def step(self, step: Step, active: Active) -> Active:
        if step.what == RUN:
            (active,) = self.without(active, active.at + step.size > active.end)
            if step.column != NONE:
                self.runs[step.column].put(active.element, active.at)
            return active.moved(active.at + step.size)
        if step.what == LIST:
            return self.list(step, active)
        if step.what in (BLOB, NUMBERS):
            active, sizes = self.length(step, active)
            null = sizes < 0
            some_null = bool(null.any())
            held = np.where(null, 0, sizes) if some_null else sizes
            bad = held * step.size > active.end - active.at
            if step.string:
                bad |= held > MAX_STRING
            active, held, null = self.without(active, bad, held, null)
            if step.column != NONE:
                at = np.where(null, NULL, active.at) if some_null else active.at
                places = self.blobs if step.what == BLOB else self.arrays
                places[step.column].put(active.element, at, held)
            return active.moved(active.at + held * step.size)
        return self.nested(step, active)

    def uvarint(self, active: Active) -> tuple[Active, Ints]:
        """Unsigned varints below 2^31."""
        (active,) = self.without(active, active.at >= active.end)
        at = active.at + 1
        value = self.data[active.at].astype(np.int64)
        more = np.flatnonzero(value > 127)
        if not len(more):
            return active.moved(at), value
        value[more] &= 127
        bad = np.zeros(len(at), np.bool_)
        for shift in (7, 14, 21, 28):
            inside = at[more] < active.end[more]
            bad[more[~inside]] = True
            more = more[inside]
            byte = self.data[at[more]].astype(np.int64)
            value[more] |= (byte & 127) << shift
            at[more] += 1
            more = more[byte > 127]
        bad[more] = True
        bad |= value > 0x7FFFFFFF
        return self.without(active.moved(at), bad, value)

    def length(self, step: Step, active: Active) -> tuple[Active, Ints]:
        """Lengths; negative for null, where null is allowed."""
        if step.compact:
            active, sizes = self.uvarint(active)
            sizes = sizes - 1
        else:
            width = 2 if step.string else 4
            (active,) = self.without(active, active.at + width > active.end)
            sizes = self.data[active.at].astype(np.int8).astype(np.int64)
            for place in range(1, width):
                sizes = sizes << 8 | self.data[active.at + place]
            active = active.moved(active.at + width)
        if not step.nullable:
            active, sizes = self.without(active, sizes < 0, sizes)
        return active, sizes

    def nested(self, step: Step, active: Active) -> Active:
        walk = self.plan.walks[step.walk]
        if not step.nullable:
            return self.struct(walk, active)
        if step.compact:
            active, number = self.uvarint(active)
            there = number > 0
        else:
            (active,) = self.without(active, active.at >= active.end)
            there = self.data[active.at] < 128
            active = active.moved(active.at + 1)
        if step.column != NONE:
            self.marks[step.column].put(active.element, np.where(there, active.at, NULL))
        inside = self.struct(walk, active.some(there))
        return rejoined(active, [(np.flatnonzero(there), inside)])

    def list(self, step: Step, active: Active) -> Active:
        active, counts = self.length(step, active)
        null = counts < 0
        counts = np.maximum(counts, 0)
        active, counts, null = self.without(active, counts * step.size > active.end - active.at, counts, null)
        firsts = np.cumsum(counts) - counts
        if step.column != NONE:
            firsts = firsts + self.spaces[step.space].grow(int(counts.sum()))
            self.lists[step.column].put(active.element, np.where(null, NULL, firsts), counts)
        walk = self.plan.walks[step.walk]
        return self.strides(walk, active, counts, firsts) or self.items(walk, active, counts, firsts)

    def strides(self, walk: Walk, active: Active, counts: Ints, firsts: Ints) -> Active | None:
        """Elements that all have the same size, at once; None where they have not."""
        if len(walk.steps) != 1 or walk.steps[0].what != RUN:
            return None
        size = walk.steps[0].size + walk.flexible
        total = int(counts.sum())
        within = gather.ranges(np.zeros_like(counts), counts)
        at = np.repeat(active.at, counts) + within * size
        # The smallest size of an element is this one, so all of them lie inside their values.
        if walk.flexible and total and self.data[at + (size - 1)].any():
            return None
        if walk.steps[0].column != NONE:
            self.runs[walk.steps[0].column].put(np.repeat(firsts, counts) + within, at)
        return active.moved(active.at + counts * size)

    def items(self, walk: Walk, active: Active, counts: Ints, firsts: Ints) -> Active:
        """The first elements of all lists, then their second ones, and so on."""
        at = active.at.copy()
        lost = np.zeros(len(at), np.bool_)
        chosen = np.flatnonzero(counts)
        number = 0
        while len(chosen):
            if number >= PATIENCE and len(chosen) < FEW:
                lost[chosen] = True
                break
            element = firsts[chosen] + number
            before = Active(element, active.row[chosen], active.end[chosen], at[chosen])
            after = self.struct(walk, before)
            if len(after.at) < len(chosen):
                kept = np.searchsorted(element, after.element)
                lost[chosen] = True
                chosen = chosen[kept]
                lost[chosen] = False
            at[chosen] = after.at
            number += 1
            chosen = chosen[counts[chosen] > number]
        (active,) = self.without(active.moved(at), lost)
        return active

    def tags(self, walk: Walk, active: Active) -> Active:
        """Tagged fields: the first of all structs, then their second ones, and so on."""
        active, counts = self.uvarint(active)
        if not counts.any():
            return active
        active, counts = self.without(active, counts > np.minimum(active.end - active.at, MAX_TAGS), counts)
        known = dict(walk.tags)
        last = np.full(len(counts), -1, np.int64)
        number = 0
        while True:
            more = counts > number
            if number >= PATIENCE and more.sum() < FEW:
                active, counts, last = self.without(active, more, counts, last)
                return active
            if not more.any():
                return active
            places = np.flatnonzero(more)
            inside, tags = self.uvarint(active.some(places))
            inside, sizes, tags = self.paired(inside, tags)
            wrong = tags <= last[np.searchsorted(active.element, inside.element)]
            if walk.foreign_tags:
                wrong |= np.isin(tags, walk.foreign_tags)
            inside, sizes, tags = self.without(inside, wrong, sizes, tags)
            last[np.searchsorted(active.element, inside.element)] = tags
            done = []
            for tag in np.unique(tags).tolist():
                ours = np.flatnonzero(tags == tag)
                if tag in known:
                    after = self.step(known[tag], inside.some(ours))
                else:
                    after = self.skip_tag(walk, inside.some(ours), tag, sizes[ours])
                done.append((ours, after))
            inside = rejoined(inside, done)
            kept = ~more
            kept[np.searchsorted(active.element, inside.element)] = True
            at = active.at.copy()
            at[np.searchsorted(active.element, inside.element)] = inside.at
            active, counts, last = active.moved(at).some(kept), counts[kept], last[kept]
            number += 1

    def paired(self, active: Active, tags: Ints) -> tuple[Active, Ints, Ints]:
        """The sizes that stand behind tags."""
        after, sizes = self.uvarint(active)
        if len(after.at) < len(active.at):
            tags = tags[np.searchsorted(active.element, after.element)]
        return after, sizes, tags

    def skip_tag(self, walk: Walk, active: Active, tag: int, sizes: Ints) -> Active:
        active, sizes = self.without(active, sizes > active.end - active.at, sizes)
        if walk.unknown != NONE:
            self.tag_finds[walk.unknown].append((active.element, np.full(len(sizes), tag), active.at, sizes))
        return active.moved(active.at + sizes)

    # Order, and what was refused ---------------------------------------------------------------------------------

    def settle(self) -> None:
        """What refused values left in the columns goes, and elements get their numbers in order."""
        self.refused: Ints = np.flatnonzero(self.left_out)
        orders: list[Ints | None] = [None] * len(self.spaces)
        for space in self.spaces:
            for column in space.columns:
                column.trim()
        if len(self.refused):
            for column in self.spaces[0].columns:
                column.forget(self.refused)
        for places, list_ in zip(self.lists, self.plan.lists, strict=True):
            space = self.spaces[list_.own]
            if space.blocks > 1 or int(places.size.sum()) < space.total:
                order = gather.ranges(places.at, places.size)
                space.total = len(order)
                for column in space.columns:
                    column.reorder(order)
                orders[list_.own] = order
        self.orders = orders

    # Columns -------------------------------------------------------------------------------------------------------

    def walked(self) -> Walked:
        plan, data = self.plan, self.data
        cuts = [gather.Runs(data, places.at, run.size) for places, run in zip(self.runs, plan.runs, strict=True)]
        return Walked(
            self.refused,
            [space.total for space in self.spaces],
            [cuts[column.run].numbers(column.offset, column.kind, column.default) for column in plan.numbers],
            [
                self.texts(places, column.null, column.default)
                if column.text
                else self.octets(places, column.null, column.default)
                for places, column in zip(self.blobs, plan.blobs, strict=True)
            ],
            [
                (
                    gather.offsets_of(places.size),
                    validity(places.at, column.null),
                    gather.arrays(data, places.at, places.size, column.kind),
                )
                for places, column in zip(self.arrays, plan.arrays, strict=True)
            ],
            [
                (gather.offsets_of(places.size), validity(places.at, column.null))
                for places, column in zip(self.lists, plan.lists, strict=True)
            ],
            [validity(places.at, column.null) for places, column in zip(self.marks, plan.marks, strict=True)],
            [self.unknown(column, space) for column, space in enumerate(plan.unknown)],
        )

    def octets(self, places: Positions, null: bool, default: bytes) -> Blobs:
        offsets, octets = gather.blobs(self.data, places.at, places.size, default)
        return offsets, validity(places.at, null), octets, np.zeros(0, np.int64)

    def texts(self, places: Positions, null: bool, default: bytes) -> Blobs:
        offsets, valid, octets, _ = self.octets(places, null, default)
        offsets, octets, impure = gather.clean_texts(offsets, octets)
        return offsets, valid, octets, impure

    def unknown(self, column: int, space: int) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32], Bytes]:
        count = self.spaces[space].total
        finds = self.tag_finds[column]
        empty = np.zeros(0, np.int64)
        elements, tags, at, sizes = (
            (np.concatenate(parts) for parts in zip(*finds, strict=True)) if finds else (empty,) * 4
        )
        elements = self.numbers_of(space, elements)
        sequence = np.argsort(elements, kind="stable")
        sequence = sequence[np.searchsorted(elements[sequence], 0) :]  # those of refused values stand first
        offsets, octets = gather.blobs(self.data, at[sequence], sizes[sequence], b"")
        lists = gather.offsets_of(np.bincount(elements[sequence], minlength=count))
        return lists, tags[sequence].astype(np.int32), offsets, octets

    def numbers_of(self, space: int, elements: Ints) -> Ints:
        """Elements' numbers in order; -1 for those of refused values."""
        if space == 0:
            return np.where(self.left_out[elements], -1, elements)
        order = self.orders[space]
        if order is None:
            return elements
        numbers = np.full(int(max(order.max(initial=-1), elements.max(initial=-1))) + 1, -1)
        numbers[order] = np.arange(len(order))
        return numbers[elements]


def validity(at: Ints, null: bool) -> Validity:
    return gather.validity_of(at < 0 if null else at == NULL)


def rejoined(active: Active, parts: list[tuple[Ints, Active]]) -> Active:
    """Elements of which some went on in parts: each part's places, and those of them that are still in step."""
    at = active.at.copy()
    kept = np.ones(len(at), np.bool_)
    for places, after in parts:
        kept[places] = False
        survived = places if len(after.at) == len(places) else np.searchsorted(active.element, after.element)
        at[survived] = after.at
        kept[survived] = True
    active = active.moved(at)
    return active if kept.all() else active.some(kept)


def walk(plan: Plan, values: Values) -> Walked:
    """Walks over values; the columns of the plan."""
    return Lockstep(plan, values).walked()
