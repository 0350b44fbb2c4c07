//! The rules of `checks/coordinator_records.py`, reduced to one question: does a step keep all of them for certain?

use super::row::Row;
use super::NULL;

const EMPTY: i8 = 0;
pub const ONGOING: i8 = 1;
pub const PREPARE_COMMIT: i8 = 2;
pub const PREPARE_ABORT: i8 = 3;
pub const COMPLETE_COMMIT: i8 = 4;
pub const COMPLETE_ABORT: i8 = 5;
/// The first transaction version that raises the epoch when a transaction ends, and the newest one.
const EPOCH_BUMP: i16 = 2;
const NEWEST_VERSION: i16 = 2;
pub const MAX_EPOCH: i16 = i16::MAX;

pub fn raises_epoch(version: i16) -> bool {
    version >= EPOCH_BUMP
}

pub fn is_prepared(status: i8) -> bool {
    matches!(status, PREPARE_COMMIT | PREPARE_ABORT)
}

pub fn is_complete(status: i8) -> bool {
    matches!(status, COMPLETE_COMMIT | COMPLETE_ABORT)
}

fn is_idle(status: i8) -> bool {
    status == EMPTY || is_complete(status)
}

/// What is asked of two lists of partitions.
pub trait Lists {
    /// Whether they name the same partitions.
    fn same(&mut self, one: i32, other: i32) -> bool;
    /// Whether the second names all that the first does.
    fn grows(&mut self, before: i32, after: i32) -> bool;
    fn is_empty(&self, list: i32) -> bool;
}

/// Whether the step to `after` keeps every rule for certain. `before`: the id's record before, `None` where it has none,
/// or a tombstone.
#[inline]
pub fn keeps(before: Option<&Row>, after: &Row, lists: &mut impl Lists) -> bool {
    if !after.has_value || after.updated < 0 || after.timeout <= 0 || !(0..=NEWEST_VERSION).contains(&after.version) {
        return false;
    }
    let Some(before) = before else {
        return after.status == EMPTY
            && is_empty_state(after)
            && after.epoch == 0
            && (after.previous == -1 || (after.previous == after.producer_id && after.next == -1));
    };
    follows(before.status, after)
        && has_right_fields(before, after, lists)
        && after.updated >= before.updated
        && has_right_epoch(before, after)
        && (after.previous == -1 || (after.previous == before.producer_id && after.next == -1 && before.next < 0))
}

fn follows(before: i8, after: &Row) -> bool {
    match after.status {
        EMPTY => is_idle(before),
        ONGOING => is_idle(before) || before == ONGOING,
        PREPARE_COMMIT => before == ONGOING,
        PREPARE_ABORT => before == ONGOING || (is_idle(before) && raises_epoch(after.version)),
        COMPLETE_COMMIT => before == PREPARE_COMMIT,
        COMPLETE_ABORT => before == PREPARE_ABORT,
        _ => false,
    }
}

fn is_empty_state(after: &Row) -> bool {
    after.partitions == NULL && after.started == -1
}

fn has_right_fields(before: &Row, after: &Row, lists: &mut impl Lists) -> bool {
    if after.status == EMPTY {
        return is_empty_state(after);
    }
    let has_begun = before.status == ONGOING || is_prepared(before.status);
    if after.timeout != before.timeout
        || after.started < 0
        || (is_complete(after.status) && after.version != before.version)
        || (has_begun && after.started != before.started)
    {
        return false;
    }
    match after.status {
        ONGOING => {
            !lists.is_empty(after.partitions) && (!has_begun || lists.grows(before.partitions, after.partitions))
        }
        _ if is_complete(after.status) => lists.is_empty(after.partitions),
        _ if has_begun => lists.same(before.partitions, after.partitions),
        _ => lists.is_empty(after.partitions),
    }
}

fn has_right_epoch(before: &Row, after: &Row) -> bool {
    if after.producer_id != before.producer_id || after.epoch < 0 || before.epoch == MAX_EPOCH {
        return false;
    }
    let step = i32::from(after.epoch) - i32::from(before.epoch);
    let bumped = raises_epoch(after.version);
    match after.status {
        EMPTY => (step == 0 || step == 1) && after.epoch != MAX_EPOCH,
        ONGOING => step == 0 && after.epoch != MAX_EPOCH,
        PREPARE_COMMIT => step == i32::from(bumped),
        PREPARE_ABORT if bumped => step == 1 || step == 2,
        PREPARE_ABORT => step == 0 || step == 1,
        _ => step == 0,
    }
}
