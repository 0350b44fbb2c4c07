//! The join of ended transactions with the decisions of coordinators: counts those that certainly agree, and leaves all
//! others (`kafkawire.transactions.checks.agreeing` is the reference).
//!
//! Decisions become a few bytes each, in a run for each producer id, ascending by the epoch of their data. Transactions
//! of a producer id end in that order too, so that the next of them is nearly always where the last was found, or one
//! further.

use std::collections::HashMap;

use foldhash::fast::RandomState;

use super::decisions::{Decision, ABORT, COMMIT, SIZE as DECIDED_SIZE};
use super::rules::raises_epoch;
use super::NONE;

/// Bytes of an ended transaction (`endings.JUDGED`).
pub const ENDED_SIZE: usize = 37;
/// Pairs of a list and a place that get a byte each.
const TABLE: usize = 1 << 22;

/// `Entry::state`: what the decision decided; that it is the only one about data of its epoch, and has an epoch for
/// itself; that a transaction of it does not agree. Below these the place of its last transaction, and 1.
const COMMITS: u32 = 1 << 31;
const ALONE: u32 = 1 << 30;
const SPOILT: u32 = 1 << 29;
const PLACE: u32 = SPOILT - 1;

/// A decision about data of one epoch.
#[derive(Clone, Copy, Default)]
struct Entry {
    epoch: i16,
    marker: i16,
    /// List of partitions, of all lists.
    list: u32,
    state: u32,
}

/// The decisions about data of one producer id.
#[derive(Default)]
struct Run {
    entries: Vec<Entry>,
    /// Where the last was found.
    at: usize,
}

struct Ended {
    producer_id: i64,
    epoch: i16,
    marker: i16,
    outcome: i8,
}

impl Ended {
    #[inline]
    fn read(bytes: &[u8; ENDED_SIZE]) -> Self {
        Ended {
            producer_id: i64::from_le_bytes(bytes[..8].try_into().expect("eight bytes")),
            epoch: i16::from_le_bytes([bytes[32], bytes[33]]),
            marker: i16::from_le_bytes([bytes[34], bytes[35]]),
            outcome: bytes[36] as i8,
        }
    }
}

/// Producer ids of which one of several joins takes its share.
pub struct Share {
    pub number: u64,
    pub count: u64,
}

impl Share {
    #[inline]
    fn has(&self, producer_id: i64) -> bool {
        self.count == 1 || ((producer_id as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) % self.count == self.number
    }
}

/// Of each place how many agree, and of each of its chunks the indexes of the others.
pub type Settled = (Vec<i64>, Vec<Vec<Vec<u32>>>);

/// Decisions, for a look-up by producer id and epoch.
pub struct Join {
    share: Share,
    slots: HashMap<i64, u32, RandomState>,
    runs: Vec<Run>,
    /// How many lists there are.
    lists: usize,
}

impl Join {
    /// `decided`: packed rows, and how many lists they name. `None`: a row names a list that is not there, or there are
    /// too many.
    pub fn of(decided: &[(&[u8], usize)], share: Share) -> Option<Self> {
        let mut slots: HashMap<i64, u32, RandomState> = HashMap::default();
        let mut runs: Vec<Run> = Vec::new();
        let mut first = 0;
        for (rows, lists) in decided {
            for bytes in rows.as_chunks::<DECIDED_SIZE>().0 {
                let one = Decision::read(bytes);
                if !share.has(one.producer_id) {
                    continue;
                }
                if one.partitions >= 0 && one.partitions as usize >= *lists {
                    return None;
                }
                let slot = *slots.entry(one.producer_id).or_insert_with(|| {
                    runs.push(Run::default());
                    runs.len() as u32 - 1
                });
                runs[slot as usize].entries.extend(one.epochs().map(|epoch| Entry::of(&one, epoch, first)));
            }
            first += lists;
            u32::try_from(first).ok().filter(|&all| all != NONE)?;
        }
        runs.iter_mut().for_each(|run| order(&mut run.entries));
        Some(Join { share, slots, runs, lists: first })
    }

    /// Counts the transactions of each place that agree, and finds the others, by their index in their chunk.
    /// `places`: chunks of packed rows. `listed`: whether a list names a place.
    pub fn settle<E>(
        mut self,
        places: &[Vec<&[u8]>],
        listed: impl FnMut(usize, usize) -> Result<bool, E>,
    ) -> Result<Settled, E> {
        let mut listed = Listed::new(self.lists, places.len(), listed);
        let found = self.pass(places, &mut listed, true)?;
        if self.runs.iter().flat_map(|run| &run.entries).all(|entry| entry.state & SPOILT == 0) {
            return Ok(found);
        }
        self.pass(places, &mut listed, false) // what is not plain concerns all transactions of its decision
    }

    fn pass<E>(
        &mut self,
        places: &[Vec<&[u8]>],
        listed: &mut Listed<impl FnMut(usize, usize) -> Result<bool, E>>,
        notes: bool,
    ) -> Result<Settled, E> {
        let (mut held, mut left) = (vec![0; places.len()], Vec::with_capacity(places.len()));
        for (place, chunks) in places.iter().enumerate() {
            let mut of_place = Vec::with_capacity(chunks.len());
            for chunk in chunks {
                let mut of_chunk = Vec::new();
                for (number, bytes) in chunk.as_chunks::<ENDED_SIZE>().0.iter().enumerate() {
                    let ended = Ended::read(bytes);
                    if !self.share.has(ended.producer_id) {
                        continue;
                    }
                    let plain = match self.find(&ended) {
                        None => false,
                        Some(entry) => {
                            let agrees = entry.agrees(&ended) && listed.names(entry.list, place)?;
                            if notes && entry.state & ALONE != 0 {
                                entry.note(place, agrees);
                            }
                            agrees && (notes || entry.state & SPOILT == 0)
                        }
                    };
                    if plain {
                        held[place] += 1;
                    } else {
                        of_chunk.push(number as u32);
                    }
                }
                of_place.push(of_chunk);
            }
            left.push(of_place);
        }
        Ok((held, left))
    }

    /// The one decision about data of the producer's epoch; of several any one.
    #[inline]
    fn find(&mut self, ended: &Ended) -> Option<&mut Entry> {
        let run = &mut self.runs[*self.slots.get(&ended.producer_id)? as usize];
        let is_sought = |&at: &usize| run.entries.get(at).is_some_and(|entry| entry.epoch == ended.epoch);
        run.at = (run.at..run.at + 2)
            .find(is_sought)
            .or_else(|| run.entries.binary_search_by_key(&ended.epoch, |entry| entry.epoch).ok())?;
        Some(&mut run.entries[run.at])
    }
}

impl Entry {
    /// `first`: number of the first of the lists that the decision's is among.
    fn of(one: &Decision, epoch: i16, first: usize) -> Self {
        let marker = i16::try_from(one.marker);
        let alone = one.lowest == one.highest && raises_epoch(one.version) && marker.is_ok() && one.partitions >= 0;
        Entry {
            epoch,
            marker: marker.unwrap_or_default(),
            list: if one.partitions >= 0 { (first + one.partitions as usize) as u32 } else { NONE },
            state: if alone { ALONE } else { 0 } | if one.outcome == COMMIT { COMMITS } else { 0 },
        }
    }

    #[inline]
    fn agrees(&self, ended: &Ended) -> bool {
        self.state & ALONE != 0
            && self.marker == ended.marker
            && (ended.outcome == COMMIT) == (self.state & COMMITS != 0)
            && matches!(ended.outcome, ABORT | COMMIT)
    }

    /// Notes a transaction of the decision. It ends once in a place.
    #[inline]
    fn note(&mut self, place: usize, agrees: bool) {
        let number = place as u32 + 1;
        let spoilt = !agrees || self.state & PLACE == number;
        self.state = (self.state & !PLACE) | number | if spoilt { SPOILT } else { 0 };
    }
}

/// Sorts the decisions about data of a producer id. Where several have an epoch, none of them is alone.
fn order(run: &mut [Entry]) {
    if !run.is_sorted_by_key(|entry| entry.epoch) {
        run.sort_by_key(|entry| entry.epoch);
    }
    for at in 1..run.len() {
        if run[at - 1].epoch == run[at].epoch {
            run[at - 1].state &= !ALONE;
            run[at].state &= !ALONE;
        }
    }
}

/// Answers on lists that were asked for before.
struct Listed<F> {
    ask: F,
    places: usize,
    table: Vec<u8>,
    others: HashMap<(u32, usize), bool, RandomState>,
}

impl<E, F: FnMut(usize, usize) -> Result<bool, E>> Listed<F> {
    fn new(lists: usize, places: usize, ask: F) -> Self {
        let size = lists.saturating_mul(places);
        Listed { ask, places, table: vec![0; if size > TABLE { 0 } else { size }], others: HashMap::default() }
    }

    #[inline]
    fn names(&mut self, list: u32, place: usize) -> Result<bool, E> {
        let at = list as usize * self.places + place;
        match self.table.get(at) {
            Some(&known) if known > 0 => Ok(known == 2),
            Some(_) => {
                let found = (self.ask)(list as usize, place)?;
                self.table[at] = 1 + u8::from(found);
                Ok(found)
            }
            None => {
                if let Some(&found) = self.others.get(&(list, place)) {
                    return Ok(found);
                }
                let found = (self.ask)(list as usize, place)?;
                self.others.insert((list, place), found);
                Ok(found)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decided(epoch: i32, version: i16) -> Vec<u8> {
        let mut bytes = vec![0; DECIDED_SIZE];
        bytes[..8].copy_from_slice(&7i64.to_le_bytes());
        bytes[32..36].copy_from_slice(&epoch.to_le_bytes());
        bytes[36..40].copy_from_slice(&epoch.to_le_bytes());
        bytes[40..44].copy_from_slice(&(epoch + 1).to_le_bytes());
        bytes[52..54].copy_from_slice(&version.to_le_bytes());
        bytes[54] = COMMIT as u8;
        bytes
    }

    fn ended(epoch: i16, outcome: i8) -> Vec<u8> {
        let mut bytes = vec![0; ENDED_SIZE];
        bytes[..8].copy_from_slice(&7i64.to_le_bytes());
        bytes[32..34].copy_from_slice(&epoch.to_le_bytes());
        bytes[34..36].copy_from_slice(&(epoch + 1).to_le_bytes());
        bytes[36] = outcome as u8;
        bytes
    }

    fn settled(decided: &[u8], places: &[Vec<u8>], asked: &mut usize) -> Settled {
        let join = Join::of(&[(decided, 1)], Share { number: 0, count: 1 }).unwrap();
        let places: Vec<_> = places.iter().map(|rows| vec![rows.as_slice()]).collect();
        let listed = |_, _| {
            *asked += 1;
            Ok::<_, ()>(true)
        };
        join.settle(&places, listed).unwrap()
    }

    #[test]
    fn what_agrees_is_counted_and_the_rest_is_left() {
        let decisions = [decided(9, 2), decided(4, 2), decided(5, 2), decided(6, 1), decided(5, 2)].concat();
        let rows = [ended(4, COMMIT), ended(6, COMMIT), ended(5, COMMIT), ended(8, COMMIT), ended(9, COMMIT)].concat();
        let mut asked = 0;
        assert_eq!(settled(&decisions, &[rows], &mut asked), (vec![2], vec![vec![vec![1, 2, 3]]]));
        assert_eq!(asked, 1);
    }

    #[test]
    fn of_a_decision_all_or_none_are_counted() {
        let decisions = [decided(4, 2), decided(5, 2)].concat();
        let places = [ended(4, COMMIT), [ended(5, COMMIT), ended(4, ABORT)].concat()];
        assert_eq!(settled(&decisions, &places, &mut 0), (vec![0, 1], vec![vec![vec![0]], vec![vec![1]]]));
        let twice = [[ended(4, COMMIT), ended(5, COMMIT), ended(4, COMMIT)].concat()];
        assert_eq!(settled(&decisions, &twice, &mut 0), (vec![1], vec![vec![vec![0, 2]]]));
    }

    #[test]
    fn shares_are_each_producer_id_once() {
        for producer_id in -5..100 {
            assert_eq!((0..3).filter(|&number| Share { number, count: 3 }.has(producer_id)).count(), 1);
        }
    }
}
