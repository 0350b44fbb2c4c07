//! Bytes -> objects: what `kafkawire.wire.interpreter.Decoder` reads, without its explanations.

use pyo3::prelude::*;
use pyo3::types::PyBool;

use super::objects::{self, Instance, Made, Object, Stop};
use super::Program;
use crate::cursor::Cursor;
use crate::layout::{Kind, Op};

/// Longest string in bytes (`kafkawire.wire.values.MAX_STRING`).
pub const MAX_STRING: usize = 32767;
/// Most tagged fields in one struct (`kafkawire.wire.values.MAX_TAGS`).
pub const MAX_TAGS: usize = 10_000;

/// Bytes that a decode may allocate: `ALLOCATION_BASE` and `ALLOCATION_FACTOR` of `kafkawire.wire.layout`.
const ALLOCATION_BASE: i64 = 64 * 1024;
const ALLOCATION_FACTOR: i64 = 64;

pub struct Decoder<'a, 'py> {
    py: Python<'py>,
    program: &'a Program,
    cursor: Cursor<'a>,
    budget: i64,
    /// The whole input, where bytes and records are to be views of it.
    view: Option<Object<'py>>,
}

impl<'a, 'py> Decoder<'a, 'py> {
    pub fn new(
        py: Python<'py>,
        program: &'a Program,
        data: &'a [u8],
        offset: usize,
        view: Option<Object<'py>>,
    ) -> Self {
        let cursor = Cursor::new(data, offset);
        let budget = ALLOCATION_BASE + ALLOCATION_FACTOR * cursor.left() as i64;
        Decoder { py, program, cursor, budget, view }
    }

    pub fn position(&self) -> usize {
        self.cursor.position()
    }

    /// The struct of a layout.
    pub fn structure(&mut self, index: usize) -> Made<'py> {
        let layout = &self.program.layouts[index];
        let plan = &self.program.plans[index];
        self.budget -= plan.cost;
        if self.budget < 0 {
            return Err(Stop);
        }
        let mut fields = Instance::new(self.py, &self.program.classes[layout.class])?;
        for op in &layout.ops {
            let value = if op.kind.is_integer() && !op.array { self.number(op.kind) } else { self.value(op) };
            fields.set(op.slot, value?);
        }
        if layout.flexible {
            let count = self.cursor.uvarint()?;
            if count != 0 {
                self.tagged(index, count, &mut fields)?;
            }
        }
        for slot in &plan.unread {
            fields.set_default(*slot);
        }
        Ok(fields.finish())
    }

    #[inline(always)]
    fn number(&mut self, kind: Kind) -> Made<'py> {
        let cursor = &mut self.cursor;
        let number = match kind {
            Kind::Int8 => i64::from(cursor.byte()? as i8),
            Kind::Int16 => i64::from(i16::from_be_bytes(cursor.array()?)),
            Kind::Int32 => i64::from(i32::from_be_bytes(cursor.array()?)),
            Kind::Uint16 => i64::from(u16::from_be_bytes(cursor.array()?)),
            Kind::Uint32 => i64::from(u32::from_be_bytes(cursor.array()?)),
            _ => i64::from_be_bytes(cursor.array()?),
        };
        match self.program.shared.small_integer(number) {
            Some(known) => Ok(known.bind(self.py).clone()),
            None => objects::integer(self.py, number),
        }
    }

    fn tagged(&mut self, index: usize, count: i32, fields: &mut Instance<'_, 'py>) -> Result<(), Stop> {
        let layout = &self.program.layouts[index];
        let count = usize::try_from(count).map_err(|_| Stop)?;
        if count > self.cursor.left().min(MAX_TAGS) {
            return Err(Stop);
        }
        let mut unknown: Vec<Object<'py>> = Vec::new();
        for _ in 0..count {
            let number = self.cursor.uvarint()?;
            let size = self.cursor.uvarint()?;
            if let Some((_, op)) = layout.tags.iter().find(|(tag, _)| *tag == number) {
                // Kafka does not look at the size of a field that it knows.
                fields.set(op.slot, self.value(op)?);
                continue;
            }
            if layout.foreign_tags.contains(&number) {
                return Err(Stop);
            }
            let data = self.cursor.take(usize::try_from(size).map_err(|_| Stop)?)?;
            let mut field = Instance::new(self.py, &self.program.shared.tagged_field)?;
            field.set(0, objects::integer(self.py, i64::from(number))?);
            field.set(1, objects::bytes(self.py, data)?);
            unknown.push(field.finish());
        }
        if !unknown.is_empty() {
            let mut items = unknown.into_iter();
            let tuple = objects::tuple(self.py, items.len(), || items.next().ok_or(Stop))?;
            fields.set(self.program.classes[layout.class].slots() - 1, tuple);
        }
        Ok(())
    }

    #[inline]
    fn value(&mut self, op: &Op) -> Made<'py> {
        if op.array {
            self.array(op)
        } else {
            self.item(op)
        }
    }

    fn null(&self, op: &Op) -> Made<'py> {
        if op.nullable {
            Ok(self.py.None().into_bound(self.py))
        } else {
            Err(Stop)
        }
    }

    fn array(&mut self, op: &Op) -> Made<'py> {
        let Some(count) = self.cursor.length(op.compact, false)? else {
            return self.null(op);
        };
        if count > self.cursor.left() / op.item_size(&self.program.layouts) {
            return Err(Stop);
        }
        let whole = count as i64 * if op.kind == Kind::Struct { self.program.plans[op.arg].cost } else { 8 };
        if whole > self.budget {
            return Err(Stop);
        }
        let py = self.py;
        if op.kind == Kind::Struct {
            return objects::tuple(py, count, || self.structure(op.arg));
        }
        self.budget -= whole;
        if op.kind.is_integer() {
            return objects::tuple(py, count, || self.number(op.kind));
        }
        let item = op.item();
        objects::tuple(py, count, || self.item(&item))
    }

    /// A value that is no array.
    #[inline]
    fn item(&mut self, op: &Op) -> Made<'py> {
        let py = self.py;
        let cursor = &mut self.cursor;
        match op.kind {
            Kind::Bool => Ok(PyBool::new(py, cursor.byte()? != 0).to_owned().into_any()),
            Kind::Float64 => objects::float(py, f64::from_be_bytes(cursor.array()?)),
            Kind::Uuid => self.uuid(),
            Kind::String => match cursor.length(op.compact, true)? {
                None => self.null(op),
                Some(length) if length > MAX_STRING => Err(Stop),
                Some(length) => objects::text(py, cursor.take(length)?),
            },
            Kind::Bytes | Kind::Records => match cursor.length(op.compact, false)? {
                None => self.null(op),
                Some(length) => self.octets(length),
            },
            Kind::Struct => {
                if op.nullable && !self.present(op)? {
                    return self.null(op);
                }
                self.structure(op.arg)
            }
            kind => self.number(kind),
        }
    }

    fn octets(&mut self, length: usize) -> Made<'py> {
        let start = self.cursor.position();
        let data = self.cursor.take(length)?;
        let Some(view) = &self.view else {
            return objects::bytes(self.py, data);
        };
        objects::slice(view, start, start + length)
    }

    /// Whether a nullable struct is there: an int8, but inside a tagged field (`compact`) an unsigned varint.
    fn present(&mut self, op: &Op) -> Result<bool, Stop> {
        Ok(if op.compact { self.cursor.uvarint()? > 0 } else { (self.cursor.byte()? as i8) >= 0 })
    }

    fn uuid(&mut self) -> Made<'py> {
        let shared = self.program.shared;
        let bytes = self.cursor.array()?;
        if bytes == [0; 16] {
            return Ok(shared.zero_uuid.bind(self.py).clone());
        }
        let mut uuid = Instance::new(self.py, &shared.uuid)?;
        uuid.set(0, objects::wide_integer(self.py, bytes)?);
        uuid.set_default(1);
        Ok(uuid.finish())
    }
}
