//! The batches at the beginning of bytes -> columns of those of producers, and what is counted of all, in one pass:
//! header, checksum, marker. `kafkawire.transactions.parts.segment_scan.BatchScan` is the reference in Python.

use super::batches::{Batch, DATA, NO_COORDINATOR};
use super::content::Content;
use super::digests::Digests;
use crate::records::header::{batch_at, Header, SIZE};

/// Batches that are read before the columns take their fields: few, so that they are in the nearest cache.
const BLOCK: usize = 64;
/// A marker as brokers write it: one record without timestamp delta or headers, key (0, type), value (0, epoch). Without
/// the bit of the type, and the epoch's four bytes.
const MARKER: [u8; 17] = [32, 0, 0, 0, 8, 0, 0, 0, 0, 12, 0, 0, 0, 0, 0, 0, 0];
const TYPE_AT: usize = 8;
const EPOCH_AT: usize = 12;

/// Of batches whose timestamp is a broker's: the highest leader epoch, the newest timestamp of this epoch, and of all.
#[derive(Clone, Copy)]
pub struct BrokerTimes {
    pub leader_epoch: i32,
    pub of_leader: i64,
    pub newest: i64,
}

/// What is taken.
#[derive(Default)]
pub struct Scan {
    /// Where the batches end.
    pub size: usize,
    pub batches: u64,
    /// Of producers, and transactional.
    pub transactional: u64,
    pub leader_epoch: i32,
    pub times: Option<BrokerTimes>,
    /// First offsets of batches that follow one another, the offset after the last of them, and how many are of producers.
    pub bases: Vec<i64>,
    pub ends: Vec<i64>,
    pub counts: Vec<i64>,
    pub digests: Digests,
    pub columns: Columns,
    /// The offset below which the next batch does not begin.
    after: i64,
}

/// The columns of `Appends`, without those that are the same for all, and without `intact_from`.
#[derive(Default)]
pub struct Columns {
    pub base_offset: Vec<i64>,
    pub last_offset: Vec<i64>,
    pub timestamp: Vec<i64>,
    pub producer_id: Vec<i64>,
    pub producer_epoch: Vec<i16>,
    pub control: Vec<i8>,
    pub coordinator_epoch: Vec<i64>,
    pub base_sequence: Vec<i32>,
    pub transactional: Vec<bool>,
    pub compacted: Vec<bool>,
    pub append_time: Vec<bool>,
}

/// What batches are taken by.
#[derive(Clone, Copy)]
pub struct Rules {
    pub max_batch_bytes: usize,
    /// All timestamps are those of brokers.
    pub by_brokers: bool,
}

impl Scan {
    /// The batches at the beginning of what is given, none below the offset `following`.
    pub fn of(content: Content, following: Option<i64>, rules: Rules) -> Self {
        let mut scan = Scan { leader_epoch: -1, after: following.unwrap_or(i64::MIN), ..Scan::default() };
        let expected = content.expected();
        content.each(rules.max_batch_bytes, |data| scan.take(data, expected, rules));
        scan
    }

    /// Takes the batches at the beginning of `data`, up to one that the reference has to look at: what is no batch or is
    /// damaged, goes back in offset, or is a producer's control batch that no broker wrote as a marker. Returns their
    /// bytes. `bytes`: of all data that are expected.
    fn take(&mut self, data: &[u8], bytes: usize, rules: Rules) -> usize {
        let mut block = Vec::with_capacity(BLOCK);
        let mut at = 0;
        while let Some(header) = batch_at(data, at, true, rules.max_batch_bytes) {
            let (base, last) = (header.base_offset, header.last_offset());
            if base < self.after {
                break;
            }
            let is_producers = header.producer_id >= 0;
            if is_producers {
                let Some(batch) = batch_of(&header, &data[at..at + header.size()]) else { break };
                self.transactional += u64::from(batch.transactional);
                block.push(batch);
            }
            match self.ends.last_mut() {
                Some(end) if base == self.after => *end = last + 1,
                _ => {
                    self.bases.push(base);
                    self.ends.push(last + 1);
                    self.counts.push(0);
                }
            }
            self.after = last + 1;
            *self.counts.last_mut().expect("of the run") += i64::from(is_producers);
            self.digests.add(base, last, u64::from(header.crc));
            self.leader_epoch = self.leader_epoch.max(header.leader_epoch);
            if rules.by_brokers || header.control() || header.log_append_time() {
                self.note_time(header.leader_epoch, header.max_timestamp);
            }
            self.batches += 1;
            self.size += header.size();
            at += header.size();
            if block.len() == BLOCK {
                self.push_block(&mut block, bytes);
            }
        }
        self.push_block(&mut block, bytes);
        at
    }

    #[inline]
    fn note_time(&mut self, leader_epoch: i32, timestamp: i64) {
        let times = self.times.get_or_insert(BrokerTimes { leader_epoch, of_leader: timestamp, newest: timestamp });
        if leader_epoch > times.leader_epoch {
            (times.leader_epoch, times.of_leader) = (leader_epoch, timestamp);
        } else if leader_epoch == times.leader_epoch {
            times.of_leader = times.of_leader.max(timestamp);
        }
        times.newest = times.newest.max(timestamp);
    }

    /// Column after column. `bytes`: of all data; the first block says for how many batches they are.
    fn push_block(&mut self, block: &mut Vec<Batch>, bytes: usize) {
        let columns = &mut self.columns;
        let room = if columns.base_offset.is_empty() && !block.is_empty() {
            let guess = bytes / self.size.div_ceil(block.len());
            guess + guess / 16 + 1 // what is a few batches short is copied as a whole
        } else {
            0
        };
        macro_rules! push {
            ($column:ident, $field:ident) => {
                columns.$column.reserve(room);
                columns.$column.extend(block.iter().map(|batch| batch.$field));
            };
        }
        push!(base_offset, base_offset);
        push!(last_offset, last_offset);
        push!(timestamp, timestamp);
        push!(producer_id, producer_id);
        push!(producer_epoch, epoch);
        push!(control, control);
        push!(coordinator_epoch, coordinator_epoch);
        push!(base_sequence, base_sequence);
        push!(transactional, transactional);
        push!(compacted, compacted);
        push!(append_time, append_time);
        block.clear();
    }
}

/// A producer's batch; `None` for a control batch that is no marker as brokers write it.
#[inline]
fn batch_of(header: &Header, bytes: &[u8]) -> Option<Batch> {
    let (control, coordinator_epoch) =
        if header.control() { marker_of(header, bytes)? } else { (DATA, NO_COORDINATOR) };
    Some(Batch {
        base_offset: header.base_offset,
        last_offset: header.last_offset(),
        timestamp: header.max_timestamp,
        producer_id: header.producer_id,
        epoch: header.producer_epoch,
        control,
        coordinator_epoch,
        base_sequence: header.base_sequence,
        transactional: header.transactional(),
        compacted: header.count <= header.last_offset_delta,
        problem: -1,
        append_time: header.log_append_time(),
        ..Batch::default()
    })
}

/// The type of a marker, and the epoch of its coordinator.
#[inline]
fn marker_of(header: &Header, bytes: &[u8]) -> Option<(i8, i64)> {
    let record: &[u8; MARKER.len()] = bytes.get(SIZE..)?.try_into().ok()?;
    let mut plain = *record;
    let kind = plain[TYPE_AT] & 1;
    plain[TYPE_AT] &= !1;
    plain[EPOCH_AT..][..4].fill(0);
    let right = plain == MARKER
        && header.codec() == 0
        && header.count == 1
        && header.transactional()
        && header.base_sequence == -1
        && header.last_offset_delta == 0;
    let epoch = i32::from_be_bytes(*record[EPOCH_AT..].first_chunk()?);
    right.then_some((kind as i8, i64::from(epoch)))
}
