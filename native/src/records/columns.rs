//! Headers of batches and positions of records as columns.

use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::batch::{for_each, header_spans, payload};
use super::codec::Decompressor;
use super::header::{batch_at, Header};
use super::record::{count_fits, Record};
use crate::cursor::Read;

/// Headers that are read before the columns take their fields: few, so that they are in the nearest cache.
const HEADER_BLOCK: usize = 64;

/// Column by column what `kafkawire.records.columns.Batches` has.
#[derive(Default)]
pub struct Headers {
    start: Vec<i64>,
    base_offset: Vec<i64>,
    size: Vec<i64>,
    leader_epoch: Vec<i32>,
    crc: Vec<u32>,
    attributes: Vec<i16>,
    last_offset_delta: Vec<i32>,
    base_timestamp: Vec<i64>,
    max_timestamp: Vec<i64>,
    producer_id: Vec<i64>,
    producer_epoch: Vec<i16>,
    base_sequence: Vec<i32>,
    count: Vec<i32>,
}

impl Headers {
    /// The batches that begin before `stop`, one after the other from the start of `data` on, up to the first that
    /// does not lie whole in `data` or that `records.read` would not take for a batch.
    pub fn scan(data: &[u8], stop: usize, check_crc: bool, max_batch_bytes: usize) -> Self {
        let mut found = Headers::default();
        let mut block = Vec::with_capacity(HEADER_BLOCK);
        let mut at = 0;
        while at < stop {
            let Some(header) = batch_at(data, at, check_crc, max_batch_bytes) else { break };
            block.push((at, header));
            at += header.size();
            if block.len() == HEADER_BLOCK {
                found.push_block(&block, data.len());
                block.clear();
            }
        }
        found.push_block(&block, data.len());
        found
    }

    /// Column after column. `bytes`: of the data; the first block says for how many batches they are.
    fn push_block(&mut self, block: &[(usize, Header)], bytes: usize) {
        let room = match block.last() {
            Some((at, header)) if self.start.is_empty() => {
                // A bit more: what is a few batches short is copied as a whole.
                let guess = bytes / (at + header.size()).div_ceil(block.len());
                guess + guess / 16 + 1
            }
            _ => 0,
        };
        macro_rules! push {
            ($column:ident) => {
                push!($column, |(_, header)| header.$column)
            };
            ($column:ident, $value:expr) => {
                self.$column.reserve(room);
                self.$column.extend(block.iter().map($value));
            };
        }
        push!(start, |&(at, _)| at as i64);
        push!(base_offset);
        push!(size, |(_, header)| header.size() as i64);
        push!(leader_epoch);
        push!(crc);
        push!(attributes);
        push!(last_offset_delta);
        push!(base_timestamp);
        push!(max_timestamp);
        push!(producer_id);
        push!(producer_epoch);
        push!(base_sequence);
        push!(count);
    }

    /// In the order of `Batches`.
    pub fn into_arrays(self, py: Python<'_>) -> PyResult<Bound<'_, PyTuple>> {
        PyTuple::new(
            py,
            [
                array(py, self.start),
                array(py, self.base_offset),
                array(py, self.size),
                array(py, self.leader_epoch),
                array(py, self.crc),
                array(py, self.attributes),
                array(py, self.last_offset_delta),
                array(py, self.base_timestamp),
                array(py, self.max_timestamp),
                array(py, self.producer_id),
                array(py, self.producer_epoch),
                array(py, self.base_sequence),
                array(py, self.count),
            ],
        )
    }
}

fn array<T: numpy::Element>(py: Python<'_>, values: Vec<T>) -> Bound<'_, PyAny> {
    PyArray1::from_vec(py, values).into_any()
}

/// Records that are read before the columns take their fields: few, so that they lie in the nearest cache.
const BLOCK: usize = 64;
/// The factor by which compressed records are expected to grow.
const USUAL_RATIO: usize = 4;

/// Column by column what `kafkawire.records.columns.Records` has, in its order, and where that ends.
#[derive(Default)]
pub struct Records {
    batch: Vec<i32>,
    offset: Vec<i64>,
    timestamp: Vec<i64>,
    sequence: Vec<i32>,
    key_start: Vec<i64>,
    key_length: Vec<i32>,
    value_start: Vec<i64>,
    value_length: Vec<i32>,
    header_count: Vec<i32>,
    header_key_start: Vec<i64>,
    header_key_length: Vec<i32>,
    header_value_start: Vec<i64>,
    header_value_length: Vec<i32>,
    /// The bytes that the positions refer to; None: those that were given.
    pub data: Option<Vec<u8>>,
    /// Batches whose records are malformed: the records before the malformed one are there.
    pub malformed: Vec<i64>,
    /// The batch to go on with.
    pub next: usize,
    /// Whether that one could not be decompressed.
    pub refused: bool,
}

impl Records {
    /// The records of the batches that begin at `positions[first..]`, until their payloads have `most_bytes`: of one
    /// batch at least.
    pub fn read(data: &[u8], positions: &[i64], first: usize, most_bytes: usize, max_batch_bytes: usize) -> Self {
        let batches: Vec<Option<(usize, Header)>> =
            positions.iter().skip(first).map(|&at| batch_in(data, usize::try_from(at).ok()?)).collect();
        let compressed = batches.iter().flatten().any(|(_, header)| header.codec() != 0);
        // Room that is not used costs nothing; growing would copy.
        let packed: usize = batches.iter().flatten().map(|(_, header)| header.size()).sum();
        let room = most_bytes.min(packed.saturating_mul(USUAL_RATIO));
        let copied = compressed.then(|| Vec::with_capacity(room));
        let mut found = Records { data: copied, next: first, ..Records::default() };
        found.reserve(batches.iter().flatten().map(|(_, header)| header));
        let mut decompressor = Decompressor::default();
        let mut bytes = 0;
        for batch in batches {
            if bytes >= most_bytes {
                break;
            }
            let Some((at, header)) = batch else {
                found.refused = true;
                break;
            };
            let whole = &data[at..at + header.size()];
            let Ok(records) = payload(whole, &header, &mut decompressor, max_batch_bytes) else {
                found.refused = true;
                break;
            };
            bytes += records.len();
            let origin = match &mut found.data {
                None => at + super::header::SIZE,
                Some(copied) => {
                    copied.extend_from_slice(records);
                    copied.len() - records.len()
                }
            };
            found.push_batch(records, &header, origin);
        }
        found
    }

    /// The records of one batch, whose payload, decompressed, is `data`. `index`: of the batch.
    pub fn of_payload(data: &[u8], header: &Header, index: usize) -> Self {
        let mut found = Records { next: index, ..Records::default() };
        found.reserve([header].into_iter());
        found.push_batch(data, header, 0);
        found
    }

    /// Room for as many records as the batches count, where their bytes could well hold them.
    fn reserve<'a>(&mut self, headers: impl Iterator<Item = &'a Header>) {
        let counts = headers.map(|header| match header.codec() {
            0 if !count_fits(header.count, header.size()) => 0,
            _ => (header.count.max(0) as usize).min(header.size()),
        });
        let total = counts.sum();
        self.batch.reserve_exact(total);
        self.offset.reserve_exact(total);
        self.timestamp.reserve_exact(total);
        self.sequence.reserve_exact(total);
        self.key_start.reserve_exact(total);
        self.key_length.reserve_exact(total);
        self.value_start.reserve_exact(total);
        self.value_length.reserve_exact(total);
        self.header_count.reserve_exact(total);
    }

    fn push_batch(&mut self, payload: &[u8], header: &Header, origin: usize) {
        let index = self.next;
        if self.push_records(payload, header, origin as i64).is_err() {
            self.malformed.push(index as i64);
        }
        self.next += 1;
    }

    fn push_records(&mut self, payload: &[u8], header: &Header, origin: i64) -> Read<()> {
        let mut block = Vec::with_capacity(BLOCK);
        let verdict = for_each(payload, header.count, |record| {
            if block.len() == BLOCK {
                self.push_block(payload, header, origin, &block);
                block.clear();
            }
            block.push(*record);
            Ok(())
        });
        self.push_block(payload, header, origin, &block);
        verdict
    }

    /// Column after column.
    fn push_block(&mut self, payload: &[u8], header: &Header, origin: i64, block: &[Record]) {
        self.batch.extend(std::iter::repeat_n(self.next as i32, block.len()));
        self.offset.extend(block.iter().map(|record| record.offset(header)));
        self.timestamp.extend(block.iter().map(|record| record.timestamp(header)));
        self.sequence.extend(block.iter().map(|record| header.sequence(record.offset_delta)));
        self.key_start.extend(block.iter().map(|record| origin + record.key.start as i64));
        self.key_length.extend(block.iter().map(|record| record.key.length));
        self.value_start.extend(block.iter().map(|record| origin + record.value.start as i64));
        self.value_length.extend(block.iter().map(|record| record.value.length));
        self.header_count.extend(block.iter().map(|record| record.header_count));
        for record in block.iter().filter(|record| record.header_count != 0) {
            self.push_headers(payload, record, origin);
        }
    }

    fn push_headers(&mut self, payload: &[u8], record: &Record, origin: i64) {
        for (key, value) in header_spans(payload, record) {
            self.header_key_start.push(origin + key.start as i64);
            self.header_key_length.push(key.length);
            self.header_value_start.push(origin + value.start as i64);
            self.header_value_length.push(value.length);
        }
    }

    pub fn into_arrays(self, py: Python<'_>) -> PyResult<Bound<'_, PyTuple>> {
        PyTuple::new(
            py,
            [
                array(py, self.batch),
                array(py, self.offset),
                array(py, self.timestamp),
                array(py, self.sequence),
                array(py, self.key_start),
                array(py, self.key_length),
                array(py, self.value_start),
                array(py, self.value_length),
                array(py, self.header_count),
                array(py, self.header_key_start),
                array(py, self.header_key_length),
                array(py, self.header_value_start),
                array(py, self.header_value_length),
            ],
        )
    }
}

/// A batch at a position that was given, when it lies whole in `data`.
fn batch_in(data: &[u8], at: usize) -> Option<(usize, Header)> {
    if at > data.len() {
        return None;
    }
    batch_at(data, at, false, usize::MAX).map(|header| (at, header))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records with one header each.
    fn payload(count: usize) -> Vec<u8> {
        let record = |i: usize| [0x16, 0, 0, (i as u8 & 31) << 1, 1, 2, i as u8, 2, 2, b'h', 2, b'x'];
        (0..count).flat_map(record).collect()
    }

    #[test]
    fn records_before_a_malformed_one_are_there() {
        for count in [1, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, 3 * BLOCK + 7] {
            let data = payload(count);
            let mut header = Header { count: count as i32, base_offset: 100, ..Header::default() };
            let found = Records::of_payload(&data, &header, 3);
            assert!(found.malformed.is_empty());
            assert_eq!(found.offset, (0..count).map(|i| 100 + (i as i64 & 31)).collect::<Vec<_>>());
            assert_eq!(found.value_start, (0..count).map(|i| 12 * i as i64 + 6).collect::<Vec<_>>());
            assert_eq!(found.header_value_start.len(), count);

            header.count += 1;
            let found = Records::of_payload(&[&data[..], &[0x16, 0, 0, 0, 9, 0, 0]].concat(), &header, 3);
            assert_eq!(found.malformed, [3]);
            assert_eq!(
                (found.offset.len(), found.header_count.len(), found.header_key_start.len()),
                (count, count, count)
            );
        }
    }
}
