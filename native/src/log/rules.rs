//! The rules of producers, each as a test whether a batch keeps it. `kafkawire.transactions.log.batch_rules` is the
//! reference, and describes what breaks a rule.

use super::batches::{Batch, EMPTY};
use super::producer::Producer;

/// What a rule says of a batch. BROKEN: the reference has to say it, of all rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    None,
    Held,
    Noted,
    /// Offsets are missing since the producer's batch before.
    Gap,
    /// A broker may have forgotten the producer's state.
    Expired,
    Broken,
}

/// Outcomes that are counted.
pub const COUNTED: usize = Outcome::Broken as usize;

/// A batch, and what is known before it.
pub struct Step<'a> {
    batch: &'a Batch,
    /// None: the producer was not seen yet.
    producer: Option<&'a Producer>,
    /// Known, with an epoch, before a batch of data or a marker of which all is known.
    before: Option<&'a Producer>,
    expired: bool,
}

impl<'a> Step<'a> {
    /// `clock`: the newest timestamp up to the batch.
    pub fn new(batch: &'a Batch, producer: Option<&'a Producer>, clock: i64, expiration_ms: i64) -> Self {
        let before = producer.filter(|producer| producer.epoch >= 0 && batch.control < EMPTY);
        let expired = before
            .is_some_and(|producer| !producer.is_open() && clock.saturating_sub(producer.timestamp) >= expiration_ms);
        Step { batch, producer, before, expired }
    }

    /// Whether an offset is missing between the producer's last batch or marker and this one.
    fn is_behind_gap(&self, producer: &Producer) -> bool {
        producer.last_append < self.batch.intact_from
    }
}

type Rule = fn(&Step) -> Outcome;

/// By the names of the reference.
pub const RULES: [(&str, Rule); 8] = [
    ("sequence_contiguous", sequence_contiguous),
    ("new_epoch_from_zero", new_epoch_from_zero),
    ("duplicate_batch", duplicate_batch),
    ("epoch_not_backwards", epoch_not_backwards),
    ("coordinator_epoch_monotonic", coordinator_epoch_monotonic),
    ("marker_shape", marker_shape),
    ("marker_without_data", marker_without_data),
    ("mixed_batches", mixed_batches),
];

/// What all rules say; `None` where one is broken.
#[inline]
pub fn judge(step: &Step) -> Option<[Outcome; RULES.len()]> {
    let mut found = [Outcome::None; RULES.len()];
    for (outcome, (_, rule)) in found.iter_mut().zip(RULES) {
        *outcome = rule(step);
    }
    (!found.contains(&Outcome::Broken)).then_some(found)
}

#[inline]
fn marker_shape(step: &Step) -> Outcome {
    match (step.batch.is_data(), step.batch.problem) {
        (true, _) => Outcome::None,
        (_, ..0) => Outcome::Held,
        _ => Outcome::Broken,
    }
}

#[inline]
fn marker_without_data(step: &Step) -> Outcome {
    if step.batch.is_data() {
        return Outcome::None;
    }
    match step.producer {
        Some(producer) if producer.is_open() => Outcome::Held,
        _ if step.batch.control <= EMPTY => Outcome::Noted,
        _ => Outcome::None,
    }
}

#[inline]
fn epoch_not_backwards(step: &Step) -> Outcome {
    if step.batch.control >= EMPTY {
        return Outcome::None;
    }
    if step.batch.epoch < 0 {
        return Outcome::Broken;
    }
    let Some(producer) = step.before else { return Outcome::None };
    if step.expired {
        return Outcome::Expired;
    }
    if producer.is_doubted() || step.batch.epoch < producer.epoch {
        return Outcome::Broken;
    }
    Outcome::Held
}

#[inline]
fn coordinator_epoch_monotonic(step: &Step) -> Outcome {
    if !step.batch.is_marker() {
        return Outcome::None;
    }
    let epoch = step.batch.coordinator();
    if epoch.is_some_and(|epoch| epoch < -1) {
        return Outcome::Broken;
    }
    let Some(producer) = step.before else { return Outcome::None };
    if step.expired {
        return Outcome::Expired;
    }
    match epoch {
        Some(epoch) if producer.coordinator_epoch >= 0 => {
            if epoch < i64::from(producer.coordinator_epoch) {
                Outcome::Broken
            } else {
                Outcome::Held
            }
        }
        _ => Outcome::None,
    }
}

/// Of a further batch in an epoch.
#[inline]
fn further(step: &Step, producer: &Producer) -> Outcome {
    if producer.data_known_from < step.batch.intact_from {
        return Outcome::Gap;
    }
    if !producer.has_batches() {
        return Outcome::None;
    }
    if producer.follows(step.batch.base_sequence) {
        Outcome::Held
    } else {
        Outcome::Broken
    }
}

#[inline]
fn sequence_contiguous(step: &Step) -> Outcome {
    let batch = step.batch;
    if !batch.is_data() {
        return Outcome::None;
    }
    if batch.base_sequence < -1 {
        return Outcome::Broken;
    }
    let Some(producer) = step.before else { return Outcome::None };
    match batch.base_sequence {
        ..0 if step.expired || producer.last_sequence < 0 || batch.epoch > producer.epoch => Outcome::None,
        ..0 => Outcome::Broken,
        _ if step.expired => Outcome::Expired,
        _ if batch.epoch > producer.epoch => Outcome::None,
        _ => further(step, producer),
    }
}

#[inline]
fn duplicate_batch(step: &Step) -> Outcome {
    let batch = step.batch;
    match step.before {
        Some(producer) if batch.is_data() && batch.base_sequence >= 0 => {
            if step.expired {
                Outcome::Expired
            } else if batch.epoch > producer.epoch {
                Outcome::None
            } else {
                further(step, producer)
            }
        }
        _ => Outcome::None,
    }
}

#[inline]
fn new_epoch_from_zero(step: &Step) -> Outcome {
    let batch = step.batch;
    let Some(producer) = step.before else { return Outcome::None };
    if !batch.is_data() || batch.base_sequence < 0 {
        return Outcome::None;
    }
    if step.expired {
        return Outcome::Expired;
    }
    if batch.epoch > producer.epoch {
        if step.is_behind_gap(producer) {
            return Outcome::Gap;
        }
    } else if producer.has_batches() || producer.data_known_from < batch.intact_from {
        return Outcome::None;
    }
    if batch.base_sequence == 0 {
        Outcome::Held
    } else {
        Outcome::Broken
    }
}

#[inline]
fn mixed_batches(step: &Step) -> Outcome {
    match step.before {
        Some(producer) if step.batch.is_data() && producer.is_open() => {
            if step.batch.transactional {
                Outcome::Held
            } else if step.is_behind_gap(producer) {
                Outcome::Gap
            } else {
                Outcome::Broken
            }
        }
        _ => Outcome::None,
    }
}
