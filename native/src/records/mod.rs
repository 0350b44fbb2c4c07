//! Record batches of magic 2: their headers and records as columns, and records as objects. The code is safe. Bytes
//! that are no batch or no record are refused without a reason: `kafkawire.records.reader` describes them.

pub mod batch;
mod candidates;
pub mod codec;
mod columns;
pub mod header;
mod lz4_frame;
mod objects;
pub mod record;
mod spans;
mod varint;

use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use crate::cursor::Refused;
use columns::{Headers, Records};
use header::Header;

/// The headers of the batches at the beginning of `data`, column by column.
#[pyfunction]
fn scan_batches<'py>(
    py: Python<'py>,
    data: PyReadonlyArray1<'py, u8>,
    stop: usize,
    check_crc: bool,
    max_batch_bytes: usize,
) -> PyResult<Bound<'py, PyTuple>> {
    let data = data.as_slice()?;
    py.detach(|| Headers::scan(data, stop, check_crc, max_batch_bytes)).into_arrays(py)
}

/// Whether each batch's checksum is that of its bytes.
#[pyfunction]
fn checksums<'py>(
    py: Python<'py>,
    data: PyReadonlyArray1<'py, u8>,
    positions: PyReadonlyArray1<'py, i64>,
) -> PyResult<Bound<'py, PyArray1<bool>>> {
    let (data, positions) = (data.as_slice()?, positions.as_slice()?);
    let verdict = |&at: &i64| {
        let at = usize::try_from(at).ok().filter(|&at| at <= data.len());
        at.is_some_and(|at| header::batch_at(data, at, true, usize::MAX).is_some())
    };
    Ok(PyArray1::from_vec(py, py.detach(|| positions.iter().map(verdict).collect())))
}

type Columns<'py> = (Bound<'py, PyTuple>, Option<Bound<'py, PyArray1<u8>>>, Vec<i64>, usize, bool);

/// The records of the batches at `positions[first..]`: their columns, the bytes that positions refer to (None: `data`),
/// the batches that are malformed, the batch to go on with, and whether that one was refused.
#[pyfunction]
fn record_columns<'py>(
    py: Python<'py>,
    data: PyReadonlyArray1<'py, u8>,
    positions: PyReadonlyArray1<'py, i64>,
    first: usize,
    most_bytes: usize,
    max_batch_bytes: usize,
) -> PyResult<Columns<'py>> {
    let (data, positions) = (data.as_slice()?, positions.as_slice()?);
    let mut found = py.detach(|| Records::read(data, positions, first, most_bytes, max_batch_bytes));
    let bytes = found.data.take().map(|bytes| PyArray1::from_vec(py, bytes));
    let (malformed, next, refused) = (std::mem::take(&mut found.malformed), found.next, found.refused);
    Ok((found.into_arrays(py)?, bytes, malformed, next, refused))
}

/// The same for one batch, number `index`, whose records are `payload` once decompressed. `head`: its header.
#[pyfunction]
fn payload_columns<'py>(
    py: Python<'py>,
    head: &Bound<'py, PyBytes>,
    payload: PyReadonlyArray1<'py, u8>,
    index: usize,
) -> PyResult<(Bound<'py, PyTuple>, bool)> {
    let head = header_of(head)?;
    let payload = payload.as_slice()?;
    let mut found = py.detach(|| Records::of_payload(payload, &head, index));
    let malformed = !std::mem::take(&mut found.malformed).is_empty();
    Ok((found.into_arrays(py)?, malformed))
}

/// Positions below `count` at which a batch could begin, and its size: see `kafkawire.records.candidates`.
#[pyfunction]
#[pyo3(name = "candidates")]
fn batch_candidates(
    py: Python<'_>,
    window: &Bound<'_, PyBytes>,
    count: usize,
    left: usize,
    longest: usize,
) -> Vec<(usize, usize)> {
    let window = window.as_bytes();
    py.detach(|| candidates::candidates(window, count, left, longest))
}

type Gathered<'py> = (Bound<'py, PyArray1<i32>>, Bound<'py, PyArray1<u8>>);

/// An Arrow binary column: offsets and bytes of what lies at `starts`; a negative length is empty.
#[pyfunction]
fn gather<'py>(
    py: Python<'py>,
    data: PyReadonlyArray1<'py, u8>,
    starts: PyReadonlyArray1<'py, i64>,
    lengths: PyReadonlyArray1<'py, i32>,
) -> PyResult<Gathered<'py>> {
    let (data, starts, lengths) = (data.as_slice()?, starts.as_slice()?, lengths.as_slice()?);
    let found = py.detach(|| spans::gather(data, starts, lengths));
    let (offsets, bytes) = found.map_err(outside)?;
    Ok((PyArray1::from_vec(py, offsets), PyArray1::from_vec(py, bytes)))
}

/// The same of base64.
#[pyfunction]
fn gather_base64<'py>(
    py: Python<'py>,
    data: PyReadonlyArray1<'py, u8>,
    starts: PyReadonlyArray1<'py, i64>,
    lengths: PyReadonlyArray1<'py, i32>,
) -> PyResult<Gathered<'py>> {
    let (data, starts, lengths) = (data.as_slice()?, starts.as_slice()?, lengths.as_slice()?);
    let found = py.detach(|| spans::gather_base64(data, starts, lengths));
    let (offsets, bytes) = found.map_err(outside)?;
    Ok((PyArray1::from_vec(py, offsets), PyArray1::from_vec(py, bytes)))
}

/// Whether what lies at `starts` is UTF-8; false for a negative length.
#[pyfunction]
fn texts<'py>(
    py: Python<'py>,
    data: PyReadonlyArray1<'py, u8>,
    starts: PyReadonlyArray1<'py, i64>,
    lengths: PyReadonlyArray1<'py, i32>,
) -> PyResult<Bound<'py, PyArray1<bool>>> {
    let (data, starts, lengths) = (data.as_slice()?, starts.as_slice()?, lengths.as_slice()?);
    let found = py.detach(|| spans::texts(data, starts, lengths));
    Ok(PyArray1::from_vec(py, found.map_err(outside)?))
}

fn outside(_: Refused) -> PyErr {
    PyValueError::new_err("spans outside of the data, or too many bytes")
}

fn header_of(head: &Bound<'_, PyBytes>) -> PyResult<Header> {
    Header::read(head.as_bytes(), 0).map_err(|_| PyValueError::new_err("no batch header"))
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(scan_batches, module)?)?;
    module.add_function(wrap_pyfunction!(checksums, module)?)?;
    module.add_function(wrap_pyfunction!(record_columns, module)?)?;
    module.add_function(wrap_pyfunction!(payload_columns, module)?)?;
    module.add_function(wrap_pyfunction!(batch_candidates, module)?)?;
    module.add_function(wrap_pyfunction!(gather, module)?)?;
    module.add_function(wrap_pyfunction!(gather_base64, module)?)?;
    module.add_function(wrap_pyfunction!(texts, module)?)?;
    module.add_class::<objects::RecordReader>()
}
