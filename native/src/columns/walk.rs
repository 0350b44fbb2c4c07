//! The walk over the bytes of every value, which writes all columns as it goes.
//!
//! - It accepts nothing that `crate::walk` refuses; layouts for which that needs its budget are not planned
//!   (`kafkawire.wire.columns.decoding`). What it refuses is decoded object by object.
//! - A value that is refused leaves nothing behind: what was put for it is taken back.
//! - Fields that were not requested are read but not kept: values are checked in whole.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::plan::{Columns, Plan, Space, Step, Walk};
use crate::cursor::{Cursor, Read, Refused};
use crate::limits::{MAX_STRING, MAX_TAGS};

/// Walks over all values: `data[starts[i]..ends[i]]`; those with a negative start are refused unread. Returns the
/// columns, and which values were refused.
///
/// All values together are shorter than 2^31 bytes.
pub fn walk(plan: &Plan, data: &[u8], starts: &[i64], ends: &[i64]) -> (Columns, Vec<i64>) {
    let mut walker = Walker { plan, data, columns: plan.empty.clone() };
    keep_memory(2 * data.len());
    let root = &plan.walks[plan.walks.len() - 1];
    let mut refused = Vec::new();
    walker.columns.reserve(&plan.spaces[0], starts.len());
    for (row, (&start, &end)) in starts.iter().zip(ends).enumerate() {
        if walker.value(root, start, end, row).is_err() {
            walker.back(0, row);
            refused.push(row as i64);
        }
    }
    let mut columns = walker.columns;
    columns.counts[0] = starts.len();
    for (space, count) in plan.spaces.iter().zip(columns.counts.clone()) {
        columns.fill(space, data, count);
    }
    (columns, refused)
}

/// Lets the C library keep freed memory, where its allocator is glibc's: that gives memory at the end of its heap back to
/// the system whenever more is free than twice the largest block that was ever mapped and freed (at most 32 MiB counts).
/// Taking it again page by page costs as much as a walk.
fn keep_memory(bytes: usize) {
    const MOST: usize = 31 << 20;
    static KEPT: AtomicUsize = AtomicUsize::new(1 << 20);
    let bytes = bytes.min(MOST);
    if KEPT.fetch_max(bytes, Ordering::Relaxed) < bytes {
        drop(std::hint::black_box(Vec::<u8>::with_capacity(bytes)));
    }
}

struct Walker<'a> {
    plan: &'a Plan,
    data: &'a [u8],
    columns: Columns,
}

impl Walker<'_> {
    fn value(&mut self, root: &Walk, start: i64, end: i64, row: usize) -> Read<()> {
        let start = usize::try_from(start).map_err(|_| Refused)?;
        let data = usize::try_from(end).ok().and_then(|end| self.data.get(..end)).ok_or(Refused)?;
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
        // A cursor of its own stays in registers.
        let mut own = *cursor;
        for step in &walk.steps {
            self.step(step, &mut own, row)?;
        }
        if walk.flexible {
            let count = own.uvarint()?;
            if count != 0 {
                let mut inside = own;
                self.tags(walk, count, &mut inside, row)?;
                own = inside;
            }
        }
        *cursor = own;
        Ok(())
    }

    #[inline(always)]
    fn step(&mut self, step: &Step, cursor: &mut Cursor<'_>, row: usize) -> Read<()> {
        match *step {
            Step::Run { size, column } => {
                let at = cursor.position();
                cursor.take(size)?;
                if let Some(column) = column {
                    self.columns.runs[column].put(self.data, row, at);
                }
            }
            Step::Blob { string, compact, nullable, column } => match cursor.length(compact, string)? {
                Some(size) if !string || size <= MAX_STRING => {
                    let rest = cursor.rest();
                    cursor.take(size)?;
                    if let Some(column) = column {
                        self.columns.blobs[column].put(row, rest, size);
                    }
                }
                None if nullable => {
                    if let Some(column) = column {
                        self.columns.blobs[column].put_null(row);
                    }
                }
                _ => return Err(Refused),
            },
            Step::Numbers { size, compact, nullable, column } => match cursor.length(compact, false)? {
                Some(count) => {
                    let raw = cursor.take(count.checked_mul(size).ok_or(Refused)?)?;
                    if let Some(column) = column {
                        self.columns.arrays[column].put(row, raw);
                    }
                }
                None if nullable => {
                    if let Some(column) = column {
                        self.columns.arrays[column].ends.put_null(row);
                    }
                }
                None => return Err(Refused),
            },
            Step::List { size, compact, nullable, column, walk } => match cursor.length(compact, false)? {
                Some(count) if count.saturating_mul(size) <= cursor.left() => {
                    let mut inside = *cursor;
                    self.list(count, column, walk, &mut inside, row)?;
                    *cursor = inside;
                }
                None if nullable => {
                    if let Some((column, _)) = column {
                        self.columns.lists[column].put_null(row);
                    }
                }
                _ => return Err(Refused),
            },
            Step::Nested { compact, nullable, column, walk } => {
                if nullable {
                    let there = cursor.present(compact)?;
                    if let Some(column) = column {
                        self.columns.marks[column].put(row, there);
                    }
                    if !there {
                        return Ok(());
                    }
                }
                let plan = self.plan;
                let mut inside = *cursor;
                self.structure(&plan.walks[walk], &mut inside, row)?;
                *cursor = inside;
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn list(
        &mut self,
        count: usize,
        column: Option<(usize, usize)>,
        walk: usize,
        cursor: &mut Cursor<'_>,
        row: usize,
    ) -> Read<()> {
        let plan = self.plan;
        let walk = &plan.walks[walk];
        let Some((column, space)) = column else {
            for _ in 0..count {
                self.structure(walk, cursor, 0)?;
            }
            return Ok(());
        };
        let first = self.columns.counts[space];
        // Elements beyond those that a list's end counts go when the value is refused.
        for element in first..first + count {
            self.structure(walk, cursor, element)?;
        }
        self.columns.counts[space] = first + count;
        self.columns.lists[column].put(row, first + count);
        Ok(())
    }

    /// Tagged fields. Kafka accepts them in any order, and twice: those values are refused here, to be read one by one.
    fn tags(&mut self, walk: &Walk, count: i32, cursor: &mut Cursor<'_>, row: usize) -> Read<()> {
        let count = usize::try_from(count).map_err(|_| Refused)?;
        if count > cursor.left().min(MAX_TAGS) {
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
            let octets = cursor.take(usize::try_from(size).map_err(|_| Refused)?)?;
            if let Some(column) = walk.unknown {
                self.columns.unknown[column].put(row, tag, octets);
            }
        }
        Ok(())
    }

    /// Forgets what was put for the elements of a space from `row` on.
    fn back(&mut self, space: usize, row: usize) {
        let plan = self.plan;
        let Space { runs, blobs, arrays, lists, marks, unknown } = &plan.spaces[space];
        let columns = &mut self.columns;
        runs.iter().for_each(|&column| columns.runs[column].back(row));
        blobs.iter().for_each(|&column| columns.blobs[column].back(row));
        arrays.iter().for_each(|&column| columns.arrays[column].back(row));
        marks.iter().for_each(|&column| columns.marks[column].back(row));
        unknown.iter().for_each(|&column| columns.unknown[column].back(row));
        for &(column, own) in lists {
            self.columns.lists[column].back(row);
            let elements = self.columns.lists[column].end();
            self.columns.counts[own] = elements;
            self.back(own, elements);
        }
    }
}

impl Columns {
    /// Room for the elements of a space.
    fn reserve(&mut self, space: &Space, count: usize) {
        space.runs.iter().for_each(|&column| self.runs[column].reserve(count));
        space.blobs.iter().for_each(|&column| self.blobs[column].ends.reserve(count));
        space.arrays.iter().for_each(|&column| self.arrays[column].ends.reserve(count));
        space.lists.iter().for_each(|&(column, _)| self.lists[column].reserve(count));
    }

    /// An entry for every element of a space.
    fn fill(&mut self, space: &Space, data: &[u8], count: usize) {
        space.runs.iter().for_each(|&column| self.runs[column].fill(data, count));
        space.blobs.iter().for_each(|&column| self.blobs[column].fill(count));
        space.arrays.iter().for_each(|&column| self.arrays[column].ends.fill(count));
        space.lists.iter().for_each(|&(column, _)| self.lists[column].fill(count));
        space.marks.iter().for_each(|&column| self.marks[column].fill(count));
        space.unknown.iter().for_each(|&column| self.unknown[column].fill(count));
    }
}
