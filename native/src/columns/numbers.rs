//! Columns of fixed-size values, in Arrow's types: unsigned integers take the next wider type, a bool is a byte.

use numpy::IntoPyArray;
use pyo3::prelude::*;

use crate::layout::Kind;

/// Values by row. Rows that were passed over have the default.
#[derive(Debug, Clone)]
pub struct Filled<T> {
    pub values: Vec<T>,
    default: T,
}

impl<T: Copy> Filled<T> {
    #[inline]
    fn put(&mut self, row: usize, value: T) {
        if self.values.len() < row {
            self.fill(row);
        }
        self.values.push(value);
    }

    #[cold]
    fn fill(&mut self, rows: usize) {
        self.values.resize(rows, self.default);
    }
}

/// A column of the values of one kind.
#[derive(Debug, Clone)]
pub enum Numbers {
    Bool(Filled<u8>),
    Int8(Filled<i8>),
    Int16(Filled<i16>),
    Int32(Filled<i32>),
    Int64(Filled<i64>),
    Uint16(Filled<i32>),
    Uint32(Filled<i64>),
    Float64(Filled<f64>),
    Uuid(Filled<[u8; 16]>),
}

/// Evaluates `$body` with `$column` as the `Filled` inside, and `$read` as what makes a value of its bytes.
macro_rules! each {
    ($numbers:expr, |$column:ident, $read:ident| $body:expr) => {
        match $numbers {
            Numbers::Bool($column) => {
                let $read = |[raw]: [u8; 1]| u8::from(raw != 0);
                $body
            }
            Numbers::Int8($column) => {
                let $read = i8::from_be_bytes;
                $body
            }
            Numbers::Int16($column) => {
                let $read = i16::from_be_bytes;
                $body
            }
            Numbers::Int32($column) => {
                let $read = i32::from_be_bytes;
                $body
            }
            Numbers::Int64($column) => {
                let $read = i64::from_be_bytes;
                $body
            }
            Numbers::Uint16($column) => {
                let $read = |raw: [u8; 2]| i32::from(u16::from_be_bytes(raw));
                $body
            }
            Numbers::Uint32($column) => {
                let $read = |raw: [u8; 4]| i64::from(u32::from_be_bytes(raw));
                $body
            }
            Numbers::Float64($column) => {
                let $read = f64::from_be_bytes;
                $body
            }
            Numbers::Uuid($column) => {
                let $read = |raw: [u8; 16]| raw;
                $body
            }
        }
    };
}

fn filled<T>(default: T) -> Filled<T> {
    Filled { values: Vec::new(), default }
}

impl Numbers {
    /// An empty column; `default` is a Python value of its type (of uuids: 16 bytes), or zero. `None`: not a kind of
    /// fixed-size values.
    pub fn of(kind: u8, default: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Self>> {
        fn own<'a, 'py, T>(default: Option<&'a Bound<'py, PyAny>>) -> PyResult<Filled<T>>
        where
            T: Default + FromPyObject<'a, 'py>,
            PyErr: From<T::Error>,
        {
            Ok(filled(default.map_or(Ok(T::default()), |given| given.extract().map_err(PyErr::from))?))
        }
        Ok(Some(match Kind::of_code(kind) {
            Some(Kind::Bool) => {
                Numbers::Bool(filled(default.map_or(Ok(false), |given| given.extract::<bool>())?.into()))
            }
            Some(Kind::Int8) => Numbers::Int8(own(default)?),
            Some(Kind::Int16) => Numbers::Int16(own(default)?),
            Some(Kind::Int32) => Numbers::Int32(own(default)?),
            Some(Kind::Int64) => Numbers::Int64(own(default)?),
            Some(Kind::Uint16) => Numbers::Uint16(own(default)?),
            Some(Kind::Uint32) => Numbers::Uint32(own(default)?),
            Some(Kind::Float64) => Numbers::Float64(own(default)?),
            Some(Kind::Uuid) => Numbers::Uuid(own(default)?),
            _ => return Ok(None),
        }))
    }

    /// Bytes of a value.
    pub fn size(&self) -> usize {
        fn size_of<const N: usize, T>(_: impl Fn([u8; N]) -> T) -> usize {
            N
        }
        each!(self, |_column, read| size_of(read))
    }

    pub fn len(&self) -> usize {
        each!(self, |column, _read| column.values.len())
    }

    pub fn reserve(&mut self, more: usize) {
        each!(self, |column, _read| column.values.reserve_exact(more))
    }

    /// The value that `raw` begins with, at `row`.
    #[inline]
    pub fn put(&mut self, row: usize, raw: &[u8]) {
        each!(self, |column, read| if let Some(raw) = raw.first_chunk() {
            column.put(row, read(*raw));
        })
    }

    /// All values in `raw`, behind those that are there.
    #[inline]
    pub fn append(&mut self, raw: &[u8]) {
        fn all<'a, const N: usize, T>(raw: &'a [u8], read: impl Fn([u8; N]) -> T + 'a) -> impl Iterator<Item = T> + 'a {
            raw.chunks_exact(N).map(move |raw| read(*raw.first_chunk().unwrap_or(&[0; N])))
        }
        each!(self, |column, read| column.values.extend(all(raw, read)))
    }

    pub fn into_array(self, py: Python<'_>) -> Bound<'_, PyAny> {
        match self {
            Numbers::Uuid(column) => column.values.into_flattened().into_pyarray(py).into_any(),
            Numbers::Bool(column) => column.values.into_pyarray(py).into_any(),
            Numbers::Int8(column) => column.values.into_pyarray(py).into_any(),
            Numbers::Int16(column) => column.values.into_pyarray(py).into_any(),
            Numbers::Int32(column) | Numbers::Uint16(column) => column.values.into_pyarray(py).into_any(),
            Numbers::Int64(column) | Numbers::Uint32(column) => column.values.into_pyarray(py).into_any(),
            Numbers::Float64(column) => column.values.into_pyarray(py).into_any(),
        }
    }

    pub fn truncate(&mut self, rows: usize) {
        each!(self, |column, _read| column.values.truncate(rows))
    }

    pub fn fill(&mut self, rows: usize) {
        each!(self, |column, _read| column.fill(rows))
    }
}
