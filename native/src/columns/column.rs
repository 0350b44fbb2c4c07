//! Columns that are written row by row, as Arrow holds them.
//!
//! A column may have fewer entries than its space has rows. Rows without a value (an absent tagged field, a field of a
//! null struct, a refused value) get their entry when the next value is put, or at the end. Memory grows with the bytes
//! that were read, never with the lengths that they claim.

use std::borrow::Cow;

use super::numbers::Numbers;

/// A column would hold more than Arrow's int32 offsets count.
pub struct TooMuch(pub usize);

/// Arrow's bits of what is not null; `None` where nothing is.
pub type Validity = Option<Vec<u8>>;

/// Offsets, validity, data, and which texts were no UTF-8.
pub type FinishedBlobs = (Vec<i32>, Validity, Vec<u8>, Vec<i64>);

/// Offsets of lists, tags, offsets of the data in them, data.
pub type FinishedUnknown = (Vec<i32>, Vec<i32>, Vec<i32>, Vec<u8>);

/// The most bytes or items of a column.
const MOST: usize = i32::MAX as usize;

/// Bytes of most strings, at most.
const SHORT: usize = 32;

/// Rows that are null, ascending.
#[derive(Debug, Default, Clone)]
struct Nulls(Vec<u32>);

impl Nulls {
    fn add(&mut self, rows: std::ops::Range<usize>) {
        self.0.extend(rows.map(|row| row as u32));
    }

    fn back(&mut self, row: usize) {
        self.0.truncate(self.0.partition_point(|&null| (null as usize) < row));
    }

    fn validity(&self, rows: usize) -> Validity {
        if self.0.is_empty() {
            return None;
        }
        let mut bits = vec![u8::MAX; rows.div_ceil(8)];
        for &null in &self.0 {
            bits[null as usize >> 3] &= !(1 << (null & 7));
        }
        Some(bits)
    }
}

/// Where strings or lists end, in items; rows that were passed over are empty, or null.
#[derive(Debug, Clone)]
pub struct Offsets {
    /// One more than there are rows.
    offsets: Vec<i32>,
    nulls: Nulls,
    null: bool,
}

impl Offsets {
    pub fn new(null: bool) -> Self {
        Offsets { offsets: vec![0], nulls: Nulls::default(), null }
    }

    pub fn reserve(&mut self, more: usize) {
        self.offsets.reserve_exact(more);
    }

    #[inline]
    fn rows(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Where a row begins; offsets are below 2^32.
    fn begin(&self, row: usize) -> usize {
        self.offsets.get(row).or(self.offsets.last()).map_or(0, |&end| end as u32 as usize)
    }

    pub fn end(&self) -> usize {
        self.begin(self.rows())
    }

    #[inline]
    pub fn put(&mut self, row: usize, end: usize) {
        if self.rows() < row {
            self.fill(row);
        }
        self.offsets.push(end as u32 as i32);
    }

    #[cold]
    pub fn put_null(&mut self, row: usize) {
        self.fill(row);
        self.nulls.add(row..row + 1);
        self.put(row, self.end());
    }

    #[cold]
    pub fn fill(&mut self, rows: usize) {
        if self.null {
            self.nulls.add(self.rows()..rows);
        }
        self.offsets.resize(rows + 1, self.end() as u32 as i32);
    }

    pub fn back(&mut self, row: usize) {
        self.offsets.truncate(row + 1);
        self.nulls.back(row);
    }

    /// Offsets and validity.
    pub fn finish(self) -> (Vec<i32>, Validity) {
        let validity = self.nulls.validity(self.rows());
        (self.offsets, validity)
    }
}

/// Strings of text or bytes.
#[derive(Debug, Clone)]
pub struct Blobs {
    pub ends: Offsets,
    data: Vec<u8>,
    text: bool,
    /// What rows have that were passed over; empty where they are null.
    default: Vec<u8>,
}

impl Blobs {
    pub fn new(text: bool, null: bool, default: Vec<u8>) -> Self {
        Blobs { ends: Offsets::new(null), data: Vec::new(), text, default }
    }

    /// The first `size` bytes of `rest`, which has as many.
    #[inline(always)]
    pub fn put(&mut self, row: usize, rest: &[u8], size: usize) {
        if self.ends.rows() < row {
            self.fill(row);
        }
        let end = self.data.len() + size;
        match rest.first_chunk::<SHORT>() {
            // As many bytes each time, of which some are cut off again, are fewer instructions than a copy that asks.
            Some(more) if size <= SHORT => self.data.extend_from_slice(more),
            _ => self.data.extend_from_slice(&rest[..size]),
        }
        self.data.truncate(end);
        self.ends.put(row, end);
    }

    #[cold]
    pub fn put_null(&mut self, row: usize) {
        self.fill(row);
        self.ends.put_null(row);
    }

    #[cold]
    pub fn fill(&mut self, rows: usize) {
        if !self.default.is_empty() {
            // A column that already holds too much is refused by `finish`.
            while self.ends.rows() < rows && self.data.len() <= MOST {
                self.data.extend_from_slice(&self.default);
                self.ends.put(self.ends.rows(), self.data.len());
            }
        }
        self.ends.fill(rows);
    }

    pub fn back(&mut self, row: usize) {
        self.data.truncate(self.ends.begin(row));
        self.ends.back(row);
    }

    /// Offsets, validity, data, and which texts are no UTF-8: those have U+FFFD in place of what is wrong.
    pub fn finish(mut self) -> Result<FinishedBlobs, TooMuch> {
        if self.data.len() > MOST {
            return Err(TooMuch(self.data.len()));
        }
        let impure = if self.text && !self.data.is_ascii() { self.clean()? } else { Vec::new() };
        let (offsets, validity) = self.ends.finish();
        Ok((offsets, validity, self.data, impure))
    }

    fn clean(&mut self) -> Result<Vec<i64>, TooMuch> {
        let texts: Vec<Cow<'_, str>> = self
            .ends
            .offsets
            .windows(2)
            .map(|ends| String::from_utf8_lossy(&self.data[ends[0] as usize..ends[1] as usize]))
            .collect();
        let impure: Vec<i64> =
            (0..).zip(&texts).filter(|(_, text)| matches!(text, Cow::Owned(_))).map(|(row, _)| row).collect();
        if impure.is_empty() {
            return Ok(impure);
        }
        let total = texts.iter().map(|text| text.len()).sum();
        if total > MOST {
            return Err(TooMuch(total));
        }
        let mut data = String::with_capacity(total);
        let mut offsets = Vec::with_capacity(self.ends.offsets.len());
        offsets.push(0);
        for text in &texts {
            data.push_str(text);
            offsets.push(data.len() as i32);
        }
        self.data = data.into_bytes();
        self.ends.offsets = offsets;
        Ok(impure)
    }
}

/// Arrays of fixed-size values.
#[derive(Debug, Clone)]
pub struct Arrays {
    pub ends: Offsets,
    pub items: Numbers,
}

impl Arrays {
    #[inline]
    pub fn put(&mut self, row: usize, raw: &[u8]) {
        self.items.append(raw);
        self.ends.put(row, self.items.len());
    }

    pub fn back(&mut self, row: usize) {
        self.items.truncate(self.ends.begin(row));
        self.ends.back(row);
    }
}

/// Which nullable structs are there.
#[derive(Debug, Clone)]
pub struct Marks {
    nulls: Nulls,
    rows: usize,
    null: bool,
}

impl Marks {
    pub fn new(null: bool) -> Self {
        Marks { nulls: Nulls::default(), rows: 0, null }
    }

    pub fn put(&mut self, row: usize, there: bool) {
        self.fill(row);
        self.rows = row + 1;
        if !there {
            self.nulls.add(row..row + 1);
        }
    }

    pub fn fill(&mut self, rows: usize) {
        if self.null {
            self.nulls.add(self.rows..rows);
        }
        self.rows = rows;
    }

    pub fn back(&mut self, row: usize) {
        self.rows = self.rows.min(row);
        self.nulls.back(row);
    }

    pub fn finish(self) -> Validity {
        self.nulls.validity(self.rows)
    }
}

/// Tagged fields that the schema does not know.
#[derive(Debug, Default, Clone)]
pub struct Unknown {
    /// Number of tags before those of a row.
    begins: Vec<i32>,
    tags: Vec<i32>,
    ends: Vec<i32>,
    data: Vec<u8>,
}

impl Unknown {
    pub fn put(&mut self, row: usize, tag: i32, octets: &[u8]) {
        if self.begins.len() <= row {
            self.begins.resize(row + 1, self.tags.len() as i32);
        }
        self.tags.push(tag);
        self.data.extend_from_slice(octets);
        self.ends.push(self.data.len() as i32);
    }

    pub fn back(&mut self, row: usize) {
        if let Some(&kept) = self.begins.get(row) {
            let kept = kept as usize;
            self.begins.truncate(row);
            self.tags.truncate(kept);
            self.ends.truncate(kept);
            self.data.truncate(self.ends.last().map_or(0, |&end| end as usize));
        }
    }

    /// The last thing that is done: offsets of the lists of all rows.
    pub fn fill(&mut self, rows: usize) {
        if self.tags.is_empty() {
            self.begins = vec![0; rows + 1]; // most often; needs no memory touched
        } else {
            self.begins.resize(rows + 1, self.tags.len() as i32);
        }
    }

    /// Offsets of the lists, tags, offsets of the data in them, data.
    pub fn finish(mut self) -> FinishedUnknown {
        self.ends.insert(0, 0);
        (self.begins, self.tags, self.ends, self.data)
    }
}
