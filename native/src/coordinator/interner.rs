//! Byte strings, each with a number, in the order of their first occurrence.

use std::collections::HashMap;
use std::hash::BuildHasher;

use foldhash::fast::RandomState;

use super::NONE;

/// Strings that are found again by their ends alone, before the table is asked.
const CACHED: usize = 1 << 12;
const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;

pub struct Interner {
    values: Vec<Box<[u8]>>,
    numbers: HashMap<Box<[u8]>, u32, RandomState>,
    cached: Box<[u32]>,
    seed: u64,
}

impl Default for Interner {
    fn default() -> Self {
        let seed = RandomState::default().hash_one(0);
        Interner { values: Vec::new(), numbers: HashMap::default(), cached: vec![NONE; CACHED].into(), seed }
    }
}

impl Interner {
    #[inline]
    pub fn number(&mut self, value: &[u8]) -> u32 {
        self.number_of([], value)
    }

    /// The number of `first` and `rest` as one string.
    #[inline]
    pub fn number_of<const N: usize>(&mut self, first: [u8; N], rest: &[u8]) -> u32 {
        let end = match rest.last_chunk() {
            Some(end) => u64::from_le_bytes(*end),
            None => rest.iter().fold(0, |end, &byte| end << 8 | u64::from(byte)),
        };
        let mixed = (end ^ self.seed ^ ((rest.len() as u64) << 56)).wrapping_mul(FACTOR);
        let at = (mixed >> 52) as usize;
        let cached = self.cached[at];
        if let Some((known, found)) = self.values.get(cached as usize).and_then(|found| found.split_first_chunk()) {
            if *known == first && found == rest {
                return cached;
            }
        }
        let number = self.sought(&[&first, rest].concat());
        self.cached[at] = number;
        number
    }

    #[cold]
    fn sought(&mut self, value: &[u8]) -> u32 {
        if let Some(&number) = self.numbers.get(value) {
            return number;
        }
        let number = self.values.len() as u32;
        self.values.push(value.into());
        self.numbers.insert(value.into(), number);
        number
    }

    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Forgets the strings that came after the first `count`.
    pub fn truncate(&mut self, count: usize) {
        if count == self.values.len() {
            return;
        }
        for value in self.values.drain(count..) {
            self.numbers.remove(&value);
        }
        for cached in &mut self.cached {
            if *cached as usize >= count {
                *cached = NONE;
            }
        }
    }

    pub fn values_from(&self, start: usize) -> impl Iterator<Item = &[u8]> {
        self.values.iter().skip(start).map(|value| &**value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_forgotten_gets_a_new_number() {
        let mut found = Interner::default();
        let name = |number: u32| format!("orders-{number}").into_bytes();
        for number in 0..9000 {
            assert_eq!(found.number(&name(number)), number);
        }
        found.truncate(5);
        assert_eq!((found.len(), found.number(&name(7000)), found.number(&name(4))), (5, 5, 4));
        assert_eq!((found.number(&name(8999)), found.number(&name(5)), found.number(&name(7000))), (6, 7, 5));
        assert_eq!(found.values_from(5).collect::<Vec<_>>(), [name(7000), name(8999), name(5)]);
    }
}
