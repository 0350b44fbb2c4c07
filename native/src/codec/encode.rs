//! Objects -> bytes: what `kafkawire.wire.interpreter.Encoder` writes, in one pass.

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBool, PyByteArray, PyBytes, PyFloat, PyInt, PyList, PyMemoryView, PyString, PyTuple};

use super::objects::{self, Class, Fields, Made, Object, Output, Small, Stop};
use super::Program;
use crate::layout::{Kind, Layout, Op};
use crate::limits::{MAX_STRING, MAX_TAGS};

pub type Written = Result<(), Stop>;

/// Highest number that an int of the format holds; one length and one tag are kept free.
const MAX_INT: usize = i32::MAX as usize;

pub struct Encoder<'a, 'py> {
    py: Python<'py>,
    program: &'a Program,
    out: Output<'a, 'py>,
}

impl<'a, 'py> Encoder<'a, 'py> {
    pub fn new(py: Python<'py>, program: &'a Program, small: &'a mut Small) -> Self {
        Encoder { py, program, out: Output::new(py, small) }
    }

    pub fn written(&self) -> &[u8] {
        self.out.written()
    }

    pub fn finish(self) -> Made<'py> {
        self.out.finish()
    }

    /// Makes room for the octets of a struct, which may be most of it: so they are copied once.
    pub fn reserve(&mut self, index: usize, value: &Object<'py>) -> Written {
        match self.octets_of(index, value) {
            0 => Ok(()),
            size => self.out.reserve(size.saturating_add(size_of::<Small>())),
        }
    }

    /// How many bytes the octets of a struct are, as far as they are seen easily.
    fn octets_of(&self, index: usize, value: &Object<'py>) -> usize {
        let layout = &self.program.layouts[index];
        let Some(fields) = self.program.classes[layout.class].fields(value) else { return 0 };
        let mut sum = 0_usize;
        for op in &self.program.octets[index] {
            let Some(value) = fields.get(op.slot) else { continue };
            sum = sum.saturating_add(match (op.kind, value.cast::<PyTuple>()) {
                (Kind::Struct, Ok(values)) => {
                    values.iter_borrowed().fold(0, |sum, value| sum.saturating_add(self.octets_of(op.arg, &value)))
                }
                (Kind::Struct, Err(_)) => self.octets_of(op.arg, &value),
                _ => value.cast::<PyBytes>().map_or(0, |data| data.as_bytes().len()),
            });
        }
        sum
    }

    pub fn structure(&mut self, index: usize, value: &Object<'py>) -> Written {
        let layout = &self.program.layouts[index];
        let class = &self.program.classes[layout.class];
        let fields = class.fields(value).ok_or(Stop)?;
        for slot in &layout.absent {
            if !self.is_default(class, fields, *slot)? {
                return Err(Stop);
            }
        }
        for op in &layout.ops {
            self.field(op, fields)?;
        }
        if layout.flexible {
            self.tagged(layout, class, fields)
        } else if fields.holds_default(class.slots() - 1) {
            Ok(())
        } else {
            let unknown = field(fields, class.slots() - 1)?;
            unknown.cast::<PyTuple>().ok().filter(|unknown| unknown.is_empty()).map(drop).ok_or(Stop)
        }
    }

    /// A field that is no tagged one.
    #[inline]
    fn field(&mut self, op: &Op, fields: Fields<'_, 'py>) -> Written {
        if !op.array && op.kind.is_integer() {
            if let Some(number) = fields.integer(op.slot) {
                return self.number(op.kind, number);
            }
        }
        self.value(op, &field(fields, op.slot)?)
    }

    /// Whether a field holds its default.
    #[inline]
    fn is_default(&self, class: &Class, fields: Fields<'_, 'py>, slot: usize) -> Result<bool, Stop> {
        if fields.holds_default(slot) {
            return Ok(true);
        }
        let differs = field(fields, slot)?.ne(class.defaults[slot].bind(self.py));
        differs.map(|differs| !differs).map_err(|error| objects::refuse_or_raise(self.py, error))
    }

    #[inline]
    fn tagged(&mut self, layout: &Layout, class: &Class, fields: Fields<'_, 'py>) -> Written {
        if layout.tags.is_empty() && fields.holds_default(class.slots() - 1) {
            return self.out.push(0);
        }
        self.some_tagged(layout, class, fields)
    }

    fn some_tagged(&mut self, layout: &Layout, class: &Class, fields: Fields<'_, 'py>) -> Written {
        let unknown = field(fields, class.slots() - 1)?;
        let unknown = items(&unknown)?;
        let mut known = Vec::with_capacity(layout.tags.len());
        for (tag, op) in &layout.tags {
            if !self.is_default(class, fields, op.slot)? {
                known.push((*tag, op, field(fields, op.slot)?));
            }
        }
        let count = known.len() + unknown.len();
        if count > MAX_TAGS {
            return Err(Stop);
        }
        self.uvarint(count)?;
        for (tag, op, field) in &known {
            self.uvarint(*tag as usize)?;
            self.sized(|encoder| encoder.value(op, field))?;
        }
        // The tags of a schema count from 0 without gaps, so the unknown ones come after them.
        let mut last = -1;
        for field in unknown.iter() {
            last = self.unknown(layout, &field, last)?;
        }
        Ok(())
    }

    /// Writes an unknown tagged field after the tag `last`, and returns its own.
    fn unknown(&mut self, layout: &Layout, value: &Object<'py>, last: i64) -> Result<i64, Stop> {
        let fields = self.program.shared.tagged_field.fields(value).ok_or(Stop)?;
        let tag = field(fields, 0)?;
        let tag = tag.cast::<PyInt>().map_err(|_| Stop)?;
        let tag: i64 = tag.extract().map_err(|error| objects::refuse_or_raise(self.py, error))?;
        let known = layout.tags.iter().any(|(known, _)| i64::from(*known) == tag);
        let foreign = layout.foreign_tags.iter().any(|foreign| i64::from(*foreign) == tag);
        if tag <= last || tag >= MAX_INT as i64 || known || foreign {
            return Err(Stop);
        }
        self.uvarint(tag as usize)?;
        self.octets(&field(fields, 1)?, |encoder, length| encoder.uvarint(length))?;
        Ok(tag)
    }

    /// Writes the size of what `write` writes before it: one byte is kept for it, which is enough below 128.
    fn sized(&mut self, write: impl FnOnce(&mut Self) -> Written) -> Written {
        let at = self.written().len();
        self.out.push(0)?;
        write(self)?;
        let size = self.written().len() - at - 1;
        if size < 128 {
            self.out.written_mut()[at] = size as u8;
            return Ok(());
        }
        if size > MAX_INT {
            return Err(Stop);
        }
        let end = self.written().len();
        self.uvarint(size)?;
        let width = self.written().len() - end;
        let sized = &mut self.out.written_mut()[at..];
        sized.rotate_right(width);
        // The byte that was kept is after the size now.
        sized.copy_within(width + 1.., width);
        self.out.cut(1);
        Ok(())
    }

    #[inline]
    fn uvarint(&mut self, mut number: usize) -> Written {
        while number > 127 {
            self.out.push((number & 127 | 128) as u8)?;
            number >>= 7;
        }
        self.out.push(number as u8)
    }

    fn length(&mut self, op: &Op, length: usize) -> Written {
        if op.compact {
            if length >= MAX_INT {
                return Err(Stop);
            }
            self.uvarint(length + 1)
        } else {
            self.out.put(i32::try_from(length).map_err(|_| Stop)?.to_be_bytes())
        }
    }

    #[inline]
    fn value(&mut self, op: &Op, value: &Object<'py>) -> Written {
        if value.is_none() {
            self.null(op)
        } else if op.array {
            self.array(op, value)
        } else {
            self.item(op, value)
        }
    }

    fn null(&mut self, op: &Op) -> Written {
        if !op.nullable {
            return Err(Stop);
        }
        match op.kind {
            _ if op.compact => self.out.push(0),
            Kind::Struct if !op.array => self.out.push(255),
            Kind::String if !op.array => self.out.put([255; 2]),
            _ => self.out.put([255; 4]),
        }
    }

    fn array(&mut self, op: &Op, value: &Object<'py>) -> Written {
        let values = items(value)?;
        self.length(op, values.len())?;
        let item = op.item();
        if op.kind == Kind::Struct {
            return values.iter_borrowed().try_for_each(|value| self.structure(op.arg, &value));
        }
        values.iter_borrowed().try_for_each(|value| self.value(&item, &value))
    }

    /// A value that is neither null nor an array.
    #[inline]
    fn item(&mut self, op: &Op, value: &Object<'py>) -> Written {
        match op.kind {
            kind if kind.is_integer() => {
                // Whatever has `__index__`, as `operator.index` takes it.
                let number = value.extract().map_err(|error| objects::refuse_or_raise(self.py, error))?;
                self.number(kind, number)
            }
            Kind::Bool => self.flag(value),
            Kind::Float64 => self.float(value),
            Kind::Uuid => self.uuid(value),
            Kind::String => self.string(op, value),
            Kind::Bytes | Kind::Records => self.octets(value, |encoder, length| encoder.length(op, length)),
            _ => {
                if op.nullable {
                    self.out.push(1)?;
                }
                self.structure(op.arg, value)
            }
        }
    }

    #[inline]
    fn number(&mut self, kind: Kind, number: i64) -> Written {
        match kind {
            Kind::Int8 => self.out.put(i8::try_from(number).map_err(|_| Stop)?.to_be_bytes()),
            Kind::Int16 => self.out.put(i16::try_from(number).map_err(|_| Stop)?.to_be_bytes()),
            Kind::Int32 => self.out.put(i32::try_from(number).map_err(|_| Stop)?.to_be_bytes()),
            Kind::Uint16 => self.out.put(u16::try_from(number).map_err(|_| Stop)?.to_be_bytes()),
            Kind::Uint32 => self.out.put(u32::try_from(number).map_err(|_| Stop)?.to_be_bytes()),
            _ => self.out.put(number.to_be_bytes()),
        }
    }

    fn flag(&mut self, value: &Object<'py>) -> Written {
        let flag = match value.cast::<PyBool>() {
            Ok(flag) => flag.is_true(),
            // What is equal to a bool.
            Err(_) => self
                .program
                .shared
                .bools
                .bind(self.py)
                .get_item(value)
                .and_then(|flag| flag.is_truthy())
                .map_err(|error| objects::refuse_or_raise(self.py, error))?,
        };
        self.out.push(u8::from(flag))
    }

    fn float(&mut self, value: &Object<'py>) -> Written {
        let number: f64 = match value.cast::<PyFloat>() {
            Ok(number) => number.value(),
            Err(_) => value.extract().map_err(|error| objects::refuse_or_raise(self.py, error))?,
        };
        self.out.put(number.to_be_bytes())
    }

    fn uuid(&mut self, value: &Object<'py>) -> Written {
        let class = &self.program.shared.uuid;
        let refuse = |error| objects::refuse_or_raise(self.py, error);
        if let Some(fields) = class.fields(value) {
            let number: u128 = field(fields, 0)?.extract().map_err(refuse)?;
            self.out.put(number.to_be_bytes())
        } else if value.is_instance(class.class().bind(self.py)).map_err(refuse)? {
            let bytes: [u8; 16] = value.getattr("bytes").and_then(|bytes| bytes.extract()).map_err(refuse)?;
            self.out.put(bytes)
        } else {
            Err(Stop)
        }
    }

    #[inline]
    fn string(&mut self, op: &Op, value: &Object<'py>) -> Written {
        let value = value.cast::<PyString>().map_err(|_| Stop)?;
        objects::with_utf8(value, |text| {
            if text.len() > MAX_STRING {
                return Err(Stop);
            }
            if op.compact {
                self.uvarint(text.len() + 1)?;
            } else {
                self.out.put((text.len() as u16).to_be_bytes())?;
            }
            self.out.extend(text)
        })?
    }

    /// Bytes after their length.
    fn octets(&mut self, value: &Object<'py>, length: impl FnOnce(&mut Self, usize) -> Written) -> Written {
        if let Ok(data) = value.cast::<PyBytes>() {
            let data = data.as_bytes();
            return self.sized_octets(data, length);
        }
        if let Ok(data) = value.cast::<PyByteArray>() {
            return self.sized_octets(&PyBackedBytes::from(data.clone()), length);
        }
        // A view must be one of bytes in a row (`kafkawire.wire.values.is_octets`).
        let plain = value.is_instance_of::<PyMemoryView>()
            && self
                .program
                .shared
                .is_octets
                .bind(self.py)
                .call1((value,))
                .and_then(|plain| plain.is_truthy())
                .map_err(|error| objects::refuse_or_raise(self.py, error))?;
        if !plain {
            return Err(Stop);
        }
        let input = objects::Input::of(value).map_err(|error| objects::refuse_or_raise(self.py, error))?;
        self.sized_octets(input.as_bytes(), length)
    }

    fn sized_octets(&mut self, data: &[u8], length: impl FnOnce(&mut Self, usize) -> Written) -> Written {
        length(self, data.len())?;
        self.out.extend(data)
    }
}

/// The value of a field; refused where it was never set.
#[inline]
fn field<'py>(fields: Fields<'_, 'py>, slot: usize) -> Result<Object<'py>, Stop> {
    fields.get(slot).ok_or(Stop)
}

/// The elements of an array, which is a tuple or a list. A list is copied: code that runs while it is written may
/// change it.
#[inline]
fn items<'py>(value: &Object<'py>) -> Result<Bound<'py, PyTuple>, Stop> {
    if let Ok(values) = value.cast::<PyTuple>() {
        Ok(values.clone())
    } else if let Ok(values) = value.cast::<PyList>() {
        objects::elements(values)
    } else {
        Err(Stop)
    }
}
