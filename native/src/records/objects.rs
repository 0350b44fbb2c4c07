//! Records as the package's own `Record` and `Header` objects.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString, PyTuple, PyType};

use super::batch::header_spans;
use super::header::Header;
use super::record::{Record, Span};
use crate::codec::objects::{bytes, integer, text, tuple, Class, Instance, Made, Stop};

const RECORD_FIELDS: [&str; 6] = ["key", "value", "headers", "offset", "timestamp", "sequence"];
const HEADER_FIELDS: [&str; 2] = ["key", "value"];

/// Makes the objects of two classes, whose fields are those of `kafkawire.records`.
#[pyclass(frozen)]
pub struct RecordReader {
    record: Class,
    header: Class,
}

#[pymethods]
impl RecordReader {
    #[new]
    fn new(record: &Bound<'_, PyType>, header: &Bound<'_, PyType>) -> PyResult<Self> {
        Ok(RecordReader { record: class(record, &RECORD_FIELDS)?, header: class(header, &HEADER_FIELDS)? })
    }

    /// Up to `most` records from position `at` of a batch's (decompressed) records on, and the position after them;
    /// fewer where a malformed one follows. `append_time`: the timestamp of all, where the broker stamped them.
    #[allow(clippy::too_many_arguments)]
    fn read<'py>(
        &self,
        py: Python<'py>,
        payload: &Bound<'py, PyBytes>,
        at: usize,
        most: usize,
        base_offset: i64,
        base_timestamp: i64,
        base_sequence: i32,
        append_time: Option<i64>,
    ) -> PyResult<(Bound<'py, PyList>, usize)> {
        let batch = Header::of_records(base_offset, base_timestamp, base_sequence, append_time);
        let payload = payload.as_bytes();
        let mut at = at.min(payload.len());
        let found = PyList::empty(py);
        for _ in 0..most {
            let Ok(record) = Record::read(payload, at) else { break };
            found.append(self.make(py, payload, &record, &batch).map_err(|_: Stop| PyErr::fetch(py))?)?;
            at = record.end;
        }
        Ok((found, at))
    }
}

impl RecordReader {
    fn make<'py>(&self, py: Python<'py>, payload: &[u8], record: &Record, batch: &Header) -> Made<'py> {
        let mut made = Instance::new(py, &self.record)?;
        made.set(0, optional(py, payload, record.key)?);
        made.set(1, optional(py, payload, record.value)?);
        made.set(2, self.headers(py, payload, record)?);
        made.set(3, integer(py, record.offset(batch))?);
        made.set(4, integer(py, record.timestamp(batch))?);
        made.set(5, integer(py, i64::from(batch.sequence(record.offset_delta)))?);
        Ok(made.finish())
    }

    fn headers<'py>(&self, py: Python<'py>, payload: &[u8], record: &Record) -> Made<'py> {
        if record.header_count == 0 {
            return Ok(PyTuple::empty(py).into_any());
        }
        let mut spans = header_spans(payload, record);
        tuple(py, record.header_count as usize, || {
            let (key, value) = spans.next().ok_or(Stop)?;
            let mut made = Instance::new(py, &self.header)?;
            made.set(0, text(py, key.of(payload).ok_or(Stop)?)?);
            made.set(1, optional(py, payload, value)?);
            Ok(made.finish())
        })
    }
}

/// A class with exactly these fields, which are all filled: what they default to does not matter.
fn class(class: &Bound<'_, PyType>, fields: &[&str]) -> PyResult<Class> {
    let py = class.py();
    let names = class.getattr("__struct_fields__")?.cast_into::<PyTuple>()?;
    if !names.eq(PyTuple::new(py, fields)?)? {
        return Err(PyTypeError::new_err(format!(
            "{class} has other fields than {}",
            PyString::new(py, &fields.join(", "))
        )));
    }
    Class::new(class, &names, &PyTuple::new(py, fields.iter().map(|_| py.None()))?)
}

fn optional<'py>(py: Python<'py>, payload: &[u8], span: Span) -> Made<'py> {
    span.of(payload).map_or_else(|| Ok(py.None().into_bound(py)), |data| bytes(py, data))
}
