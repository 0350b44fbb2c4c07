//! Responses alone, by the rules of `kafkawire.capture.one_way`.

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::{Connection, Verdict};
use crate::capture::context::Context;

/// As in `kafkawire.capture.frame_stream`.
const MAX_LOOSE_BYTES: usize = 256 << 10;

/// Whether the bytes of a direction are responses alone.
#[derive(Default)]
pub struct OneWay {
    never: bool,
    wanted: usize,
}

impl OneWay {
    /// Whether there are enough bytes for another look, also for requests in them.
    pub fn is_due(&self, loose: &[u8]) -> bool {
        loose.len() >= self.wanted
    }
}

impl Connection {
    /// Whether this direction is the only one captured, and may be responses that follow one another.
    pub(super) fn may_be_alone(&mut self, py: Python<'_>, context: &Context, index: usize) -> PyResult<bool> {
        let others = self.opener == Some(index) || self.broker == Some(1 - index);
        if others || self.verdict != Verdict::Undecided || !self.directions[1 - index].silent() {
            return Ok(false);
        }
        let (alone, direction) = (&mut self.alone[index], &self.directions[index]);
        if !alone.never && alone.is_due(direction.loose()) {
            alone.wanted = 2 * direction.loose().len();
            let data = (PyBytes::new(py, direction.loose()), direction.starts());
            alone.never = !context.call(py, "may_be_responses", data)?.is_truthy()?;
        }
        Ok(!alone.never)
    }

    /// Where the first of responses alone begins, if that is certain and no request is waited for any longer.
    pub(super) fn first_response(
        &mut self,
        py: Python<'_>,
        context: &Context,
        index: usize,
    ) -> PyResult<Option<usize>> {
        let direction = &self.directions[index];
        if !self.ending && direction.loose().len() <= MAX_LOOSE_BYTES {
            return Ok(None);
        }
        let (_, port) = self.ends[index].address_and_port();
        let data = (PyBytes::new(py, direction.loose()), direction.starts());
        let given = (data.0, data.1, port, self.broker == Some(index));
        context.call(py, "first_response", given)?.extract()
    }
}
