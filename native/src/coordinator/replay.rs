//! The records of one partition, in the order of the log.

use std::collections::{HashMap, HashSet};

use super::decisions::{Decisions, Slot};
use super::interner::Interner;
use super::records::{topics_of, Named};
use super::row::{Row, SIZE};
use super::rules::{keeps, Lists};
use super::{NONE, NULL};
use crate::cursor::{Read, Refused};
use crate::records::codec::Decompressor;

/// What some rows gave.
#[derive(Default)]
pub struct Found {
    /// Rows, or batches.
    pub taken: usize,
    /// Whether the batch after these was refused.
    pub refused: bool,
    pub asked: Vec<i64>,
    pub held: u64,
    pub without_previous: u64,
    pub after_gap: u64,
}

/// The newest record of an id.
struct Id {
    row: Row,
    slot: Slot,
    /// `IdReplay::changes` when the owners of its producer ids were noted.
    noted_at: u64,
}

pub struct Owner {
    pub producer_id: i64,
    pub id: u32,
    pub current: bool,
}

#[derive(Default)]
pub struct IdReplay {
    pub named: Named,
    ids: Vec<Id>,
    compared: Compared,
    pub decisions: Decisions,
    owners: Vec<Owner>,
    owner_of: HashMap<i64, u32>,
    /// How often a producer id went from one id to another.
    changes: u64,
    used: HashSet<(i64, u32)>,
    /// Producer id, id, offset and timestamp.
    pub uses: Vec<[i64; 4]>,
    reached: Option<i64>,
    pub intact_from: i64,
}

impl IdReplay {
    pub fn count(&self) -> usize {
        self.ids.len()
    }

    pub fn newest(&self) -> impl Iterator<Item = &Row> {
        self.ids.iter().map(|id| &id.row)
    }

    pub fn owners(&self) -> &[Owner] {
        &self.owners
    }

    #[inline]
    pub fn reach(&mut self, offset: i64) {
        if self.reached.unwrap_or(-1) != offset {
            self.intact_from = offset;
        }
        self.reached = Some(offset.wrapping_add(1));
    }

    /// Takes rows until the reference has to judge `most` steps.
    pub fn run(&mut self, rows: &[u8], names: &[Vec<u8>], lists: &[Vec<u8>], most: usize) -> Read<Found> {
        let mut ids = vec![NONE; names.len()];
        let lists: Vec<u32> = lists.iter().map(|list| self.named.lists.number(list)).collect();
        self.compared.learn(&self.named.lists)?;
        let mut found = Found::default();
        let (rows, _) = rows.as_chunks::<SIZE>();
        for bytes in rows {
            if found.asked.len() >= most {
                break;
            }
            let mut row = Row::read(bytes);
            let at = row.id as usize;
            let id = ids.get_mut(at).ok_or(Refused)?;
            if *id == NONE {
                *id = self.named.names.number(&names[at]); // in the order of their first records
            }
            row.id = *id;
            if row.partitions != NULL {
                row.partitions = *lists.get(row.partitions as usize).ok_or(Refused)? as i32;
            }
            self.take(&row, &mut found);
            found.taken += 1;
        }
        Ok(found)
    }

    /// Takes the records of the batches at `positions`, until the reference has to judge `most` steps, or to read a
    /// batch.
    pub fn read(&mut self, data: &[u8], positions: &[i64], max_batch_bytes: usize, most: usize) -> Found {
        let mut found = Found::default();
        let mut decompressor = Decompressor::default();
        let mut rows = Vec::new();
        for &at in positions {
            if found.asked.len() >= most {
                break;
            }
            let read = self.named.read_batch(data, at, &mut decompressor, max_batch_bytes, &mut rows);
            if read.and_then(|()| self.learn()).is_err() {
                found.refused = true;
                break;
            }
            for row in &rows {
                self.take(row, &mut found);
            }
            found.taken += 1;
        }
        found
    }

    /// Of lists of partitions that are new, takes what is in them.
    #[inline]
    pub(super) fn learn(&mut self) -> Read<()> {
        self.compared.learn(&self.named.lists)
    }

    #[inline]
    pub(super) fn take(&mut self, row: &Row, found: &mut Found) {
        self.reach(row.offset);
        let at = row.id as usize;
        let known = at < self.ids.len();
        if !known {
            self.ids.push(Id { row: Row::default(), slot: Slot::default(), noted_at: 0 });
        }
        let id = &mut self.ids[at];
        let before = &id.row;
        if (if known { before.offset } else { 0 }) < self.intact_from {
            found.after_gap += 1;
        } else if keeps((known && before.has_value).then_some(before), row, &mut self.compared) {
            found.held += 1;
            found.without_previous += u64::from(row.previous == -1);
        } else {
            found.asked.push(i64::from(known));
            before.push_numbers(&mut found.asked);
            row.push_numbers(&mut found.asked);
        }
        self.decisions.add((known && before.has_value).then_some(before), row, &mut id.slot);
        let same = before.has_value
            && id.noted_at == self.changes
            && (before.producer_id, before.previous, before.next) == (row.producer_id, row.previous, row.next);
        id.row = *row;
        if row.has_value && !same {
            self.note_owners(row);
            self.ids[at].noted_at = self.changes;
        }
    }

    fn note_owners(&mut self, row: &Row) {
        if self.used.insert((row.producer_id, row.id)) {
            self.uses.push([row.producer_id, i64::from(row.id), row.offset, row.timestamp]);
        }
        for producer_id in [row.producer_id, row.previous, row.next] {
            if producer_id < 0 {
                continue;
            }
            let current = producer_id == row.producer_id;
            match self.owner_of.get(&producer_id) {
                None => {
                    self.owner_of.insert(producer_id, self.owners.len() as u32);
                    self.owners.push(Owner { producer_id, id: row.id, current });
                }
                Some(&at) => {
                    let owner = &mut self.owners[at as usize];
                    if current || !owner.current {
                        self.changes += u64::from(owner.id != row.id);
                        *owner = Owner { producer_id, id: row.id, current };
                    }
                }
            }
        }
    }
}

/// A partition: its topic, and its number.
type Partition = (Box<[u8]>, [u8; 4]);

/// Lists of partitions as sets, and what was asked of two of them before.
#[derive(Default)]
struct Compared {
    sets: Vec<HashSet<Partition>>,
    answers: HashMap<(i32, i32), (bool, bool)>,
}

impl Compared {
    #[inline]
    fn learn(&mut self, lists: &Interner) -> Read<()> {
        if lists.len() == self.sets.len() {
            return Ok(());
        }
        for list in lists.values_from(self.sets.len()) {
            let mut set = HashSet::new();
            for (topic, numbers) in topics_of(list)? {
                let (numbers, _) = numbers.as_chunks::<4>();
                set.extend(numbers.iter().map(|&number| (topic.into(), number)));
            }
            self.sets.push(set);
        }
        Ok(())
    }

    fn answer(&mut self, one: i32, other: i32) -> (bool, bool) {
        if one == NULL || other == NULL {
            return (self.is_empty(one) && self.is_empty(other), self.is_empty(one));
        }
        let sets = &self.sets;
        *self.answers.entry((one, other)).or_insert_with(|| {
            let (one, other) = (&sets[one as usize], &sets[other as usize]);
            (one == other, one.is_subset(other))
        })
    }
}

impl Lists for Compared {
    fn same(&mut self, one: i32, other: i32) -> bool {
        one == other || self.answer(one, other).0
    }

    fn grows(&mut self, before: i32, after: i32) -> bool {
        before == after || self.answer(before, after).1
    }

    fn is_empty(&self, list: i32) -> bool {
        list == NULL || self.sets[list as usize].is_empty()
    }
}
