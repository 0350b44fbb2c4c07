//! One TCP connection, from the segments of both directions to frames for the matcher, by the rules of
//! `kafkawire.capture.connection`.

mod ending;
mod one_way;
mod searching;

use std::borrow::Cow;

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use one_way::OneWay;

use crate::capture::context::Context;
use crate::capture::frames::{Frame, FrameStream, Frames};
use crate::capture::late_packets::LatePackets;
use crate::capture::matcher::Matcher;
use crate::capture::recognition::TlsRecords;
use crate::capture::segment::{End, Segment, ACK, EXPORTED, FIN, RST, SYN};
use crate::capture::sequencer::Hold;
use crate::capture::stream::{Event, Moment, MAX_HELD_BYTES};
use crate::capture::tls::Tls;

/// As in `kafkawire.capture.connection`.
const MOST_EARLY_PROBLEMS: usize = 16;

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Verdict {
    Undecided,
    Likely,
    Kafka,
    Tls,
    Other,
}

impl Verdict {
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Undecided => "undecided",
            Verdict::Likely => "likely",
            Verdict::Kafka => "kafka",
            Verdict::Tls => "tls",
            Verdict::Other => "other",
        }
    }
}

/// A RST: the direction it is in, its flags, and its numbers.
#[derive(Clone, Copy)]
struct Reset {
    sender: usize,
    flags: u16,
    behind: u32,
    acknowledgment: u32,
}

pub struct Connection {
    pub number: i64,
    pub owned: bool,
    pub verdict: Verdict,
    /// Payload of its packets, retransmissions included, and the part that the capture left out.
    pub bytes: i64,
    pub cut: i64,
    /// Bytes before the first frame of each direction, if the connection's beginning was not captured.
    pub joined: i64,
    /// Directions have the index of the end that sends.
    pub ends: [End; 2],
    pub reset_ns: Option<i64>,
    /// Boxed, as most connections have none, and as many may be open.
    pub tls: Option<Box<Tls>>,
    directions: [FrameStream; 2],
    /// While it may prove to be TLS.
    records: Option<Box<[TlsRecords; 2]>>,
    continued: bool,
    /// The end that sent the SYN, and the end that sends requests once the verdict is Kafka.
    opener: Option<usize>,
    client: usize,
    /// The end that is a broker by the rules given; None where no rule names it.
    broker: Option<usize>,
    matcher: Option<Matcher>,
    holds: [Hold; 2],
    pub now: Moment,
    ending: bool,
    /// There may have been requests in bytes that were dropped.
    likely: bool,
    reset: Option<Reset>,
    /// Ends that have closed a connection that is not decoded.
    closed: [bool; 2],
    /// Problems found before the verdict.
    early_problems: Vec<(usize, String, Moment)>,
    late: LatePackets,
    alone: [OneWay; 2],
}

impl Connection {
    pub fn new(number: i64, segment: &Segment<'_>, broker: Option<usize>, owned: bool, continued: bool) -> Self {
        Connection {
            number,
            owned,
            verdict: Verdict::Undecided,
            bytes: 0,
            cut: 0,
            joined: 0,
            ends: [segment.source, segment.destination],
            reset_ns: None,
            tls: None,
            directions: Default::default(),
            records: None,
            continued,
            opener: None,
            client: 0,
            broker,
            matcher: None,
            holds: Default::default(),
            now: (0, 0),
            ending: false,
            likely: false,
            reset: None,
            closed: [false; 2],
            early_problems: Vec::new(),
            late: LatePackets::default(),
            alone: Default::default(),
        }
    }

    pub fn reopened_by(&self, segment: &Segment<'_>) -> bool {
        let stream = &self.directions[self.sender(segment)].stream;
        segment.flags & (SYN | ACK) == SYN && stream.started() && !stream.begins_at(segment.sequence)
    }

    pub fn repeated(&self) -> i64 {
        self.directions.iter().map(|direction| direction.stream.repeated).sum()
    }

    pub fn ended(&self) -> bool {
        self.closed == [true; 2] || self.directions.iter().all(|direction| direction.stream.complete())
    }

    pub fn reset_in_doubt(&self) -> bool {
        self.reset.is_some() && self.reset_ns.is_none()
    }

    /// Estimate of its memory, in bytes.
    pub fn held(&self, context: &Context) -> i64 {
        let directions: i64 = self.directions.iter().map(|direction| direction.stream.held() + direction.held()).sum();
        directions
            + self.tls.as_ref().map_or(0, |tls| tls.held())
            + self.matcher.as_ref().map_or(0, |matcher| matcher.held(context))
    }

    fn sender(&self, segment: &Segment<'_>) -> usize {
        usize::from(segment.source != self.ends[0])
    }

    /// Takes one segment of either direction.
    pub fn process(
        &mut self,
        py: Python<'_>,
        context: &mut Context,
        segment: &Segment<'_>,
        at: Moment,
    ) -> PyResult<()> {
        self.wake(py, context)?;
        let missing = (segment.size - segment.payload.len()) as i64;
        self.bytes += segment.size as i64;
        self.cut += missing;
        self.now = at;
        let sender = self.sender(segment);
        if matches!(self.verdict, Verdict::Tls | Verdict::Other) {
            if segment.flags & (FIN | RST) != 0 {
                self.closed[sender] = true;
                self.closed[1 - sender] |= segment.flags & RST != 0;
            }
            return Ok(());
        }
        let stream = &mut self.directions[sender].stream;
        let mut sequence = if segment.flags & EXPORTED == 0 { segment.sequence } else { stream.following() };
        if segment.flags & SYN != 0 {
            if !stream.started() {
                stream.open(sequence);
                self.directions[sender].from_start = true;
                self.opener = Some(if segment.flags & ACK != 0 { 1 - sender } else { sender });
            }
            sequence = sequence.wrapping_add(1); // a SYN may carry data (TCP Fast Open)
        }
        let behind = sequence.wrapping_add(segment.size as u32);
        if segment.flags & ACK != 0 && segment.flags & RST == 0 {
            self.directions[1 - sender].stream.acknowledge(segment.acknowledgment);
            self.late.acknowledge(1 - sender, segment.acknowledgment);
        }
        let stream = &mut self.directions[sender].stream;
        if !segment.payload.is_empty() {
            self.late.data(sender, if stream.started() { stream.following() } else { sequence }, at.0);
        }
        if segment.flags & FIN != 0 {
            stream.close(behind);
        }
        if stream.follows(sequence, segment.payload, at) {
            if !segment.payload.is_empty() {
                self.handle(py, context, sender, Event::Chunk(Cow::Borrowed(segment.payload), at))?;
            }
        } else {
            let mut events = Vec::new();
            stream.segment(sequence, segment.payload, at, &mut events);
            self.handle_all(py, context, sender, events)?;
        }
        if missing > 0 {
            self.directions[sender].stream.reach(behind);
        }
        for index in [0, 1] {
            let mut events = Vec::new();
            self.directions[index].stream.tick(&mut events);
            self.handle_all(py, context, index, events)?;
        }
        if segment.flags & RST != 0 {
            let behind = segment.sequence.wrapping_add(segment.size as u32);
            let (flags, acknowledgment) = (segment.flags, segment.acknowledgment);
            self.reset = Some(Reset { sender, flags, behind, acknowledgment });
        }
        if let Some(reset) = self.reset {
            self.check_reset(reset);
        }
        self.hold_back(context);
        Ok(())
    }

    /// Decides anew whether the receiver accepts a RST (`resets.Resets.segment`).
    fn check_reset(&mut self, reset: Reset) {
        let (stream, peer) = (&self.directions[reset.sender].stream, &self.directions[1 - reset.sender].stream);
        let (certain, undecided) = if stream.started() {
            (stream.awaits(reset.behind), (1..=MAX_HELD_BYTES).contains(&stream.ahead(reset.behind)))
        } else {
            (reset.flags & ACK != 0 && peer.begins_at(reset.acknowledgment.wrapping_sub(1)), false)
        };
        if !certain {
            self.reset_ns = None;
            if !undecided {
                self.reset = None;
            }
        } else if self.reset_ns.is_none() {
            self.reset_ns = Some(self.now.1);
        }
    }

    /// Whether the connection began before the capture.
    fn is_joined(&self) -> bool {
        self.opener.is_none() && !self.continued
    }

    /// Counts bytes that are in no known frame.
    fn unframed(&mut self, context: &mut Context, index: usize, count: i64) {
        if self.is_joined() && !self.directions[index].lost {
            self.joined += count;
        } else {
            let first = self.directions[index].first_unframed().unwrap_or(self.now);
            self.report(context, index, format!("{} that belong to no known frame", bytes(count)), first);
        }
    }

    fn handle_all(
        &mut self,
        py: Python<'_>,
        context: &mut Context,
        index: usize,
        events: Vec<Event<'_>>,
    ) -> PyResult<()> {
        events.into_iter().try_for_each(|event| self.handle(py, context, index, event))
    }

    fn handle(&mut self, py: Python<'_>, context: &mut Context, index: usize, event: Event<'_>) -> PyResult<()> {
        if matches!(self.verdict, Verdict::Tls | Verdict::Other) {
            return Ok(());
        }
        if let Event::Conflict(count, at) = event {
            let problem = format!("{} came again as others; the first copy counts", bytes(count as i64));
            self.report(context, index, problem, at);
            return Ok(());
        }
        if self.tls.is_some() {
            if self.verdict == Verdict::Kafka && !self.owned {
                return Ok(()); // its frames are not decoded
            }
            return self.decrypt(py, context, |tls, context| match event {
                Event::Chunk(data, at) => tls.receive(py, context, index, &data, at),
                Event::Loss(missing, at) => tls.call(py, context, "tls_lose", (index, missing, at.0, at.1)),
                Event::Conflict(..) => Ok(Vec::new()),
            });
        }
        if self.is_joined_tls(index, &event) {
            self.dismiss(context, Verdict::Tls);
            return Ok(());
        }
        if matches!(event, Event::Loss(..)) && self.decides(py, context, index)? {
            return self.handle(py, context, index, event);
        }
        match event {
            Event::Chunk(data, at) => {
                let frames = self.directions[index].take(data, at);
                self.advance(py, context, index, Some(frames))
            }
            Event::Loss(missing, _) if self.begins_cut_frame(py, context, index, missing)? => {
                let frames = self.directions[index].bridge(missing);
                self.advance(py, context, index, Some(frames))
            }
            Event::Loss(missing, _) if self.bridges(py, context, index, missing)? => {
                let frames = self.directions[index].bridge(missing);
                self.advance(py, context, index, Some(frames))
            }
            Event::Loss(missing, at) => {
                let direction = &mut self.directions[index];
                let missing = missing + direction.missing();
                direction.lose();
                direction.drop(0);
                self.report(context, index, format!("{} are missing in the capture", bytes(missing)), at);
                Ok(())
            }
            Event::Conflict(..) => Ok(()),
        }
    }

    /// Whether the connection proves to be TLS whose handshake was not captured.
    fn is_joined_tls(&mut self, index: usize, event: &Event<'_>) -> bool {
        if self.verdict != Verdict::Undecided || self.directions[index].from_start {
            return false;
        }
        match event {
            Event::Chunk(data, _) => return self.records.get_or_insert_default()[index].feed(data),
            _ => self.records.get_or_insert_default()[index].lose(),
        }
        false
    }

    /// Puts the TLS layer between streams and frames; the bytes so far pass through it.
    fn begin_tls(&mut self, py: Python<'_>, context: &mut Context) -> PyResult<()> {
        self.tls = Some(Box::new(Tls::new(py, context)?));
        let mut chunks = Vec::new();
        for (index, direction) in self.directions.iter_mut().enumerate() {
            chunks.extend(direction.withdraw().into_iter().map(|(data, at)| (at.0, index, data, at)));
        }
        chunks.sort_by_key(|(packet, ..)| *packet);
        for (_, index, data, at) in chunks {
            self.decrypt(py, context, |tls, context| tls.receive(py, context, index, &data, at))?;
        }
        if context.call(py, "tls_hopeless", ())?.is_truthy()? {
            self.decrypt(py, context, |tls, context| tls.call(py, context, "tls_give_up", ()))?;
        }
        Ok(())
    }

    /// Continues with what the TLS layer has decrypted, and with what it could not.
    fn decrypt(
        &mut self,
        py: Python<'_>,
        context: &mut Context,
        step: impl FnOnce(&mut Tls, &Context) -> PyResult<Vec<super::tls::Plain>>,
    ) -> PyResult<()> {
        let Some(tls) = &mut self.tls else { return Ok(()) };
        for (index, data, at, problem) in step(tls, context)? {
            if matches!(self.verdict, Verdict::Tls | Verdict::Other) {
                continue;
            }
            let direction = &mut self.directions[index & 1];
            if let Some(data) = data {
                let frames = direction.take(Cow::Owned(data), at);
                self.advance(py, context, index & 1, Some(frames))?;
                continue;
            }
            direction.lose();
            direction.drop(0);
            self.report(context, index & 1, problem, at);
        }
        if self.verdict == Verdict::Undecided && self.tls.as_ref().is_some_and(|tls| tls.failed) {
            self.dismiss(context, Verdict::Tls);
        }
        Ok(())
    }

    /// Whether a hole lies within one frame that its header identifies. Only that frame is lost then.
    fn bridges(&self, py: Python<'_>, context: &Context, index: usize, missing: i64) -> PyResult<bool> {
        let direction = &self.directions[index];
        let Some(matcher) = self.matcher.as_ref().filter(|_| direction.bridges(missing)) else { return Ok(false) };
        if direction.missing() > 0 {
            return Ok(true);
        }
        let head = direction.head();
        if index == self.client {
            return match context.recognizes(py, head)? {
                Some(true) => Ok(true),
                _ => context.call(py, "may_be_request", (PyBytes::new(py, head),))?.is_truthy(),
            };
        }
        let correlation_id = head.get(4..).and_then(|head| head.first_chunk());
        Ok(correlation_id.is_some_and(|bytes| matcher.awaits(i32::from_be_bytes(*bytes))))
    }

    /// Passes the frames of one direction to the matcher, also those after a frame boundary that is found again.
    fn advance(
        &mut self,
        py: Python<'_>,
        context: &mut Context,
        index: usize,
        mut frames: Option<Frames<'_>>,
    ) -> PyResult<()> {
        while let Some((found, bad)) = frames {
            for frame in found {
                self.match_frame(py, context, index, frame)?;
            }
            if let Some(bad) = bad {
                let direction = &mut self.directions[index];
                let first = direction.first_unframed().unwrap_or(self.now);
                self.report(context, index, bad.problem(), first);
                let direction = &mut self.directions[index];
                direction.lose();
                direction.drop(direction.loose().len().saturating_sub(1)); // not at the same offset again
            }
            frames = self.found(py, context, index)?;
        }
        let other = 1 - index;
        if self.verdict == Verdict::Kafka && index == self.client && !self.directions[other].synchronized() {
            let frames = self.found(py, context, other)?;
            self.advance(py, context, other, frames)?;
        }
        Ok(())
    }

    fn match_frame(&mut self, py: Python<'_>, context: &mut Context, index: usize, frame: Frame<'_>) -> PyResult<()> {
        let Some(matcher) = &mut self.matcher else { return Ok(()) };
        if index != self.client {
            return matcher.response(py, context, frame);
        }
        let late = self.late.contains(frame.at.0);
        let other = &mut self.directions[1 - index];
        if !(late || !matcher.awaits_none() || other.synchronized() || other.from_start) {
            other.drop_before(frame.at.0); // answers to earlier requests
        }
        matcher.request(py, context, frame, late)
    }

    fn dismiss(&mut self, context: &mut Context, verdict: Verdict) {
        self.verdict = verdict;
        self.directions = Default::default();
        self.release(context);
    }

    fn report(&mut self, context: &mut Context, index: usize, what: String, at: Moment) {
        let Some(matcher) = &mut self.matcher else {
            self.early_problems.push((index, what, at));
            if self.early_problems.len() > MOST_EARLY_PROBLEMS {
                self.early_problems.remove(0);
            }
            return;
        };
        matcher.incomplete = true;
        let who = if index == self.client { "client" } else { "broker" };
        matcher.report(context, format!("from the {who}: {what}"), at);
    }

    /// Makes later exchanges wait while bytes of earlier packets may still become frames.
    fn hold_back(&mut self, context: &mut Context) {
        if !self.owned {
            return;
        }
        for (index, direction) in self.directions.iter_mut().enumerate() {
            let first = direction.first_unframed().map(|(packet, _)| packet);
            let encrypted = self.tls.as_mut().and_then(|tls| tls.held_since(index));
            let waiting = [first, direction.stream.held_since(), encrypted].into_iter().flatten().min();
            self.holds[index].put(waiting, &mut context.sequencer);
        }
    }

    fn release(&mut self, context: &mut Context) {
        for hold in &mut self.holds {
            hold.put(None, &mut context.sequencer);
        }
    }
}

fn bytes(count: i64) -> String {
    format!("{count} byte{}", if count == 1 { "" } else { "s" })
}
