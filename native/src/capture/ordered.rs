//! A map that keeps the order in which its keys were inserted.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

use foldhash::fast::RandomState;

pub struct Ordered<K, V> {
    values: BTreeMap<u64, (K, V)>,
    places: HashMap<K, u64, RandomState>,
    last: u64,
}

impl<K, V> Default for Ordered<K, V> {
    fn default() -> Self {
        Ordered { values: BTreeMap::new(), places: HashMap::default(), last: 0 }
    }
}

impl<K: Copy + Eq + Hash, V> Ordered<K, V> {
    pub fn len(&self) -> usize {
        self.places.len()
    }

    pub fn contains(&self, key: &K) -> bool {
        self.places.contains_key(key)
    }

    pub fn get(&self, key: &K) -> Option<&V> {
        Some(&self.values.get(self.places.get(key)?)?.1)
    }

    /// Adds a value in the last place. The key must be new.
    pub fn push(&mut self, key: K, value: V) {
        self.last += 1;
        self.values.insert(self.last, (key, value));
        self.places.insert(key, self.last);
    }

    pub fn remove(&mut self, key: &K) -> Option<V> {
        if self.places.is_empty() {
            return None;
        }
        let place = self.places.remove(key)?;
        self.values.remove(&place).map(|(_, value)| value)
    }

    /// An empty one gives its memory back.
    pub fn settle(&mut self) {
        if self.places.is_empty() {
            *self = Ordered { last: self.last, ..Ordered::default() };
        }
    }

    pub fn first(&self) -> Option<&(K, V)> {
        self.values.first_key_value().map(|(_, found)| found)
    }

    pub fn pop_first(&mut self) -> Option<(K, V)> {
        let (_, found) = self.values.pop_first()?;
        self.places.remove(&found.0);
        Some(found)
    }

    pub fn iter(&self) -> impl Iterator<Item = &(K, V)> {
        self.values.values()
    }
}
