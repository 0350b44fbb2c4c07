//! Layouts ("op tables") as `kafkawire.wire.layout` defines them, checked once when a table is handed over, so that
//! executing them needs no checks of slots and indexes.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::cursor::{Cursor, Read, Refused};
use crate::limits::MAX_DEPTH;

/// What an op reads: `Kind` with flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    Uint16,
    Uint32,
    Float64,
    Uuid,
    String,
    Bytes,
    Records,
    Struct,
}

const KINDS: [Kind; 13] = [
    Kind::Bool,
    Kind::Int8,
    Kind::Int16,
    Kind::Int32,
    Kind::Int64,
    Kind::Uint16,
    Kind::Uint32,
    Kind::Float64,
    Kind::Uuid,
    Kind::String,
    Kind::Bytes,
    Kind::Records,
    Kind::Struct,
];

const COMPACT: u8 = 16;
const NULLABLE: u8 = 32;
const ARRAY: u8 = 64;

impl Kind {
    /// The kind of a code, whatever its flags.
    pub fn of_code(code: u8) -> Option<Kind> {
        KINDS.get(usize::from(code & 15)).copied()
    }

    #[inline]
    pub fn is_integer(self) -> bool {
        use Kind::*;
        matches!(self, Int8 | Int16 | Int32 | Int64 | Uint16 | Uint32)
    }

    /// Bytes of a value, where they do not depend on it.
    pub fn fixed_size(self) -> Option<usize> {
        match self {
            Kind::Bool | Kind::Int8 => Some(1),
            Kind::Int16 | Kind::Uint16 => Some(2),
            Kind::Int32 | Kind::Uint32 => Some(4),
            Kind::Int64 | Kind::Float64 => Some(8),
            Kind::Uuid => Some(16),
            Kind::String | Kind::Bytes | Kind::Records | Kind::Struct => None,
        }
    }

    /// The value of a fixed size that comes next.
    #[inline(always)]
    pub fn read(self, cursor: &mut Cursor<'_>) -> Read<Fixed> {
        Ok(match self {
            Kind::Bool => Fixed::Bool(cursor.byte()? != 0),
            Kind::Int8 => Fixed::Integer(i64::from(cursor.byte()? as i8)),
            Kind::Int16 => Fixed::Integer(i64::from(i16::from_be_bytes(cursor.array()?))),
            Kind::Int32 => Fixed::Integer(i64::from(i32::from_be_bytes(cursor.array()?))),
            Kind::Int64 => Fixed::Integer(i64::from_be_bytes(cursor.array()?)),
            Kind::Uint16 => Fixed::Integer(i64::from(u16::from_be_bytes(cursor.array()?))),
            Kind::Uint32 => Fixed::Integer(i64::from(u32::from_be_bytes(cursor.array()?))),
            Kind::Float64 => Fixed::Float(f64::from_be_bytes(cursor.array()?)),
            Kind::Uuid => Fixed::Uuid(cursor.array()?),
            Kind::String | Kind::Bytes | Kind::Records | Kind::Struct => return Err(Refused),
        })
    }
}

/// A value of a fixed size.
pub enum Fixed {
    Bool(bool),
    Integer(i64),
    Float(f64),
    Uuid([u8; 16]),
}

/// The wire type of a field, as a walk reads it. Lengths are `compact` (a varint, one more than the length) or not.
#[derive(Debug, Clone, Copy)]
pub enum WireType {
    /// Values of fixed size that stand together: `size` bytes.
    Fixed { size: usize },
    /// A string, bytes or records.
    Blob { string: bool, compact: bool, nullable: bool },
    /// An array of values of `size` bytes each.
    Numbers { size: usize, compact: bool, nullable: bool },
    /// An array of strings, bytes or records, `size` bytes each at least.
    Blobs { string: bool, size: usize, compact: bool, nullable: bool },
    /// An array of structs, `size` bytes each at least.
    List { size: usize, compact: bool, nullable: bool, walk: usize },
    /// A struct.
    Nested { compact: bool, nullable: bool, walk: usize },
}

/// One field: what it is, the slot of the class it lives in, and a struct's layout (its index in the table).
#[derive(Debug, Clone, Copy)]
pub struct Op {
    pub kind: Kind,
    pub compact: bool,
    pub nullable: bool,
    pub array: bool,
    pub slot: usize,
    pub arg: usize,
    /// Smallest number of bytes that an element of this array takes, at least 1.
    pub item_size: usize,
}

impl Op {
    /// None: of no kind, or of a struct that is none of the layouts.
    fn new(code: u8, slot: usize, arg: usize, layouts: &[Layout]) -> Option<Self> {
        let kind = Kind::of_code(code)?;
        let compact = code & COMPACT != 0;
        let item_size = match kind {
            Kind::Struct => layouts.get(arg)?.min_size.max(1),
            kind => kind.fixed_size().unwrap_or(match kind {
                _ if compact => 1,
                Kind::String => 2,
                _ => 4,
            }),
        };
        Some(Op { kind, compact, nullable: code & NULLABLE != 0, array: code & ARRAY != 0, slot, arg, item_size })
    }

    pub fn wire_type(&self) -> WireType {
        let Op { kind, compact, nullable, array, arg: walk, item_size, .. } = *self;
        let string = kind == Kind::String;
        match (kind, kind.fixed_size(), array) {
            (_, Some(size), false) => WireType::Fixed { size },
            (_, Some(size), true) => WireType::Numbers { size, compact, nullable },
            (Kind::Struct, _, false) => WireType::Nested { compact, nullable, walk },
            (Kind::Struct, _, true) => WireType::List { size: item_size, compact, nullable, walk },
            (_, _, false) => WireType::Blob { string, compact, nullable },
            (_, _, true) => WireType::Blobs { string, size: item_size, compact, nullable },
        }
    }

    /// The op of this array's elements.
    pub fn item(&self) -> Op {
        Op { nullable: false, array: false, ..*self }
    }
}

/// One struct in the versions that share its bytes.
#[derive(Debug)]
pub struct Layout {
    /// Index of the class in the table's structs.
    pub class: usize,
    pub flexible: bool,
    pub min_size: usize,
    /// Bytes in memory of its objects (`kafkawire.wire.layout.struct_cost`).
    pub cost: i64,
    pub ops: Vec<Op>,
    /// Tagged fields that the version knows, ascending by tag.
    pub tags: Vec<(i32, Op)>,
    /// Slots whose non-default values must not be lost silently.
    pub absent: Vec<usize>,
    /// Tags of other versions, which are refused.
    pub foreign_tags: Vec<i32>,
}

type RawLayout = (usize, bool, usize, Vec<(u8, usize, usize)>, Vec<(i32, u8, usize, usize)>, Vec<usize>, Vec<i32>);

/// The layouts of a `kafkawire.wire.layout.Table`; `slots[i]` is the number of slots of class `i`.
///
/// Nested layouts must precede those that use them, as the compiler writes them: so no chain of them is endless.
pub fn layouts_of(table: &Bound<'_, PyAny>, slots: &[usize]) -> PyResult<Vec<Layout>> {
    let raw: Vec<RawLayout> = table.getattr("layouts")?.extract()?;
    let mut layouts: Vec<Layout> = Vec::with_capacity(raw.len());
    let mut depths: Vec<usize> = Vec::with_capacity(raw.len());
    for layout in raw {
        let layout = checked(layout, &layouts, slots).ok_or_else(|| PyValueError::new_err("not a table of layouts"))?;
        let nested = layout.all_ops().filter(|op| op.kind == Kind::Struct).map(|op| depths[op.arg]);
        depths.push(nested.max().unwrap_or(0) + 1);
        layouts.push(layout);
    }
    // The stack of a walk is bounded so.
    if depths.into_iter().any(|depth| depth > MAX_DEPTH) {
        return Err(PyValueError::new_err("structs are nested too deeply"));
    }
    Ok(layouts)
}

impl Layout {
    /// The fields, tagged ones last.
    pub fn all_ops(&self) -> impl Iterator<Item = &Op> {
        self.ops.iter().chain(self.tags.iter().map(|(_, op)| op))
    }
}

/// As `kafkawire.wire.layout.struct_cost` counts it.
fn cost(ops: &[Op], slots: usize) -> i64 {
    let plain = ops.iter().filter(|op| !op.array && !op.nullable && !op.compact);
    let values = plain.map(|op| match op.kind {
        Kind::Bool | Kind::String | Kind::Bytes | Kind::Records | Kind::Struct => 0,
        Kind::Float64 => 24,
        Kind::Uuid => 112,
        _ => 32,
    });
    16 + 8 * slots as i64 + 20 + values.sum::<i64>()
}

fn checked(raw: RawLayout, layouts: &[Layout], slots: &[usize]) -> Option<Layout> {
    let (class, flexible, min_size, ops, tags, absent, foreign_tags) = raw;
    let slots = *slots.get(class)?;
    let op = |code: u8, slot: usize, arg: usize| {
        let op = Op::new(code, slot, arg, layouts)?;
        (slot < slots).then_some(op)
    };
    let ops = ops.into_iter().map(|(code, slot, arg)| op(code, slot, arg)).collect::<Option<Vec<_>>>()?;
    Some(Layout {
        class,
        flexible,
        min_size,
        cost: cost(&ops, slots),
        ops,
        tags: tags
            .into_iter()
            .map(|(tag, code, slot, arg)| Some((tag, op(code, slot, arg)?)))
            .collect::<Option<_>>()?,
        absent: absent.into_iter().map(|slot| (slot < slots).then_some(slot)).collect::<Option<_>>()?,
        foreign_tags,
    })
}
