//! One walk over the bytes of a message, along its layouts. What is made of the values is a `Sink`'s: Python objects
//! (`codec::decode`), JSON text (`json::sink`).
//!
//! - Limits, budget, tags and order are the walk's. A sink may refuse what the walk accepts, never the reverse.
//! - A sink sees values in the order of their bytes; after a refusal it gets none.
//! - Layouts nest at most `MAX_DEPTH` deep (`layout::layouts_of`), which bounds the stack.
//!
//! Columns have a walk of their own (`columns::walk`) with the same limits. As a sink of this one they took 1.2 to 1.5
//! times as long, and 1.6 times for a few fields of many.

use crate::cursor::{Cursor, Refused};
use crate::layout::{Kind, Layout, Op};
use crate::limits::{ALLOCATION_BASE, ALLOCATION_FACTOR, MAX_STRING, MAX_TAGS};

/// What is made of the values of a message, which come in the order of its bytes.
pub trait Sink<'a>: Sized {
    /// A value of a field or an element, a struct or an array among them.
    type Value;
    /// A struct whose fields are being read.
    type Struct;
    /// Why there is no value.
    type Stop: From<Refused>;

    fn layouts(&self) -> &'a [Layout];

    fn begin(&mut self, index: usize) -> Result<Self::Struct, Self::Stop>;
    /// The value of this field comes next.
    fn field(&mut self, made: &mut Self::Struct, layout: &Layout, op: &Op);
    fn put(&mut self, made: &mut Self::Struct, op: &Op, value: Self::Value);
    /// As `put`, of the tagged field `layout.tags[place]`.
    fn put_tagged(&mut self, made: &mut Self::Struct, place: usize, value: Self::Value) -> Result<(), Self::Stop>;
    fn put_unknown(&mut self, made: &mut Self::Struct, tag: i32, data: &[u8]) -> Result<(), Self::Stop>;
    fn end(&mut self, made: Self::Struct) -> Result<Self::Value, Self::Stop>;

    /// An array of `count` values, each read by `item` in its turn.
    fn array(
        walk: &mut Walk<'_, Self>,
        count: usize,
        item: impl FnMut(&mut Walk<'_, Self>) -> Result<Self::Value, Self::Stop>,
    ) -> Result<Self::Value, Self::Stop>;
    fn null(&mut self) -> Self::Value;
    fn boolean(&mut self, value: bool) -> Self::Value;
    fn integer(&mut self, value: i64) -> Result<Self::Value, Self::Stop>;
    fn float(&mut self, value: f64) -> Result<Self::Value, Self::Stop>;
    fn uuid(&mut self, value: [u8; 16]) -> Result<Self::Value, Self::Stop>;
    fn string(&mut self, data: &[u8]) -> Result<Self::Value, Self::Stop>;
    /// Bytes or records, which begin at `start` of the input.
    fn octets(&mut self, kind: Kind, start: usize, data: &[u8]) -> Result<Self::Value, Self::Stop>;
}

/// A message that is being read.
pub struct Walk<'d, S> {
    cursor: Cursor<'d>,
    budget: i64,
    pub sink: S,
}

impl<'d, 'a, S: Sink<'a>> Walk<'d, S> {
    pub fn new(cursor: Cursor<'d>, sink: S) -> Self {
        Walk { budget: ALLOCATION_BASE + ALLOCATION_FACTOR * cursor.left() as i64, cursor, sink }
    }

    pub fn position(&self) -> usize {
        self.cursor.position()
    }

    pub fn left(&self) -> usize {
        self.cursor.left()
    }

    /// The struct of a layout.
    pub fn structure(&mut self, index: usize) -> Result<S::Value, S::Stop> {
        let layout = &self.sink.layouts()[index];
        self.budget -= layout.cost;
        if self.budget < 0 {
            return Err(Refused.into());
        }
        let mut made = self.sink.begin(index)?;
        for op in &layout.ops {
            self.sink.field(&mut made, layout, op);
            let value = if op.kind.is_integer() && !op.array { self.number(op.kind) } else { self.value(op) };
            self.sink.put(&mut made, op, value?);
        }
        if layout.flexible {
            let count = self.cursor.uvarint()?;
            if count != 0 {
                self.tagged(layout, count, &mut made)?;
            }
        }
        self.sink.end(made)
    }

    fn tagged(&mut self, layout: &Layout, count: i32, made: &mut S::Struct) -> Result<(), S::Stop> {
        let count = usize::try_from(count).map_err(|_| Refused)?;
        if count > self.cursor.left().min(MAX_TAGS) {
            return Err(Refused.into());
        }
        for _ in 0..count {
            let tag = self.cursor.uvarint()?;
            let size = self.cursor.uvarint()?;
            if let Some(place) = layout.tags.iter().position(|(known, _)| *known == tag) {
                // Kafka does not look at the size of a field that it knows.
                let op = &layout.tags[place].1;
                self.sink.field(made, layout, op);
                let value = self.value(op)?;
                self.sink.put_tagged(made, place, value)?;
                continue;
            }
            if layout.foreign_tags.contains(&tag) {
                return Err(Refused.into());
            }
            let data = self.cursor.take(usize::try_from(size).map_err(|_| Refused)?)?;
            self.sink.put_unknown(made, tag, data)?;
        }
        Ok(())
    }

    #[inline(always)]
    fn number(&mut self, kind: Kind) -> Result<S::Value, S::Stop> {
        let cursor = &mut self.cursor;
        let number = match kind {
            Kind::Int8 => i64::from(cursor.byte()? as i8),
            Kind::Int16 => i64::from(i16::from_be_bytes(cursor.array()?)),
            Kind::Int32 => i64::from(i32::from_be_bytes(cursor.array()?)),
            Kind::Uint16 => i64::from(u16::from_be_bytes(cursor.array()?)),
            Kind::Uint32 => i64::from(u32::from_be_bytes(cursor.array()?)),
            _ => i64::from_be_bytes(cursor.array()?),
        };
        self.sink.integer(number)
    }

    #[inline]
    fn value(&mut self, op: &Op) -> Result<S::Value, S::Stop> {
        if op.array {
            self.array(op)
        } else {
            self.item(op)
        }
    }

    fn null(&mut self, op: &Op) -> Result<S::Value, S::Stop> {
        if op.nullable {
            Ok(self.sink.null())
        } else {
            Err(Refused.into())
        }
    }

    fn array(&mut self, op: &Op) -> Result<S::Value, S::Stop> {
        let Some(count) = self.cursor.length(op.compact, false)? else {
            return self.null(op);
        };
        if count.saturating_mul(op.item_size) > self.cursor.left() {
            return Err(Refused.into());
        }
        let whole = count as i64 * if op.kind == Kind::Struct { self.sink.layouts()[op.arg].cost } else { 8 };
        if whole > self.budget {
            return Err(Refused.into());
        }
        if op.kind == Kind::Struct {
            return S::array(self, count, |walk| walk.structure(op.arg));
        }
        self.budget -= whole;
        if op.kind.is_integer() {
            return S::array(self, count, |walk| walk.number(op.kind));
        }
        let item = op.item();
        S::array(self, count, |walk| walk.item(&item))
    }

    /// A value that is no array.
    #[inline]
    fn item(&mut self, op: &Op) -> Result<S::Value, S::Stop> {
        let cursor = &mut self.cursor;
        match op.kind {
            Kind::Bool => {
                let value = cursor.byte()? != 0;
                Ok(self.sink.boolean(value))
            }
            Kind::Float64 => {
                let value = f64::from_be_bytes(cursor.array()?);
                self.sink.float(value)
            }
            Kind::Uuid => {
                let value = cursor.array()?;
                self.sink.uuid(value)
            }
            Kind::String => match cursor.length(op.compact, true)? {
                None => self.null(op),
                Some(length) if length > MAX_STRING => Err(Refused.into()),
                Some(length) => {
                    let data = cursor.take(length)?;
                    self.sink.string(data)
                }
            },
            Kind::Bytes | Kind::Records => match cursor.length(op.compact, false)? {
                None => self.null(op),
                Some(length) => {
                    let start = cursor.position();
                    let data = cursor.take(length)?;
                    self.sink.octets(op.kind, start, data)
                }
            },
            Kind::Struct => {
                if op.nullable && !cursor.present(op.compact)? {
                    return self.null(op);
                }
                self.structure(op.arg)
            }
            kind => self.number(kind),
        }
    }
}
