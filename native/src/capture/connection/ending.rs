//! The end of a connection: by its own segments, or by another connection between the same addresses and ports; and how
//! the memory of a connection is freed before its end.

use pyo3::prelude::*;

use super::{bytes, Connection, Verdict};
use crate::capture::context::Context;
use crate::capture::frames::FrameStream;
use crate::capture::matcher::{LET_GO, NO_RESPONSE};
use crate::capture::segment::{Segment, ACK};
use crate::capture::stream::{Event, Moment};

/// As in `kafkawire.capture.connection`.
const MOST_SEARCHES: usize = 16;
/// As in `kafkawire.capture.tracker`.
const MOST_AHEAD: i64 = 16 << 20;
const FAR: &str =
    "its sequence numbers are far from those before: bytes are missing in the capture, or this is another connection";

impl Connection {
    /// Whether a segment's numbers are far from the bytes of both directions (`kafkawire.capture.tracker`).
    pub fn is_far(&self, segment: &Segment<'_>) -> bool {
        let sender = self.sender(segment);
        let (stream, peer) = (&self.directions[sender].stream, &self.directions[1 - sender].stream);
        stream.started()
            && peer.started()
            && !segment.payload.is_empty()
            && segment.flags & ACK != 0
            && stream.ahead(segment.sequence).abs() > MOST_AHEAD
            && peer.ahead(segment.acknowledgment).abs() > MOST_AHEAD
    }

    pub fn report_far(
        &mut self,
        py: Python<'_>,
        context: &mut Context,
        segment: &Segment<'_>,
        at: Moment,
    ) -> PyResult<()> {
        self.wake(py, context)?;
        self.report(context, self.sender(segment), FAR.into(), at);
        Ok(())
    }

    /// Ends the connection and reports what is incomplete.
    pub fn finish(&mut self, py: Python<'_>, context: &mut Context) -> PyResult<()> {
        self.wake(py, context)?;
        let [mut first, mut second] = [0, 1].map(|index| {
            let mut events = Vec::new();
            self.directions[index].stream.finish(&mut events);
            events.into_iter().peekable()
        });
        loop {
            let (one, other) = (first.peek().map(Event::packet), second.peek().map(Event::packet));
            let index = usize::from(one.is_none() || other.is_some_and(|other| Some(other) < one));
            let Some(event) = (if index == 0 { first.next() } else { second.next() }) else { break };
            self.handle(py, context, index, event)?;
        }
        if self.verdict != Verdict::Other {
            self.decrypt(py, context, |tls, context| tls.call(py, context, "tls_finish", ()))?;
        }
        self.ending = true; // not before: the last events come one by one
        let mut likely = self.likely;
        for index in [0, 1] {
            likely = likely || self.may_have_requests(py, context, index)?;
        }
        for index in [0, 1] {
            self.directions[index].look_again();
            let frames = self.found(py, context, index)?;
            self.advance(py, context, index, frames)?;
        }
        if let (Verdict::Undecided, Some(broker)) = (self.verdict, self.broker) {
            self.is_kafka(py, context, 1 - broker)?;
            self.directions.iter_mut().for_each(FrameStream::lose); // no frame was found: all bytes are reported
        } else if self.verdict == Verdict::Undecided && likely {
            self.verdict = Verdict::Likely;
        }
        if self.matcher.is_some() {
            for index in [0, 1] {
                self.finish_direction(py, context, index)?;
            }
        }
        if let Some(matcher) = &mut self.matcher {
            matcher.end(py, context, NO_RESPONSE);
        }
        self.release(context);
        Ok(())
    }

    /// Drops the bytes that retransmissions are compared with, memory that is reserved only, and names that are made
    /// again with its next packet.
    pub fn settle(&mut self) {
        self.directions.iter_mut().for_each(FrameStream::settle);
        if let Some(matcher) = &mut self.matcher {
            matcher.settle();
        }
    }

    /// Frees the memory that it holds, and reports the bytes that are lost thereby.
    pub fn free_memory(&mut self, py: Python<'_>, context: &mut Context) -> PyResult<()> {
        self.wake(py, context)?;
        for index in [0, 1] {
            let mut events = Vec::new();
            self.directions[index].stream.flush(&mut events);
            self.handle_all(py, context, index, events)?;
        }
        if self.verdict == Verdict::Undecided {
            self.decrypt(py, context, |tls, context| tls.call(py, context, "tls_give_up", ()))?;
        }
        for index in [0, 1] {
            let direction = &mut self.directions[index];
            if direction.unframed() > 0 {
                let first = direction.first_unframed().unwrap_or(self.now);
                direction.lose();
                direction.drop(0);
                self.report(context, index, "too much is held in memory: what follows is given up".into(), first);
            }
        }
        if let Some(matcher) = &mut self.matcher {
            matcher.end(py, context, LET_GO);
        }
        self.hold_back(context);
        Ok(())
    }

    /// Reports the bytes left at the end: an incomplete frame, or one of a wrong size with others in it.
    fn finish_direction(&mut self, py: Python<'_>, context: &mut Context, index: usize) -> PyResult<()> {
        let early = self.directions[index].stream.early;
        if early > 0 {
            self.report(context, index, format!("{} from before the first ones captured", bytes(early)), self.now);
        }
        for _ in 0..MOST_SEARCHES {
            let direction = &mut self.directions[index];
            let cut = direction.unframed();
            if !direction.synchronized() || cut == 0 {
                break;
            }
            let first = direction.first_unframed().unwrap_or(self.now);
            let missing = direction.missing();
            if missing > 0 {
                self.report(context, index, format!("{} are missing in the capture", bytes(missing)), first);
            }
            self.directions[index].lose();
            let Some(frames) = self.found(py, context, index)? else {
                self.report(context, index, format!("{} of a frame that is not whole", bytes(cut)), first);
                return Ok(());
            };
            self.advance(py, context, index, Some(frames))?;
        }
        let direction = &self.directions[index];
        let left = direction.unframed() + direction.skipped;
        if left > 0 {
            self.unframed(context, index, left);
        }
        Ok(())
    }
}
