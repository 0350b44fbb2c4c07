//! The sink that writes JSON text: what the objects of `codec::decode` would have been in JSON.

use super::inside::Inside;
use super::scalars;
use super::{Text, TextPlan};
use crate::cursor::{Cursor, Read, Refused};
use crate::layout::{Fixed, Kind, WireType};
use crate::rows::json::{boolean, integer};
use crate::rows::writer::RowWriter;
use crate::walk::{Sink, Walk};

const UNKNOWN_TAGS: &[u8] = b",\"_unknownTaggedFields\":[";

/// Non-zero values of the fields that are counted, and how often each is there.
pub type Counts = Vec<(i16, u32)>;

/// `TEXT`: it writes; otherwise it only counts.
pub struct JsonText<'a, 'r, const TEXT: bool> {
    plan: &'a TextPlan,
    text: Text,
    /// What writes record batches, if they are decoded.
    records: Option<&'r mut RowWriter>,
    pub inside: Inside,
    pub out: Vec<u8>,
    pub counts: Counts,
    /// Name and place in `out` of the fields of structs whose fields must be put in order.
    pieces: Vec<(usize, usize)>,
}

/// A field.
#[derive(Debug)]
pub struct Named {
    pub kind: Kind,
    /// Its number among those of all classes.
    pub name: usize,
    pub counted: bool,
    /// See `inside`.
    pub role: u8,
    /// The JSON of a tagged field's default, at which the field is left out.
    pub default: Vec<u8>,
}

/// A struct whose fields are being written.
pub struct Writing {
    /// Where it begins in `out`, and its fields in `pieces`.
    start: usize,
    mark: usize,
    /// Where its last field begins in `out`, and that field's value.
    field: usize,
    value: usize,
    /// Whether its fields may have to be put in order.
    in_pieces: bool,
    /// Where its values in `inside` begin.
    inside: usize,
    /// JSON of the unknown tagged fields.
    unknown: Vec<u8>,
}

impl<'a, 'r, const TEXT: bool> JsonText<'a, 'r, TEXT> {
    /// `size`: how many bytes the message has.
    pub fn new(plan: &'a TextPlan, size: usize, text: Text, records: Option<&'r mut RowWriter>) -> Self {
        JsonText {
            plan,
            text,
            records,
            inside: Inside::default(),
            out: Vec::with_capacity(if TEXT { 256 + 2 * size } else { 0 }),
            counts: Counts::new(),
            pieces: Vec::new(),
        }
    }

    #[inline(always)]
    fn value(&mut self, kind: Kind, cursor: &mut Cursor<'_>, counted: bool) -> Read<()> {
        match kind.read(cursor)? {
            Fixed::Integer(value) => {
                if counted {
                    self.count(value);
                }
                if TEXT {
                    integer(&mut self.out, value);
                }
            }
            Fixed::Bool(value) if TEXT => boolean(&mut self.out, value),
            Fixed::Float(value) if TEXT => scalars::float(&mut self.out, value)?,
            Fixed::Uuid(value) if TEXT => scalars::uuid(&mut self.out, &value),
            _ => (),
        }
        Ok(())
    }

    /// What stands between the values of an array.
    #[inline(always)]
    fn mark(&mut self, mark: u8) {
        if TEXT {
            self.out.push(mark);
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
                let mut spans: Vec<_> = pieces.iter().zip(ends).map(|(&(name, at), end)| (name, at, end)).collect();
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

impl<const TEXT: bool> Sink for JsonText<'_, '_, TEXT> {
    type Field = Named;
    /// Whether its fields may be on the wire in another order than the schema's.
    type Own = bool;
    type Place = ();
    type Struct = Writing;
    type Value = ();
    type Stop = Refused;

    const BUDGET: bool = true;
    /// Which of two values counts is left to the objects.
    const ASCENDING: bool = true;

    #[inline]
    fn begin(&mut self, in_pieces: &bool) -> Read<Writing> {
        let start = self.out.len();
        Ok(Writing {
            start,
            mark: self.pieces.len(),
            field: start,
            value: start,
            in_pieces: TEXT && *in_pieces,
            inside: self.inside.waiting(),
            unknown: Vec::new(),
        })
    }

    /// `,"name":`
    #[inline]
    fn field(&mut self, made: &mut Writing, field: &Named) {
        if TEXT {
            made.field = self.out.len();
            self.out.extend_from_slice(&self.plan.names[field.name]);
            made.value = self.out.len();
        }
    }

    #[inline]
    fn put(&mut self, made: &mut Writing, field: &Named, (): ()) {
        if TEXT && made.in_pieces {
            self.pieces.push((field.name, made.field));
        }
    }

    fn put_tagged(&mut self, made: &mut Writing, field: &Named, (): ()) {
        if TEXT && self.out[made.value..] == field.default {
            self.out.truncate(made.field);
        } else {
            self.put(made, field, ());
        }
    }

    fn put_unknown(&mut self, made: &mut Writing, _: &bool, (): (), tag: i32, data: &[u8]) -> Read<()> {
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
            scalars::base64(unknown, data);
            unknown.extend_from_slice(b"]]");
        }
        Ok(())
    }

    #[inline]
    fn end(&mut self, made: Writing, _: &bool) -> Read<()> {
        if TEXT {
            self.in_order(made.start, made.mark);
            self.out.extend_from_slice(&made.unknown);
            // Every field begins with a comma; the first one's is where the struct begins.
            match self.out.get_mut(made.start) {
                Some(first) => *first = b'{',
                None => self.out.push(b'{'),
            }
            self.inside.end(made.inside, self.out.len());
            self.out.push(b'}');
        }
        Ok(())
    }

    #[inline(always)]
    fn fixed(&mut self, (): (), field: &Named, _: usize, cursor: &mut Cursor<'_>) -> Read<()> {
        self.value(field.kind, cursor, field.counted)
    }

    #[inline]
    fn numbers(&mut self, (): (), field: &Named, count: usize, data: &[u8]) -> Read<()> {
        let mut cursor = Cursor::new(data, 0);
        self.mark(b'[');
        for index in 0..count {
            if index > 0 {
                self.mark(b',');
            }
            self.value(field.kind, &mut cursor, false)?;
        }
        self.mark(b']');
        Ok(())
    }

    #[inline]
    fn blob(&mut self, (): (), field: &Named, _: Cursor<'_>, data: &[u8]) -> Read<()> {
        match field.kind {
            _ if !TEXT => (),
            Kind::String => scalars::string(&mut self.out, data)?,
            Kind::Records => match (self.text, &mut self.records) {
                (Text::NoPayloads, _) => self.out.extend_from_slice(b"null"),
                (Text::Records, Some(rows)) => rows.list(data, &mut self.out)?,
                _ => scalars::base64(&mut self.out, data),
            },
            _ => scalars::base64(&mut self.out, data),
        }
        if TEXT && field.role != 0 {
            self.inside.take(field.role, field.name, Some(data));
        }
        Ok(())
    }

    #[inline]
    fn list<'w>(
        walk: &mut Walk<'w, Self>,
        (): (),
        _: &Named,
        count: usize,
        mut item: impl FnMut(&mut Walk<'w, Self>, ()) -> Read<()>,
    ) -> Read<()> {
        walk.sink.mark(b'[');
        for index in 0..count {
            if index > 0 {
                walk.sink.mark(b',');
            }
            item(walk, ())?;
        }
        walk.sink.mark(b']');
        Ok(())
    }

    fn null(&mut self, (): (), field: &Named, _: WireType) {
        if TEXT {
            self.out.extend_from_slice(b"null");
            if field.role != 0 {
                self.inside.take(field.role, field.name, None);
            }
        }
    }
}
