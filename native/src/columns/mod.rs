//! Columns: many values of one message at once, as `kafkawire.wire.columns` asks for them. The code is safe, and the
//! GIL is released while it runs. The results are NumPy arrays that own their buffers.

mod column;
mod numbers;
mod plan;
mod walk;

use numpy::{Element, IntoPyArray, PyArray1, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use column::TooMuch;
use numbers::Numbers;

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

type Array<'py, T> = Bound<'py, PyArray1<T>>;
type Validity<'py> = Option<Array<'py, u8>>;
type Any<'py> = Bound<'py, PyAny>;

/// The parts of a `kafkawire.wire.columns.build.PlanColumns`.
type Walked<'py> = (
    Array<'py, i64>,
    Vec<usize>,
    Vec<Any<'py>>,
    Vec<(Array<'py, i32>, Validity<'py>, Array<'py, u8>, Array<'py, i64>)>,
    Vec<(Array<'py, i32>, Validity<'py>, Any<'py>)>,
    Vec<(Array<'py, i32>, Validity<'py>)>,
    Vec<Validity<'py>>,
    Vec<(Array<'py, i32>, Array<'py, i32>, Array<'py, i32>, Array<'py, u8>)>,
);

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
    ) -> PyResult<Walked<'py>> {
        let (octets, starts, ends) = (data.as_slice()?, starts.as_slice()?, ends.as_slice()?);
        let total = starts.iter().zip(ends).try_fold(0i64, |total, (&start, &end)| {
            total.checked_add(if start < 0 { 0 } else { end.checked_sub(start)?.max(0) })
        });
        if starts.len() != ends.len() || total.is_none_or(|total| i32::try_from(total).is_err()) {
            return Err(PyValueError::new_err("as many ends as starts, and less than 2 GiB of values"));
        }
        let plan = &self.plan;
        let (refused, found) = py.detach(|| -> Result<_, TooMuch> {
            let (columns, refused) = walk::walk(plan, octets, starts, ends);
            Ok((refused, Finished::of(columns)?))
        })?;
        let bits = |validity: column::Validity| validity.map(|bits| array(py, bits));
        Ok((
            array(py, refused),
            found.counts,
            found.numbers.into_iter().map(|numbers| numbers.into_array(py)).collect(),
            (found.blobs.into_iter())
                .map(|(offsets, valid, data, impure)| {
                    (array(py, offsets), bits(valid), array(py, data), array(py, impure))
                })
                .collect(),
            (found.arrays.into_iter())
                .map(|((offsets, valid), items)| (array(py, offsets), bits(valid), items.into_array(py)))
                .collect(),
            found.lists.into_iter().map(|(offsets, valid)| (array(py, offsets), bits(valid))).collect(),
            found.marks.into_iter().map(bits).collect(),
            (found.unknown.into_iter())
                .map(|(lists, tags, offsets, data)| {
                    (array(py, lists), array(py, tags), array(py, offsets), array(py, data))
                })
                .collect(),
        ))
    }
}

fn array<T: Element>(py: Python<'_>, values: Vec<T>) -> Array<'_, T> {
    values.into_pyarray(py)
}

/// Columns to which nothing is added any more.
struct Finished {
    counts: Vec<usize>,
    numbers: Vec<Numbers>,
    blobs: Vec<column::FinishedBlobs>,
    arrays: Vec<((Vec<i32>, column::Validity), Numbers)>,
    lists: Vec<(Vec<i32>, column::Validity)>,
    marks: Vec<column::Validity>,
    unknown: Vec<column::FinishedUnknown>,
}

impl Finished {
    fn of(columns: plan::Columns) -> Result<Self, TooMuch> {
        Ok(Finished {
            counts: columns.counts,
            numbers: columns.runs.into_iter().flat_map(numbers::Run::finish).collect(),
            blobs: columns.blobs.into_iter().map(column::Blobs::finish).collect::<Result<_, _>>()?,
            arrays: columns.arrays.into_iter().map(|arrays| (arrays.ends.finish(), arrays.items)).collect(),
            lists: columns.lists.into_iter().map(column::Offsets::finish).collect(),
            marks: columns.marks.into_iter().map(column::Marks::finish).collect(),
            unknown: columns.unknown.into_iter().map(column::Unknown::finish).collect(),
        })
    }
}
