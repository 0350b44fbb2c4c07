"""Steps: a layout -> the lines of its pure-Python codec, as data for the templates.

Neighbouring fixed-size fields are fused into one `struct` call (a run); everything else is one word of
`kafkawire.wire.read` or `.write` a field. Structs that arrays hold are read and written by functions that loop; where
they hold fixed-size fields and arrays of numbers only, many are read at once (`kafkawire.wire.strides`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from kafkawire.codegen import names
from kafkawire.codegen.lower import Lowered
from kafkawire.wire.layout import (
    ALLOCATION_FACTOR,
    ARRAY,
    BOOL,
    BYTES,
    COMPACT,
    FIXED_SIZES,
    KIND_MASK,
    KIND_NAMES,
    NULLABLE,
    RECORDS,
    STRUCT,
    UUID,
    Layout,
    Op,
    Tag,
    struct_cost,
)

#: The struct code of each fixed-size kind, in the order of the kinds.
_CODES = ("?", "b", "h", "i", "q", "H", "I", "d", "16s")
#: Names of arrays in words where they are not the kind's name and an s.
_PLURALS = {BYTES: "blobs", RECORDS: "blobs"}
#: Names of run constants cannot hold "?"; Kafka has no struct code "t".
_SPELLING = str.maketrans({"?": "t"})


@dataclass(frozen=True, slots=True)
class Step:
    """One line of a codec. `targets` are (attribute, local, kind) of its fields.

    A run has `pack`, the struct codes; anything else `reader` and `writer` with their leading arguments.
    """

    targets: tuple[tuple[str, str, int], ...]
    at: str
    pack: str = ""
    reader: tuple[str, ...] = ()
    writer: tuple[str, ...] = ()


@dataclass(slots=True)
class Function:
    """The codec of one layout. `end` is the position behind the last field, as an expression."""

    name: str
    cls: str
    layout: Layout
    versions: str
    steps: list[Step] = field(default_factory=list)
    end: str = "p"
    arguments: list[str] = field(default_factory=list)
    absent: list[tuple[str, str]] = field(default_factory=list)
    tags: list[tuple[int, str, tuple[str, ...], tuple[str, ...], str]] = field(default_factory=list)
    #: What reads many elements at once, as source text.
    rows: str = ""
    guarded: bool = False
    #: Not the message itself: then a look-alike must be refused, whose other fields would be lost.
    nested: bool = False
    #: Whether arrays hold it: then its functions loop. `alone` whether it is also, or only, a field or the message.
    element: bool = False
    alone: bool = True

    @property
    def ends_in_run(self) -> bool:
        """Whether a run is followed by nothing but the count of tagged fields, so that one call can write both."""
        return self.layout.flexible and not self.tags and bool(self.steps) and bool(self.steps[-1].pack)


@dataclass(slots=True)
class Codecs:
    """All functions of a message, nested layouts first, and what they import and define."""

    functions: list[Function]
    #: Of each version, the message's own.
    roots: list[Function]
    read_words: set[str] = field(default_factory=set)
    stride_words: set[str] = field(default_factory=set)
    write_words: set[str] = field(default_factory=set)
    runs: set[str] = field(default_factory=set)
    bools: bool = False


def function_names(lowered: Lowered) -> list[str]:
    """`topic_response_v0` for each layout: its struct and the lowest version that uses it."""
    return [
        f"{names.snake_case(lowered.structs[layout.struct].name)}_v{since}"
        for layout, since in zip(lowered.table.layouts, lowered.since, strict=True)
    ]


def codecs(lowered: Lowered, defaults: list[dict[int, str]]) -> Codecs:
    """The functions of all layouts. `defaults[struct][slot]` is the source text of a field's default."""
    return _Planner(lowered, defaults).plan()


class _Planner:
    def __init__(self, lowered: Lowered, defaults: list[dict[int, str]]) -> None:
        self.lowered = lowered
        self.defaults = defaults
        self.layouts = lowered.table.layouts
        self.names = function_names(lowered)
        self.out = Codecs([], [])
        #: Layouts that are elements of arrays, and those that stand alone.
        self.elements, self.alone = set[int](), set(lowered.table.roots)
        for op in (op for layout in self.layouts for op in layout.all_ops() if op.code & KIND_MASK == STRUCT):
            (self.elements if op.code & ARRAY else self.alone).add(op.arg)

    def plan(self) -> Codecs:
        self.out.functions += (self.function(i, layout) for i, layout in enumerate(self.layouts))
        self.out.roots += (self.out.functions[root] for root in self.lowered.table.roots)
        return self.out

    def function(self, index: int, layout: Layout) -> Function:
        struct = self.lowered.structs[layout.struct]
        attributes = [names.attribute(f.name) for f in struct.fields]
        function = Function(
            self.names[index], names.class_name(struct.name), layout, f"version {self.lowered.since[index]}"
        )
        function.steps, function.end = self.steps(layout, attributes)
        function.arguments = _arguments(layout, attributes, dict(enumerate(map(names.local, attributes))))
        function.absent = [(attributes[slot], self.defaults[layout.struct][slot]) for slot in layout.absent]
        self.out.bools |= any(default in ("True", "False") for _, default in function.absent)
        function.tags = [
            (
                tag.tag,
                attributes[tag.slot],
                self.reader(tag),
                self.writer(tag, layout),
                self.defaults[layout.struct][tag.slot],
            )
            for tag in layout.tags
        ]
        function.element, function.alone = index in self.elements, index in self.alone
        if function.element:
            function.rows = self.rows(function, attributes)
        if function.element and function.alone:
            self.out.read_words.add("read_one")
            self.out.write_words.add("write_one")
        function.guarded = self.guarded(layout)
        function.nested = struct is not self.lowered.message.root
        if layout.flexible:
            self.out.read_words.add("read_tags")
            self.out.write_words |= {"write_tags", "NO_TAGS"}
        return function

    def steps(self, layout: Layout, attributes: list[str]) -> tuple[list[Step], str]:
        steps: list[Step] = []
        offset = 0
        i = 0
        while i < len(layout.ops):
            run = i
            while run < len(layout.ops) and layout.ops[run].code in FIXED_SIZES:
                run += 1
            at = f"p + {offset}" if offset else "p"
            if run > i:
                ops = layout.ops[i:run]
                pack = "".join(_CODES[op.code] for op in ops)
                self.out.runs.add(pack)
                if any(op.code == UUID for op in ops):
                    self.out.read_words.add("make_uuid")
                self.out.bools |= any(op.code == BOOL for op in ops)
                steps.append(Step(tuple(_target(op, attributes) for op in ops), at, pack=pack))
                offset += sum(FIXED_SIZES[op.code] for op in ops)
                i = run
            else:
                op = layout.ops[i]
                steps.append(Step((_target(op, attributes),), at, "", self.reader(op), self.writer(op, layout)))
                offset = 0
                i += 1
        return steps, f"p + {offset}" if offset else "p"

    def reader(self, op: Op | Tag) -> tuple[str, ...]:
        """The word that reads an op, and its leading arguments."""
        words = self.words("read", op)
        self.out.read_words |= {word for word in words if word.isidentifier() and not word.startswith("_")}
        return words

    def writer(self, op: Op | Tag, layout: Layout) -> tuple[str, ...]:
        """The word that writes an op, and its leading arguments."""
        words = self.words("write", op)
        if len(words) == 1 and op.code == STRUCT and self.lowered.structs[layout.struct].fields[op.slot].nullable:
            # The field may be null in another version: its class is not all that its type allows.
            words = ("write_struct", *words)
        self.out.write_words |= {word for word in words if word.isidentifier() and not word.startswith("_")}
        return words

    def words(self, verb: str, op: Op | Tag) -> tuple[str, ...]:
        kind = op.code & KIND_MASK
        compact = "compact_" if op.code & COMPACT else ""
        nullable = "nullable_" if op.code & NULLABLE else ""
        codec = "_" + ("decode" if verb == "read" else "encode") + "_"
        if op.code & ARRAY:
            prefix = f"{verb}_{compact}{nullable}"
            if kind != STRUCT:
                return (f"{prefix}{_PLURALS.get(kind) or KIND_NAMES[kind] + 's'}",)
            if verb == "write":
                return (f"{prefix}array", f"_encode_items_{self.names[op.arg]}")
            layout = self.layouts[op.arg]
            items = "_rows_" if is_strided(layout) else "_decode_items_"
            return (f"{prefix}array", items + self.names[op.arg], str(max(1, layout.min_size)))
        if kind == STRUCT:
            if not nullable:
                return (codec + self.names[op.arg],)
            return (f"{verb}_{'tagged_' if compact else ''}nullable_struct", codec + self.names[op.arg])
        if kind in FIXED_SIZES:
            return (f"{verb}_{KIND_NAMES[kind]}",)
        return (f"{verb}_{compact}{nullable}{KIND_NAMES[kind].replace('records', 'bytes')}",)

    def rows(self, function: Function, attributes: list[str]) -> str:
        """The source of what reads neighbouring elements at once, empty where none can."""
        layout = function.layout
        if not is_strided(layout):
            return ""
        items = f"_decode_items_{function.name}"
        if all(op.code in FIXED_SIZES and op.code != UUID and op.slot == i for i, op in enumerate(layout.ops)):
            self.out.stride_words.add("rows")
            return f'rows({function.cls}, {items}, "{_codes(layout.ops)}", {layout.flexible})'
        self.out.stride_words.add("shaped")
        places, ends = _places(layout)
        if any(op.code == UUID for op in layout.ops):
            self.out.read_words.add("make_uuid")
        arguments = ", ".join(_arguments(layout, attributes, places))
        build = f"lambda {', '.join(('rows', *ends))}: [{function.cls}({arguments}) for r in rows]"
        return f'shaped({build}, {items}, "{_shape(layout)}", {layout.flexible})'

    def guarded(self, layout: Layout, repeated: bool = False) -> bool:
        """Whether small input could make the layout's fast decoder allocate out of proportion.

        That takes structs which cost more than their bytes may, and an array to repeat them. The interpreter keeps
        count; where nothing is guarded it need not, for no input can exceed the limit.
        """
        for op in layout.all_ops():
            if op.code & KIND_MASK != STRUCT:
                continue
            inner = self.layouts[op.arg]
            again = repeated or bool(op.code & ARRAY)
            optional = isinstance(op, Tag) or op.code & NULLABLE
            alone = op.code & ARRAY or optional
            size = inner.min_size + (1 if optional else 0)
            if (again and alone and self.cost(inner) > ALLOCATION_FACTOR * size) or self.guarded(inner, again):
                return True
        return False

    def cost(self, layout: Layout) -> int:
        """Bytes in memory of a struct whose optional and variable parts are all empty."""
        nested = (self.layouts[op.arg] for op in layout.ops if op.code == STRUCT)
        slots = len(self.lowered.structs[layout.struct].fields) + 1
        return struct_cost(layout, slots) + sum(map(self.cost, nested))


def is_strided(layout: Layout) -> bool:
    """Whether neighbours may be read at once: a layout of fixed-size fields, and where lengths are of one byte, arrays
    of numbers.
    """
    return bool(layout.ops) and all(
        op.code in FIXED_SIZES or (layout.flexible and _numbers(op) is not None) for op in layout.ops
    )


def _numbers(op: Op) -> int | None:
    """The kind of a compact array of numbers, or None for any other op."""
    kind = op.code & KIND_MASK
    return kind if op.code == kind | ARRAY | COMPACT and kind in FIXED_SIZES and kind != UUID else None


def _codes(ops: Iterable[Op]) -> str:
    return "".join(_CODES[op.code] for op in ops)


def _shape(layout: Layout) -> str:
    """The parts of a strided layout, as `strides.shaped` takes them."""
    return "".join(f" [{_CODES[op.code & KIND_MASK]} " if op.code & ARRAY else _codes([op]) for op in layout.ops)


def _places(layout: Layout) -> tuple[dict[int, str], list[str]]:
    """Where the values of a strided layout lie in the row `r` of one element, by slot; and the ends of its arrays."""
    places: dict[int, str] = {}
    ends: list[str] = []
    at = 0

    def place() -> str:
        return f"{ends[-1]} + {at}" if ends and at else ends[-1] if ends else str(at)

    for op in layout.ops:
        start = place()
        if op.code & ARRAY:
            ends.append(f"e{len(ends) + 1}")
            at = 0
            places[op.slot] = f"r[{start}:{ends[-1]}]"
        else:
            at += 1
            places[op.slot] = f"make_uuid(r[{start}])" if op.code == UUID else f"r[{start}]"
    return places, ends


def run_name(pack: str) -> str:
    """The name of a run's constant: `unpack_ihq`, `pack_ihq`; 16s (a uuid) is spelt u."""
    return pack.replace("16s", "u").translate(_SPELLING)


def _target(op: Op, attributes: list[str]) -> tuple[str, str, int]:
    attribute = attributes[op.slot]
    return attribute, names.local(attribute), op.code & KIND_MASK


def _arguments(layout: Layout, attributes: list[str], values: dict[int, str]) -> list[str]:
    """The arguments of the constructor: by position as long as no slot is left out, then by keyword."""
    arguments: list[str] = []
    for op in sorted(layout.ops, key=lambda op: op.slot):
        value = values[op.slot]
        arguments.append(value if op.slot == len(arguments) else f"{attributes[op.slot]}={value}")
    return arguments
