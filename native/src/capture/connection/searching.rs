//! Where frames begin in a direction, and whose requests they are.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::{Connection, Verdict};
use crate::capture::context::Context;
use crate::capture::exchange::Endpoints;
use crate::capture::frames::Frames;
use crate::capture::matcher::Matcher;
use crate::capture::recognition::{is_preamble, is_tls};

/// As in `kafkawire.capture.connection` and `frame_stream`.
const MOST_SEARCHED_IDS: usize = 64;
const MAX_LOOSE_BYTES: i64 = 256 << 10;

impl Connection {
    /// Searches one direction for a frame; gives the frames from there, None where none is found.
    pub(super) fn found(
        &mut self,
        py: Python<'_>,
        context: &mut Context,
        index: usize,
    ) -> PyResult<Option<Frames<'static>>> {
        if self.directions[index].synchronized() || matches!(self.verdict, Verdict::Tls | Verdict::Other) {
            return Ok(None);
        }
        let offset = if self.verdict == Verdict::Undecided {
            self.decide(py, context, index)?
        } else if self.directions[index].from_start {
            Some(0)
        } else {
            self.search(py, context, index, index == self.client, false)?
        };
        Ok(offset.map(|offset| self.begin(context, index, offset)))
    }

    /// The frames from an offset in the loose bytes on.
    fn begin(&mut self, context: &mut Context, index: usize, offset: usize) -> Frames<'static> {
        let before = offset as i64 + self.directions[index].skipped;
        if before > 0 {
            self.unframed(context, index, before);
        }
        self.directions[index].begin(offset)
    }

    /// Whether a packet begins with a frame that a hole cuts, while no frame boundary is known; if so, it is the current
    /// frame then.
    pub(super) fn begins_cut_frame(
        &mut self,
        py: Python<'_>,
        context: &mut Context,
        index: usize,
        missing: i64,
    ) -> PyResult<bool> {
        let direction = &self.directions[index];
        if direction.synchronized() || direction.from_start || direction.loose().is_empty() {
            return Ok(false);
        }
        let (data, starts) = (PyBytes::new(py, direction.loose()), direction.starts());
        let found = match &self.matcher {
            Some(matcher) if index != self.client => {
                context.call(py, "find_cut_response", (data, starts, missing, matcher.awaited()))?
            }
            None if !self.may_be_client(index) => return Ok(false),
            matcher => {
                let known = matcher.is_some();
                context.call(py, "find_cut_request", (data, starts, missing, self.other(py, index), known))?
            }
        };
        let Some(offset) = found.extract()? else { return Ok(false) };
        if self.matcher.is_none() {
            self.is_kafka(py, context, index)?;
        }
        let frames = self.begin(context, index, offset);
        self.advance(py, context, index, Some(frames))?;
        Ok(true)
    }

    /// Lets Python search one direction for a frame.
    fn search(
        &mut self,
        py: Python<'_>,
        context: &Context,
        index: usize,
        request: bool,
        alone: bool,
    ) -> PyResult<Option<usize>> {
        let known = self.verdict == Verdict::Kafka || self.broker.is_some();
        // While the other direction may hold requests, these may be their responses.
        let keep = self.verdict == Verdict::Undecided && (alone || self.directions[1 - index].waits());
        let Some((data, starts)) = self.directions[index].searched() else { return Ok(None) };
        let data = PyBytes::new(py, data);
        let found = match &self.matcher {
            Some(matcher) if !request => {
                context.call(py, "find_response", (data, starts, matcher.oldest(MOST_SEARCHED_IDS), self.ending))?
            }
            _ => {
                let other = if known { (PyBytes::new(py, &[]), Vec::new()) } else { self.other(py, index) };
                context.call(py, "find_request", (data, starts, other, self.ending, known))?
            }
        };
        let (offset, settled, wanted) = found.extract()?;
        self.directions[index].found(offset, settled, wanted, keep);
        Ok(offset)
    }

    /// Whether the bytes before a hole decide what the connection is: nothing follows them.
    pub(super) fn decides(&mut self, py: Python<'_>, context: &mut Context, index: usize) -> PyResult<bool> {
        if self.verdict != Verdict::Undecided || self.directions[index].loose().is_empty() {
            return Ok(false);
        }
        self.likely |= self.may_have_requests(py, context, index)?;
        self.directions[index].look_again();
        let frames = self.found(py, context, index)?;
        self.advance(py, context, index, frames)?;
        Ok(self.verdict != Verdict::Undecided)
    }

    /// Whether one direction may have requests, too few to decide.
    pub(super) fn may_have_requests(&self, py: Python<'_>, context: &Context, index: usize) -> PyResult<bool> {
        if self.verdict != Verdict::Undecided || !self.may_be_client(index) {
            return Ok(false);
        }
        let direction = &self.directions[index];
        let data = (PyBytes::new(py, direction.loose()), direction.starts(), self.other(py, index));
        context.call(py, "may_begin", data)?.extract()
    }

    /// The loose bytes of the other direction, and the offsets in them at which packets begin.
    fn other<'py>(&self, py: Python<'py>, index: usize) -> (Bound<'py, PyBytes>, Vec<i64>) {
        let other = &self.directions[1 - index];
        (PyBytes::new(py, other.loose()), other.starts())
    }

    /// Decides whether this direction is that of a Kafka client; gives the offset of its first request.
    fn decide(&mut self, py: Python<'_>, context: &mut Context, index: usize) -> PyResult<Option<usize>> {
        let mut offset = None;
        let due = self.ending || self.alone[index].is_due(self.directions[index].loose());
        let alone = self.may_be_alone(py, context, index)?;
        if self.may_be_client(index) && is_preamble(self.directions[index].loose()) {
            self.directions.iter_mut().for_each(|direction| direction.from_start = false);
        }
        let direction = &self.directions[index];
        if self.may_be_client(index) && !direction.loose().is_empty() {
            if !direction.from_start {
                if due || !alone {
                    offset = self.search(py, context, index, true, alone)?;
                }
            } else if self.broker.is_some() {
                offset = Some(0);
            } else {
                match self.begins_with_request(py, context, index)? {
                    Some(true) => offset = Some(0),
                    Some(false) if self.tls.is_none() && is_tls(direction.loose()) => {
                        self.begin_tls(py, context)?;
                        return Ok(None);
                    }
                    Some(false) => {
                        self.dismiss(context, Verdict::Other);
                        return Ok(None);
                    }
                    None => (),
                }
            }
        }
        if offset.is_some() {
            self.is_kafka(py, context, index)?;
            return Ok(offset);
        }
        if alone {
            offset = self.first_response(py, context, index)?;
        }
        if offset.is_some() {
            self.is_kafka(py, context, 1 - index)?;
        } else if self.broker.is_none()
            && self
                .directions
                .iter()
                .any(|direction| direction.loose().len() as i64 + direction.skipped > MAX_LOOSE_BYTES)
        {
            self.dismiss(context, Verdict::Other);
        }
        Ok(offset)
    }

    fn may_be_client(&self, index: usize) -> bool {
        match self.broker {
            Some(broker) => index != broker,
            None => self.opener.is_none_or(|opener| opener == index),
        }
    }

    /// Whether the first bytes of a connection are a request; None: too few bytes to decide.
    fn begins_with_request(&self, py: Python<'_>, context: &mut Context, index: usize) -> PyResult<Option<bool>> {
        let data = self.directions[index].loose();
        let recognized = if is_tls(data) { None } else { context.recognizes(py, data)? };
        if recognized.is_none() {
            return Ok(is_tls(data).then_some(false));
        }
        if recognized == Some(true) && context.reads_first(py, data)? {
            return Ok(Some(true));
        }
        context.call(py, "first_request", (PyBytes::new(py, data), self.other(py, index), self.ending))?.extract()
    }

    /// Begins to match frames. `client`: the end that sends requests.
    pub(super) fn is_kafka(&mut self, py: Python<'_>, context: &mut Context, client: usize) -> PyResult<()> {
        self.verdict = Verdict::Kafka;
        self.records = None;
        self.client = client;
        let ends = match self.owned {
            true => Some(Arc::new(self.named(py, context)?)),
            false => None,
        };
        let mut matcher = Matcher::new(ends);
        matcher.joined = self.opener.is_none();
        matcher.incomplete = matcher.joined;
        self.matcher = Some(matcher);
        for (index, problem, at) in std::mem::take(&mut self.early_problems) {
            self.report(context, index, problem, at);
        }
        Ok(())
    }

    /// What its rows have in common is there again, after `settle`.
    pub(super) fn wake(&mut self, py: Python<'_>, context: &Context) -> PyResult<()> {
        if self.matcher.as_ref().is_some_and(Matcher::sleeps) {
            let ends = Arc::new(self.named(py, context)?);
            if let Some(matcher) = &mut self.matcher {
                matcher.wake(ends);
            }
        }
        Ok(())
    }

    fn named(&self, py: Python<'_>, context: &Context) -> PyResult<Endpoints> {
        let [client, broker] = [self.client, 1 - self.client].map(|index| self.ends[index].address_and_port());
        let (row, json) = context.call(py, "ends", (self.number, client, broker))?.extract::<(Py<PyAny>, _)>()?;
        let (number, client, broker) = row.extract(py)?;
        Ok(Endpoints { row, number, client, broker, json })
    }
}
