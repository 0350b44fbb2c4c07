//! Exchanges counted by api, version and client, as `kafkawire.capture.statistics` does, and the uses of producer ids that
//! `kafkawire.capture.producer_overlaps` judges.

use std::collections::HashMap;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyList;

use super::context::Context;
use super::exchange::{Api, Endpoints, Exchange, RequestContent, ResponseContent};
use super::matcher::NO_RESPONSE;
use crate::json::names::{PRODUCER, PRODUCER_EPOCH, PRODUCER_ID};

/// Uses that are kept until they are given to Python.
const MOST_USES: usize = 4096;

/// Api, version and client id.
type Key = (Option<i16>, Option<i16>, Option<Arc<str>>);

#[derive(Default)]
struct Group {
    api: Option<Arc<Api>>,
    count: i64,
    unanswered: i64,
    request_bytes: i64,
    response_bytes: i64,
    problems: i64,
    /// In the order in which they came.
    errors: Vec<(i16, i64)>,
    latencies: HashMap<i64, i64>,
    slowest: Option<f64>,
}

/// Requests of a producer in a row: the last one's time.
struct Use {
    api_key: i16,
    ends: Arc<Endpoints>,
    time_ns: i64,
    producers: Vec<(i64, i16)>,
}

pub struct GroupedStatistics {
    /// How much wider each bucket of latencies is than the one before, as a logarithm; and the shortest latency, ms.
    width: f64,
    shortest: f64,
    places: HashMap<Key, usize>,
    groups: Vec<(Key, Group)>,
    /// How many of them have been given once.
    given: usize,
    uses: Vec<Use>,
    count: usize,
}

impl GroupedStatistics {
    pub fn new((width, shortest): (f64, f64)) -> Self {
        GroupedStatistics {
            width,
            shortest,
            places: HashMap::new(),
            groups: Vec::new(),
            given: 0,
            uses: Vec::new(),
            count: 0,
        }
    }

    pub fn is_full(&self) -> bool {
        self.uses.len() >= MOST_USES
    }

    /// Counts an exchange of which Python has read nothing.
    pub fn add(&mut self, exchange: &Exchange) {
        self.count += 1;
        let (api, version, client_id) = match &exchange.asked {
            RequestContent::Read { api, version, client_id, .. } => (Some(api), Some(*version), client_id.clone()),
            _ => (None, None, None),
        };
        let key = (api.map(|api| api.key), version, client_id);
        let place = match self.places.get(&key) {
            Some(place) => *place,
            None => {
                self.places.insert(key.clone(), self.groups.len());
                self.groups.push((key, Group { api: api.cloned(), ..Group::default() }));
                self.groups.len() - 1
            }
        };
        let group = &mut self.groups[place].1;
        group.count += 1;
        let size =
            |place: &Option<super::exchange::FramePlace>| place.as_ref().and_then(|place| place.size).unwrap_or(0);
        group.request_bytes += size(&exchange.request);
        group.response_bytes += size(&exchange.response);
        if let ResponseContent::Read { errors, .. } = &exchange.answered {
            let mut errors = errors.clone();
            errors.sort_unstable();
            for (code, count) in errors {
                match group.errors.iter_mut().find(|(known, _)| *known == code) {
                    Some((_, sum)) => *sum += i64::from(count),
                    None => group.errors.push((code, i64::from(count))),
                }
            }
        }
        if let Some(problem) = &exchange.problem {
            let unanswered = problem.contains(NO_RESPONSE);
            group.unanswered += i64::from(unanswered);
            group.problems += i64::from(!unanswered);
        }
        if let Some((asked, answered)) = exchange.time_ns().zip(exchange.response_time_ns()) {
            let latency = answered.saturating_sub(asked) as f64 / 1e6;
            let bucket = (latency.max(self.shortest).ln() / self.width).round_ties_even();
            *group.latencies.entry(bucket as i64).or_default() += 1;
            group.slowest = Some(group.slowest.map_or(latency, |slowest| slowest.max(latency)));
        }
        self.note_use(exchange);
    }

    fn note_use(&mut self, exchange: &Exchange) {
        let RequestContent::Read { api, names, .. } = &exchange.asked else { return };
        let (Some(ends), Some(time_ns)) = (&exchange.ends, exchange.time_ns()) else { return };
        if names.is_empty() {
            return;
        }
        let mut producers = Vec::new();
        for (place, (what, value)) in names.iter().enumerate() {
            let Some(id) = value.first_chunk().map(|id| i64::from_be_bytes(*id)) else { continue };
            let epoch = match (*what, names.get(place + 1)) {
                (PRODUCER, _) => value.get(8..),
                (PRODUCER_ID, Some((PRODUCER_EPOCH, epoch))) => Some(&epoch[..]),
                _ => None,
            };
            if let Some(epoch) = epoch.and_then(|epoch| epoch.first_chunk()) {
                producers.push((id, i16::from_be_bytes(*epoch)));
            }
        }
        if let Some(last) = self.uses.last_mut() {
            // Nobody else has used them meanwhile.
            if last.api_key == api.key && Arc::ptr_eq(&last.ends, ends) && last.producers == producers {
                last.time_ns = time_ns;
                return;
            }
        }
        self.uses.push(Use { api_key: api.key, ends: ends.clone(), time_ns, producers });
    }

    /// How many exchanges; groups in the order of their first exchanges; and uses. None where there is nothing new.
    ///
    /// `all`: before the end only groups are given that are new, so that theirs is the order of all.
    pub fn take<'py>(
        &mut self,
        py: Python<'py>,
        context: &mut Context,
        all: bool,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let count = std::mem::take(&mut self.count);
        if count == 0 && !all {
            return Ok(None);
        }
        let groups = PyList::empty(py);
        let from = if all { 0 } else { self.given };
        self.given = self.groups.len();
        for ((api_key, version, client_id), group) in &mut self.groups[from..] {
            let group = std::mem::replace(group, Group { api: group.api.clone(), ..Group::default() });
            if group.count == 0 {
                continue;
            }
            let mut errors = Vec::with_capacity(group.errors.len());
            for (code, count) in group.errors {
                errors.push((context.error_name(py, code)?.to_string(), count));
            }
            let key = (group.api.as_ref().map(|api| &api.name), *api_key, *version, client_id.as_deref());
            let sums = (group.count, group.unanswered, group.request_bytes, group.response_bytes, group.problems);
            groups.append((key, sums, errors, group.latencies, group.slowest))?;
        }
        let uses = PyList::empty(py);
        for Use { api_key, ends, time_ns, producers } in self.uses.drain(..) {
            uses.append((api_key, &ends.row, time_ns, producers))?;
        }
        let none: Option<bool> = None;
        Ok(Some((count, groups, uses, none, none).into_pyobject(py)?.into_any()))
    }
}
