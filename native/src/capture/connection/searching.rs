//! Where frames begin in a direction, and whose requests they are.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::{Connection, Verdict};
use crate::capture::context::Context;
use crate::capture::exchange::Endpoints;
use crate::capture::frames::Frames;
use crate::capture::matcher::Matcher;
use crate::capture::recognition::is_tls;

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
            self.search(py, context, index, index == self.client)?
        };
        let Some(offset) = offset else { return Ok(None) };
        let before = offset as i64 + self.directions[index].skipped;
        if before > 0 {
            self.unframed(context, index, before);
        }
        Ok(Some(self.directions[index].begin(offset)))
    }

    /// Lets Python search one direction for a frame.
    fn search(&mut self, py: Python<'_>, context: &Context, index: usize, request: bool) -> PyResult<Option<usize>> {
        let direction = &mut self.directions[index];
        let Some((data, starts)) = direction.searched() else { return Ok(None) };
        let data = PyBytes::new(py, data);
        let found = match &self.matcher {
            Some(matcher) if !request => {
                context.call(py, "find_response", (data, starts, matcher.oldest(MOST_SEARCHED_IDS), self.ending))?
            }
            _ => context.call(py, "find_request", (data, starts, self.ending))?,
        };
        let (offset, settled, wanted) = found.extract()?;
        direction.found(offset, settled, wanted);
        Ok(offset)
    }

    /// Decides whether this direction is that of a Kafka client; gives the offset of its first request.
    fn decide(&mut self, py: Python<'_>, context: &mut Context, index: usize) -> PyResult<Option<usize>> {
        let mut offset = None;
        let direction = &self.directions[index];
        if self.opener.is_none_or(|opener| opener == index) && !direction.loose().is_empty() {
            if !direction.from_start {
                offset = self.search(py, context, index, true)?;
            } else {
                match context.recognizes(py, direction.loose())? {
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
            self.verdict = Verdict::Kafka;
            self.client = index;
            let ends = match self.owned {
                true => Some(Arc::new(self.named(py, context)?)),
                false => None,
            };
            self.matcher = Some(Matcher::new(ends));
            for (index, problem, at) in std::mem::take(&mut self.early_problems) {
                self.report(context, index, problem, at);
            }
        } else if self
            .directions
            .iter()
            .any(|direction| direction.loose().len() as i64 + direction.skipped > MAX_LOOSE_BYTES)
        {
            self.dismiss(context, Verdict::Other);
        }
        Ok(offset)
    }

    fn named(&self, py: Python<'_>, context: &Context) -> PyResult<Endpoints> {
        let [client, broker] = [self.client, 1 - self.client].map(|index| self.ends[index].address_and_port());
        let (row, json) = context.call(py, "ends", (self.number, client, broker))?.extract::<(Py<PyAny>, _)>()?;
        let (number, client, broker) = row.extract(py)?;
        Ok(Endpoints { row, number, client, broker, json })
    }
}
