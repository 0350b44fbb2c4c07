//! Objects -> bytes: what `kafkawire.wire.interpreter.Encoder` writes, in one pass.

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBool, PyByteArray, PyBytes, PyFloat, PyInt, PyList, PyMemoryView, PyString, PyTuple};

use super::decode::{MAX_STRING, MAX_TAGS};
use super::objects::{self, Class, Object, Stop};
use super::Program;
use crate::layout::{Kind, Layout, Op};

pub type Written = Result<(), Stop>;

/// Highest number that an int of the format holds; one length and one tag are kept free.
const MAX_INT: usize = i32::MAX as usize;

pub struct Encoder<'a, 'py> {
    py: Python<'py>,
    program: &'a Program,
    out: Vec<u8>,
}

impl<'a, 'py> Encoder<'a, 'py> {
    pub fn new(py: Python<'py>, program: &'a Program, capacity: usize) -> Self {
        Encoder { py, program, out: Vec::with_capacity(capacity) }
    }

    pub fn written(&self) -> &[u8] {
        &self.out
    }

    pub fn structure(&mut self, index: usize, value: &Object<'py>) -> Written {
        let layout = &self.program.layouts[index];
        let class = &self.program.classes[layout.class];
        if !objects::is_exactly(value, class) {
            return Err(Stop);
        }
        for slot in &layout.absent {
            if !self.is_default(class, *slot, &field(class, value, *slot)?)? {
                return Err(Stop);
            }
        }
        for op in &layout.ops {
            self.value(op, &field(class, value, op.slot)?)?;
        }
        let unknown = field(class, value, class.slots() - 1)?;
        if layout.flexible {
            self.tagged(layout, class, value, &unknown)
        } else if unknown.cast::<PyTuple>().is_ok_and(|unknown| unknown.is_empty()) {
            Ok(())
        } else {
            Err(Stop)
        }
    }

    /// Whether a field holds its default.
    fn is_default(&self, class: &Class, slot: usize, value: &Object<'py>) -> Result<bool, Stop> {
        let default = class.defaults[slot].bind(self.py);
        if value.is(default) {
            return Ok(true);
        }
        value.ne(default).map(|differs| !differs).map_err(|error| objects::refuse_or_raise(self.py, error))
    }

    fn tagged(&mut self, layout: &Layout, class: &Class, value: &Object<'py>, unknown: &Object<'py>) -> Written {
        let unknown = items(unknown)?;
        if layout.tags.is_empty() && unknown.is_empty() {
            self.out.push(0);
            return Ok(());
        }
        let mut known = Vec::with_capacity(layout.tags.len());
        for (tag, op) in &layout.tags {
            let field = field(class, value, op.slot)?;
            if !self.is_default(class, op.slot, &field)? {
                known.push((*tag, op, field));
            }
        }
        let count = known.len() + unknown.len();
        if count > MAX_TAGS {
            return Err(Stop);
        }
        self.uvarint(count);
        for (tag, op, field) in &known {
            self.uvarint(*tag as usize);
            self.sized(|encoder| encoder.value(op, field))?;
        }
        // The tags of a schema count from 0 without gaps, so the unknown ones come behind them.
        let mut last = -1;
        for field in unknown.iter() {
            last = self.unknown(layout, &field, last)?;
        }
        Ok(())
    }

    /// Writes an unknown tagged field behind the tag `last`, and returns its own.
    fn unknown(&mut self, layout: &Layout, value: &Object<'py>, last: i64) -> Result<i64, Stop> {
        let class = &self.program.shared.tagged_field;
        if !objects::is_exactly(value, class) {
            return Err(Stop);
        }
        let tag = field(class, value, 0)?;
        let tag = tag.cast::<PyInt>().map_err(|_| Stop)?;
        let tag: i64 = tag.extract().map_err(|error| objects::refuse_or_raise(self.py, error))?;
        let known = layout.tags.iter().any(|(known, _)| i64::from(*known) == tag);
        let foreign = layout.foreign_tags.iter().any(|foreign| i64::from(*foreign) == tag);
        if tag <= last || tag >= MAX_INT as i64 || known || foreign {
            return Err(Stop);
        }
        self.uvarint(tag as usize);
        let data = field(class, value, 1)?;
        self.octets(&data, |encoder, length| {
            encoder.uvarint(length);
            Ok(())
        })?;
        Ok(tag)
    }

    /// Writes the size of what `write` writes before it: one byte is kept for it, which is enough below 128.
    fn sized(&mut self, write: impl FnOnce(&mut Self) -> Written) -> Written {
        let at = self.out.len();
        self.out.push(0);
        write(self)?;
        let size = self.out.len() - at - 1;
        if size < 128 {
            self.out[at] = size as u8;
            return Ok(());
        }
        if size > MAX_INT {
            return Err(Stop);
        }
        let end = self.out.len();
        self.uvarint(size);
        let width = self.out.len() - end;
        self.out[at..].rotate_right(width);
        self.out.remove(at + width);
        Ok(())
    }

    #[inline]
    fn uvarint(&mut self, mut number: usize) {
        while number > 127 {
            self.out.push((number & 127 | 128) as u8);
            number >>= 7;
        }
        self.out.push(number as u8);
    }

    fn length(&mut self, op: &Op, length: usize) -> Written {
        if op.compact {
            if length >= MAX_INT {
                return Err(Stop);
            }
            self.uvarint(length + 1);
        } else {
            self.out.extend(i32::try_from(length).map_err(|_| Stop)?.to_be_bytes());
        }
        Ok(())
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
            Kind::String if !op.array => self.out.extend([255; 2]),
            _ => self.out.extend([255; 4]),
        }
        Ok(())
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
            Kind::Int8 => self.number::<i8, 1>(value, i8::to_be_bytes),
            Kind::Int16 => self.number::<i16, 2>(value, i16::to_be_bytes),
            Kind::Int32 => self.number::<i32, 4>(value, i32::to_be_bytes),
            Kind::Int64 => self.number::<i64, 8>(value, i64::to_be_bytes),
            Kind::Uint16 => self.number::<u16, 2>(value, u16::to_be_bytes),
            Kind::Uint32 => self.number::<u32, 4>(value, u32::to_be_bytes),
            Kind::Bool => self.flag(value),
            Kind::Float64 => self.float(value),
            Kind::Uuid => self.uuid(value),
            Kind::String => self.string(op, value),
            Kind::Bytes | Kind::Records => self.octets(value, |encoder, length| encoder.length(op, length)),
            Kind::Struct => {
                if op.nullable {
                    self.out.push(1);
                }
                self.structure(op.arg, value)
            }
        }
    }

    #[inline]
    fn number<T: TryFrom<i64>, const N: usize>(&mut self, value: &Object<'py>, bytes: fn(T) -> [u8; N]) -> Written {
        // Whatever has `__index__`, as `operator.index` takes it.
        let number: i64 = value.extract().map_err(|error| objects::refuse_or_raise(self.py, error))?;
        self.out.extend(bytes(T::try_from(number).map_err(|_| Stop)?));
        Ok(())
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
        self.out.push(u8::from(flag));
        Ok(())
    }

    fn float(&mut self, value: &Object<'py>) -> Written {
        let number: f64 = match value.cast::<PyFloat>() {
            Ok(number) => number.value(),
            Err(_) => value.extract().map_err(|error| objects::refuse_or_raise(self.py, error))?,
        };
        self.out.extend(number.to_be_bytes());
        Ok(())
    }

    fn uuid(&mut self, value: &Object<'py>) -> Written {
        let class = &self.program.shared.uuid;
        let refuse = |error| objects::refuse_or_raise(self.py, error);
        if objects::is_exactly(value, class) {
            let number: u128 = field(class, value, 0)?.extract().map_err(refuse)?;
            self.out.extend(number.to_be_bytes());
        } else if value.is_instance(class.class().bind(self.py)).map_err(refuse)? {
            let bytes: [u8; 16] = value.getattr("bytes").and_then(|bytes| bytes.extract()).map_err(refuse)?;
            self.out.extend(bytes);
        } else {
            return Err(Stop);
        }
        Ok(())
    }

    #[inline]
    fn string(&mut self, op: &Op, value: &Object<'py>) -> Written {
        let value = value.cast::<PyString>().map_err(|_| Stop)?;
        objects::with_utf8(value, |text| {
            if text.len() > MAX_STRING {
                return Err(Stop);
            }
            if op.compact {
                self.uvarint(text.len() + 1);
            } else {
                self.out.extend((text.len() as u16).to_be_bytes());
            }
            self.out.extend_from_slice(text);
            Ok(())
        })?
    }

    /// Bytes behind their length.
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
        self.out.extend_from_slice(data);
        Ok(())
    }
}

/// The value of a field; refused where it was never set.
#[inline]
fn field<'py>(class: &Class, value: &Object<'py>, slot: usize) -> Result<Object<'py>, Stop> {
    class.get(value, slot).ok_or(Stop)
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
