//! Bytes -> objects: what `kafkawire.wire.interpreter.Decoder` reads, without its explanations.

use pyo3::prelude::*;
use pyo3::types::PyBool;

use super::objects::{self, Instance, Made, Object, Stop};
use super::Program;
use crate::layout::{Kind, Layout, Op};
use crate::walk::{Sink, Walk};

/// The sink that makes Python objects.
pub struct Objects<'a, 'py> {
    pub py: Python<'py>,
    pub program: &'a Program,
    /// The whole input, where bytes and records are to be views of it.
    pub view: Option<Object<'py>>,
}

/// An instance, and the unknown tagged fields that it gets at the end.
pub struct Making<'a, 'py> {
    index: usize,
    fields: Instance<'a, 'py>,
    unknown: Vec<Object<'py>>,
}

impl<'a, 'py> Sink<'a> for Objects<'a, 'py> {
    type Value = Object<'py>;
    type Struct = Making<'a, 'py>;
    type Stop = Stop;

    #[inline]
    fn layouts(&self) -> &'a [Layout] {
        &self.program.layouts
    }

    #[inline]
    fn begin(&mut self, index: usize) -> Result<Making<'a, 'py>, Stop> {
        let class = self.program.layouts[index].class;
        Ok(Making { index, fields: Instance::new(self.py, &self.program.classes[class])?, unknown: Vec::new() })
    }

    #[inline]
    fn field(&mut self, _: &mut Making<'a, 'py>, _: &Layout, _: &Op) {}

    #[inline]
    fn put(&mut self, made: &mut Making<'a, 'py>, op: &Op, value: Object<'py>) {
        made.fields.set(op.slot, value);
    }

    fn put_tagged(&mut self, made: &mut Making<'a, 'py>, place: usize, value: Object<'py>) -> Result<(), Stop> {
        made.fields.set(self.program.layouts[made.index].tags[place].1.slot, value);
        Ok(())
    }

    fn put_unknown(&mut self, made: &mut Making<'a, 'py>, tag: i32, data: &[u8]) -> Result<(), Stop> {
        let mut field = Instance::new(self.py, &self.program.shared.tagged_field)?;
        field.set(0, objects::integer(self.py, i64::from(tag))?);
        field.set(1, objects::bytes(self.py, data)?);
        made.unknown.push(field.finish());
        Ok(())
    }

    #[inline]
    fn end(&mut self, made: Making<'a, 'py>) -> Made<'py> {
        let Making { index, mut fields, unknown } = made;
        if !unknown.is_empty() {
            let class = &self.program.classes[self.program.layouts[index].class];
            let mut items = unknown.into_iter();
            let tuple = objects::tuple(self.py, items.len(), || items.next().ok_or(Stop))?;
            fields.set(class.slots() - 1, tuple);
        }
        for slot in &self.program.plans[index].unread {
            fields.set_default(*slot);
        }
        Ok(fields.finish())
    }

    #[inline]
    fn array(
        walk: &mut Walk<'_, Self>,
        count: usize,
        mut item: impl FnMut(&mut Walk<'_, Self>) -> Made<'py>,
    ) -> Made<'py> {
        let py = walk.sink.py;
        objects::tuple(py, count, || item(walk))
    }

    #[inline]
    fn null(&mut self) -> Object<'py> {
        self.py.None().into_bound(self.py)
    }

    #[inline]
    fn boolean(&mut self, value: bool) -> Object<'py> {
        PyBool::new(self.py, value).to_owned().into_any()
    }

    #[inline(always)]
    fn integer(&mut self, value: i64) -> Made<'py> {
        match self.program.shared.small_integer(value) {
            Some(known) => Ok(known.bind(self.py).clone()),
            None => objects::integer(self.py, value),
        }
    }

    #[inline]
    fn float(&mut self, value: f64) -> Made<'py> {
        objects::float(self.py, value)
    }

    fn uuid(&mut self, value: [u8; 16]) -> Made<'py> {
        let shared = self.program.shared;
        if value == [0; 16] {
            return Ok(shared.zero_uuid.bind(self.py).clone());
        }
        let mut uuid = Instance::new(self.py, &shared.uuid)?;
        uuid.set(0, objects::wide_integer(self.py, value)?);
        uuid.set_default(1);
        Ok(uuid.finish())
    }

    #[inline]
    fn string(&mut self, data: &[u8]) -> Made<'py> {
        objects::text(self.py, data)
    }

    #[inline]
    fn octets(&mut self, _: Kind, start: usize, data: &[u8]) -> Made<'py> {
        match &self.view {
            None => objects::bytes(self.py, data),
            Some(view) => objects::slice(view, start, start + data.len()),
        }
    }
}
