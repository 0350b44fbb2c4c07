//! Batches of producers, as `kafkawire.transactions.log.appends.Appends` has them: a column a field.

use super::producer::FIELDS;

/// Codes of `control`; those of ABORT and COMMIT are below `EMPTY`.
pub const DATA: i8 = -1;
pub const EMPTY: i8 = 2;
pub const MALFORMED: i8 = 3;
/// As coordinator epoch: there is none.
pub const NO_COORDINATOR: i64 = -(1 << 62);
const SEQUENCE_MASK: i64 = i32::MAX as i64;

/// Slices of one length.
#[derive(Clone, Copy)]
pub struct Batches<'a> {
    pub base_offset: &'a [i64],
    pub last_offset: &'a [i64],
    pub timestamp: &'a [i64],
    pub producer_id: &'a [i64],
    pub producer_epoch: &'a [i16],
    pub control: &'a [i8],
    pub coordinator_epoch: &'a [i64],
    pub base_sequence: &'a [i32],
    pub transactional: &'a [bool],
    pub intact_from: &'a [i64],
    pub compacted: &'a [bool],
    pub problem: &'a [i32],
    pub append_time: &'a [bool],
}

impl Batches<'_> {
    /// Their number; `None` where the columns do not have the same.
    pub fn count(&self) -> Option<usize> {
        let count = self.base_offset.len();
        let lengths = [
            self.last_offset.len(),
            self.timestamp.len(),
            self.producer_id.len(),
            self.producer_epoch.len(),
            self.control.len(),
            self.coordinator_epoch.len(),
            self.base_sequence.len(),
            self.transactional.len(),
            self.intact_from.len(),
            self.compacted.len(),
            self.problem.len(),
            self.append_time.len(),
        ];
        lengths.iter().all(|&length| length == count).then_some(count)
    }

    pub fn at(&self, index: usize) -> Batch {
        Batch {
            base_offset: self.base_offset[index],
            last_offset: self.last_offset[index],
            timestamp: self.timestamp[index],
            producer_id: self.producer_id[index],
            epoch: self.producer_epoch[index],
            control: self.control[index],
            coordinator_epoch: self.coordinator_epoch[index],
            base_sequence: self.base_sequence[index],
            transactional: self.transactional[index],
            intact_from: self.intact_from[index],
            compacted: self.compacted[index],
            problem: self.problem[index],
            append_time: self.append_time[index],
        }
    }
}

/// `producer_append.Append`.
#[derive(Debug, Default, Clone, Copy)]
pub struct Batch {
    pub base_offset: i64,
    pub last_offset: i64,
    pub timestamp: i64,
    pub producer_id: i64,
    pub epoch: i16,
    pub control: i8,
    pub coordinator_epoch: i64,
    pub base_sequence: i32,
    pub transactional: bool,
    pub intact_from: i64,
    pub compacted: bool,
    pub problem: i32,
    pub append_time: bool,
}

impl Batch {
    /// One of which nothing is known but what it is to the transaction of its producer.
    pub fn in_transaction(producer_id: i64, offset: i64, control: i8) -> Self {
        Batch {
            base_offset: offset,
            last_offset: offset,
            producer_id,
            control,
            coordinator_epoch: NO_COORDINATOR,
            base_sequence: -1,
            transactional: true,
            problem: -1,
            ..Batch::default()
        }
    }

    pub fn is_data(&self) -> bool {
        self.control == DATA
    }

    /// Whether it is a marker of which all is known.
    pub fn is_marker(&self) -> bool {
        (0..EMPTY).contains(&self.control)
    }

    /// The epoch of the coordinator that wrote the marker, where it could be read.
    pub fn coordinator(&self) -> Option<i64> {
        (self.coordinator_epoch != NO_COORDINATOR).then_some(self.coordinator_epoch)
    }

    /// When the broker appended it, by its own clock; `None` where it does not show that.
    pub fn stamp(&self) -> Option<i64> {
        (self.append_time || self.is_marker()).then_some(self.timestamp)
    }

    /// Sequence number of the last record; after 2^31 - 1 comes 0. -1 where there is none.
    pub fn last_sequence(&self) -> i32 {
        if self.base_sequence < 0 {
            return -1;
        }
        (i64::from(self.base_sequence).wrapping_add(self.offset_delta()) & SEQUENCE_MASK) as i32
    }

    pub fn offset_delta(&self) -> i64 {
        self.last_offset.wrapping_sub(self.base_offset)
    }
}

/// The sequence number `count` after `last`, which is -1 or more.
pub fn sequence_after(last: i32, count: i64) -> i32 {
    (i64::from(last).wrapping_add(count) & SEQUENCE_MASK) as i32
}

/// A batch that the reference has to judge, as a row: its index, whether a rule of the engine asks for that and whether
/// another does, the newest timestamp up to it, and the state of its producer before it.
pub const ASKED_COLUMNS: usize = 5 + FIELDS;
