//! The producers of a partition: found by their ids, and those with an open transaction in the order in which these began.

use super::batches::Batch;
use super::places::Places;
use super::producer::{Producer, Rest, HAS_BY, NONE, UNSTAMPED};

/// Producers in one block of memory: a table of all in one would be copied whenever it grows.
const BLOCK_BITS: u32 = 10;

/// All producers, by the order in which they came.
pub struct Producers {
    places: Places,
    blocks: Vec<Vec<Producer>>,
    rests: Vec<Rest>,
    /// The first and the last producer with an open transaction, in the order in which these began.
    first_open: u32,
    last_open: u32,
    unstamped: Vec<u32>,
}

/// A transaction that ended: of its data what `endings.PACKED` has.
pub struct Ending {
    pub first_offset: i64,
    pub data_epoch: i16,
    pub last_offset: i64,
    pub first_timestamp: i64,
    pub last_timestamp: i64,
    pub batches: i64,
    /// The first offset of the earliest transaction of another producer that is open, or the offset after the marker.
    pub last_stable_offset: i64,
}

impl Producers {
    pub fn new() -> Self {
        Producers {
            places: Places::new(),
            blocks: Vec::new(),
            rests: Vec::new(),
            first_open: NONE,
            last_open: NONE,
            unstamped: Vec::new(),
        }
    }

    pub fn len(&self) -> usize {
        self.places.len()
    }

    pub fn place(&self, producer_id: i64) -> u32 {
        self.place_of(self.places.hash(producer_id), producer_id)
    }

    #[inline]
    fn place_of(&self, hash: u64, producer_id: i64) -> u32 {
        self.places.find(hash, |place| self.at(place).producer_id == producer_id)
    }

    /// Places that producers may have, which are read from memory side by side. `NONE`: it has none, or not yet.
    pub fn ahead<const N: usize>(&self, producer_ids: &[i64]) -> [u32; N] {
        let (mut hashes, mut places) = ([0; N], [NONE; N]);
        let mut touched = 0;
        for (hash, &producer_id) in hashes.iter_mut().zip(producer_ids) {
            *hash = self.places.hash(producer_id);
            touched ^= self.places.touch(*hash);
        }
        std::hint::black_box(touched);
        for ((place, hash), _) in places.iter_mut().zip(hashes).zip(producer_ids) {
            *place = self.places.find(hash, |_| true);
        }
        let touched = places.iter().filter(|&&place| place != NONE).fold(0, |touched, &place| {
            let producer = self.at(place);
            touched ^ producer.touch(&self.rests)
        });
        std::hint::black_box(touched);
        places
    }

    /// The place of a producer, which `ahead` gave as `expected`.
    #[inline]
    pub fn known(&self, expected: u32, producer_id: i64) -> u32 {
        if expected != NONE && self.at(expected).producer_id == producer_id {
            return expected;
        }
        self.place(producer_id)
    }

    pub fn at(&self, place: u32) -> &Producer {
        &self.blocks[(place >> BLOCK_BITS) as usize][(place & ((1 << BLOCK_BITS) - 1)) as usize]
    }

    fn at_mut(&mut self, place: u32) -> &mut Producer {
        &mut self.blocks[(place >> BLOCK_BITS) as usize][(place & ((1 << BLOCK_BITS) - 1)) as usize]
    }

    /// Those from a place on.
    pub fn from(&self, start: usize) -> impl Iterator<Item = &Producer> {
        let (block, within) = (start >> BLOCK_BITS, start & ((1 << BLOCK_BITS) - 1));
        self.blocks.iter().skip(block).flatten().skip(within)
    }

    /// The numbers of a producer, as a row.
    pub fn push_row(&self, producer: &Producer, rows: &mut Vec<i64>) {
        producer.push_row(&self.rests, rows);
    }

    fn push(&mut self, producer: Producer) -> u32 {
        let place = self.places.push(self.places.hash(producer.producer_id));
        if self.blocks.last().is_none_or(|block| block.len() == 1 << BLOCK_BITS) {
            self.blocks.push(Vec::with_capacity(1 << BLOCK_BITS));
        }
        if let Some(block) = self.blocks.last_mut() {
            block.push(producer);
        }
        place
    }

    /// A producer as a `.snapshot` has it, in place of one of the same id; `None` where the row has none.
    pub fn restore(&mut self, row: &[i64]) -> Option<()> {
        let mut producer = Producer::of_row(row, &mut self.rests)?;
        let known = self.place(producer.producer_id);
        let place = if known == NONE {
            self.push(producer)
        } else {
            self.unlink(known);
            let old = self.at(known);
            let (before, after) = (old.before, old.after);
            (producer.before, producer.after) = (before, after);
            producer.set(UNSTAMPED, old.has(UNSTAMPED));
            *self.at_mut(known) = producer;
            known
        };
        if self.at(place).is_open() {
            self.link(place);
            self.await_stamp(place);
        }
        Some(())
    }

    /// A producer of which nothing is known but its open transaction.
    pub fn reopen(&mut self, producer_id: i64, first_offset: i64) {
        let known = self.place(producer_id);
        let place = if known == NONE { self.push(Producer::new(producer_id)) } else { known };
        let producer = self.at_mut(place);
        (producer.first_offset, producer.open_batches) = (first_offset, -1);
        if self.at(place).is_open() {
            self.link(place);
        }
    }

    /// The producers with an open transaction, in the order in which these began.
    pub fn open(&self) -> impl Iterator<Item = &Producer> {
        let mut place = self.first_open;
        std::iter::from_fn(move || {
            (place != NONE).then(|| {
                let found = self.at(place);
                place = found.after;
                found
            })
        })
    }

    fn is_linked(&self, place: u32) -> bool {
        self.first_open == place || self.at(place).before != NONE
    }

    fn link(&mut self, place: u32) {
        if self.is_linked(place) {
            return;
        }
        let last = self.last_open;
        self.at_mut(place).before = last;
        if last == NONE {
            self.first_open = place;
        } else {
            self.at_mut(last).after = place;
        }
        self.last_open = place;
    }

    fn unlink(&mut self, place: u32) {
        if !self.is_linked(place) {
            return;
        }
        let producer = self.at_mut(place);
        let (before, after) = (producer.before, producer.after);
        (producer.before, producer.after) = (NONE, NONE);
        if before == NONE {
            self.first_open = after;
        } else {
            self.at_mut(before).after = after;
        }
        if after == NONE {
            self.last_open = before;
        } else {
            self.at_mut(after).before = before;
        }
    }

    fn await_stamp(&mut self, place: u32) {
        let producer = self.at_mut(place);
        if !producer.has(UNSTAMPED) {
            producer.set(UNSTAMPED, true);
            self.unstamped.push(place);
        }
    }

    /// The broker's clock on or after the last batches of the producers that wait for it.
    fn stamp(&mut self, stamp: i64) {
        let mut waiting = std::mem::take(&mut self.unstamped);
        for &place in &waiting {
            let producer = self.at_mut(place);
            producer.set(UNSTAMPED, false);
            producer.set(HAS_BY, true);
            producer.written_by = stamp;
        }
        waiting.clear();
        self.unstamped = waiting;
    }

    /// Takes the next batch, which is not malformed. `place`: of its producer, which may be `NONE`. Returns the
    /// transaction that it ends. `marker_time`: of the newest marker before it.
    pub fn add(&mut self, place: u32, batch: &Batch, marker_time: Option<i64>) -> Option<Ending> {
        let place = if place == NONE { self.push(Producer::new(batch.producer_id)) } else { place };
        if batch.is_data() && batch.transactional {
            self.at_mut(place).set(HAS_BY, false);
            self.await_stamp(place);
        }
        if let Some(stamp) = batch.stamp() {
            self.stamp(stamp);
        }
        let block = &mut self.blocks[(place >> BLOCK_BITS) as usize];
        let producer = &mut block[(place & ((1 << BLOCK_BITS) - 1)) as usize];
        let was_open = producer.is_open();
        let mut ending = was_open.then_some(Ending {
            first_offset: producer.first_offset,
            data_epoch: producer.epoch,
            last_offset: producer.last_append,
            first_timestamp: producer.first_timestamp,
            last_timestamp: producer.timestamp,
            batches: producer.open_batches,
            last_stable_offset: batch.base_offset.wrapping_add(1),
        });
        if producer.add(batch, marker_time, &mut self.rests) {
            let other = self.open().find(|other| other.producer_id != batch.producer_id);
            if let (Some(ending), Some(other)) = (&mut ending, other) {
                ending.last_stable_offset = other.first_offset;
            }
            self.unlink(place);
            return ending;
        }
        if !was_open && producer.is_open() {
            self.link(place);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::super::batches::{DATA, NO_COORDINATOR};
    use super::super::producer::FIELDS;
    use super::*;

    fn batch(producer_id: i64, offset: i64, control: i8) -> Batch {
        Batch {
            producer_id,
            base_offset: offset,
            last_offset: offset,
            base_sequence: if control == DATA { offset as i32 } else { -1 },
            control,
            coordinator_epoch: NO_COORDINATOR,
            transactional: true,
            problem: -1,
            ..Batch::default()
        }
    }

    fn open(producers: &Producers) -> Vec<i64> {
        producers.open().map(|producer| producer.producer_id).collect()
    }

    #[test]
    fn open_transactions_are_in_the_order_of_their_beginnings() {
        let mut producers = Producers::new();
        let mut ended = Vec::new();
        for (offset, (producer_id, control)) in
            [(7, DATA), (8, DATA), (9, DATA), (8, 1), (7, DATA), (8, DATA), (7, 0), (9, 1)].into_iter().enumerate()
        {
            let place = producers.place(producer_id);
            let found = producers.add(place, &batch(producer_id, offset as i64, control), None);
            ended.extend(found.map(|ending| (ending.first_offset, ending.last_stable_offset, ending.batches)));
        }
        assert_eq!(open(&producers), [8]);
        assert_eq!(ended, [(1, 0, 1), (0, 2, 2), (2, 5, 1)]);
        assert_eq!(producers.len(), 3);
    }

    #[test]
    fn a_row_is_the_producer() {
        let mut producers = Producers::new();
        for offset in 0..12 {
            let place = producers.place(offset % 2);
            producers.add(place, &batch(offset % 2, offset, DATA), Some(3));
        }
        let rows = |producers: &Producers| {
            let mut rows = Vec::new();
            producers.from(0).for_each(|producer| producers.push_row(producer, &mut rows));
            rows
        };
        let mut restored = Producers::new();
        let found = rows(&producers);
        assert_eq!(found.len(), 2 * FIELDS);
        // The five last batches, from the oldest on: offsets are every second sequence number.
        assert_eq!(found[16..36].chunks(4).map(|one| one[1]).collect::<Vec<_>>(), [2, 4, 6, 8, 10]);
        for row in found.chunks(FIELDS) {
            assert!(restored.restore(row).is_some());
        }
        assert_eq!(rows(&restored), found);
        assert_eq!(open(&restored), [0, 1]);
        assert!(restored.restore(&[1 << 20; FIELDS]).is_none());
    }
}
