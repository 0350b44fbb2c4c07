//! Bytes -> objects: what `kafkawire.wire.interpreter.Decoder` reads, without its explanations.

use pyo3::prelude::*;
use pyo3::types::PyBool;

use super::objects::{self, Instance, Made, Object, Stop};
use super::Program;
use crate::cursor::Cursor;
use crate::layout::{Fixed, Kind, WireType};
use crate::walk::{Sink, Walk};

/// The sink that makes Python objects.
pub struct Objects<'a, 'py> {
    pub py: Python<'py>,
    pub program: &'a Program,
    /// The whole input, where bytes and records are to be views of it.
    pub view: Option<Object<'py>>,
}

/// What a field is, and the slot it lives in.
#[derive(Debug)]
pub struct Slot {
    pub kind: Kind,
    pub slot: usize,
}

/// The class of a struct, and the slots that its ops do not fill.
#[derive(Debug)]
pub struct StructSlots {
    pub class: usize,
    pub unread: Vec<usize>,
}

/// An instance, and the unknown tagged fields that it gets at the end.
pub struct Making<'a, 'py> {
    fields: Instance<'a, 'py>,
    unknown: Vec<Object<'py>>,
}

impl<'py> Objects<'_, 'py> {
    #[inline(always)]
    fn value(&self, kind: Kind, cursor: &mut Cursor<'_>) -> Made<'py> {
        match kind.read(cursor)? {
            Fixed::Bool(value) => Ok(PyBool::new(self.py, value).to_owned().into_any()),
            Fixed::Integer(value) => match self.program.shared.small_integer(value) {
                Some(known) => Ok(known.bind(self.py).clone()),
                None => objects::integer(self.py, value),
            },
            Fixed::Float(value) => objects::float(self.py, value),
            Fixed::Uuid(value) => self.uuid(value),
        }
    }

    fn uuid(&self, value: [u8; 16]) -> Made<'py> {
        let shared = self.program.shared;
        if value == [0; 16] {
            return Ok(shared.zero_uuid.bind(self.py).clone());
        }
        let mut uuid = Instance::new(self.py, &shared.uuid)?;
        uuid.set(0, objects::wide_integer(self.py, value)?);
        uuid.set_default(1);
        Ok(uuid.finish())
    }
}

impl<'a, 'py> Sink for Objects<'a, 'py> {
    type Field = Slot;
    type Own = StructSlots;
    type Place = ();
    type Struct = Making<'a, 'py>;
    type Value = Object<'py>;
    type Stop = Stop;

    const BUDGET: bool = true;
    const ASCENDING: bool = false;

    #[inline]
    fn begin(&mut self, own: &StructSlots) -> Result<Making<'a, 'py>, Stop> {
        Ok(Making { fields: Instance::new(self.py, &self.program.classes[own.class])?, unknown: Vec::new() })
    }

    #[inline]
    fn put(&mut self, made: &mut Making<'a, 'py>, field: &Slot, value: Object<'py>) {
        made.fields.set(field.slot, value);
    }

    fn put_unknown(
        &mut self,
        made: &mut Making<'a, 'py>,
        _: &StructSlots,
        (): (),
        tag: i32,
        data: &[u8],
    ) -> Result<(), Stop> {
        let mut field = Instance::new(self.py, &self.program.shared.tagged_field)?;
        field.set(0, objects::integer(self.py, i64::from(tag))?);
        field.set(1, objects::bytes(self.py, data)?);
        made.unknown.push(field.finish());
        Ok(())
    }

    #[inline]
    fn end(&mut self, made: Making<'a, 'py>, own: &StructSlots) -> Made<'py> {
        let Making { mut fields, unknown } = made;
        if !unknown.is_empty() {
            let mut items = unknown.into_iter();
            let tuple = objects::tuple(self.py, items.len(), || items.next().ok_or(Stop))?;
            fields.set(self.program.classes[own.class].slots() - 1, tuple);
        }
        for slot in &own.unread {
            fields.set_default(*slot);
        }
        Ok(fields.finish())
    }

    #[inline(always)]
    fn fixed(&mut self, (): (), field: &Slot, _: usize, cursor: &mut Cursor<'_>) -> Made<'py> {
        self.value(field.kind, cursor)
    }

    #[inline]
    fn numbers(&mut self, (): (), field: &Slot, count: usize, data: &[u8]) -> Made<'py> {
        let mut cursor = Cursor::new(data, 0);
        objects::tuple(self.py, count, || self.value(field.kind, &mut cursor))
    }

    #[inline]
    fn blob(&mut self, (): (), field: &Slot, start: Cursor<'_>, data: &[u8]) -> Made<'py> {
        match &self.view {
            _ if field.kind == Kind::String => objects::text(self.py, data),
            None => objects::bytes(self.py, data),
            Some(view) => objects::slice(view, start.position(), start.position() + data.len()),
        }
    }

    #[inline]
    fn list<'w>(
        walk: &mut Walk<'w, Self>,
        (): (),
        _: &Slot,
        count: usize,
        mut item: impl FnMut(&mut Walk<'w, Self>, ()) -> Made<'py>,
    ) -> Made<'py> {
        let py = walk.sink.py;
        objects::tuple(py, count, || item(walk, ()))
    }

    #[inline]
    fn null(&mut self, (): (), _: &Slot, _: WireType) -> Object<'py> {
        self.py.None().into_bound(self.py)
    }
}
