//! The state machine of a partition's log. `kafkawire.transactions` is the reference in Python. It judges the batches
//! for which a rule here does not hold, and all batches where this engine is absent.

mod batches;
pub mod content;
pub mod digests;
mod places;
mod producer;
mod producers;
mod replay;
mod rules;
mod scan;

use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use batches::{Batch, Batches, DATA, MALFORMED};
use content::Given;
use producer::{Producer, FIELDS, NONE};
use producers::Producers;
use replay::Replay;
use scan::{Rules, Scan};

/// Rows of batches that are handed to the reference at once.
const MOST_ASKED: usize = 4096;

type Rows<'py> = Bound<'py, PyArray1<i64>>;
type Pass<'py> = (usize, Bound<'py, PyArray1<u8>>, Rows<'py>, Rows<'py>, Rows<'py>, Bound<'py, PyArray1<u64>>);
/// The producers of one partition: see `kafkawire.transactions.log.ordered_replay`.
#[pyclass(module = "kafkawire._native")]
struct LogReplay(Replay);

#[pymethods]
impl LogReplay {
    /// `expiration_ms`: what rules are judged by; None: none is.
    #[new]
    fn new(expiration_ms: Option<i64>) -> Self {
        LogReplay(Replay::new(expiration_ms))
    }

    fn __len__(&self) -> usize {
        self.0.producers.len()
    }

    /// Takes producers as rows, in this order.
    fn restore(&mut self, rows: PyReadonlyArray1<'_, i64>) -> PyResult<()> {
        for row in rows.as_slice()?.chunks_exact(FIELDS) {
            self.0.producers.restore(row).ok_or_else(|| PyValueError::new_err("a producer's state is out of range"))?;
        }
        Ok(())
    }

    /// The row of one producer, or None.
    fn row<'py>(&self, py: Python<'py>, producer_id: i64) -> Option<Rows<'py>> {
        let place = self.0.producers.place(producer_id);
        (place != NONE).then(|| of_rows(py, &self.0.producers, std::iter::once(self.0.producers.at(place))))
    }

    /// Rows of the producers from one place up to another, in the order in which they came.
    fn rows<'py>(&self, py: Python<'py>, start: usize, stop: usize) -> Rows<'py> {
        of_rows(py, &self.0.producers, self.0.producers.from(start).take(stop.saturating_sub(start)))
    }

    /// Of all producers: ids, last offsets and timestamps of their last batch or marker.
    fn last_appends<'py>(&self, py: Python<'py>) -> (Rows<'py>, Rows<'py>, Rows<'py>) {
        let producers = || self.0.producers.from(0);
        (
            PyArray1::from_vec(py, producers().map(|one| one.producer_id).collect()),
            PyArray1::from_vec(py, producers().map(|one| one.last_append).collect()),
            PyArray1::from_vec(py, producers().map(|one| one.timestamp).collect()),
        )
    }

    /// Rows of the producers with an open transaction, in the order in which these began.
    fn open<'py>(&self, py: Python<'py>) -> Rows<'py> {
        of_rows(py, &self.0.producers, self.0.producers.open())
    }

    /// Takes batches from `start` on. `columns`: those of `Appends`, in their order. Returns the batch to go on with,
    /// ended transactions (packed), the last stable offset of each and the `intact_from` of its marker, the batches that
    /// the reference has to judge, and of each rule the counts of its outcomes.
    fn run<'py>(
        &mut self,
        py: Python<'py>,
        columns: &Bound<'py, PyTuple>,
        start: usize,
        asked: Option<PyReadonlyArray1<'py, bool>>,
    ) -> PyResult<Pass<'py>> {
        let wide = |at: usize| columns.get_item(at)?.extract::<PyReadonlyArray1<'py, i64>>();
        let bits = |at: usize| columns.get_item(at)?.extract::<PyReadonlyArray1<'py, bool>>();
        let ints = |at: usize| columns.get_item(at)?.extract::<PyReadonlyArray1<'py, i32>>();
        let epochs: PyReadonlyArray1<'py, i16> = columns.get_item(4)?.extract()?;
        let controls: PyReadonlyArray1<'py, i8> = columns.get_item(5)?.extract()?;
        let (base, last, times, ids) = (wide(0)?, wide(1)?, wide(2)?, wide(3)?);
        let (coordinators, sequences, intact) = (wide(6)?, ints(7)?, wide(9)?);
        let (transactional, compacted, problems, append_time) = (bits(8)?, bits(10)?, ints(11)?, bits(12)?);
        let batches = Batches {
            base_offset: base.as_slice()?,
            last_offset: last.as_slice()?,
            timestamp: times.as_slice()?,
            producer_id: ids.as_slice()?,
            producer_epoch: epochs.as_slice()?,
            control: controls.as_slice()?,
            coordinator_epoch: coordinators.as_slice()?,
            base_sequence: sequences.as_slice()?,
            transactional: transactional.as_slice()?,
            intact_from: intact.as_slice()?,
            compacted: compacted.as_slice()?,
            problem: problems.as_slice()?,
            append_time: append_time.as_slice()?,
        };
        let asked = asked.as_ref().map(|asked| asked.as_slice()).transpose()?;
        let count = batches
            .count()
            .filter(|&count| asked.is_none_or(|asked| asked.len() == count))
            .ok_or_else(|| PyValueError::new_err("columns of different lengths"))?;
        if start > count {
            return Err(PyIndexError::new_err(start));
        }
        let replay = &mut self.0;
        let found = py.detach(|| replay.run(&batches, start, count, asked, MOST_ASKED));
        Ok((
            found.next,
            PyArray1::from_vec(py, found.ended),
            PyArray1::from_vec(py, found.stable),
            PyArray1::from_vec(py, found.intact_from),
            PyArray1::from_vec(py, found.asked),
            PyArray1::from_vec(py, found.counts.concat()),
        ))
    }
}

/// The transactions of batches that belong to some or end some, in the order of the log.
///
/// `open`: producer ids, each once, and first offsets of those that are open before. Returns of each batch the first
/// offset of its transaction, -1 for none; the producer ids of `open` that have ended, and as `open` those that are open
/// after them and were not before, in the order in which they began.
#[pyfunction]
fn transactions_of<'py>(
    py: Python<'py>,
    open: (PyReadonlyArray1<'py, i64>, PyReadonlyArray1<'py, i64>),
    producer_ids: PyReadonlyArray1<'py, i64>,
    offsets: PyReadonlyArray1<'py, i64>,
    controls: PyReadonlyArray1<'py, i8>,
) -> PyResult<(Rows<'py>, Rows<'py>, (Rows<'py>, Rows<'py>))> {
    let (ids, offsets, controls) = (producer_ids.as_slice()?, offsets.as_slice()?, controls.as_slice()?);
    let (open_ids, open_first) = (open.0.as_slice()?, open.1.as_slice()?);
    if open_ids.len() != open_first.len() || ids.len() != offsets.len() || ids.len() != controls.len() {
        return Err(PyValueError::new_err("columns of different lengths"));
    }
    let (first, ended, begun): (Vec<i64>, Vec<i64>, Vec<(i64, i64)>) = py.detach(|| {
        let mut producers = Producers::new();
        for (&producer_id, &first_offset) in open_ids.iter().zip(open_first) {
            producers.reopen(producer_id, first_offset);
        }
        let mut next = |((&producer_id, &offset), &control): ((&i64, &i64), &i8)| {
            let batch = Batch::in_transaction(producer_id, offset, control);
            let place = producers.place(producer_id);
            match control {
                MALFORMED => -1,
                DATA => {
                    producers.add(place, &batch, None);
                    producers.at(producers.place(producer_id)).first_offset
                }
                _ => producers.add(place, &batch, None).map_or(-1, |ending| ending.first_offset),
            }
        };
        let first = ids.iter().zip(offsets).zip(controls).map(&mut next).collect();
        let is_left = |one: &Producer| one.is_open() && !one.began_here();
        let ended = open_ids.iter().copied().filter(|&id| !is_left(producers.at(producers.place(id)))).collect();
        let begun = producers.open().filter(|one| one.began_here());
        (first, ended, begun.map(|one| (one.producer_id, one.first_offset)).collect())
    });
    let (begun_ids, begun_first) = begun.into_iter().unzip();
    let begun = (PyArray1::from_vec(py, begun_ids), PyArray1::from_vec(py, begun_first));
    Ok((PyArray1::from_vec(py, first), PyArray1::from_vec(py, ended), begun))
}

fn of_rows<'a, 'py>(py: Python<'py>, all: &Producers, some: impl Iterator<Item = &'a Producer>) -> Rows<'py> {
    let mut rows = Vec::new();
    some.for_each(|producer| all.push_row(producer, &mut rows));
    PyArray1::from_vec(py, rows)
}

/// Digests of batches, as packed rows (`range_digests.DIGEST`).
#[pyfunction]
fn range_digests<'py>(
    py: Python<'py>,
    base: PyReadonlyArray1<'py, i64>,
    last: PyReadonlyArray1<'py, i64>,
    crc: PyReadonlyArray1<'py, u64>,
) -> PyResult<Bound<'py, PyArray1<u8>>> {
    let (base, last, crc) = (base.as_slice()?, last.as_slice()?, crc.as_slice()?);
    if base.len() != last.len() || base.len() != crc.len() {
        return Err(PyValueError::new_err("columns of different lengths"));
    }
    Ok(PyArray1::from_vec(py, py.detach(|| digests::digests(base, last, crc))))
}

type Times = Option<(i32, i64, i64)>;
type Runs<'py> = (Rows<'py>, Rows<'py>, Rows<'py>);
type Scanned<'py> = (usize, u64, u64, i32, Times, Runs<'py>, Bound<'py, PyArray1<u8>>, Bound<'py, PyTuple>);

/// The batches at the beginning of what is given, up to one that the reference has to look at (`Scan::take`). Returns
/// their bytes and number, and how many of producers are transactional; their highest leader epoch, and times of brokers
/// (`BrokerTimes`); runs of batches that follow one another; digests (`range_digests.DIGEST`); and the columns of
/// `Appends` without `intact_from`.
#[pyfunction]
fn scan_log<'py>(
    py: Python<'py>,
    given: Given<'py>,
    following: Option<i64>,
    max_batch_bytes: usize,
    by_brokers: bool,
) -> PyResult<Scanned<'py>> {
    let content = given.content()?;
    let (scan, digests) = py.detach(|| {
        let mut scan = Scan::of(content, following, Rules { max_batch_bytes, by_brokers });
        let digests = std::mem::take(&mut scan.digests).into_rows();
        (scan, digests)
    });
    let columns = scan.columns;
    let problem = vec![-1; columns.base_offset.len()];
    let columns = [
        array(py, columns.base_offset),
        array(py, columns.last_offset),
        array(py, columns.timestamp),
        array(py, columns.producer_id),
        array(py, columns.producer_epoch),
        array(py, columns.control),
        array(py, columns.coordinator_epoch),
        array(py, columns.base_sequence),
        array(py, columns.transactional),
        array(py, columns.compacted),
        array::<i32>(py, problem),
        array(py, columns.append_time),
    ];
    Ok((
        scan.size,
        scan.batches,
        scan.transactional,
        scan.leader_epoch,
        scan.times.map(|times| (times.leader_epoch, times.of_leader, times.newest)),
        (PyArray1::from_vec(py, scan.bases), PyArray1::from_vec(py, scan.ends), PyArray1::from_vec(py, scan.counts)),
        PyArray1::from_vec(py, digests),
        PyTuple::new(py, columns)?,
    ))
}

fn array<T: numpy::Element>(py: Python<'_>, values: Vec<T>) -> Bound<'_, PyAny> {
    PyArray1::from_vec(py, values).into_any()
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(range_digests, module)?)?;
    module.add_function(wrap_pyfunction!(scan_log, module)?)?;
    module.add("LOG_RULES", rules::RULES.map(|(name, _)| name).to_vec())?;
    module.add_function(wrap_pyfunction!(transactions_of, module)?)?;
    module.add_class::<LogReplay>()
}
