//! Which exchanges are wanted, by the rules of `kafkawire.capture.exchange_selection`: as a mask, before rows are made of them.

use std::collections::HashSet;

use pyo3::prelude::*;

use super::exchange::{Endpoints, Exchange, RequestContent, ResponseContent};
use crate::json::names::{Names, NAMED_TOPIC_ID, PRODUCER, PRODUCER_ID, TOPIC, TOPIC_ID, TRANSACTIONAL_ID};

/// Criteria; those that are not set match all.
#[derive(FromPyObject)]
pub struct Selection {
    /// Whether there are criteria of apis; Python has said which are selected (`Api::selected`).
    apis: bool,
    client_ids: Vec<String>,
    errors: bool,
    slow_ms: Option<f64>,
    connections: Vec<i64>,
    ports: Vec<i64>,
    /// From and to, epoch nanoseconds.
    times: Option<(Option<i64>, Option<i64>)>,
    /// Bytes as on the wire.
    topics: HashSet<Vec<u8>>,
    transactional_ids: HashSet<Vec<u8>>,
    producer_ids: HashSet<i64>,
    /// Criteria that no exchange matches which was read here: texts that are not UTF-8.
    never: bool,
    /// The ids of `topics`, as far as responses have named them.
    pub topic_ids: HashSet<Vec<u8>>,
}

/// Ids of topics that are remembered.
const MOST_TOPIC_IDS: usize = 100_000;

impl Selection {
    /// Whether a connection's exchanges may be selected.
    pub fn takes_connection(&self, number: i64, ends: Option<&Endpoints>) -> bool {
        (self.connections.is_empty() || self.connections.contains(&number))
            && (self.ports.is_empty() || ends.is_none_or(|ends| self.takes_ports(ends)))
    }

    fn takes_ports(&self, ends: &Endpoints) -> bool {
        [&ends.client, &ends.broker].into_iter().any(|end| {
            let port = end.rsplit(':').next().and_then(|port| port.parse().ok());
            port.is_some_and(|port| self.ports.contains(&port))
        })
    }

    /// Takes the ids of topics from a response that was read here; whether they are others than before.
    pub fn learn(&mut self, exchange: &Exchange) -> bool {
        let ResponseContent::Read { names, .. } = &exchange.answered else { return false };
        let mut changed = false;
        for pair in names.windows(2) {
            let [(TOPIC, name), (NAMED_TOPIC_ID, id)] = pair else { continue };
            if name.is_empty() || id.iter().all(|byte| *byte == 0) {
                continue;
            }
            changed |= if self.topics.contains(name) {
                self.topic_ids.len() < MOST_TOPIC_IDS && self.topic_ids.insert(id.clone())
            } else {
                !self.topic_ids.is_empty() && self.topic_ids.remove(id)
            };
        }
        changed
    }

    /// Whether an exchange is selected of which Python has read nothing.
    pub fn selects(&self, exchange: &Exchange) -> bool {
        let (api, client_id, asked) = match &exchange.asked {
            RequestContent::Read { api, client_id, names, .. } => (Some(api), client_id.as_deref(), Some(names)),
            _ => (None, None, None),
        };
        let (errors, answered) = match &exchange.answered {
            ResponseContent::Read { errors, names, .. } => (!errors.is_empty(), Some(names)),
            _ => (false, None),
        };
        if self.never
            || (self.apis && !api.is_some_and(|api| api.selected))
            || !(self.client_ids.is_empty()
                || client_id.is_some_and(|id| self.client_ids.iter().any(|each| each == id)))
            || (self.errors && !errors && exchange.problem.is_none())
            || self.slow_ms.is_some_and(|least| !is_slow(exchange, least))
        {
            return false;
        }
        let ends = exchange.ends.as_deref();
        if !self.connections.is_empty() && !ends.is_some_and(|ends| self.connections.contains(&ends.number)) {
            return false;
        }
        if !self.ports.is_empty() && !ends.is_some_and(|ends| self.takes_ports(ends)) {
            return false;
        }
        let within = |(first, last): (Option<i64>, Option<i64>)| {
            let time_ns = exchange.time_ns().or(exchange.response_time_ns());
            time_ns.is_some_and(|at| first.is_none_or(|first| at >= first) && last.is_none_or(|last| at < last))
        };
        self.times.is_none_or(within) && self.names(asked, answered)
    }

    fn names(&self, asked: Option<&Names>, answered: Option<&Names>) -> bool {
        let any = |wanted: &dyn Fn(u8, &[u8]) -> bool| {
            [asked, answered].into_iter().flatten().flatten().any(|(what, value)| wanted(*what, value))
        };
        let is_topic = |what: u8, value: &[u8]| match what {
            TOPIC => self.topics.contains(value),
            TOPIC_ID | NAMED_TOPIC_ID => self.topic_ids.contains(value),
            _ => false,
        };
        let is_producer = |what: u8, value: &[u8]| {
            let id = value.first_chunk().map_or(-1, |id| i64::from_be_bytes(*id));
            matches!(what, PRODUCER_ID | PRODUCER) && id != -1 && self.producer_ids.contains(&id)
        };
        (self.topics.is_empty() || any(&is_topic))
            && (self.transactional_ids.is_empty()
                || any(&|what, value| what == TRANSACTIONAL_ID && self.transactional_ids.contains(value)))
            && (self.producer_ids.is_empty() || any(&is_producer))
    }
}

fn is_slow(exchange: &Exchange, least: f64) -> bool {
    match exchange.time_ns().zip(exchange.response_time_ns()) {
        Some((asked, answered)) => answered.saturating_sub(asked) as f64 / 1e6 >= least,
        // A Produce request with acks=0 has no response and no problem.
        None => exchange.request.as_ref().is_some_and(|place| place.size.is_some()) && exchange.problem.is_some(),
    }
}
