//! Plans as `kafkawire.wire.columns.plan` makes them, checked once, so that walking needs no checks of indexes.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::column::{Arrays, Blobs, Marks, Offsets, Unknown};
use super::numbers::{Numbers, Run};
use crate::layout::WireType;
use crate::walk::{Step, Steps};

/// A column, or `None` for what is walked past.
pub type Column = Option<usize>;

/// The column of a field; of a list, the list's, that of the strings in it, and the space of its elements.
#[derive(Debug, Clone, Copy)]
pub struct FieldColumns {
    pub column: Column,
    pub list: Column,
    pub space: usize,
}

/// How one struct is read: with the column of its unknown tagged fields.
pub type Walk = Steps<FieldColumns, Column>;

/// The columns of one space, by kind.
#[derive(Debug, Default, Clone)]
pub struct Space {
    pub runs: Vec<usize>,
    pub blobs: Vec<usize>,
    pub arrays: Vec<usize>,
    /// Lists, and the spaces of their elements.
    pub lists: Vec<(usize, usize)>,
    pub marks: Vec<usize>,
    pub unknown: Vec<usize>,
}

/// All columns.
#[derive(Debug, Clone)]
pub struct Columns {
    /// In order, the runs' columns are those of numbers.
    pub runs: Vec<Run>,
    pub blobs: Vec<Blobs>,
    pub arrays: Vec<Arrays>,
    pub lists: Vec<Offsets>,
    pub marks: Vec<Marks>,
    pub unknown: Vec<Unknown>,
    /// Elements of each space.
    pub counts: Vec<usize>,
}

#[derive(Debug)]
pub struct Plan {
    /// The last walk is that of the whole value; nested ones precede those that use them.
    pub walks: Vec<Walk>,
    pub spaces: Vec<Space>,
    /// Columns in which nothing is written yet.
    pub empty: Columns,
}

type RawStep = (u8, i64, usize, bool, bool, bool, i64);
type RawWalk = (bool, Vec<RawStep>, Vec<(i32, RawStep)>, Vec<i32>, i64);

const RUN: u8 = 0;
const BLOB: u8 = 1;
const NUMBERS: u8 = 2;
const BLOBS: u8 = 3;
const LIST: u8 = 4;
const NESTED: u8 = 5;
const NONE: i64 = -1;

fn wrong() -> PyErr {
    PyValueError::new_err("not a plan")
}

impl Plan {
    pub fn of(given: &Bound<'_, PyAny>) -> PyResult<Plan> {
        let raw: Vec<RawWalk> = given.getattr("walks")?.extract()?;
        let layout = DeclaredColumns::of(given)?;
        let walks: Vec<Walk> = raw
            .into_iter()
            .enumerate()
            .map(|(at, raw)| layout.walk(raw, at))
            .collect::<Option<_>>()
            .filter(|walks: &Vec<Walk>| !walks.is_empty())
            .ok_or_else(wrong)?;
        Ok(Plan { walks, spaces: layout.spaces, empty: layout.empty })
    }
}

/// The existing columns, which steps are checked against.
struct DeclaredColumns {
    spaces: Vec<Space>,
    /// Size of each run.
    runs: Vec<usize>,
    lists: Vec<(usize, usize)>,
    empty: Columns,
}

impl DeclaredColumns {
    fn of(given: &Bound<'_, PyAny>) -> PyResult<DeclaredColumns> {
        let runs: Vec<(usize, usize)> = given.getattr("runs")?.extract()?;
        let numbers: Vec<(usize, usize, u8, Bound<'_, PyAny>)> = given.getattr("numbers")?.extract()?;
        let blobs: Vec<(usize, bool, bool, Vec<u8>)> = given.getattr("blobs")?.extract()?;
        let arrays: Vec<(usize, u8, bool)> = given.getattr("arrays")?.extract()?;
        let lists: Vec<(usize, usize, bool)> = given.getattr("lists")?.extract()?;
        let marks: Vec<(usize, bool)> = given.getattr("marks")?.extract()?;
        let unknown: Vec<usize> = given.getattr("unknown")?.extract()?;
        let count: usize = given.getattr("spaces")?.extract()?;

        let mut spaces = vec![Space::default(); count];
        let mut empty = Columns {
            runs: vec![Run::default(); runs.len()],
            blobs: Vec::new(),
            arrays: Vec::new(),
            lists: Vec::new(),
            marks: Vec::new(),
            unknown: vec![Unknown::default(); unknown.len()],
            counts: vec![0; count],
        };
        for (column, &(space, _)) in runs.iter().enumerate() {
            spaces.get_mut(space).ok_or_else(wrong)?.runs.push(column);
        }
        let mut last = 0;
        for (run, offset, kind, default) in numbers {
            let made = Numbers::of(kind, Some(&default))?.ok_or_else(wrong)?;
            let end = offset.checked_add(made.size()).ok_or_else(wrong)?;
            if run < last || runs.get(run).is_none_or(|&(_, size)| end > size) {
                return Err(wrong());
            }
            empty.runs[run].add(offset, made);
            last = run;
        }
        for (column, (space, text, null, default)) in blobs.into_iter().enumerate() {
            spaces.get_mut(space).ok_or_else(wrong)?.blobs.push(column);
            empty.blobs.push(Blobs::new(text, null, default));
        }
        for (column, (space, kind, null)) in arrays.into_iter().enumerate() {
            spaces.get_mut(space).ok_or_else(wrong)?.arrays.push(column);
            let items = Numbers::of(kind, None)?.ok_or_else(wrong)?;
            empty.arrays.push(Arrays { ends: Offsets::new(null), items });
        }
        for (column, &(space, own, null)) in lists.iter().enumerate() {
            // The elements' space comes after that of the list: so no chain of them is endless.
            if own <= space || own >= count {
                return Err(wrong());
            }
            spaces[space].lists.push((column, own));
            empty.lists.push(Offsets::new(null));
        }
        for (column, (space, null)) in marks.into_iter().enumerate() {
            spaces.get_mut(space).ok_or_else(wrong)?.marks.push(column);
            empty.marks.push(Marks::new(null));
        }
        for (column, space) in unknown.into_iter().enumerate() {
            spaces.get_mut(space).ok_or_else(wrong)?.unknown.push(column);
        }
        let lists = lists.into_iter().map(|(space, own, _)| (space, own)).collect();
        let runs = runs.into_iter().map(|(_, size)| size).collect();
        Ok(DeclaredColumns { spaces, runs, lists, empty })
    }

    fn walk(&self, raw: RawWalk, at: usize) -> Option<Walk> {
        let (flexible, steps, tags, foreign_tags, unknown) = raw;
        Some(Walk {
            flexible,
            cost: 0,
            steps: steps.into_iter().map(|step| self.step(step, at)).collect::<Option<_>>()?,
            tags: tags.into_iter().map(|(tag, step)| Some((tag, self.step(step, at)?))).collect::<Option<_>>()?,
            foreign_tags,
            own: column(unknown, self.empty.unknown.len())?,
        })
    }

    fn step(&self, raw: RawStep, at: usize) -> Option<Step<FieldColumns>> {
        let (code, number, size, string, compact, nullable, inner) = raw;
        let nested = || usize::try_from(inner).ok().filter(|&walk| walk < at);
        let (wire, columns) = match code {
            RUN => (WireType::Fixed { size }, self.runs.len()),
            BLOB => (WireType::Blob { string, compact, nullable }, self.empty.blobs.len()),
            NUMBERS if size > 0 => (WireType::Numbers { size, compact, nullable }, self.empty.arrays.len()),
            BLOBS if size > 0 => (WireType::Blobs { string, size, compact, nullable }, self.lists.len()),
            LIST if size > 0 => (WireType::List { size, compact, nullable, walk: nested()? }, self.lists.len()),
            NESTED => (WireType::Nested { compact, nullable, walk: nested()? }, self.empty.marks.len()),
            _ => return None,
        };
        let number = column(number, columns)?;
        let mut field = FieldColumns { column: number, list: None, space: 0 };
        match (wire, number) {
            (WireType::Fixed { .. }, Some(number)) if self.runs[number] != size => return None,
            (WireType::Numbers { .. }, Some(number)) if self.empty.arrays[number].items.size() != size => return None,
            (WireType::Blobs { .. } | WireType::List { .. }, list) => {
                let strings =
                    if matches!(wire, WireType::Blobs { .. }) { column(inner, self.empty.blobs.len())? } else { None };
                let space = list.map_or(0, |list| self.lists[list].1);
                field = FieldColumns { column: strings, list, space };
            }
            _ => (),
        }
        Some(Step { wire, field })
    }
}

/// An index into `count` columns; `Some(None)` for none.
fn column(number: i64, count: usize) -> Option<Column> {
    if number == NONE {
        return Some(None);
    }
    let number = usize::try_from(number).ok()?;
    (number < count).then_some(Some(number))
}
