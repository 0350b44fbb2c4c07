//! The first pass: over the bytes of every value, noting where things stand.
//!
//! Columns of positions may lag behind their space: what is not there (a tagged field, what lies in a null struct, a
//! value that was refused) gets its entry when the next one is put, or at the end. Memory grows with the bytes that
//! were read, never with what they claim.

use super::plan::{Plan, Space, Step, Walk};
use crate::cursor::{Cursor, Read, Refused};

/// Longest string in bytes, and most tagged fields of a struct (`kafkawire.wire.values`).
const MAX_STRING: usize = 32767;
const MAX_TAGS: i32 = 10_000;

/// Positions of what is not there, and of null. Data is shorter than 2^31 bytes.
pub const ABSENT: u32 = u32::MAX;
pub const NULL: u32 = u32::MAX - 1;

/// Flags beside the number of elements up to the end of a list.
pub const ABSENT_LIST: u64 = 1 << 63;
pub const NULL_LIST: u64 = 1 << 62;
pub const ELEMENTS: u64 = u32::MAX as u64;

/// A tagged field that the schema does not know.
pub struct UnknownTag {
    pub element: u32,
    pub tag: i32,
    pub at: u32,
    pub size: u32,
}

/// Where things stand, by column.
#[derive(Default)]
pub struct Places {
    /// Where a run begins.
    pub runs: Vec<Vec<u32>>,
    /// Where a string, bytes or an array of numbers begins, and its size.
    pub blobs: Vec<Vec<(u32, u32)>>,
    /// How many elements there are up to the end of a list, with flags.
    pub lists: Vec<Vec<u64>>,
    /// Any position, or `NULL`.
    pub marks: Vec<Vec<u32>>,
    pub unknown: Vec<Vec<UnknownTag>>,
    /// Elements of each space.
    pub counts: Vec<usize>,
    /// Values that were not read.
    pub refused: Vec<i64>,
}

/// Walks over all values: `data[starts[i]..ends[i]]`; those with a negative start are refused unread.
pub fn walk(plan: &Plan, data: &[u8], starts: &[i64], ends: &[i64]) -> Places {
    let mut places = Places {
        runs: vec![Vec::new(); plan.runs],
        blobs: vec![Vec::new(); plan.blobs],
        lists: vec![Vec::new(); plan.lists],
        marks: vec![Vec::new(); plan.marks],
        unknown: (0..plan.unknown).map(|_| Vec::new()).collect(),
        counts: vec![0; plan.spaces.len()],
        refused: Vec::new(),
    };
    let mut walker = Walker { plan, places: &mut places };
    let root = &plan.walks[plan.walks.len() - 1];
    for (row, (&start, &end)) in starts.iter().zip(ends).enumerate() {
        if walker.value(root, data, start, end, row).is_err() {
            walker.back(0, row);
            walker.places.refused.push(row as i64);
        }
    }
    if let Some(count) = places.counts.first_mut() {
        *count = starts.len();
    }
    for (space, count) in plan.spaces.iter().zip(places.counts.clone()) {
        places.fill(space, count);
    }
    places
}

struct Walker<'a> {
    plan: &'a Plan,
    places: &'a mut Places,
}

/// Puts an entry at `row`, and `absent` in all places before it that have none.
#[inline]
fn put<T: Copy>(column: &mut Vec<T>, row: usize, absent: T, entry: T) {
    if column.len() < row {
        column.resize(row, absent);
    }
    column.push(entry);
}

fn end_of(list: &[u64]) -> u64 {
    list.last().map_or(0, |end| end & ELEMENTS)
}

impl Walker<'_> {
    fn value(&mut self, root: &Walk, data: &[u8], start: i64, end: i64, row: usize) -> Read<()> {
        let start = usize::try_from(start).map_err(|_| Refused)?;
        let data = usize::try_from(end).ok().and_then(|end| data.get(..end)).ok_or(Refused)?;
        if start > data.len() {
            return Err(Refused);
        }
        let mut cursor = Cursor::new(data, start);
        self.structure(root, &mut cursor, row)?;
        if cursor.left() == 0 {
            Ok(())
        } else {
            Err(Refused)
        }
    }

    fn structure(&mut self, walk: &Walk, cursor: &mut Cursor<'_>, row: usize) -> Read<()> {
        for step in &walk.steps {
            self.step(step, cursor, row)?;
        }
        if walk.flexible {
            let count = cursor.uvarint()?;
            if count != 0 {
                self.tags(walk, count, cursor, row)?;
            }
        }
        Ok(())
    }

    #[inline]
    fn step(&mut self, step: &Step, cursor: &mut Cursor<'_>, row: usize) -> Read<()> {
        match *step {
            Step::Run { size, column } => {
                let at = cursor.position() as u32;
                cursor.take(size)?;
                if let Some(column) = column {
                    put(&mut self.places.runs[column], row, ABSENT, at);
                }
            }
            Step::Blob { string, compact, nullable, column } => {
                let size = cursor.length(compact, string)?;
                if string && size.is_some_and(|size| size > MAX_STRING) {
                    return Err(Refused);
                }
                self.blob(size, 1, nullable, column, cursor, row)?;
            }
            Step::Numbers { size, compact, nullable, column } => {
                let count = cursor.length(compact, false)?;
                self.blob(count, size, nullable, column, cursor, row)?;
            }
            Step::List { size, compact, nullable, column, walk } => {
                let count = cursor.length(compact, false)?;
                self.list(count, size, nullable, column, walk, cursor, row)?;
            }
            Step::Nested { compact, nullable, column, walk } => {
                if nullable {
                    let there = if compact { cursor.uvarint()? > 0 } else { cursor.byte()? < 128 };
                    if let Some(column) = column {
                        put(&mut self.places.marks[column], row, ABSENT, if there { 0 } else { NULL });
                    }
                    if !there {
                        return Ok(());
                    }
                }
                let plan = self.plan;
                self.structure(&plan.walks[walk], cursor, row)?;
            }
        }
        Ok(())
    }

    #[inline]
    fn blob(
        &mut self,
        count: Option<usize>,
        size: usize,
        nullable: bool,
        column: Option<usize>,
        cursor: &mut Cursor<'_>,
        row: usize,
    ) -> Read<()> {
        let entry = match count {
            Some(count) => {
                let at = cursor.position() as u32;
                cursor.take(count.checked_mul(size).ok_or(Refused)?)?;
                (at, count as u32)
            }
            None if nullable => (NULL, 0),
            None => return Err(Refused),
        };
        if let Some(column) = column {
            put(&mut self.places.blobs[column], row, (ABSENT, 0), entry);
        }
        Ok(())
    }

    #[allow(clippy::too_many_arguments)]
    fn list(
        &mut self,
        count: Option<usize>,
        size: usize,
        nullable: bool,
        column: Option<(usize, usize)>,
        walk: usize,
        cursor: &mut Cursor<'_>,
        row: usize,
    ) -> Read<()> {
        let (count, flag) = match count {
            Some(count) if count.saturating_mul(size) <= cursor.left() => (count, 0),
            None if nullable => (0, NULL_LIST),
            _ => return Err(Refused),
        };
        let plan = self.plan;
        let walk = &plan.walks[walk];
        let Some((column, space)) = column else {
            for _ in 0..count {
                self.structure(walk, cursor, 0)?;
            }
            return Ok(());
        };
        let first = self.places.counts[space];
        // Elements beyond those that a list's end counts go when the value is refused.
        for element in first..first + count {
            self.structure(walk, cursor, element)?;
        }
        self.places.counts[space] = first + count;
        let list = &mut self.places.lists[column];
        let before = end_of(list);
        put(list, row, before | ABSENT_LIST, (first + count) as u64 | flag);
        Ok(())
    }

    /// Tagged fields. Kafka accepts them in any order, and twice: such values are refused here, to be read one by one.
    #[cold]
    fn tags(&mut self, walk: &Walk, count: i32, cursor: &mut Cursor<'_>, row: usize) -> Read<()> {
        if !(0..=MAX_TAGS).contains(&count) || count as usize > cursor.left() {
            return Err(Refused);
        }
        let mut last = -1;
        for _ in 0..count {
            let tag = cursor.uvarint()?;
            let size = cursor.uvarint()?;
            if tag <= last || walk.foreign_tags.contains(&tag) {
                return Err(Refused);
            }
            last = tag;
            if let Some((_, step)) = walk.tags.iter().find(|(known, _)| *known == tag) {
                // As in Kafka, the size of a field that is known is not looked at.
                self.step(step, cursor, row)?;
                continue;
            }
            let size = u32::try_from(size).map_err(|_| Refused)?;
            let at = cursor.position() as u32;
            cursor.take(size as usize)?;
            if let Some(column) = walk.unknown {
                self.places.unknown[column].push(UnknownTag { element: row as u32, tag, at, size });
            }
        }
        Ok(())
    }

    /// Forgets what was put for the elements of a space from `row` on.
    fn back(&mut self, space: usize, row: usize) {
        let plan = self.plan;
        let Space { runs, blobs, lists, marks, unknown } = &plan.spaces[space];
        for &column in runs {
            self.places.runs[column].truncate(row);
        }
        for &column in blobs {
            self.places.blobs[column].truncate(row);
        }
        for &column in marks {
            self.places.marks[column].truncate(row);
        }
        for &column in unknown {
            let found = &mut self.places.unknown[column];
            let kept = found.partition_point(|tag| (tag.element as usize) < row);
            found.truncate(kept);
        }
        for &(column, own) in lists {
            let list = &mut self.places.lists[column];
            list.truncate(row);
            let elements = end_of(list) as usize;
            self.places.counts[own] = elements;
            self.back(own, elements);
        }
    }
}

impl Places {
    /// An entry for every element of a space.
    fn fill(&mut self, space: &Space, count: usize) {
        for &column in &space.runs {
            self.runs[column].resize(count, ABSENT);
        }
        for &column in &space.blobs {
            self.blobs[column].resize(count, (ABSENT, 0));
        }
        for &column in &space.marks {
            self.marks[column].resize(count, ABSENT);
        }
        for &(column, _) in &space.lists {
            let end = end_of(&self.lists[column]);
            self.lists[column].resize(count, end | ABSENT_LIST);
        }
    }
}
