//! Records as the package's own `Record` and `Header` objects.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString, PyTuple};

use super::batch::header_spans;
use super::header::Header;
use super::record::Record;

/// Up to `most` records from `at` on, which moves behind them; fewer where a malformed one follows.
pub fn objects<'py>(
    record_class: &Bound<'py, PyAny>,
    header_class: &Bound<'py, PyAny>,
    payload: &[u8],
    at: &mut usize,
    batch: &Header,
    most: usize,
) -> PyResult<Bound<'py, PyList>> {
    let py = record_class.py();
    let none = PyTuple::empty(py);
    let found = PyList::empty(py);
    for _ in 0..most {
        let Ok(record) = Record::read(payload, *at) else { break };
        let headers = match record.header_count {
            0 => none.clone(),
            _ => headers(header_class, payload, &record)?,
        };
        let values = (
            bytes(py, record.key.of(payload)),
            bytes(py, record.value.of(payload)),
            headers,
            record.offset(batch),
            record.timestamp(batch),
            batch.sequence(record.offset_delta),
        );
        found.append(record_class.call1(values)?)?;
        *at = record.end;
    }
    Ok(found)
}

fn headers<'py>(class: &Bound<'py, PyAny>, payload: &[u8], record: &Record) -> PyResult<Bound<'py, PyTuple>> {
    let py = class.py();
    let found = header_spans(payload, record)
        .map(|(key, value)| class.call1((text(py, key.of(payload).unwrap_or_default())?, bytes(py, value.of(payload)))))
        .collect::<PyResult<Vec<_>>>()?;
    PyTuple::new(py, found)
}

fn bytes<'py>(py: Python<'py>, data: Option<&[u8]>) -> Option<Bound<'py, PyBytes>> {
    data.map(|data| PyBytes::new(py, data))
}

/// UTF-8; bytes that are none become surrogate escapes.
fn text<'py>(py: Python<'py>, data: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    match std::str::from_utf8(data) {
        Ok(text) => Ok(PyString::new(py, text).into_any()),
        Err(_) => PyBytes::new(py, data).call_method1("decode", ("utf-8", "surrogateescape")),
    }
}
