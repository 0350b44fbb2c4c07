//! Columns: many values of one message at once, as `kafkawire.wire.columns` asks for them. Safe code, and the GIL is
//! released while it runs; what goes out are NumPy arrays that own what was gathered.

mod gather;
mod plan;
mod walk;

use numpy::{Element, IntoPyArray, PyArray1, PyArrayMethods, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::layout::Kind;
use gather::{Gathered, TooMuch};

impl From<TooMuch> for PyErr {
    fn from(error: TooMuch) -> PyErr {
        let TooMuch(count) = error;
        PyValueError::new_err(format!(
            "one column would hold {count} items or bytes, more than Arrow counts: give fewer values"
        ))
    }
}

/// A plan, ready to be executed.
#[pyclass(frozen, module = "kafkawire._native")]
pub struct ColumnPlan {
    plan: plan::Plan,
}

#[pymethods]
impl ColumnPlan {
    #[new]
    fn new(plan: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(ColumnPlan { plan: plan::Plan::of(plan)? })
    }

    /// Walks over `data[starts[i]:ends[i]]`; values with a negative start are refused unread.
    fn walk<'py>(
        &self,
        py: Python<'py>,
        data: PyReadonlyArray1<'py, u8>,
        starts: PyReadonlyArray1<'py, i64>,
        ends: PyReadonlyArray1<'py, i64>,
    ) -> PyResult<WalkedColumns> {
        let (octets, starts, ends) = (data.as_slice()?, starts.as_slice()?, ends.as_slice()?);
        if starts.len() != ends.len() || i32::try_from(octets.len()).is_err() || u32::try_from(starts.len()).is_err() {
            return Err(PyValueError::new_err("as many ends as starts, and less than 2 GiB of data"));
        }
        let places = py.detach(|| walk::walk(&self.plan, octets, starts, ends));
        let mut unknown_counts = vec![0; self.plan.unknown];
        for (space, &count) in self.plan.spaces.iter().zip(&places.counts) {
            for &column in &space.unknown {
                unknown_counts[column] = count;
            }
        }
        Ok(WalkedColumns { data: (*data).clone().unbind(), places, unknown_counts })
    }
}

/// Positions that a walk found, to be gathered into columns: a `Walked` of `kafkawire.wire.columns.build`.
#[pyclass(frozen, module = "kafkawire._native")]
pub struct WalkedColumns {
    data: Py<PyArray1<u8>>,
    places: walk::Places,
    /// Elements of the space of each column of unknown tags.
    unknown_counts: Vec<usize>,
}

type Array<'py, T> = Bound<'py, PyArray1<T>>;
type Validity<'py> = Option<Array<'py, u8>>;

fn no_column() -> PyErr {
    PyValueError::new_err("no such column")
}

fn array<T: Element>(py: Python<'_>, gathered: Vec<T>) -> Bound<'_, PyArray1<T>> {
    gathered.into_pyarray(py)
}

/// What `gathers` makes of the data, with the GIL released.
fn gathered<T: Send>(
    py: Python<'_>,
    data: &Py<PyArray1<u8>>,
    gathers: impl FnOnce(&[u8]) -> Gathered<T> + Send,
) -> PyResult<T> {
    let data = data.bind(py).try_readonly()?;
    let octets = data.as_slice()?;
    Ok(py.detach(|| gathers(octets))?)
}

/// Evaluates `$body` with `$read` as the function that reads a value of the kind, and `$own` as the one that takes a
/// Python value for one of its Arrow type.
macro_rules! of_kind {
    ($kind:expr, |$read:ident, $own:ident| $body:expr) => {
        match Kind::of_code($kind) {
            Some(Kind::Bool) => {
                let $read = |raw: [u8; 1]| u8::from(raw[0] != 0);
                let $own = |given: &Bound<'_, PyAny>| given.extract::<bool>().map(u8::from);
                $body
            }
            Some(Kind::Int8) => {
                let $read = i8::from_be_bytes;
                let $own = |given: &Bound<'_, PyAny>| given.extract::<i8>();
                $body
            }
            Some(Kind::Int16) => {
                let $read = i16::from_be_bytes;
                let $own = |given: &Bound<'_, PyAny>| given.extract::<i16>();
                $body
            }
            Some(Kind::Int32) => {
                let $read = i32::from_be_bytes;
                let $own = |given: &Bound<'_, PyAny>| given.extract::<i32>();
                $body
            }
            Some(Kind::Int64) => {
                let $read = i64::from_be_bytes;
                let $own = |given: &Bound<'_, PyAny>| given.extract::<i64>();
                $body
            }
            Some(Kind::Uint16) => {
                let $read = |raw| i32::from(u16::from_be_bytes(raw));
                let $own = |given: &Bound<'_, PyAny>| given.extract::<i32>();
                $body
            }
            Some(Kind::Uint32) => {
                let $read = |raw| i64::from(u32::from_be_bytes(raw));
                let $own = |given: &Bound<'_, PyAny>| given.extract::<i64>();
                $body
            }
            Some(Kind::Float64) => {
                let $read = f64::from_be_bytes;
                let $own = |given: &Bound<'_, PyAny>| given.extract::<f64>();
                $body
            }
            _ => return Err(PyValueError::new_err("a kind of numbers")),
        }
    };
}

#[pymethods]
impl WalkedColumns {
    #[getter]
    fn refused<'py>(&self, py: Python<'py>) -> Array<'py, i64> {
        PyArray1::from_slice(py, &self.places.refused)
    }

    fn count(&self, space: usize) -> PyResult<usize> {
        self.places.counts.get(space).copied().ok_or_else(no_column)
    }

    fn numbers<'py>(
        &self,
        py: Python<'py>,
        run: usize,
        offset: usize,
        kind: u8,
        default: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let runs = self.places.runs.get(run).ok_or_else(no_column)?;
        if Kind::of_code(kind) == Some(Kind::Uuid) {
            let default: [u8; 16] = default.extract()?;
            let found = gathered(py, &self.data, |data| Ok(gather::uuids(data, runs, offset, default)))?;
            return Ok(array(py, found).into_any());
        }
        of_kind!(kind, |read, own| {
            let default = own(default)?;
            let found = gathered(py, &self.data, |data| Ok(gather::numbers(data, runs, offset, default, read)))?;
            Ok(array(py, found).into_any())
        })
    }

    fn arrays<'py>(
        &self,
        py: Python<'py>,
        blob: usize,
        kind: u8,
        null: bool,
    ) -> PyResult<(Array<'py, i32>, Validity<'py>, Bound<'py, PyAny>)> {
        let blobs = self.places.blobs.get(blob).ok_or_else(no_column)?;
        let (offsets, validity) = py.detach(|| gather::array_offsets(blobs, null))?;
        let values = if Kind::of_code(kind) == Some(Kind::Uuid) {
            let bytes: Vec<(u32, u32)> = blobs.iter().map(|&(at, count)| (at, 16 * count)).collect();
            let found = gathered(py, &self.data, |data| gather::blobs(data, &bytes, false, &[]))?;
            array(py, found.data).into_any()
        } else {
            of_kind!(kind, |read, _own| {
                let found = gathered(py, &self.data, |data| Ok(gather::arrays(data, blobs, read)))?;
                array(py, found).into_any()
            })
        };
        Ok((array(py, offsets), validity.map(|bits| array(py, bits)), values))
    }

    fn blobs<'py>(
        &self,
        py: Python<'py>,
        blob: usize,
        null: bool,
        default: &[u8],
    ) -> PyResult<(Array<'py, i32>, Validity<'py>, Array<'py, u8>)> {
        let blobs = self.places.blobs.get(blob).ok_or_else(no_column)?;
        let found = gathered(py, &self.data, |data| gather::blobs(data, blobs, null, default))?;
        Ok((array(py, found.offsets), found.validity.map(|bits| array(py, bits)), array(py, found.data)))
    }

    #[allow(clippy::type_complexity)]
    fn texts<'py>(
        &self,
        py: Python<'py>,
        blob: usize,
        null: bool,
        default: &[u8],
    ) -> PyResult<(Array<'py, i32>, Validity<'py>, Array<'py, u8>, Array<'py, i64>)> {
        let blobs = self.places.blobs.get(blob).ok_or_else(no_column)?;
        let (found, impure) = gathered(py, &self.data, |data| {
            let mut found = gather::blobs(data, blobs, null, default)?;
            let impure = gather::clean(&mut found)?;
            Ok((found, impure))
        })?;
        let validity = found.validity.map(|bits| array(py, bits));
        Ok((array(py, found.offsets), validity, array(py, found.data), array(py, impure)))
    }

    fn ends<'py>(&self, py: Python<'py>, column: usize, null: bool) -> PyResult<(Array<'py, i32>, Validity<'py>)> {
        let ends = self.places.lists.get(column).ok_or_else(no_column)?;
        let (offsets, validity) = py.detach(|| gather::lists(ends, null))?;
        Ok((array(py, offsets), validity.map(|bits| array(py, bits))))
    }

    fn marks<'py>(&self, py: Python<'py>, mark: usize, null: bool) -> PyResult<Validity<'py>> {
        let marks = self.places.marks.get(mark).ok_or_else(no_column)?;
        Ok(py.detach(|| gather::marks(marks, null)).map(|bits| array(py, bits)))
    }

    #[allow(clippy::type_complexity)]
    fn unknown<'py>(
        &self,
        py: Python<'py>,
        column: usize,
    ) -> PyResult<(Array<'py, i32>, Array<'py, i32>, Array<'py, i32>, Array<'py, u8>)> {
        let tags = self.places.unknown.get(column).ok_or_else(no_column)?;
        let count = self.unknown_counts[column];
        let (lists, numbers, found) = gathered(py, &self.data, |data| gather::unknown(data, tags, count))?;
        Ok((array(py, lists), array(py, numbers), array(py, found.offsets), array(py, found.data)))
    }
}
