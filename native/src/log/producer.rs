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

/// What few producers have.
#[derive(Debug, Default, Clone)]
pub(super) struct Rest {
    /// The kept batches before the last one, in a ring.
    older: [Retained; RETAINED - 1],
    newest: u8,
    doubts: u8,
    doubted: [(i16, i32); 2],
}

// Flags of a producer.
const REWRITTEN: u8 = 1;
/// It waits for the broker's clock after its last batch.
pub(super) const UNSTAMPED: u8 = 2;
const HAS_AFTER: u8 = 4;
pub(super) const HAS_BY: u8 = 8;
const DOUBTED: u8 = 16;

/// `producer_state.Producer`, in two lines of the cache: what batches are judged by is in the first.
#[derive(Debug, Clone)]
#[repr(C, align(128))]
pub struct Producer {
    pub producer_id: i64,
    pub first_offset: i64,
    pub last_append: i64,
    pub data_known_from: i64,
    pub timestamp: i64,
    /// Among those of all producers.
    rest: u32,
    pub coordinator_epoch: i32,
    /// Of its last batch in this epoch; -1 for none.
    pub last_sequence: i32,
    pub epoch: i16,
    /// Batches that are remembered: the last one here, the others in `rest`.
    kept: u8,
    flags: u8,
    newest_delta: i32,
    newest_offset: i64,
    newest_timestamp: i64,
    pub first_timestamp: i64,
    pub open_batches: i64,
    written_after: i64,
    pub(super) written_by: i64,
    marked_at: i64,
    /// Its neighbours among the producers with an open transaction.
    pub(super) before: u32,
    pub(super) after: u32,
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
            rest: NONE,
            coordinator_epoch: -1,
            last_sequence: -1,
            epoch: -1,
            kept: 0,
            flags: 0,
            newest_delta: 0,
            newest_offset: 0,
            newest_timestamp: 0,
            first_timestamp: -1,
            open_batches: 0,
            written_after: 0,
            written_by: 0,
            marked_at: -1,
            before: NONE,
            after: NONE,
        }
    }

    /// Reads from the lines of memory that a batch needs.
    #[inline]
    pub(super) fn touch(&self, rests: &[Rest]) -> i64 {
        self.first_offset ^ self.marked_at ^ self.rest(rests).map_or(0, |rest| i64::from(rest.newest))
    }

    fn rest<'a>(&self, rests: &'a [Rest]) -> Option<&'a Rest> {
        rests.get(self.rest as usize)
    }

    fn rest_mut<'a>(&mut self, rests: &'a mut Vec<Rest>) -> &'a mut Rest {
        if self.rest == NONE {
            self.rest = rests.len() as u32;
            rests.push(Rest::default());
        }
        &mut rests[self.rest as usize]
    }

    #[inline]
    pub(super) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    #[inline]
    pub(super) fn set(&mut self, flag: u8, value: bool) {
        self.flags = if value { self.flags | flag } else { self.flags & !flag };
    }

    pub fn is_open(&self) -> bool {
        self.first_offset >= 0
    }

    /// Whether its open transaction began in what was read, and not before the state that was restored.
    pub fn began_here(&self) -> bool {
        self.open_batches >= 0
    }

    pub fn is_doubted(&self) -> bool {
        self.has(DOUBTED)
    }

    pub fn has_batches(&self) -> bool {
        self.kept > 0
    }

    /// Whether a batch that begins with this sequence number comes next.
    pub fn follows(&self, sequence: i32) -> bool {
        sequence == sequence_after(self.last_sequence, 1)
    }

    fn newest(&self) -> Retained {
        Retained {
            last_offset: self.newest_offset,
            timestamp: self.newest_timestamp,
            last_sequence: self.last_sequence,
            offset_delta: self.newest_delta,
        }
    }

    fn keep(&mut self, batch: Retained, rests: &mut Vec<Rest>) {
        if self.kept > 0 {
            let (first, older) = (self.kept == 1, self.newest());
            let rest = self.rest_mut(rests);
            rest.newest = if first { 0 } else { (rest.newest + 1) % (RETAINED as u8 - 1) };
            rest.older[usize::from(rest.newest)] = older;
        }
        self.kept = (self.kept + 1).min(RETAINED as u8);
        self.last_sequence = batch.last_sequence;
        self.newest_offset = batch.last_offset;
        self.newest_timestamp = batch.timestamp;
        self.newest_delta = batch.offset_delta;
    }

    fn forget(&mut self) {
        self.kept = 0;
        self.last_sequence = -1;
    }

    /// From the oldest to the newest.
    fn kept<'a>(&'a self, rests: &'a [Rest]) -> impl Iterator<Item = Retained> + use<'a> {
        let older = usize::from(self.kept.saturating_sub(1));
        let of_rest = self.rest(rests).into_iter().flat_map(move |rest| {
            let first = usize::from(rest.newest) + RETAINED - older;
            (first..first + older).map(|at| rest.older[at % (RETAINED - 1)])
        });
        of_rest.chain((self.kept > 0).then(|| self.newest()))
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

    fn doubted<'a>(&self, rests: &'a [Rest]) -> &'a [(i16, i32)] {
        self.rest(rests).map_or(&[], |rest| &rest.doubted[..usize::from(rest.doubts)])
    }

    fn may_follow(&self, batch: &Batch, rests: &[Rest]) -> bool {
        self.doubted(rests)
            .iter()
            .any(|&(epoch, last)| batch.epoch == epoch && batch.base_sequence == sequence_after(last, 1))
    }

    fn doubt(&mut self, doubted: &[(i16, i32)], rests: &mut Vec<Rest>) {
        self.set(DOUBTED, !doubted.is_empty());
        if !doubted.is_empty() || self.rest != NONE {
            let rest = self.rest_mut(rests);
            rest.doubts = doubted.len() as u8;
            rest.doubted[..doubted.len()].copy_from_slice(doubted);
        }
    }

    fn data(&mut self, batch: &Batch, rests: &mut Vec<Rest>) {
        let (epoch, last) = (self.epoch, self.last_sequence);
        if epoch < 0 || self.in_order(batch) || self.may_follow(batch, rests) {
            self.doubt(&[], rests);
        } else {
            let behind = sequence_after(last, batch.offset_delta().wrapping_add(1));
            self.doubt(&[(epoch, last), (epoch, behind)], rests);
        }
        if batch.epoch != epoch {
            self.forget();
            self.epoch = batch.epoch;
        }
        let kept = Retained {
            last_offset: batch.last_offset,
            offset_delta: batch.offset_delta() as i32,
            timestamp: batch.timestamp,
            last_sequence: batch.last_sequence(),
        };
        self.keep(kept, rests);
        self.timestamp = batch.timestamp;
        self.last_append = batch.last_offset;
        self.data_known_from = batch.last_offset;
        self.set(REWRITTEN, batch.compacted);
    }

    fn marker(&mut self, batch: &Batch, rests: &mut Vec<Rest>) {
        if batch.epoch != self.epoch {
            self.forget();
            if self.is_doubted() {
                let of_epoch = |one: &&(i16, i32)| one.0 == batch.epoch;
                let left: Vec<_> = self.doubted(rests).iter().filter(of_epoch).copied().collect();
                self.doubt(&left, rests);
            }
            self.epoch = batch.epoch;
            self.data_known_from = self.last_append.max(0);
        }
        if let Some(epoch) = batch.coordinator() {
            self.coordinator_epoch = epoch as i32;
        }
        self.timestamp = batch.timestamp;
        self.marked_at = batch.timestamp;
        self.first_offset = -1;
        self.last_append = batch.last_offset;
        self.set(REWRITTEN, false);
    }

    /// Takes the next batch; whether it ends a transaction with data. `marker_time`: of the newest marker before it.
    pub(super) fn add(&mut self, batch: &Batch, marker_time: Option<i64>, rests: &mut Vec<Rest>) -> bool {
        if batch.is_data() {
            if batch.transactional {
                self.data(batch, rests);
                self.set(HAS_AFTER, marker_time.is_some());
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
                self.data(batch, rests);
            } else {
                self.doubt(&[(batch.epoch, batch.last_sequence())], rests);
            }
            return false;
        }
        if batch.control == MALFORMED {
            return false;
        }
        let ends = self.is_open();
        if batch.control == EMPTY {
            self.first_offset = -1;
            self.set(REWRITTEN, true);
            self.last_append = batch.last_offset;
        } else {
            self.marker(batch, rests);
        }
        ends
    }

    pub(super) fn push_row(&self, rests: &[Rest], row: &mut Vec<i64>) {
        row.extend([
            self.producer_id,
            i64::from(self.epoch),
            i64::from(self.coordinator_epoch),
            self.timestamp,
            self.first_offset,
            self.first_timestamp,
            self.open_batches,
            self.last_append,
            self.data_known_from,
            i64::from(self.has(HAS_AFTER)),
            self.written_after,
            i64::from(self.has(HAS_BY)),
            self.written_by,
            self.marked_at,
            i64::from(self.has(REWRITTEN)),
            i64::from(self.kept),
        ]);
        let none = Retained::default();
        for batch in self.kept(rests).chain(std::iter::repeat(none)).take(RETAINED) {
            row.extend([
                i64::from(batch.last_sequence),
                batch.last_offset,
                i64::from(batch.offset_delta),
                batch.timestamp,
            ]);
        }
        let doubted = self.doubted(rests);
        row.push(doubted.len() as i64);
        for (epoch, last) in doubted.iter().copied().chain(std::iter::repeat((0, 0))).take(2) {
            row.extend([i64::from(epoch), i64::from(last)]);
        }
    }

    /// The reverse of `push_row`; `None` where a number is too large for its field.
    pub(super) fn of_row(row: &[i64], rests: &mut Vec<Rest>) -> Option<Self> {
        let mut found = Producer::new(row[0]);
        found.epoch = row[1].try_into().ok()?;
        found.coordinator_epoch = row[2].try_into().ok()?;
        found.timestamp = row[3];
        found.first_offset = row[4];
        found.first_timestamp = row[5];
        found.open_batches = row[6];
        found.last_append = row[7];
        found.data_known_from = row[8];
        (found.written_after, found.written_by) = (row[10], row[12]);
        found.marked_at = row[13];
        for (flag, at) in [(HAS_AFTER, 9), (HAS_BY, 11), (REWRITTEN, 14)] {
            found.set(flag, row[at] != 0);
        }
        let kept = usize::try_from(row[15]).ok().filter(|&kept| kept <= RETAINED)?;
        for batch in row[16..].chunks_exact(4).take(kept) {
            let kept = Retained {
                last_sequence: batch[0].try_into().ok()?,
                last_offset: batch[1],
                offset_delta: batch[2].try_into().ok()?,
                timestamp: batch[3],
            };
            found.keep(kept, rests);
        }
        let doubts = &row[16 + 4 * RETAINED..];
        let count = usize::try_from(doubts[0]).ok().filter(|&count| count <= 2)?;
        let mut doubted = [(0, 0); 2];
        for (one, pair) in doubted.iter_mut().zip(doubts[1..].chunks_exact(2)).take(count) {
            *one = (pair[0].try_into().ok()?, pair[1].try_into().ok()?);
        }
        found.doubt(&doubted[..count], rests);
        Some(found)
    }
}
