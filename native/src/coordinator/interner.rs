//! Byte strings and a number for each, in the order in which they came.

use std::collections::hash_map::RandomState;
use std::collections::HashMap;
use std::hash::BuildHasher;

use super::NONE;

/// Strings that are found again by their ends alone, before the table is asked.
const CACHED: usize = 1 << 12;
const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;

pub struct Interner {
    values: Vec<Box<[u8]>>,
    numbers: HashMap<Box<[u8]>, u32>,
    cached: Box<[u32]>,
    seed: u64,
}

impl Default for Interner {
    fn default() -> Self {
        let seed = RandomState::new().hash_one(0);
        Interner { values: Vec::new(), numbers: HashMap::new(), cached: vec![NONE; CACHED].into(), seed }
    }
}

impl Interner {
    #[inline]
    pub fn number(&mut self, value: &[u8]) -> u32 {
        let mut end = [0; 8];
        let kept = value.len().min(8);
        end[..kept].copy_from_slice(&value[value.len() - kept..]);
        let mixed = (u64::from_le_bytes(end) ^ self.seed ^ ((value.len() as u64) << 56)).wrapping_mul(FACTOR);
        let cached = &mut self.cached[(mixed >> 52) as usize];
        if let Some(found) = self.values.get(*cached as usize) {
            if **found == *value {
                return *cached;
            }
        }
        let number = match self.numbers.get(value) {
            Some(&number) => number,
            None => {
                let number = self.values.len() as u32;
                self.values.push(value.into());
                self.numbers.insert(value.into(), number);
                number
            }
        };
        *cached = number;
        number
    }

    pub fn values_from(&self, start: usize) -> impl Iterator<Item = &[u8]> {
        self.values.iter().skip(start).map(|value| &**value)
    }
}
