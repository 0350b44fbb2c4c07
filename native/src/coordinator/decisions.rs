//! The transactions that coordinators decided (`kafkawire.transactions.coordinator.decisions` is the reference).

use std::collections::{BinaryHeap, HashMap};

use super::row::Row;
use super::rules::{is_complete, is_prepared, raises_epoch, COMPLETE_COMMIT, MAX_EPOCH, ONGOING, PREPARE_COMMIT};
use super::{NONE, NULL};

/// As `until`: not yet.
const NEVER: i64 = i64::MIN;
/// As list of partitions: that of a Prepare record with none.
const NO_PARTITION: i32 = -2;
pub const ABORT: i8 = 0;
pub const COMMIT: i8 = 1;
/// Bytes of a packed decision (`packed_decisions.DECIDED`).
pub const SIZE: usize = 55;
const UNTIL: usize = 24;
/// `clock_offsets.OF_COORDINATOR`.
const TIMES: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    pub producer_id: i64,
    offset: i64,
    since: i64,
    until: i64,
    pub lowest: i32,
    pub highest: i32,
    pub marker: i32,
    pub partitions: i32,
    id: u32,
    pub version: i16,
    pub outcome: i8,
}

/// Producer id and epoch of the markers of a Prepare or Complete record.
#[inline]
fn marker_of(record: &Row) -> (i64, i32) {
    if is_complete(record.status) && record.epoch == 0 && ![-1, record.producer_id].contains(&record.previous) {
        return (record.previous, i32::from(MAX_EPOCH)); // its Prepare used the epochs up
    }
    (record.producer_id, i32::from(record.epoch))
}

impl Decision {
    /// Of a Prepare or Complete record.
    fn of(before: Option<&Row>, record: &Row) -> Self {
        let complete = is_complete(record.status);
        let outcome = if matches!(record.status, PREPARE_COMMIT | COMPLETE_COMMIT) { COMMIT } else { ABORT };
        let (producer_id, epoch) = marker_of(record);
        let of_data = before.filter(|before| {
            before.status == ONGOING
                && before.producer_id == producer_id
                && (0..=1).contains(&(epoch - i32::from(before.epoch)))
        });
        let (lowest, highest) = match of_data {
            Some(before) => (i32::from(before.epoch), i32::from(before.epoch)),
            None if raises_epoch(record.version) => (epoch - 1, epoch - 1),
            None if outcome == ABORT => (epoch - 1, epoch),
            None => (epoch, epoch),
        };
        Decision {
            producer_id,
            offset: record.offset,
            since: if complete { record.started } else { record.updated },
            until: if complete { record.timestamp } else { NEVER },
            lowest,
            highest,
            marker: epoch,
            partitions: match record.partitions {
                _ if complete => NULL,
                NULL => NO_PARTITION,
                list => list,
            },
            id: record.id,
            version: record.version,
            outcome,
        }
    }

    fn push(&self, rows: &mut Vec<u8>) {
        let mut bytes = [0; SIZE];
        let longs = [self.producer_id, self.offset, self.since, self.until];
        for (place, value) in bytes.chunks_exact_mut(8).zip(longs) {
            place.copy_from_slice(&value.to_le_bytes());
        }
        let ints = [self.lowest, self.highest, self.marker, self.partitions, self.id as i32];
        for (place, value) in bytes[32..].chunks_exact_mut(4).zip(ints) {
            place.copy_from_slice(&value.to_le_bytes());
        }
        bytes[52..54].copy_from_slice(&self.version.to_le_bytes());
        bytes[54] = self.outcome as u8;
        rows.extend_from_slice(&bytes);
    }

    /// The reverse of `push`.
    #[inline]
    pub fn read(bytes: &[u8; SIZE]) -> Self {
        let long = |at: usize| i64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let int = |at: usize| i32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        Decision {
            producer_id: long(0),
            offset: long(8),
            since: long(16),
            until: long(24),
            lowest: int(32),
            highest: int(36),
            marker: int(40),
            partitions: int(44),
            id: int(48) as u32,
            version: i16::from_le_bytes([bytes[52], bytes[53]]),
            outcome: bytes[54] as i8,
        }
    }

    #[inline]
    fn until(bytes: &[u8; SIZE]) -> i64 {
        i64::from_le_bytes(*bytes[UNTIL..].first_chunk().expect("eight bytes"))
    }

    /// The epochs that its data may have, without those that no batch can have.
    #[inline]
    pub fn epochs(&self) -> impl Iterator<Item = i16> {
        [Some(self.lowest), Some(self.highest).filter(|&highest| highest != self.lowest)]
            .into_iter()
            .flatten()
            .filter_map(|epoch| i16::try_from(epoch).ok())
    }
}

#[derive(Default)]
pub struct Decisions {
    /// Packed: there may be millions.
    rows: Vec<u8>,
    /// By the producer id of the data the slot, which has the index of its last decision in `rows`.
    slots: HashMap<i64, u32>,
    last: Vec<u32>,
    times: BinaryHeap<(u64, [i64; 5])>,
}

/// Where the last decision about the data of an id's producer id is.
#[derive(Clone, Copy)]
pub struct Slot {
    producer_id: i64,
    at: u32,
}

impl Default for Slot {
    fn default() -> Self {
        Slot { producer_id: 0, at: NONE }
    }
}

impl Decisions {
    /// Takes the next record of an id. `before`: its record before, `None` for a tombstone. `slot`: of the id.
    #[inline]
    pub fn add(&mut self, before: Option<&Row>, record: &Row, slot: &mut Slot) {
        if !record.has_value || !(is_prepared(record.status) || is_complete(record.status)) {
            return;
        }
        let (producer_id, _) = marker_of(record);
        if slot.at == NONE || slot.producer_id != producer_id {
            let last = &mut self.last;
            let at = *self.slots.entry(producer_id).or_insert_with(|| {
                last.push(NONE);
                last.len() as u32 - 1
            });
            *slot = Slot { producer_id, at };
        }
        let last = &mut self.last[slot.at as usize];
        let (rows, _) = self.rows.as_chunks_mut::<SIZE>();
        if let (Some(before), Some(row)) = (before, rows.get_mut(*last as usize)) {
            let mut prepared = Decision::read(row);
            if prepared.until == NEVER && prepared.offset == before.offset {
                // This is its Complete, or another Prepare right after it.
                prepared.until = if is_complete(record.status) { record.timestamp } else { NEVER };
                row[UNTIL..UNTIL + 8].copy_from_slice(&prepared.until.to_le_bytes());
                if before.leader_epoch == record.leader_epoch {
                    note(&mut self.times, &prepared, record.leader_epoch);
                }
                return;
            }
        }
        *last = rows.len() as u32;
        Decision::of(before, record).push(&mut self.rows);
    }

    pub fn completed(&self) -> Vec<[i64; 5]> {
        self.times.clone().into_sorted_vec().into_iter().map(|(_, times)| times).collect()
    }

    /// Takes out those that no later record changes; with `all` all.
    pub fn drain(&mut self, all: bool) -> Vec<u8> {
        let mut found = std::mem::take(&mut self.rows);
        let (rows, _) = found.as_chunks::<SIZE>();
        let mut pending = vec![false; rows.len()];
        for last in &mut self.last {
            match rows.get(*last as usize) {
                Some(row) if !all && Decision::until(row) == NEVER => {
                    pending[*last as usize] = true;
                    *last = (self.rows.len() / SIZE) as u32;
                    self.rows.extend(row);
                }
                _ => *last = NONE,
            }
        }
        if !self.rows.is_empty() {
            let ended = rows.iter().zip(pending).filter(|(_, pending)| !pending);
            found = ended.flat_map(|(row, _)| row).copied().collect();
        }
        found.shrink_to_fit();
        found
    }
}

/// Keeps the times of those with the lowest hashes.
#[inline]
fn note(times: &mut BinaryHeap<(u64, [i64; 5])>, one: &Decision, leader_epoch: i32) {
    if one.until == NEVER || one.lowest != one.highest || one.lowest != one.marker - 1 {
        return;
    }
    let hash = hash(one.producer_id, one.marker);
    if times.len() == TIMES && times.peek().is_some_and(|(most, _)| hash > *most) {
        return;
    }
    times.push((hash, [one.producer_id, i64::from(one.marker), one.since, one.until, i64::from(leader_epoch)]));
    if times.len() > TIMES {
        times.pop();
    }
}

/// `clock_offsets._hash`: SplitMix64's finalizer.
fn hash(producer_id: i64, epoch: i32) -> u64 {
    let mut mixed = ((producer_id as u64) << 16) ^ epoch as i64 as u64;
    for (shift, factor) in [(30, 0xBF58_476D_1CE4_E5B9), (27, 0x94D0_49BB_1331_11EB)] {
        mixed = (mixed ^ (mixed >> shift)).wrapping_mul(factor);
    }
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packed_decision_is_read_again() {
        let one = Decision {
            producer_id: -1,
            offset: 2,
            since: -3,
            until: NEVER,
            lowest: -1,
            highest: 4,
            marker: 5,
            partitions: NO_PARTITION,
            id: 7,
            version: 2,
            outcome: COMMIT,
        };
        let mut bytes = Vec::new();
        one.push(&mut bytes);
        assert_eq!(Decision::read(bytes.as_slice().try_into().unwrap()), one);
        assert_eq!(one.epochs().collect::<Vec<_>>(), [-1, 4]);
        let wide = Decision { lowest: 9, highest: i32::from(i16::MAX) + 1, ..one };
        assert_eq!(wide.epochs().collect::<Vec<_>>(), [9]);
    }
}
