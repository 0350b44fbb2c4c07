//! Which exchanges the timeline of a producer needs, by the rules of `kafkawire.capture.timeline`: its own requests,
//! whose ids are learned as they arrive, and responses that name topics.

use std::collections::{HashMap, HashSet};

use pyo3::prelude::*;

use super::exchange::{Exchange, RequestContent, ResponseContent};
use crate::json::names::{Named, Names, NAMED_TOPIC_ID, PRODUCER, PRODUCER_ID, TOPIC, TRANSACTIONAL_ID};

const INIT_PRODUCER_ID: i16 = 22;
/// Names of topics that are remembered; where there are more, all responses that have some are needed.
const MOST_TOPICS: usize = 100_000;

/// Of one producer.
#[derive(FromPyObject)]
pub struct Following {
    /// Bytes as on the wire.
    transactional_ids: HashSet<Vec<u8>>,
    producer_ids: HashSet<i64>,
    /// Api keys of requests that are shown.
    shown: HashSet<i16>,
    /// Those whose responses name topics.
    naming: HashSet<i16>,
    /// Names by id, as far as responses that were read here have them.
    topics: HashMap<Vec<u8>, Vec<u8>>,
}

impl Following {
    /// Whether the frames of requests are kept until their exchanges come, so that Python can read them.
    pub fn keeps_request(&self, api_key: i16) -> bool {
        self.shown.contains(&api_key)
    }

    /// As `keeps_request`, of responses.
    pub fn keeps_response(&self, api_key: i16) -> bool {
        self.shown.contains(&api_key) || self.naming.contains(&api_key)
    }

    /// Whether an exchange is needed of which Python has read nothing. Call it for all, in their order.
    pub fn needs(&mut self, exchange: &Exchange) -> bool {
        let answered: &[_] = match &exchange.answered {
            ResponseContent::Read { names, .. } => names,
            _ => &[],
        };
        let learned = self.learn_topics(answered);
        let RequestContent::Read { api, names, .. } = &exchange.asked else { return learned };
        if !self.shown.contains(&api.key) {
            return learned;
        }
        let assigned = if api.key == INIT_PRODUCER_ID { answered } else { &[] };
        self.takes(names, assigned) || learned
    }

    /// Takes the ids of an exchange that Python has read. It may have named topics.
    pub fn learn(&mut self, names: &Names) {
        self.topics.clear();
        self.takes(names, &[]);
    }

    /// Whether a response has a name that is new.
    fn learn_topics(&mut self, names: &[(Named, Vec<u8>)]) -> bool {
        let mut new = false;
        for pair in names.windows(2) {
            let [(TOPIC, name), (NAMED_TOPIC_ID, id)] = pair else { continue };
            if name.is_empty() || id.iter().all(|byte| *byte == 0) {
                continue;
            }
            if self.topics.len() >= MOST_TOPICS {
                return true;
            }
            if self.topics.get(id) != Some(name) {
                self.topics.insert(id.clone(), name.clone());
                new = true;
            }
        }
        new
    }

    /// Whether these are ids of the producer, of which others are learned: a request with one of each connects both.
    fn takes(&mut self, asked: &[(Named, Vec<u8>)], assigned: &[(Named, Vec<u8>)]) -> bool {
        let found = || asked.iter().chain(assigned);
        let mine = found().any(|(what, value)| match *what {
            TRANSACTIONAL_ID => self.transactional_ids.contains(value),
            PRODUCER_ID | PRODUCER => producer_id(value).is_some_and(|id| self.producer_ids.contains(&id)),
            _ => false,
        });
        if !mine {
            return false;
        }
        let transactional: HashSet<_> =
            found().filter(|(what, _)| *what == TRANSACTIONAL_ID).map(|(_, value)| value).collect();
        let producers: HashSet<_> = found()
            .filter(|(what, _)| matches!(*what, PRODUCER_ID | PRODUCER))
            .filter_map(|(_, value)| producer_id(value))
            .collect();
        if transactional.len() == 1 && producers.len() <= 2 {
            let transactional: Vec<_> = transactional.into_iter().cloned().collect();
            self.transactional_ids.extend(transactional);
            self.producer_ids.extend(producers);
        }
        true
    }
}

/// Of a batch, its epoch follows.
fn producer_id(value: &[u8]) -> Option<i64> {
    value.first_chunk().map(|id| i64::from_be_bytes(*id)).filter(|id| *id != -1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn following(id: &[u8]) -> Following {
        Following {
            transactional_ids: HashSet::from([id.to_vec()]),
            producer_ids: HashSet::new(),
            shown: HashSet::new(),
            naming: HashSet::new(),
            topics: HashMap::new(),
        }
    }

    fn producer(id: i64) -> (Named, Vec<u8>) {
        (PRODUCER_ID, id.to_be_bytes().to_vec())
    }

    fn transactional(id: &str) -> (Named, Vec<u8>) {
        (TRANSACTIONAL_ID, id.as_bytes().to_vec())
    }

    #[test]
    fn ids_are_learned_from_requests_with_one_of_each() {
        let mut found = following(b"me");
        assert!(!found.takes(&[producer(7)], &[]));
        assert!(!found.takes(&[producer(-1), transactional("you")], &[]));
        assert!(found.takes(&[producer(-1), transactional("me")], &[producer(7)]));
        assert!(found.takes(&[producer(7)], &[]));
        assert!(!found.takes(&[producer(-1)], &[]));
        // A marker of several producers connects none of them.
        assert!(found.takes(&[producer(7), producer(8), producer(9)], &[]));
        assert!(!found.takes(&[producer(9)], &[]));
    }

    #[test]
    fn names_of_topics_are_learned_once() {
        let mut found = following(b"me");
        let names = |name: &str| [(TOPIC, name.as_bytes().to_vec()), (NAMED_TOPIC_ID, vec![1; 16])];
        assert_eq!(
            [found.learn_topics(&names("a")), found.learn_topics(&names("a")), found.learn_topics(&names("b"))],
            [true, false, true]
        );
        assert!(!found.learn_topics(&[(TOPIC, b"a".to_vec()), (NAMED_TOPIC_ID, vec![0; 16])]));
        found.learn(&Vec::new());
        assert!(found.learn_topics(&names("b")));
    }
}
