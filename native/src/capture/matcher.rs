//! Responses of one connection matched with its requests, by the rules of `kafkawire.capture.matcher`.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use foldhash::fast::RandomState;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::context::{CapturedRequest, Context};
use super::exchange::{Endpoints, Exchange, FramePlace};
use super::frames::Frame;
use super::ordered::Ordered;
use super::recognition::HEAD;
use super::sequencer::Ticket;
use super::stream::Moment;

const SASL_HANDSHAKE: i16 = 17;

/// As in `kafkawire.capture.matcher`.
pub const NO_RESPONSE: &str = "no response was captured";
const NO_REQUEST: &str = "its request was not captured";
const AMBIGUOUS: &str = "other requests under way have its correlation id: its response may be that of one of them";
const TOKEN: &str = "a SASL token, not shown";
pub const LET_GO: &str = "let go before its response came: too much was held in memory";

/// A request or SASL token without its response yet.
struct Pending {
    ticket: Ticket,
    api_key: i16,
    version: i16,
    exchange: Box<Exchange>,
}

/// Turns frames into exchanges and passes those to the sequencer. One without `ends` discards them: its connection is
/// not decoded.
pub struct Matcher {
    ends: Option<Arc<Endpoints>>,
    /// It is decoded, and `ends` were dropped for a while.
    sleeps: bool,
    /// Requests without their responses yet, by correlation id, and responses without their requests.
    outstanding: Ordered<i32, Pending>,
    /// The later requests with the correlation id of one of those, and their number.
    same: HashMap<i32, VecDeque<Pending>, RandomState>,
    repeated: usize,
    /// Bytes of the connection were not captured; some of them before its first packet.
    pub incomplete: bool,
    pub joined: bool,
    /// Correlation id of the last request, and its packet.
    last: Option<i32>,
    last_packet: i64,
    /// A correlation id of several requests whose responses may be those of others.
    doubtful: Option<i32>,
    early: Ordered<i32, (Ticket, Frame<'static>)>,
    /// After SaslHandshake v0: frames are tokens without headers.
    raw_tokens: bool,
    tokens: VecDeque<Pending>,
}

impl Matcher {
    pub fn new(ends: Option<Arc<Endpoints>>) -> Self {
        Matcher {
            ends,
            sleeps: false,
            outstanding: Ordered::default(),
            same: HashMap::default(),
            repeated: 0,
            incomplete: false,
            joined: false,
            last: None,
            last_packet: 0,
            doubtful: None,
            early: Ordered::default(),
            raw_tokens: false,
            tokens: VecDeque::new(),
        }
    }

    pub fn awaits(&self, correlation_id: i32) -> bool {
        self.outstanding.contains(&correlation_id)
    }

    pub fn awaits_none(&self) -> bool {
        self.outstanding.len() == 0
    }

    pub fn awaited(&self) -> Vec<i32> {
        self.outstanding.iter().map(|(correlation_id, _)| *correlation_id).collect()
    }

    /// Correlation id, api key and version of the oldest outstanding requests.
    pub fn oldest(&self, most: usize) -> Vec<(i32, i16, i16)> {
        let mut found = Vec::new();
        for (correlation_id, oldest) in self.outstanding.iter().take(most) {
            let same = self.same.get(correlation_id).into_iter().flatten().take(most - 1);
            let pending = std::iter::once(oldest).chain(same);
            found.extend(pending.map(|pending| (*correlation_id, pending.api_key, pending.version)));
        }
        found
    }

    /// Takes a frame from the client. `late`: its response may have been captured before it.
    pub fn request(&mut self, py: Python<'_>, context: &mut Context, frame: Frame<'_>, late: bool) -> PyResult<()> {
        if self.ends.is_none() {
            return Ok(());
        }
        self.incomplete |= frame.missing > 0;
        let ticket = context.sequencer.ticket(frame.at.0);
        let mut exchange = Exchange::new(self.ends.clone());
        exchange.request = Some(FramePlace { at: frame.at, size: Some(frame.size()) });
        if self.raw_tokens && !is_request(py, context, &frame)? {
            exchange.problem = Some(Cow::Borrowed(TOKEN));
            self.tokens.push_back(Pending { ticket, api_key: 0, version: 0, exchange });
            if self.tokens.len() > context.options.most_outstanding {
                if let Some(oldest) = self.tokens.pop_front() {
                    unanswered(context, oldest, NO_RESPONSE);
                }
            }
            return Ok(());
        }
        let found = context.request(py, frame.data(), cut(&frame))?;
        let CapturedRequest { asked, api_key, version, correlation_id, silent } = found;
        exchange.asked = asked;
        if context.keeps(api_key)[0] {
            exchange.frames[0] = whole(py, &frame);
        }
        self.raw_tokens = api_key == Some(SASL_HANDSHAKE) && version == Some(0);
        match (silent, correlation_id, api_key, version) {
            (false, Some(correlation_id), Some(api_key), Some(version)) => {
                // Requests with one correlation id before the capture may have the first responses in it.
                if self.joined && self.last == Some(correlation_id) {
                    if self.doubtful != self.last && !self.awaits(correlation_id) {
                        let before = self.last_packet;
                        self.report(
                            context,
                            format!("the request in packet {before} has the correlation id of this one: its response may be that of another"),
                            frame.at,
                        );
                    }
                    self.doubtful = self.last;
                }
                self.last = Some(correlation_id);
                self.last_packet = frame.at.0;
                self.wait(py, context, correlation_id, Pending { ticket, api_key, version, exchange }, late)
            }
            _ => {
                close(context, ticket, exchange);
                Ok(())
            }
        }
    }

    /// Takes a frame from the broker.
    pub fn response(&mut self, py: Python<'_>, context: &mut Context, frame: Frame<'_>) -> PyResult<()> {
        if self.ends.is_none() {
            return Ok(());
        }
        // Like Python, the bytes of a shorter frame are a number.
        let head = &frame.data()[..frame.data().len().min(4)];
        if !self.tokens.is_empty() {
            // A client sends no request before its token is answered: if this answers one, the token's answer is lost.
            let answers = match self.outstanding.get(&number(head)).filter(|_| head.len() == 4) {
                None => false,
                Some(pending) => {
                    let data = PyBytes::new(py, frame.data());
                    context.call(py, "answers", (data, pending.api_key, pending.version))?.is_truthy()?
                }
            };
            if !answers {
                if let Some(mut token) = self.tokens.pop_front() {
                    token.exchange.response = Some(FramePlace { at: frame.at, size: Some(frame.size()) });
                    close(context, token.ticket, token.exchange);
                }
                return Ok(());
            }
            while let Some(token) = self.tokens.pop_front() {
                unanswered(context, token, NO_RESPONSE);
            }
        }
        let correlation_id = number(head);
        if head.len() == 4 {
            if let Some((pending, why)) = self.answered(py, context, correlation_id, &frame)? {
                return answer(py, context, pending, why, frame);
            }
        }
        // Captures may swap packets: its request may still come.
        let same = self.early.remove(&correlation_id);
        self.unmatched(py, context, same);
        let ticket = context.sequencer.ticket(frame.at.0);
        self.early.push(correlation_id, (ticket, frame.owned()));
        if self.early.len() > context.options.most_early {
            let oldest = self.early.pop_first().map(|(_, early)| early);
            self.unmatched(py, context, oldest);
        }
        Ok(())
    }

    /// Adds a row with a problem that belongs to no exchange.
    pub fn report(&self, context: &mut Context, problem: String, at: Moment) {
        if self.ends.is_none() {
            return;
        }
        let ticket = context.sequencer.ticket(at.0);
        let mut exchange = Exchange::new(self.ends.clone());
        exchange.request = Some(FramePlace { at, size: None });
        exchange.problem = Some(Cow::Owned(problem));
        close(context, ticket, exchange);
    }

    /// Estimate of the memory that unmatched requests and responses take, in bytes.
    pub fn held(&self, context: &Context) -> i64 {
        let waiting = self.outstanding.iter().map(|(_, pending)| pending).chain(&self.tokens);
        let waiting = waiting.chain(self.same.values().flatten());
        let early: i64 = self.early.iter().map(|(_, (_, frame))| frame.data().len() as i64).sum();
        early + waiting.map(|pending| weight(context, &pending.exchange)).sum::<i64>()
    }

    pub fn settle(&mut self) {
        self.outstanding.settle();
        self.same.shrink_to_fit();
        self.early.settle();
        self.tokens.shrink_to_fit();
        if self.ends.as_ref().is_some_and(|ends| Arc::strong_count(ends) == 1) {
            self.ends = None;
            self.sleeps = true;
        }
    }

    pub fn sleeps(&self) -> bool {
        self.sleeps
    }

    /// Takes its endpoints again.
    pub fn wake(&mut self, ends: Arc<Endpoints>) {
        self.ends = Some(ends);
        self.sleeps = false;
    }

    /// Closes all open exchanges.
    pub fn end(&mut self, py: Python<'_>, context: &mut Context, problem: &'static str) {
        while let Some((correlation_id, pending)) = self.outstanding.pop_first() {
            unanswered(context, pending, problem);
            for pending in self.same.remove(&correlation_id).unwrap_or_default() {
                unanswered(context, pending, problem);
            }
        }
        self.repeated = 0;
        for token in std::mem::take(&mut self.tokens) {
            unanswered(context, token, problem);
        }
        while let Some((_, early)) = self.early.pop_first() {
            self.unmatched(py, context, Some(early));
        }
    }

    fn wait(
        &mut self,
        py: Python<'_>,
        context: &mut Context,
        correlation_id: i32,
        pending: Pending,
        late: bool,
    ) -> PyResult<()> {
        if let Some((ticket, frame)) = self.early.remove(&correlation_id) {
            let asked = pending.exchange.request.as_ref().map_or(0, |place| place.at.0);
            if late || frame.at.0 > asked {
                context.sequencer.close(ticket, None, 0);
                return answer(py, context, pending, None, frame);
            }
            self.unmatched(py, context, Some((ticket, frame)));
        }
        if self.outstanding.len() + self.repeated >= context.options.most_outstanding {
            if let Some(oldest) = self.outstanding.first().map(|(oldest, _)| *oldest) {
                if let Some(oldest) = self.pop(oldest) {
                    unanswered(context, oldest, NO_RESPONSE);
                }
            }
        }
        if self.outstanding.contains(&correlation_id) {
            self.same.entry(correlation_id).or_default().push_back(pending);
            self.repeated += 1;
        } else {
            self.outstanding.push(correlation_id, pending);
        }
        Ok(())
    }

    /// Takes out the oldest request with a correlation id. The next one with it takes the last place.
    fn pop(&mut self, correlation_id: i32) -> Option<Pending> {
        let oldest = self.outstanding.remove(&correlation_id)?;
        if self.repeated > 0 {
            if let Some(same) = self.same.get_mut(&correlation_id) {
                if let Some(next) = same.pop_front() {
                    self.repeated -= 1;
                    self.outstanding.push(correlation_id, next);
                }
                if same.is_empty() {
                    self.same.remove(&correlation_id);
                }
            }
        }
        Some(oldest)
    }

    /// Takes out the request that a response answers; also gives why that is not certain.
    fn answered(
        &mut self,
        py: Python<'_>,
        context: &mut Context,
        correlation_id: i32,
        frame: &Frame<'_>,
    ) -> PyResult<Option<(Pending, Option<&'static str>)>> {
        if self.repeated > 0 {
            if let Some(same) = self.same.get(&correlation_id) {
                if frame.missing == 0 {
                    let data = PyBytes::new(py, frame.data());
                    let mut before = None;
                    let waiting = self.outstanding.get(&correlation_id).into_iter().chain(same);
                    for (place, pending) in waiting.enumerate() {
                        let expected = (&data, pending.api_key, pending.version);
                        if context.call(py, "answers", expected)?.is_truthy()? {
                            before = Some(place);
                            break;
                        }
                    }
                    for _ in 0..before.unwrap_or(0) {
                        self.incomplete = true;
                        if let Some(oldest) = self.pop(correlation_id) {
                            unanswered(context, oldest, NO_RESPONSE);
                        }
                    }
                }
                if self.incomplete {
                    self.doubtful = Some(correlation_id);
                }
            }
        }
        let why = (self.doubtful == Some(correlation_id)).then_some(AMBIGUOUS);
        Ok(self.pop(correlation_id).map(|pending| (pending, why)))
    }

    fn unmatched(&self, py: Python<'_>, context: &mut Context, early: Option<(Ticket, Frame<'static>)>) {
        let Some((ticket, frame)) = early else { return };
        let mut exchange = Exchange::new(self.ends.clone());
        exchange.response = Some(FramePlace { at: frame.at, size: Some(frame.size()) });
        exchange.correlation_id = frame.data().first_chunk().map(|number| i32::from_be_bytes(*number));
        exchange.problem = Some(Cow::Borrowed(NO_REQUEST));
        if context.options.keep {
            exchange.frames[1] = whole(py, &frame);
        }
        close(context, ticket, exchange);
    }
}

/// The signed number in at most four bytes.
fn number(head: &[u8]) -> i32 {
    let mut bytes = match head.first() {
        Some(first) if *first >= 0x80 => [0xff; 4],
        _ => [0; 4],
    };
    bytes[4 - head.len()..].copy_from_slice(head);
    i32::from_be_bytes(bytes)
}

fn is_request(py: Python<'_>, context: &Context, frame: &Frame<'_>) -> PyResult<bool> {
    let mut head = (frame.size() as u32).to_be_bytes().to_vec();
    head.extend_from_slice(&frame.data()[..frame.data().len().min(HEAD)]);
    Ok(context.recognizes(py, &head)? == Some(true))
}

/// `why`: why it is not certain to be its response.
fn answer(
    py: Python<'_>,
    context: &mut Context,
    mut pending: Pending,
    why: Option<&'static str>,
    frame: Frame<'_>,
) -> PyResult<()> {
    let exchange = &mut pending.exchange;
    exchange.answered = context.response(py, frame.data(), cut(&frame), pending.api_key, pending.version)?;
    exchange.response = Some(FramePlace { at: frame.at, size: Some(frame.size()) });
    exchange.problem = exchange.problem.take().or(why.map(Cow::Borrowed));
    if context.keeps(Some(pending.api_key))[1] {
        exchange.frames[1] = whole(py, &frame);
    }
    close(context, pending.ticket, pending.exchange);
    Ok(())
}

fn unanswered(context: &mut Context, mut pending: Pending, problem: &'static str) {
    // A token has a problem already.
    pending.exchange.problem = Some(match pending.exchange.problem.take() {
        Some(before) => Cow::Owned(format!("{before}; {problem}")),
        None => Cow::Borrowed(problem),
    });
    close(context, pending.ticket, pending.exchange);
}

fn close(context: &mut Context, ticket: Ticket, exchange: Box<Exchange>) {
    let weight = weight(context, &exchange);
    context.sequencer.close(ticket, Some(exchange), weight);
}

/// Estimate of the memory that an exchange takes, in bytes: a multiple of its size on the wire.
fn weight(context: &Context, exchange: &Exchange) -> i64 {
    let options = &context.options;
    let size = if options.body || options.weighs { exchange.size() } else { 0 };
    let estimate = if options.body { 8 } else { 3 } * size;
    1000 + estimate.max(exchange.text_size())
}

fn cut(frame: &Frame<'_>) -> Option<String> {
    (frame.missing > 0).then(|| format!("{} of its {} bytes are missing in the capture", frame.missing, frame.size()))
}

fn whole(py: Python<'_>, frame: &Frame<'_>) -> Option<Py<PyBytes>> {
    (frame.missing == 0).then(|| PyBytes::new(py, frame.data()).unbind())
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn short_heads_are_numbers() {
        assert_eq!((number(&[]), number(&[255]), number(&[1, 2]), number(&[0, 0, 1, 0])), (0, -1, 258, 256));
    }
}
