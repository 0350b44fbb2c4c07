//! Columns of fixed-size values, in Arrow's types: unsigned integers take the next wider type, a bool is a byte.

use numpy::IntoPyArray;
use pyo3::prelude::*;

use crate::layout::Kind;

/// Values by row. Rows that were passed over have the default.
#[derive(Debug, Clone)]
pub struct Values<T> {
    pub values: Vec<T>,
    default: T,
}

/// A column of the values of one kind.
#[derive(Debug, Clone)]
pub enum Numbers {
    Bool(Values<u8>),
    Int8(Values<i8>),
    Int16(Values<i16>),
    Int32(Values<i32>),
    Int64(Values<i64>),
    Uint16(Values<i32>),
    Uint32(Values<i64>),
    Float64(Values<f64>),
    Uuid(Values<[u8; 16]>),
}

/// Evaluates `$body` with `$column` as the `Values` inside, and `$read` as what makes a value of its bytes.
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

fn filled<T>(default: T) -> Values<T> {
    Values { values: Vec::new(), default }
}

impl Numbers {
    /// An empty column; `default` is a Python value of its type (of uuids: 16 bytes), or zero. `None`: not a kind of
    /// fixed-size values.
    pub fn of(kind: u8, default: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Self>> {
        fn own<'a, 'py, T>(default: Option<&'a Bound<'py, PyAny>>) -> PyResult<Values<T>>
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

    fn reserve(&mut self, more: usize) {
        each!(self, |column, _read| column.values.reserve_exact(more))
    }

    /// The values `offset` bytes after each of these positions in the data.
    fn gather(&mut self, data: &[u8], positions: &[u32], offset: usize) {
        fn value<const N: usize>(data: &[u8], at: usize) -> Option<&[u8; N]> {
            data.get(at..)?.first_chunk()
        }
        each!(self, |column, read| {
            let default = column.default;
            let found = positions.iter().map(|&at| value(data, at as usize + offset).map_or(default, |&raw| read(raw)));
            column.values.extend(found);
        })
    }

    /// All values in `raw`, after those that are there.
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

    fn fill(&mut self, rows: usize) {
        each!(self, |column, _read| column.values.resize(rows, column.default))
    }
}

/// Positions that a run keeps until its columns take their values: the data is still near
/// then.
const BLOCK: usize = 1024;

/// Adjacent fixed-size fields, by row.
#[derive(Debug, Clone, Default)]
pub struct Run {
    /// The requested columns, and their places in the run.
    fields: Vec<(usize, Numbers)>,
    /// Rows that the columns have.
    done: usize,
    /// Where the run begins in the rows after those.
    pending: Vec<u32>,
}

impl Run {
    pub fn add(&mut self, offset: usize, column: Numbers) {
        self.fields.push((offset, column));
    }

    pub fn reserve(&mut self, rows: usize) {
        self.fields.iter_mut().for_each(|(_, column)| column.reserve(rows));
    }

    /// The run of `row` begins at `at` in the data.
    #[inline]
    pub fn put(&mut self, data: &[u8], row: usize, at: usize) {
        if self.done + self.pending.len() != row || self.pending.len() == BLOCK {
            self.fill(data, row);
        }
        self.pending.push(at as u32);
    }

    /// Rows up to this one: with what is pending, then defaults.
    #[cold]
    pub fn fill(&mut self, data: &[u8], rows: usize) {
        for (offset, column) in &mut self.fields {
            column.gather(data, &self.pending, *offset);
            column.fill(rows);
        }
        self.pending.clear();
        self.done = rows;
    }

    pub fn back(&mut self, row: usize) {
        self.pending.truncate(row.saturating_sub(self.done));
        if row < self.done {
            self.fields.iter_mut().for_each(|(_, column)| column.truncate(row));
            self.done = row;
        }
    }

    pub fn finish(self) -> impl Iterator<Item = Numbers> {
        self.fields.into_iter().map(|(_, column)| column)
    }
}
