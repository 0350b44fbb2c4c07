//! The bytes of a message -> its JSON form, in one walk along the layout. It reads what `codec::decode` reads, with the
//! same limits, so that what is written here is what the objects would have been.

use super::text;
use super::Plan;
use crate::cursor::{Cursor, Read, Refused};
use crate::layout::{Kind, Op};
use crate::rows::json::{boolean, integer};

/// As `codec::decode` has them.
const MAX_STRING: usize = 32767;
const MAX_TAGS: usize = 10_000;
const ALLOCATION_BASE: i64 = 64 * 1024;
const ALLOCATION_FACTOR: i64 = 64;

const UNKNOWN_TAGS: &[u8] = b",\"_unknownTaggedFields\":[";

/// Non-zero values of the fields that are counted, and how often each is there.
pub type Counts = Vec<(i16, u32)>;

/// What a walk does. `TEXT`: it writes; otherwise it only reads, and counts.
pub struct Walk<'a, const TEXT: bool> {
    plan: &'a Plan,
    cursor: Cursor<'a>,
    budget: i64,
    /// Whether record batches are shown; they are null where not.
    payloads: bool,
    pub out: Vec<u8>,
    pub counts: Counts,
    /// Slot and place in `out` of the fields of structs whose fields must be put in order.
    pieces: Vec<(usize, usize)>,
}

impl<'a, const TEXT: bool> Walk<'a, TEXT> {
    pub fn new(plan: &'a Plan, cursor: Cursor<'a>, payloads: bool) -> Self {
        let left = cursor.left();
        Walk {
            plan,
            cursor,
            budget: ALLOCATION_BASE + ALLOCATION_FACTOR * left as i64,
            payloads,
            out: Vec::with_capacity(if TEXT { 256 + 2 * left } else { 0 }),
            counts: Counts::new(),
            pieces: Vec::new(),
        }
    }

    /// The message of a layout, which must end where the data ends.
    pub fn whole(&mut self, root: usize) -> Read<()> {
        self.structure(root)?;
        if self.cursor.left() == 0 {
            Ok(())
        } else {
            Err(Refused)
        }
    }

    fn structure(&mut self, index: usize) -> Read<()> {
        let plan = self.plan;
        let layout = &plan.layouts[index];
        let shape = &plan.shapes[index];
        self.budget -= shape.cost;
        if self.budget < 0 {
            return Err(Refused);
        }
        let (start, mark) = (self.out.len(), self.pieces.len());
        for op in &layout.ops {
            if TEXT && shape.in_pieces {
                self.pieces.push((op.slot, self.out.len()));
            }
            self.field(op, layout.class)?;
        }
        let mut unknown = Vec::new();
        if layout.flexible {
            let count = self.cursor.uvarint()?;
            if count != 0 {
                self.tagged(index, count, mark, &mut unknown)?;
            }
        }
        if TEXT {
            self.in_order(start, mark);
            self.out.extend_from_slice(&unknown);
            // Every field begins with a comma; the first one's is where the struct begins.
            match self.out.get_mut(start) {
                Some(first) => *first = b'{',
                None => self.out.push(b'{'),
            }
            self.out.push(b'}');
        }
        Ok(())
    }

    /// `,"name":value`
    #[inline]
    fn field(&mut self, op: &Op, class: usize) -> Read<()> {
        let field = &self.plan.fields[class][op.slot];
        if TEXT {
            self.out.extend_from_slice(&field.name);
        }
        if field.counted {
            return self.counted();
        }
        if op.array {
            self.array(op)
        } else {
            self.item(op)
        }
    }

    /// An int16 whose values other than 0 are counted.
    fn counted(&mut self) -> Read<()> {
        let value = i16::from_be_bytes(self.cursor.array()?);
        if value != 0 {
            match self.counts.iter_mut().find(|(known, _)| *known == value) {
                Some((_, count)) => *count += 1,
                None => self.counts.push((value, 1)),
            }
        }
        if TEXT {
            integer(&mut self.out, value);
        }
        Ok(())
    }

    fn tagged(&mut self, index: usize, count: i32, mark: usize, unknown: &mut Vec<u8>) -> Read<()> {
        let plan = self.plan;
        let layout = &plan.layouts[index];
        let count = usize::try_from(count).map_err(|_| Refused)?;
        if count > self.cursor.left().min(MAX_TAGS) {
            return Err(Refused);
        }
        let mut seen: u64 = 0;
        for _ in 0..count {
            let number = self.cursor.uvarint()?;
            let size = self.cursor.uvarint()?;
            if let Some(place) = layout.tags.iter().position(|(tag, _)| *tag == number) {
                // Of a field that comes twice the last one counts, which is left to the objects.
                let bit = 1u64.checked_shl(place as u32).ok_or(Refused)?;
                if seen & bit != 0 {
                    return Err(Refused);
                }
                seen |= bit;
                let op = &layout.tags[place].1;
                let at = self.out.len();
                self.field(op, layout.class)?;
                if TEXT {
                    let value = at + plan.fields[layout.class][op.slot].name.len();
                    if self.out[value..] == plan.shapes[index].defaults[place] {
                        self.out.truncate(at);
                    } else {
                        debug_assert!(self.pieces.len() >= mark);
                        self.pieces.push((op.slot, at));
                    }
                }
                continue;
            }
            if layout.foreign_tags.contains(&number) {
                return Err(Refused);
            }
            let data = self.cursor.take(usize::try_from(size).map_err(|_| Refused)?)?;
            if TEXT {
                if unknown.is_empty() {
                    unknown.extend_from_slice(UNKNOWN_TAGS);
                } else {
                    unknown.pop();
                    unknown.push(b',');
                }
                unknown.push(b'[');
                integer(unknown, number);
                unknown.push(b',');
                text::base64(unknown, data);
                unknown.extend_from_slice(b"]]");
            }
        }
        Ok(())
    }

    /// Puts the fields of a struct, as they stand in `out` from `start` on, in the order of the schema.
    fn in_order(&mut self, start: usize, mark: usize) {
        if self.pieces.len() > mark {
            let pieces = &self.pieces[mark..];
            if !pieces.is_sorted() {
                let ends = pieces.iter().skip(1).map(|&(_, at)| at).chain([self.out.len()]);
                let mut spans: Vec<_> = pieces.iter().zip(ends).map(|(&(slot, at), end)| (slot, at, end)).collect();
                spans.sort_unstable();
                let mut ordered = Vec::with_capacity(self.out.len() - start);
                for (_, at, end) in spans {
                    ordered.extend_from_slice(&self.out[at..end]);
                }
                self.out.truncate(start);
                self.out.extend_from_slice(&ordered);
            }
            self.pieces.truncate(mark);
        }
    }

    fn null(&mut self, op: &Op) -> Read<()> {
        if !op.nullable {
            return Err(Refused);
        }
        if TEXT {
            self.out.extend_from_slice(b"null");
        }
        Ok(())
    }

    fn array(&mut self, op: &Op) -> Read<()> {
        let Some(count) = self.cursor.length(op.compact, false)? else {
            return self.null(op);
        };
        if count > self.cursor.left() / op.item_size(&self.plan.layouts) {
            return Err(Refused);
        }
        let structs = op.kind == Kind::Struct;
        let whole = count as i64 * if structs { self.plan.shapes[op.arg].cost } else { 8 };
        if whole > self.budget {
            return Err(Refused);
        }
        if !structs {
            self.budget -= whole;
        }
        let item = op.item();
        if TEXT {
            self.out.push(b'[');
        }
        for index in 0..count {
            if TEXT && index > 0 {
                self.out.push(b',');
            }
            if structs {
                self.structure(op.arg)?;
            } else {
                self.item(&item)?;
            }
        }
        if TEXT {
            self.out.push(b']');
        }
        Ok(())
    }

    #[inline]
    fn number<N: itoa::Integer>(&mut self, value: N) {
        if TEXT {
            integer(&mut self.out, value);
        }
    }

    /// A value that is no array.
    #[inline]
    fn item(&mut self, op: &Op) -> Read<()> {
        match op.kind {
            Kind::Bool => {
                let value = self.cursor.byte()? != 0;
                if TEXT {
                    boolean(&mut self.out, value);
                }
            }
            Kind::Int8 => {
                let value = self.cursor.byte()? as i8;
                self.number(value);
            }
            Kind::Int16 => {
                let value = i16::from_be_bytes(self.cursor.array()?);
                self.number(value);
            }
            Kind::Int32 => {
                let value = i32::from_be_bytes(self.cursor.array()?);
                self.number(value);
            }
            Kind::Int64 => {
                let value = i64::from_be_bytes(self.cursor.array()?);
                self.number(value);
            }
            Kind::Uint16 => {
                let value = u16::from_be_bytes(self.cursor.array()?);
                self.number(value);
            }
            Kind::Uint32 => {
                let value = u32::from_be_bytes(self.cursor.array()?);
                self.number(value);
            }
            Kind::Float64 => {
                let value = f64::from_be_bytes(self.cursor.array()?);
                if TEXT {
                    text::float(&mut self.out, value)?;
                }
            }
            Kind::Uuid => {
                let value = self.cursor.array()?;
                if TEXT {
                    text::uuid(&mut self.out, &value);
                }
            }
            Kind::String => match self.cursor.length(op.compact, true)? {
                None => self.null(op)?,
                Some(length) if length > MAX_STRING => return Err(Refused),
                Some(length) => {
                    let value = self.cursor.take(length)?;
                    if TEXT {
                        text::string(&mut self.out, value)?;
                    }
                }
            },
            Kind::Bytes | Kind::Records => match self.cursor.length(op.compact, false)? {
                None => self.null(op)?,
                Some(length) => {
                    let value = self.cursor.take(length)?;
                    if TEXT && op.kind == Kind::Records && !self.payloads {
                        self.out.extend_from_slice(b"null");
                    } else if TEXT {
                        text::base64(&mut self.out, value);
                    }
                }
            },
            Kind::Struct => {
                if op.nullable && !self.present(op)? {
                    return self.null(op);
                }
                self.structure(op.arg)?;
            }
        }
        Ok(())
    }

    /// Whether a nullable struct is there: an int8, but inside a tagged field (`compact`) an unsigned varint.
    fn present(&mut self, op: &Op) -> Read<bool> {
        Ok(if op.compact { self.cursor.uvarint()? > 0 } else { (self.cursor.byte()? as i8) >= 0 })
    }
}
