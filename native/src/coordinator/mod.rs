//! Partitions of `__transaction_state`: their records as rows, and what follows from them in the order of the log.
//! `kafkawire.transactions.auditing.id_history` is the reference in Python. It judges the steps that this engine does
//! not find right, reads the records that this engine refuses, and does all of it where this engine is absent.

mod decisions;
mod interner;
mod join;
mod records;
mod replay;
mod row;
mod rules;
mod walk;

use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use join::{Join, Share};
use records::Read;
use replay::IdReplay;
use row::{NUMBERS, SIZE};

use crate::log::content::Given;

/// Steps that are handed to the reference at once.
const MOST_ASKED: usize = 4096 * (1 + 2 * NUMBERS);

type Bytes<'py> = Bound<'py, PyArray1<u8>>;
type Numbers<'py> = Bound<'py, PyArray1<i64>>;
type OfChunks<'py> = Vec<Vec<Bound<'py, PyArray1<u32>>>>;
type Strings<'py> = Vec<Bound<'py, PyBytes>>;
type Columns<'py> = (Bytes<'py>, Strings<'py>, Strings<'py>, usize);
type Steps<'py> = (usize, Numbers<'py>, (u64, u64, u64));
type Walked<'py> = (usize, u64, i32, i64, i64, Numbers<'py>, Numbers<'py>, Bytes<'py>, Numbers<'py>, (u64, u64, u64));
type ReadSteps<'py> = (usize, bool, Numbers<'py>, (u64, u64, u64));

/// The records of the batches at `positions[first..]`, up to the first batch of which one is refused: packed rows
/// (`id_columns.ROW`), the transactional ids and lists of partitions that they name, and the batch to go on with.
#[pyfunction]
fn coordinator_columns<'py>(
    py: Python<'py>,
    data: PyReadonlyArray1<'py, u8>,
    positions: PyReadonlyArray1<'py, i64>,
    first: usize,
    max_batch_bytes: usize,
) -> PyResult<Columns<'py>> {
    let (data, positions) = (data.as_slice()?, positions.as_slice()?);
    let found = py.detach(|| Read::of(data, positions, first, max_batch_bytes));
    let lists = found.named.lists.values_from(0).map(|list| PyBytes::new(py, list)).collect();
    let names = found.named.names.values_from(0).map(|name| PyBytes::new(py, name)).collect();
    Ok((PyArray1::from_vec(py, found.rows), names, lists, found.next))
}

/// Counts the ended transactions that certainly agree with the decision of their coordinator, of each place. `decided`:
/// packed decisions, and how many lists they name. `ended`: of each place chunks of packed transactions. `listed`:
/// whether the list of this number, of all, names the place of this number. `share`: which share of the producer ids is
/// looked at, and of how many. Returns the counts, and of each chunk the indexes of the others.
#[pyfunction]
fn settle_agreeing<'py>(
    py: Python<'py>,
    decided: Vec<(PyReadonlyArray1<'py, u8>, usize)>,
    ended: Vec<Vec<PyReadonlyArray1<'py, u8>>>,
    listed: Py<PyAny>,
    share: (u64, u64),
) -> PyResult<(Numbers<'py>, OfChunks<'py>)> {
    let decided = decided.iter().map(|(rows, lists)| Ok((rows.as_slice()?, *lists))).collect::<PyResult<Vec<_>>>()?;
    let places = ended.iter().map(|chunks| chunks.iter().map(|rows| Ok(rows.as_slice()?)).collect());
    let places = places.collect::<PyResult<Vec<Vec<_>>>>()?;
    let (number, count) = share;
    if number >= count {
        return Err(PyIndexError::new_err(number));
    }
    let (held, left) = py.detach(|| {
        let join = Join::of(&decided, Share { number, count });
        let join = join.ok_or_else(|| PyValueError::new_err("a decision names a list that is not there"))?;
        join.settle(&places, |list, place| Python::attach(|py| listed.call1(py, (list, place))?.extract(py)))
    })?;
    let arrays = |of_place: Vec<Vec<u32>>| of_place.into_iter().map(|left| PyArray1::from_vec(py, left)).collect();
    Ok((PyArray1::from_vec(py, held), left.into_iter().map(arrays).collect()))
}

/// What the ids of one partition are in, use and have decided: see `kafkawire.transactions.auditing.id_history`.
#[pyclass(module = "kafkawire._native")]
struct CoordinatorReplay(IdReplay);

#[pymethods]
impl CoordinatorReplay {
    #[new]
    fn new() -> Self {
        CoordinatorReplay(IdReplay::default())
    }

    /// Notes a record at this offset, of whatever content.
    fn reach(&mut self, offset: i64) {
        self.0.reach(offset);
    }

    /// The lowest offset from which up to the last record no offset is missing.
    #[getter]
    fn intact_from(&self) -> i64 {
        self.0.intact_from
    }

    /// Takes rows from `start` on, which name `names` and `lists`. Returns the row to go on with; for each step that the
    /// reference has to judge whether there is a record before, that record and the row, as numbers; and how many steps
    /// hold, how many of them name no previous producer id, and how many come after a gap.
    fn run<'py>(
        &mut self,
        py: Python<'py>,
        rows: PyReadonlyArray1<'py, u8>,
        names: Vec<Vec<u8>>,
        lists: Vec<Vec<u8>>,
        start: usize,
    ) -> PyResult<Steps<'py>> {
        let rows = rows.as_slice()?;
        if !rows.len().is_multiple_of(SIZE) || start > rows.len() / SIZE {
            return Err(PyIndexError::new_err(start));
        }
        let replay = &mut self.0;
        let found = py.detach(|| replay.run(&rows[start * SIZE..], &names, &lists, MOST_ASKED));
        let found = found.map_err(|_| PyValueError::new_err("a row names what is not there"))?;
        Ok((
            start + found.taken,
            PyArray1::from_vec(py, found.asked),
            (found.held, found.without_previous, found.after_gap),
        ))
    }

    /// Takes the records of the batches at `positions[first..]`: what `coordinator_columns` and `run` do. Returns the
    /// batch to go on with and whether that one was refused, and of `run` the other two.
    fn read<'py>(
        &mut self,
        py: Python<'py>,
        data: PyReadonlyArray1<'py, u8>,
        positions: PyReadonlyArray1<'py, i64>,
        first: usize,
        max_batch_bytes: usize,
    ) -> PyResult<ReadSteps<'py>> {
        let (data, positions) = (data.as_slice()?, positions.as_slice()?);
        let positions = positions.get(first..).ok_or_else(|| PyIndexError::new_err(first))?;
        let replay = &mut self.0;
        let found = py.detach(|| replay.read(data, positions, max_batch_bytes, MOST_ASKED));
        Ok((
            first + found.taken,
            found.refused,
            PyArray1::from_vec(py, found.asked),
            (found.held, found.without_previous, found.after_gap),
        ))
    }

    /// Takes the batches at the beginning of what is given that have no producer. Stops where `run` does, and at a batch that
    /// is damaged, begins below `following`, or whose records are refused. Returns their bytes and number; their highest
    /// leader epoch, its newest timestamp, and the newest of all; first offsets of batches that follow one another, and
    /// the offset after the last of these; digests (`range_digests.DIGEST`); and of `run` the other two.
    fn walk<'py>(
        &mut self,
        py: Python<'py>,
        given: Given<'py>,
        following: Option<i64>,
        max_batch_bytes: usize,
    ) -> PyResult<Walked<'py>> {
        let content = given.content()?;
        let replay = &mut self.0;
        let (walk, found) = py.detach(|| replay.walk(content, following, max_batch_bytes, MOST_ASKED));
        Ok((
            walk.size,
            walk.batches,
            walk.leader_epoch,
            walk.of_leader,
            walk.newest,
            PyArray1::from_vec(py, walk.bases),
            PyArray1::from_vec(py, walk.ends),
            PyArray1::from_vec(py, walk.digests.into_rows()),
            PyArray1::from_vec(py, found.asked),
            (found.held, found.without_previous, found.after_gap),
        ))
    }

    /// The names of ids, and the lists of partitions, from a place on, in the order of their first records.
    fn names<'py>(&self, py: Python<'py>, start: usize) -> Strings<'py> {
        self.0.named.names.values_from(start).map(|name| PyBytes::new(py, name)).collect()
    }

    fn lists<'py>(&self, py: Python<'py>, start: usize) -> Strings<'py> {
        self.0.named.lists.values_from(start).map(|list| PyBytes::new(py, list)).collect()
    }

    /// The newest record of each id, as packed rows in the order of their first records.
    fn newest<'py>(&self, py: Python<'py>) -> Bytes<'py> {
        let mut rows = Vec::with_capacity(self.0.count() * SIZE);
        self.0.newest().for_each(|row| row.push(&mut rows));
        PyArray1::from_vec(py, rows)
    }

    /// Of each producer id that a record names: the id that it belongs to, and whether that has it as its own.
    fn owners<'py>(&self, py: Python<'py>) -> (Numbers<'py>, Bound<'py, PyArray1<u32>>, Bound<'py, PyArray1<bool>>) {
        let owners = self.0.owners();
        (
            PyArray1::from_vec(py, owners.iter().map(|one| one.producer_id).collect()),
            PyArray1::from_vec(py, owners.iter().map(|one| one.id).collect()),
            PyArray1::from_vec(py, owners.iter().map(|one| one.current).collect()),
        )
    }

    /// Producer ids that ids have had as their own: producer id, id, offset and timestamp of the first record.
    fn uses<'py>(&self, py: Python<'py>) -> Numbers<'py> {
        PyArray1::from_vec(py, self.0.uses.concat())
    }

    /// Takes out decisions, as packed rows (`packed_decisions.DECIDED`): those that no later record changes, and with `last` all.
    fn decided<'py>(&mut self, py: Python<'py>, last: bool) -> Bytes<'py> {
        PyArray1::from_vec(py, self.0.decisions.drain(last))
    }

    /// Some of the decisions that were carried out: producer id, epoch, since, until, leader epoch.
    fn completed<'py>(&self, py: Python<'py>) -> Numbers<'py> {
        PyArray1::from_vec(py, self.0.decisions.completed().concat())
    }
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("COORDINATOR_NUMBERS", NUMBERS)?;
    module.add_function(wrap_pyfunction!(coordinator_columns, module)?)?;
    module.add_function(wrap_pyfunction!(settle_agreeing, module)?)?;
    module.add_class::<CoordinatorReplay>()
}

/// As an index into a table: there is nothing.
const NONE: u32 = u32::MAX;
/// As the list of partitions: null.
const NULL: i32 = -1;
