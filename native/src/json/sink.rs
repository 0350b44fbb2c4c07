//! The sink that writes JSON text: what the objects of `codec::decode` would have been in JSON.

use super::text;
use super::Plan;
use crate::cursor::{Read, Refused};
use crate::layout::{Kind, Layout, Op};
use crate::rows::json::{boolean, integer};
use crate::walk::{Sink, Walk};

const UNKNOWN_TAGS: &[u8] = b",\"_unknownTaggedFields\":[";

/// Non-zero values of the fields that are counted, and how often each is there.
pub type Counts = Vec<(i16, u32)>;

/// `TEXT`: it writes; otherwise it only counts.
pub struct JsonText<'a, const TEXT: bool> {
    plan: &'a Plan,
    /// Whether record batches are shown; they are null where not.
    payloads: bool,
    /// Whether the integer that comes next is counted.
    counted: bool,
    pub out: Vec<u8>,
    pub counts: Counts,
    /// Slot and place in `out` of the fields of structs whose fields must be put in order.
    pieces: Vec<(usize, usize)>,
}

/// A struct whose fields are being written.
pub struct Writing {
    index: usize,
    /// Where it begins in `out`, and its fields in `pieces`.
    start: usize,
    mark: usize,
    /// Where its last field begins in `out`, and that field's value.
    field: usize,
    value: usize,
    /// Whether its fields may have to be put in order.
    in_pieces: bool,
    /// The tagged fields that were there: bits of their places.
    seen: u64,
    /// JSON of the unknown tagged fields.
    unknown: Vec<u8>,
}

impl<'a, const TEXT: bool> JsonText<'a, TEXT> {
    /// `size`: how many bytes the message has.
    pub fn new(plan: &'a Plan, size: usize, payloads: bool) -> Self {
        JsonText {
            plan,
            payloads,
            counted: false,
            out: Vec::with_capacity(if TEXT { 256 + 2 * size } else { 0 }),
            counts: Counts::new(),
            pieces: Vec::new(),
        }
    }

    /// Adds an int16 other than 0 to the counts.
    fn count(&mut self, value: i64) {
        let Some(value) = i16::try_from(value).ok().filter(|value| *value != 0) else { return };
        match self.counts.iter_mut().find(|(known, _)| *known == value) {
            Some((_, count)) => *count += 1,
            None => self.counts.push((value, 1)),
        }
    }

    /// Puts the fields of a struct, which are in `out` from `start` on, in the order of the schema.
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
}

impl<'a, const TEXT: bool> Sink<'a> for JsonText<'a, TEXT> {
    type Value = ();
    type Struct = Writing;
    type Stop = Refused;

    #[inline]
    fn layouts(&self) -> &'a [Layout] {
        &self.plan.layouts
    }

    #[inline]
    fn begin(&mut self, index: usize) -> Read<Writing> {
        let start = self.out.len();
        Ok(Writing {
            index,
            start,
            mark: self.pieces.len(),
            field: start,
            value: start,
            in_pieces: TEXT && self.plan.shapes[index].in_pieces,
            seen: 0,
            unknown: Vec::new(),
        })
    }

    /// `,"name":`
    #[inline]
    fn field(&mut self, made: &mut Writing, layout: &Layout, op: &Op) {
        let field = &self.plan.fields[layout.class][op.slot];
        self.counted = field.counted;
        if TEXT {
            made.field = self.out.len();
            self.out.extend_from_slice(&field.name);
            made.value = self.out.len();
        }
    }

    #[inline]
    fn put(&mut self, made: &mut Writing, op: &Op, (): ()) {
        if TEXT && made.in_pieces {
            self.pieces.push((op.slot, made.field));
        }
    }

    /// Refused: a field that comes twice. The last one counts, which is left to the objects.
    fn put_tagged(&mut self, made: &mut Writing, place: usize, (): ()) -> Read<()> {
        let bit = 1u64.checked_shl(place as u32).ok_or(Refused)?;
        if made.seen & bit != 0 {
            return Err(Refused);
        }
        made.seen |= bit;
        if TEXT {
            let plan = self.plan;
            if self.out[made.value..] == plan.shapes[made.index].defaults[place] {
                self.out.truncate(made.field);
            } else {
                self.pieces.push((plan.layouts[made.index].tags[place].1.slot, made.field));
            }
        }
        Ok(())
    }

    fn put_unknown(&mut self, made: &mut Writing, tag: i32, data: &[u8]) -> Read<()> {
        if TEXT {
            let unknown = &mut made.unknown;
            if unknown.is_empty() {
                unknown.extend_from_slice(UNKNOWN_TAGS);
            } else {
                unknown.pop();
                unknown.push(b',');
            }
            unknown.push(b'[');
            integer(unknown, tag);
            unknown.push(b',');
            text::base64(unknown, data);
            unknown.extend_from_slice(b"]]");
        }
        Ok(())
    }

    #[inline]
    fn end(&mut self, made: Writing) -> Read<()> {
        if TEXT {
            self.in_order(made.start, made.mark);
            self.out.extend_from_slice(&made.unknown);
            // Every field begins with a comma; the first one's is where the struct begins.
            match self.out.get_mut(made.start) {
                Some(first) => *first = b'{',
                None => self.out.push(b'{'),
            }
            self.out.push(b'}');
        }
        Ok(())
    }

    fn array(
        walk: &mut Walk<'_, Self>,
        count: usize,
        mut item: impl FnMut(&mut Walk<'_, Self>) -> Read<()>,
    ) -> Read<()> {
        if TEXT {
            walk.sink.out.push(b'[');
        }
        for index in 0..count {
            if TEXT && index > 0 {
                walk.sink.out.push(b',');
            }
            item(walk)?;
        }
        if TEXT {
            walk.sink.out.push(b']');
        }
        Ok(())
    }

    fn null(&mut self) {
        if TEXT {
            self.out.extend_from_slice(b"null");
        }
    }

    #[inline]
    fn boolean(&mut self, value: bool) {
        if TEXT {
            boolean(&mut self.out, value);
        }
    }

    #[inline]
    fn integer(&mut self, value: i64) -> Read<()> {
        if self.counted {
            self.count(value);
        }
        if TEXT {
            integer(&mut self.out, value);
        }
        Ok(())
    }

    fn float(&mut self, value: f64) -> Read<()> {
        if TEXT {
            text::float(&mut self.out, value)?;
        }
        Ok(())
    }

    fn uuid(&mut self, value: [u8; 16]) -> Read<()> {
        if TEXT {
            text::uuid(&mut self.out, &value);
        }
        Ok(())
    }

    #[inline]
    fn string(&mut self, data: &[u8]) -> Read<()> {
        if TEXT {
            text::string(&mut self.out, data)?;
        }
        Ok(())
    }

    fn octets(&mut self, kind: Kind, _: usize, data: &[u8]) -> Read<()> {
        if TEXT && kind == Kind::Records && !self.payloads {
            self.out.extend_from_slice(b"null");
        } else if TEXT {
            text::base64(&mut self.out, data);
        }
        Ok(())
    }
}
