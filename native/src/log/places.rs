//! Where the producers of a partition are kept, by their ids: a table that is small beside them, so that little memory
//! is touched for a batch.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use super::producer::NONE;

/// As an entry: there is none. The place of no producer is `NONE`.
const FREE: u64 = u64::MAX;
const SMALLEST: usize = 16;

/// Places by ids. An entry is half of an id's hash and a place; the id itself is where the place says.
pub struct Places {
    /// Open addressing, half full at most.
    entries: Vec<u64>,
    count: usize,
    /// Producer ids come from strangers: which of them collide is not to be foreseen.
    seeds: (u64, u64),
}

impl Places {
    pub fn new() -> Self {
        let random = RandomState::new();
        Places { entries: Vec::new(), count: 0, seeds: (random.hash_one(1), random.hash_one(2) | 1) }
    }

    pub fn len(&self) -> usize {
        self.count
    }

    #[inline]
    pub fn hash(&self, id: i64) -> u64 {
        let (first, second) = self.seeds;
        folded(folded(id as u64 ^ first, second) ^ second, 0x9E37_79B9_7F4A_7C15)
    }

    /// At which index an entry of this hash is sought first: of the half of the hash that is in the entry.
    #[inline]
    fn index(&self, hash: u64) -> usize {
        (hash >> 32) as usize & (self.entries.len() - 1)
    }

    /// The first entry that is looked at for this hash, whatever it is.
    #[inline]
    pub fn touch(&self, hash: u64) -> u64 {
        if self.entries.is_empty() {
            FREE
        } else {
            self.entries[self.index(hash)]
        }
    }

    /// The first place for this hash of which `is_it` is true, or `NONE`.
    #[inline]
    pub fn find(&self, hash: u64, is_it: impl Fn(u32) -> bool) -> u32 {
        if self.entries.is_empty() {
            return NONE;
        }
        let mut index = self.index(hash);
        loop {
            let entry = self.entries[index];
            if entry == FREE {
                return NONE;
            }
            if entry >> 32 == hash >> 32 && is_it(entry as u32) {
                return entry as u32;
            }
            index = (index + 1) & (self.entries.len() - 1);
        }
    }

    /// Gives the next place to an id that has none.
    pub fn push(&mut self, hash: u64) -> u32 {
        if 2 * (self.count + 1) > self.entries.len() {
            self.grow();
        }
        let place = self.count as u32;
        self.insert(hash >> 32 << 32 | u64::from(place));
        self.count += 1;
        place
    }

    fn grow(&mut self) {
        let larger = vec![FREE; SMALLEST.max(2 * self.entries.len())];
        for entry in std::mem::replace(&mut self.entries, larger) {
            if entry != FREE {
                self.insert(entry);
            }
        }
    }

    fn insert(&mut self, entry: u64) {
        let mut index = self.index(entry);
        while self.entries[index] != FREE {
            index = (index + 1) & (self.entries.len() - 1);
        }
        self.entries[index] = entry;
    }
}

/// Both halves of a product.
#[inline]
fn folded(one: u64, other: u64) -> u64 {
    let whole = u128::from(one) * u128::from(other);
    (whole as u64) ^ ((whole >> 64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_id_has_its_place() {
        let mut places = Places::new();
        let ids: Vec<i64> = (0..3000).map(|at: i64| (at << 40) ^ (at % 7)).chain([-1, i64::MIN]).collect();
        for (at, &id) in ids.iter().enumerate() {
            let hash = places.hash(id);
            assert_eq!(places.find(hash, |place| ids[place as usize] == id), NONE, "{id}");
            assert_eq!(places.push(hash) as usize, at);
        }
        for (at, &id) in ids.iter().enumerate() {
            assert_eq!(places.find(places.hash(id), |place| ids[place as usize] == id) as usize, at);
        }
        assert_eq!(places.len(), ids.len());
    }

    #[test]
    fn ids_of_one_hash_are_told_apart() {
        let mut places = Places::new();
        assert_eq!((places.touch(5), places.find(5, |_| true)), (FREE, NONE));
        let pushed: Vec<u32> = (0..9).map(|_| places.push(u64::MAX)).collect();
        assert_eq!(pushed, (0..9).collect::<Vec<_>>());
        for place in pushed {
            assert_eq!(places.find(u64::MAX, |found| found == place), place);
        }
        assert!(places.find(u64::MAX, |_| true) < 9);
        assert_eq!(places.find(u64::MAX, |_| false), NONE);
    }
}
