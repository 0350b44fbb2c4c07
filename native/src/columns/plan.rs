//! Plans as `kafkawire.wire.columns.plan` makes them, checked once, so that walking needs no checks of indexes.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// A column of positions, or `None` for what is walked past.
pub type Column = Option<usize>;

/// One step of a walk. Lengths are `compact` (a varint, one more than the length) or not.
#[derive(Debug, Clone, Copy)]
pub enum Step {
    /// Fixed-size fields that stand together: `size` bytes.
    Run { size: usize, column: Column },
    /// A string or bytes.
    Blob { string: bool, compact: bool, nullable: bool, column: Column },
    /// An array of values of `size` bytes each.
    Numbers { size: usize, compact: bool, nullable: bool, column: Column },
    /// An array of what `walk` reads, `size` bytes each at least. A column has a space: that of the elements.
    List { size: usize, compact: bool, nullable: bool, column: Option<(usize, usize)>, walk: usize },
    /// A struct.
    Nested { compact: bool, nullable: bool, column: Column, walk: usize },
}

/// How one struct is read.
#[derive(Debug)]
pub struct Walk {
    pub flexible: bool,
    pub steps: Vec<Step>,
    pub tags: Vec<(i32, Step)>,
    pub foreign_tags: Vec<i32>,
    pub unknown: Column,
}

/// The columns of one space.
#[derive(Debug, Default, Clone)]
pub struct Space {
    pub runs: Vec<usize>,
    pub blobs: Vec<usize>,
    /// Lists, and the spaces of their elements.
    pub lists: Vec<(usize, usize)>,
    pub marks: Vec<usize>,
    pub unknown: Vec<usize>,
}

#[derive(Debug)]
pub struct Plan {
    /// The last walk is that of the whole value; nested ones stand before those that use them.
    pub walks: Vec<Walk>,
    pub spaces: Vec<Space>,
    pub runs: usize,
    pub blobs: usize,
    pub lists: usize,
    pub marks: usize,
    pub unknown: usize,
}

type RawStep = (u8, i64, usize, bool, bool, bool, i64, i64);
type RawWalk = (bool, Vec<RawStep>, Vec<(i32, RawStep)>, Vec<i32>, i64);

const RUN: u8 = 0;
const BLOB: u8 = 1;
const NUMBERS: u8 = 2;
const LIST: u8 = 3;
const NESTED: u8 = 4;
const NONE: i64 = -1;

impl Plan {
    pub fn of(given: &Bound<'_, PyAny>) -> PyResult<Plan> {
        let walks: Vec<RawWalk> = given.getattr("walks")?.extract()?;
        let lists: Vec<(usize, usize)> = given.getattr("lists")?.extract()?;
        let columns = |name: &str| -> PyResult<Vec<usize>> { given.getattr(name)?.extract() };
        let count: usize = given.getattr("spaces")?.extract()?;
        let (runs, blobs, marks, unknown) =
            (columns("runs")?, columns("blobs")?, columns("marks")?, columns("unknown")?);
        let wrong = || PyValueError::new_err("not a plan");
        let spaces = spaces_of(count, &runs, &blobs, &lists, &marks, &unknown).ok_or_else(wrong)?;
        let check =
            Check { runs: runs.len(), blobs: blobs.len(), lists: &lists, marks: marks.len(), unknown: unknown.len() };
        let walks: Vec<Walk> = walks
            .into_iter()
            .enumerate()
            .map(|(at, raw)| check.walk(raw, at))
            .collect::<Option<_>>()
            .ok_or_else(wrong)?;
        if walks.is_empty() {
            return Err(wrong());
        }
        Ok(Plan {
            walks,
            spaces,
            runs: runs.len(),
            blobs: blobs.len(),
            lists: lists.len(),
            marks: marks.len(),
            unknown: unknown.len(),
        })
    }
}

fn spaces_of(
    count: usize,
    runs: &[usize],
    blobs: &[usize],
    lists: &[(usize, usize)],
    marks: &[usize],
    unknown: &[usize],
) -> Option<Vec<Space>> {
    let mut spaces = vec![Space::default(); count];
    for (column, &space) in runs.iter().enumerate() {
        spaces.get_mut(space)?.runs.push(column);
    }
    for (column, &space) in blobs.iter().enumerate() {
        spaces.get_mut(space)?.blobs.push(column);
    }
    for (column, &space) in marks.iter().enumerate() {
        spaces.get_mut(space)?.marks.push(column);
    }
    for (column, &space) in unknown.iter().enumerate() {
        spaces.get_mut(space)?.unknown.push(column);
    }
    for (column, &(space, own)) in lists.iter().enumerate() {
        // The elements' space stands behind that of the list: so no chain of them is endless.
        if own <= space || own >= count {
            return None;
        }
        spaces.get_mut(space)?.lists.push((column, own));
    }
    Some(spaces)
}

/// What the indexes of steps must be below.
struct Check<'a> {
    runs: usize,
    blobs: usize,
    lists: &'a [(usize, usize)],
    marks: usize,
    unknown: usize,
}

/// An index into `count` columns; `Some(None)` for none.
fn column(number: i64, count: usize) -> Option<Column> {
    if number == NONE {
        return Some(None);
    }
    let number = usize::try_from(number).ok()?;
    (number < count).then_some(Some(number))
}

impl Check<'_> {
    fn walk(&self, raw: RawWalk, at: usize) -> Option<Walk> {
        let (flexible, steps, tags, foreign_tags, unknown) = raw;
        Some(Walk {
            flexible,
            steps: steps.into_iter().map(|step| self.step(step, at)).collect::<Option<_>>()?,
            tags: tags.into_iter().map(|(tag, step)| Some((tag, self.step(step, at)?))).collect::<Option<_>>()?,
            foreign_tags,
            unknown: column(unknown, self.unknown)?,
        })
    }

    fn step(&self, raw: RawStep, at: usize) -> Option<Step> {
        let (what, number, size, string, compact, nullable, walk, _) = raw;
        let nested = || usize::try_from(walk).ok().filter(|&walk| walk < at);
        Some(match what {
            RUN => Step::Run { size, column: column(number, self.runs)? },
            BLOB => Step::Blob { string, compact, nullable, column: column(number, self.blobs)? },
            NUMBERS if size > 0 => Step::Numbers { size, compact, nullable, column: column(number, self.blobs)? },
            LIST if size > 0 => Step::List {
                size,
                compact,
                nullable,
                column: column(number, self.lists.len())?.map(|number| (number, self.lists[number].1)),
                walk: nested()?,
            },
            NESTED => Step::Nested { compact, nullable, column: column(number, self.marks)?, walk: nested()? },
            _ => return None,
        })
    }
}
