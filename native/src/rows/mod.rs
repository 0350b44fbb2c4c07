//! Rows as lines of JSON: what `msgspec.json.encode` makes of the rows in `kafkawire.rows`, without making the rows.

mod csv;
mod fields;
pub mod json;
pub mod writer;

use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::records::codec::Decompressor;
use fields::{BatchValue, EncodedNames, HeaderValue, RecordValue, RowField};
use writer::RowWriter;

/// The name of a field, and its value in JSON where that is the same in all rows.
type Given = (String, Option<Vec<u8>>);

/// Writes batches, and their records, as lines of JSON; `kafkawire.logdir.jsonl` states their fields.
#[pyclass(module = "kafkawire._native")]
pub struct LogRows(pub RowWriter);

#[pymethods]
impl LogRows {
    /// Fields in their order; an empty `record` writes batches only. `codecs`, `timestamp_types` (CreateTime,
    /// LogAppendTime), `markers` (ABORT, COMMIT) and `states` of transactions are names as JSON text; `printable` a byte
    /// for each character, None where only what JSON asks for is escaped. `decoded_markers`: where
    /// records have a field `decoded`, what stands in it of an ABORT and a COMMIT before and after the epoch.
    /// `threads`: how many write lines side by side.
    ///
    /// ValueError: a field that is not known here.
    #[new]
    #[allow(clippy::too_many_arguments)]
    fn new(
        batch: Vec<Given>,
        record: Vec<Given>,
        header: Vec<String>,
        codecs: Vec<Vec<u8>>,
        timestamp_types: (Vec<u8>, Vec<u8>),
        markers: (Vec<u8>, Vec<u8>),
        states: Vec<Vec<u8>>,
        printable: Option<Vec<u8>>,
        decoded_markers: Option<[(Vec<u8>, Vec<u8>); 2]>,
        max_batch_bytes: usize,
        threads: usize,
    ) -> PyResult<Self> {
        let decodes_markers = decoded_markers.is_some();
        let header = header.into_iter().map(|name| (name, None)).collect();
        Ok(LogRows(RowWriter {
            batch: fields(batch, BatchValue::named, Some(BatchValue::Constant))?,
            record: fields(record, RecordValue::named, Some(|json| RecordValue::OfBatch(BatchValue::Constant(json))))?,
            header: fields(header, HeaderValue::named, None)?,
            names: EncodedNames {
                codecs,
                create_time: timestamp_types.0,
                log_append_time: timestamp_types.1,
                abort: markers.0,
                commit: markers.1,
                states,
                decoded_markers: decoded_markers.unwrap_or_default(),
            },
            printable,
            decodes_markers,
            max_batch_bytes,
            decompressors: (0..threads.max(1)).map(|_| Decompressor::default()).collect(),
            per_batch: 0,
        }))
    }

    /// See `RowWriter::lines`: the lines, of how many batches, and whether the next one was refused.
    fn lines<'py>(
        &mut self,
        py: Python<'py>,
        data: PyReadonlyArray1<'py, u8>,
        origin: i64,
        starts: PyReadonlyArray1<'py, i64>,
        states: Option<PyReadonlyArray1<'py, i8>>,
        most: usize,
    ) -> PyResult<(Bound<'py, PyArray1<u8>>, usize, bool)> {
        let (data, starts) = (data.as_slice()?, starts.as_slice()?);
        let states = states.as_ref().map(|states| states.as_slice()).transpose()?;
        let found = py.detach(|| self.0.lines(data, origin, starts, states, most));
        Ok((PyArray1::from_vec(py, found.bytes), found.batches, found.refused))
    }
}

fn fields<T>(
    given: Vec<Given>,
    named: impl Fn(&str) -> Option<T>,
    constant: Option<fn(Vec<u8>) -> T>,
) -> PyResult<Vec<RowField<T>>> {
    let mut found = Vec::with_capacity(given.len());
    for (name, json) in given {
        let value = match (json, constant) {
            (Some(json), Some(constant)) => Some(constant(json)),
            _ => named(&name),
        };
        let value = value.ok_or_else(|| PyValueError::new_err(format!("no known field of a row: {name}")))?;
        let before = if found.is_empty() { '{' } else { ',' };
        found.push(RowField { name: format!("{before}\"{name}\":").into_bytes(), value });
    }
    Ok(found)
}

/// Writes lines of csv; see `csv`.
#[pyclass]
struct CsvLines(csv::CsvWriter);

#[pymethods]
impl CsvLines {
    /// `columns`: the names of fields.
    #[new]
    fn new(columns: Vec<String>) -> Self {
        CsvLines(csv::CsvWriter::new(&columns))
    }

    /// The csv of lines of JSON.
    ///
    /// ValueError: what is no such line.
    fn lines<'py>(&mut self, py: Python<'py>, data: PyBuffer<u8>) -> PyResult<Bound<'py, PyBytes>> {
        let data = data.to_vec(py)?;
        let mut out = Vec::with_capacity(data.len());
        let found = py.detach(|| self.0.lines(&data, &mut out));
        found.map_err(|_| PyValueError::new_err("no lines of rows"))?;
        Ok(PyBytes::new(py, &out))
    }
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<CsvLines>()?;
    module.add_class::<LogRows>()
}
