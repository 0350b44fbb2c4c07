//! One ordered pass over the batches of a partition: the state of its producers, its rules, its ended transactions.

use super::batches::{Batch, Batches, ASKED_COLUMNS, DATA, EMPTY, MALFORMED};
use super::producer::{FIELDS, NONE};
use super::producers::{Ending, Producers};
use super::rules::{judge, Step, COUNTED, RULES};

/// Batches whose producers are looked up before the first of them is taken: the memory answers side by side.
const AHEAD: usize = 64;
/// Bytes of a row of `endings.PACKED`.
const ENDED_SIZE: usize = 69;
/// `producer_append.NO_EPOCH`.
const NO_EPOCH: i32 = i32::MIN;

/// What a pass found.
#[derive(Default)]
pub struct Found {
    /// The batch to go on with.
    pub next: usize,
    /// Ended transactions, as rows of `endings.PACKED`; and for each its last stable offset, and the `intact_from` of
    /// its marker.
    pub ended: Vec<u8>,
    pub stable: Vec<i64>,
    pub intact_from: Vec<i64>,
    /// Rows of batches that the reference has to judge.
    pub asked: Vec<i64>,
    /// By rule, how often each outcome was there.
    pub counts: [[u64; COUNTED]; RULES.len()],
}

pub struct Replay {
    pub producers: Producers,
    marker_time: Option<i64>,
    /// The newest timestamp so far, -1 for none.
    clock: i64,
    /// None: nothing is judged.
    expiration_ms: Option<i64>,
}

impl Replay {
    pub fn new(expiration_ms: Option<i64>) -> Self {
        Replay { producers: Producers::new(), marker_time: None, clock: -1, expiration_ms }
    }

    /// Takes batches from `start` on, until the reference has to judge `most` of them. `asked`: those that a rule
    /// without counterpart here asks for. `count`: of the batches.
    pub fn run(&mut self, batches: &Batches, start: usize, count: usize, asked: Option<&[bool]>, most: usize) -> Found {
        let mut found = Found { next: start, ..Found::default() };
        let most_ended = batches.control[start..count].iter().filter(|&&control| control != DATA).count();
        found.ended.reserve(most_ended * ENDED_SIZE);
        found.stable.reserve(most_ended);
        found.intact_from.reserve(most_ended);
        while found.next < count {
            let end = count.min(found.next + AHEAD);
            let places: [u32; AHEAD] = self.producers.ahead(&batches.producer_id[found.next..end]);
            for &expected in &places[..end - found.next] {
                if found.asked.len() >= most * ASKED_COLUMNS {
                    return found;
                }
                let batch = batches.at(found.next);
                let place = self.producers.known(expected, batch.producer_id);
                let is_asked = asked.is_some_and(|asked| asked[found.next]);
                self.take(&mut found, place, &batch, is_asked);
                found.next += 1;
            }
        }
        found
    }

    #[inline]
    fn take(&mut self, found: &mut Found, place: u32, batch: &Batch, asked: bool) {
        if let Some(expiration_ms) = self.expiration_ms {
            self.clock = self.clock.max(batch.timestamp);
            let producer = (place != NONE).then(|| self.producers.at(place));
            let judged = judge(&Step::new(batch, producer, self.clock, expiration_ms));
            if judged.is_none() || asked {
                let known = producer.is_some();
                found.asked.extend([
                    found.next as i64,
                    i64::from(judged.is_none()),
                    i64::from(asked),
                    self.clock,
                    i64::from(known),
                ]);
                match producer {
                    Some(producer) => self.producers.push_row(producer, &mut found.asked),
                    None => found.asked.extend([0; FIELDS]),
                }
            }
            for (counts, outcome) in found.counts.iter_mut().zip(judged.iter().flatten()) {
                if let Some(count) = counts.get_mut(*outcome as usize) {
                    *count += 1;
                }
            }
        }
        if batch.control == MALFORMED {
            return;
        }
        let marker_time = self.marker_time;
        if batch.control != DATA && marker_time.is_none_or(|time| batch.timestamp > time) {
            self.marker_time = Some(batch.timestamp);
        }
        if let Some(ending) = self.producers.add(place, batch, marker_time) {
            found.push_ended(batch, &ending);
        }
    }
}

impl Found {
    fn push_ended(&mut self, marker: &Batch, of: &Ending) {
        let coordinator_epoch = marker.coordinator().map_or(NO_EPOCH, |epoch| epoch as i32);
        // Codes of outcomes are those of control batches.
        debug_assert!(marker.control <= EMPTY);
        let mut row = [0; ENDED_SIZE];
        let (longs, rest) = row.split_at_mut(32);
        for (place, value) in
            longs.chunks_exact_mut(8).zip([marker.producer_id, marker.base_offset, marker.timestamp, of.first_offset])
        {
            place.copy_from_slice(&value.to_le_bytes());
        }
        rest[..2].copy_from_slice(&of.data_epoch.to_le_bytes());
        rest[2..4].copy_from_slice(&marker.epoch.to_le_bytes());
        rest[4] = marker.control as u8;
        let longs = [of.last_offset, of.first_timestamp, of.last_timestamp];
        for (place, value) in rest[5..].chunks_exact_mut(8).zip(longs) {
            place.copy_from_slice(&value.to_le_bytes());
        }
        rest[29..33].copy_from_slice(&(of.batches as i32).to_le_bytes());
        rest[33..].copy_from_slice(&coordinator_epoch.to_le_bytes());
        self.ended.extend_from_slice(&row);
        self.stable.push(of.last_stable_offset);
        self.intact_from.push(marker.intact_from);
    }
}
