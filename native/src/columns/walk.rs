//! The sink that writes all columns as values are walked over.
//!
//! - It refuses more than objects do: tagged fields that do not ascend. What it refuses is decoded object by object.
//! - It keeps no budget: layouts that need one are not planned (`kafkawire.wire.columns.decoding`).
//! - A value that is refused leaves no entry: what was put for it is removed.
//! - Fields that were not requested are read but not kept: values are checked in whole.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::plan::{Column, Columns, FieldColumns, Plan, Space};
use crate::cursor::{Cursor, Read, Refused};
use crate::layout::WireType;
use crate::walk::{Sink, Walk};

/// Walks over all values: `data[starts[i]..ends[i]]`; those with a negative start are refused unread. Returns the
/// columns, and which values were refused.
///
/// All values together are shorter than 2^31 bytes.
pub fn walk(plan: &Plan, data: &[u8], starts: &[i64], ends: &[i64]) -> (Columns, Vec<i64>) {
    keep_memory(2 * data.len());
    let mut columns = plan.empty.clone();
    columns.reserve(&plan.spaces[0], starts.len());
    let mut walk = Walk::new(&plan.walks, data.len(), ColumnWriter { data, columns });
    let root = &plan.walks[plan.walks.len() - 1];
    let mut refused = Vec::new();
    for (row, (&start, &end)) in starts.iter().zip(ends).enumerate() {
        let read = cursor(data, start, end).and_then(|mut cursor| {
            walk.structure(root, row, &mut cursor)?;
            (cursor.left() == 0).then_some(()).ok_or(Refused)
        });
        if read.is_err() {
            walk.sink.columns.back(&plan.spaces, 0, row);
            refused.push(row as i64);
        }
    }
    let mut columns = walk.sink.columns;
    columns.counts[0] = starts.len();
    for (space, count) in plan.spaces.iter().zip(columns.counts.clone()) {
        columns.fill(space, data, count);
    }
    (columns, refused)
}

fn cursor(data: &[u8], start: i64, end: i64) -> Read<Cursor<'_>> {
    let start = usize::try_from(start).map_err(|_| Refused)?;
    let data = usize::try_from(end).ok().and_then(|end| data.get(..end)).ok_or(Refused)?;
    (start <= data.len()).then_some(Cursor::new(data, start)).ok_or(Refused)
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

struct ColumnWriter<'d> {
    data: &'d [u8],
    columns: Columns,
}

impl Sink for ColumnWriter<'_> {
    type Field = FieldColumns;
    /// Of unknown tagged fields.
    type Own = Column;
    /// The row.
    type Place = usize;
    type Struct = ();
    type Value = ();
    type Stop = Refused;

    const BUDGET: bool = false;
    const ASCENDING: bool = true;

    #[inline(always)]
    fn begin(&mut self, _: &Column) -> Read<()> {
        Ok(())
    }

    #[inline(always)]
    fn put(&mut self, (): &mut (), _: &FieldColumns, (): ()) {}

    fn put_unknown(&mut self, (): &mut (), own: &Column, row: usize, tag: i32, data: &[u8]) -> Read<()> {
        if let Some(column) = *own {
            self.columns.unknown[column].put(row, tag, data);
        }
        Ok(())
    }

    #[inline(always)]
    fn end(&mut self, (): (), _: &Column) -> Read<()> {
        Ok(())
    }

    #[inline(always)]
    fn fixed(&mut self, row: usize, field: &FieldColumns, size: usize, cursor: &mut Cursor<'_>) -> Read<()> {
        let start = cursor.position();
        cursor.take(size)?;
        if let Some(column) = field.column {
            self.columns.runs[column].put(self.data, row, start);
        }
        Ok(())
    }

    #[inline(always)]
    fn numbers(&mut self, row: usize, field: &FieldColumns, _: usize, data: &[u8]) -> Read<()> {
        if let Some(column) = field.column {
            self.columns.arrays[column].put(row, data);
        }
        Ok(())
    }

    #[inline(always)]
    fn blob(&mut self, row: usize, field: &FieldColumns, start: Cursor<'_>, data: &[u8]) -> Read<()> {
        if let Some(column) = field.column {
            self.columns.blobs[column].put(row, start.rest(), data.len());
        }
        Ok(())
    }

    #[inline(always)]
    fn list<'w>(
        walk: &mut Walk<'w, Self>,
        row: usize,
        field: &FieldColumns,
        count: usize,
        mut item: impl FnMut(&mut Walk<'w, Self>, usize) -> Read<()>,
    ) -> Read<()> {
        let Some(list) = field.list else {
            for _ in 0..count {
                item(walk, 0)?;
            }
            return Ok(());
        };
        let first = walk.sink.columns.counts[field.space];
        // Elements beyond those that a list's end counts go when the value is refused.
        for element in first..first + count {
            item(walk, element)?;
        }
        walk.sink.columns.counts[field.space] = first + count;
        walk.sink.columns.lists[list].put(row, first + count);
        Ok(())
    }

    #[inline(always)]
    fn present(&mut self, row: usize, field: &FieldColumns) {
        if let Some(column) = field.column {
            self.columns.marks[column].put(row, true);
        }
    }

    #[inline(always)]
    fn null(&mut self, row: usize, field: &FieldColumns, wire: WireType) {
        match (wire, field.column, field.list) {
            (WireType::Blob { .. }, Some(column), _) => self.columns.blobs[column].put_null(row),
            (WireType::Numbers { .. }, Some(column), _) => self.columns.arrays[column].ends.put_null(row),
            (WireType::Nested { .. }, Some(column), _) => self.columns.marks[column].put(row, false),
            (WireType::Blobs { .. } | WireType::List { .. }, _, Some(list)) => self.columns.lists[list].put_null(row),
            _ => (),
        }
    }
}

impl Columns {
    /// Forgets what was put for the elements of a space from `row` on.
    fn back(&mut self, spaces: &[Space], space: usize, row: usize) {
        let Space { runs, blobs, arrays, lists, marks, unknown } = &spaces[space];
        runs.iter().for_each(|&column| self.runs[column].back(row));
        blobs.iter().for_each(|&column| self.blobs[column].back(row));
        arrays.iter().for_each(|&column| self.arrays[column].back(row));
        marks.iter().for_each(|&column| self.marks[column].back(row));
        unknown.iter().for_each(|&column| self.unknown[column].back(row));
        for &(column, own) in lists {
            self.lists[column].back(row);
            let elements = self.lists[column].end();
            self.counts[own] = elements;
            self.back(spaces, own, elements);
        }
    }

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
