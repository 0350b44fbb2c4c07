//! The state of one producer of a partition (`kafkawire.transactions.log.producer_state` is the reference).

use super::batches::{sequence_after, Batch, EMPTY, MALFORMED};

/// Number of last batches that a broker remembers.
const RETAINED: usize = 5;
/// As the place of a producer: there is none.
pub const NONE: u32 = u32::MAX;

/// `producer_state.Retained`.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Retained {
    last_offset: i64,
    timestamp: i64,
    last_sequence: i32,
    offset_delta: i32,
}

/// `producer_state.Producer`: what batches are judged by comes first, so that it lies in few lines of the cache.
#[derive(Debug, Clone)]
#[repr(C, align(64))]
pub struct Producer {
    pub producer_id: i64,
    pub first_offset: i64,
    pub last_append: i64,
    pub data_known_from: i64,
    pub timestamp: i64,
    pub coordinator_epoch: i64,
    /// Of its last batch in this epoch; -1 for none.
    pub last_sequence: i32,
    pub epoch: i16,
    pub(super) kept: u8,
    pub(super) newest: u8,
    pub(super) doubts: u8,
    pub(super) rewritten: bool,
    pub(super) unstamped: bool,
    pub(super) has_after: bool,
    pub(super) has_by: bool,
    pub first_timestamp: i64,
    pub open_batches: i64,
    pub(super) written_after: i64,
    pub(super) written_by: i64,
    pub(super) marked_at: i64,
    pub(super) doubted: [(i16, i32); 2],
    /// Its neighbours among the producers with an open transaction.
    pub(super) before: u32,
    pub(super) after: u32,
    pub(super) batches: [Retained; RETAINED],
}

/// Numbers of a producer as a row, in the order of `kafkawire.transactions.log.ordered_replay`.
pub const FIELDS: usize = 16 + 4 * RETAINED + 5;

impl Producer {
    pub(super) fn new(producer_id: i64) -> Self {
        Producer {
            producer_id,
            first_offset: -1,
            last_append: -1,
            data_known_from: 0,
            timestamp: -1,
            coordinator_epoch: -1,
            last_sequence: -1,
            epoch: -1,
            kept: 0,
            newest: 0,
            doubts: 0,
            rewritten: false,
            unstamped: false,
            has_after: false,
            has_by: false,
            first_timestamp: -1,
            open_batches: 0,
            written_after: 0,
            written_by: 0,
            marked_at: -1,
            doubted: [(0, 0); 2],
            before: NONE,
            after: NONE,
            batches: [Retained::default(); RETAINED],
        }
    }

    /// Reads from the lines of memory that a batch needs.
    pub fn touch(&self) -> i64 {
        self.first_offset ^ self.marked_at ^ self.batches[0].last_offset ^ self.batches[RETAINED - 1].last_offset
    }

    pub fn is_open(&self) -> bool {
        self.first_offset >= 0
    }

    /// Whether its open transaction began in what was read, and not before the state that was restored.
    pub fn began_here(&self) -> bool {
        self.open_batches >= 0
    }

    pub fn is_doubted(&self) -> bool {
        self.doubts > 0
    }

    pub fn has_batches(&self) -> bool {
        self.kept > 0
    }

    /// Whether a batch that begins with this sequence number comes next.
    pub fn follows(&self, sequence: i32) -> bool {
        sequence == sequence_after(self.last_sequence, 1)
    }

    pub(super) fn keep(&mut self, batch: Retained) {
        self.newest = if self.kept == 0 { 0 } else { (self.newest + 1) % RETAINED as u8 };
        self.kept = (self.kept + 1).min(RETAINED as u8);
        self.last_sequence = batch.last_sequence;
        self.batches[usize::from(self.newest)] = batch;
    }

    fn forget(&mut self) {
        self.kept = 0;
        self.last_sequence = -1;
    }

    /// From the oldest to the newest.
    pub(super) fn kept(&self) -> impl Iterator<Item = &Retained> {
        let first = usize::from(self.newest) + RETAINED + 1 - usize::from(self.kept);
        (first..first + usize::from(self.kept)).map(|at| &self.batches[at % RETAINED])
    }

    fn in_order(&self, batch: &Batch) -> bool {
        if batch.epoch < self.epoch {
            return false;
        }
        if batch.base_sequence < 0 {
            return self.last_sequence < 0;
        }
        if batch.epoch > self.epoch || !self.has_batches() {
            return batch.base_sequence == 0;
        }
        self.follows(batch.base_sequence)
    }

    fn may_follow(&self, batch: &Batch) -> bool {
        self.doubted[..usize::from(self.doubts)]
            .iter()
            .any(|&(epoch, last)| batch.epoch == epoch && batch.base_sequence == sequence_after(last, 1))
    }

    fn doubt(&mut self, doubted: &[(i16, i32)]) {
        self.doubts = doubted.len() as u8;
        self.doubted[..doubted.len()].copy_from_slice(doubted);
    }

    fn data(&mut self, batch: &Batch) {
        let (epoch, last) = (self.epoch, self.last_sequence);
        if epoch < 0 || self.in_order(batch) || self.may_follow(batch) {
            self.doubts = 0;
        } else {
            let behind = sequence_after(last, batch.offset_delta().wrapping_add(1));
            self.doubt(&[(epoch, last), (epoch, behind)]);
        }
        if batch.epoch != epoch {
            self.forget();
            self.epoch = batch.epoch;
        }
        self.keep(Retained {
            last_offset: batch.last_offset,
            offset_delta: batch.offset_delta() as i32,
            timestamp: batch.timestamp,
            last_sequence: batch.last_sequence(),
        });
        self.timestamp = batch.timestamp;
        self.last_append = batch.last_offset;
        self.data_known_from = batch.last_offset;
        self.rewritten = batch.compacted;
    }

    fn marker(&mut self, batch: &Batch) {
        if batch.epoch != self.epoch {
            self.forget();
            let doubted = self.doubted;
            let count = usize::from(std::mem::take(&mut self.doubts));
            for one in doubted[..count].iter().filter(|one| one.0 == batch.epoch) {
                self.doubted[usize::from(self.doubts)] = *one;
                self.doubts += 1;
            }
            self.epoch = batch.epoch;
            self.data_known_from = self.last_append.max(0);
        }
        if let Some(epoch) = batch.coordinator() {
            self.coordinator_epoch = epoch;
        }
        self.timestamp = batch.timestamp;
        self.marked_at = batch.timestamp;
        self.first_offset = -1;
        self.last_append = batch.last_offset;
        self.rewritten = false;
    }

    /// Takes the next batch; whether it ends a transaction with data. `marker_time`: of the newest marker before it.
    pub(super) fn add(&mut self, batch: &Batch, marker_time: Option<i64>) -> bool {
        if batch.is_data() {
            if batch.transactional {
                self.data(batch);
                self.has_after = marker_time.is_some();
                self.written_after = marker_time.unwrap_or(0);
                if !self.is_open() {
                    self.first_offset = batch.base_offset;
                    self.first_timestamp = batch.timestamp;
                    self.open_batches = 0;
                }
                if self.open_batches >= 0 {
                    self.open_batches += 1;
                }
            } else if !self.is_open() {
                self.data(batch);
            } else {
                self.doubt(&[(batch.epoch, batch.last_sequence())]);
            }
            return false;
        }
        if batch.control == MALFORMED {
            return false;
        }
        let ends = self.is_open();
        if batch.control == EMPTY {
            self.first_offset = -1;
            self.rewritten = true;
            self.last_append = batch.last_offset;
        } else {
            self.marker(batch);
        }
        ends
    }

    pub fn push_row(&self, row: &mut Vec<i64>) {
        row.extend([
            self.producer_id,
            i64::from(self.epoch),
            self.coordinator_epoch,
            self.timestamp,
            self.first_offset,
            self.first_timestamp,
            self.open_batches,
            self.last_append,
            self.data_known_from,
            i64::from(self.has_after),
            self.written_after,
            i64::from(self.has_by),
            self.written_by,
            self.marked_at,
            i64::from(self.rewritten),
            i64::from(self.kept),
        ]);
        let none = Retained::default();
        for batch in self.kept().chain(std::iter::repeat(&none)).take(RETAINED) {
            row.extend([
                i64::from(batch.last_sequence),
                batch.last_offset,
                i64::from(batch.offset_delta),
                batch.timestamp,
            ]);
        }
        row.push(i64::from(self.doubts));
        for (epoch, last) in self.doubted {
            row.extend([i64::from(epoch), i64::from(last)]);
        }
    }

    /// The reverse of `push_row`; `None` where a number is too large for its field.
    pub(super) fn of_row(row: &[i64]) -> Option<Self> {
        let mut found = Producer::new(row[0]);
        found.epoch = row[1].try_into().ok()?;
        found.coordinator_epoch = row[2];
        found.timestamp = row[3];
        found.first_offset = row[4];
        found.first_timestamp = row[5];
        found.open_batches = row[6];
        found.last_append = row[7];
        found.data_known_from = row[8];
        (found.has_after, found.written_after) = (row[9] != 0, row[10]);
        (found.has_by, found.written_by) = (row[11] != 0, row[12]);
        found.marked_at = row[13];
        found.rewritten = row[14] != 0;
        let kept = usize::try_from(row[15]).ok().filter(|&kept| kept <= RETAINED)?;
        for batch in row[16..].chunks_exact(4).take(kept) {
            found.keep(Retained {
                last_sequence: batch[0].try_into().ok()?,
                last_offset: batch[1],
                offset_delta: batch[2].try_into().ok()?,
                timestamp: batch[3],
            });
        }
        let doubts = &row[16 + 4 * RETAINED..];
        let count = usize::try_from(doubts[0]).ok().filter(|&count| count <= 2)?;
        for one in doubts[1..].chunks_exact(2).take(count) {
            found.doubted[usize::from(found.doubts)] = (one[0].try_into().ok()?, one[1].try_into().ok()?);
            found.doubts += 1;
        }
        Some(found)
    }
}
