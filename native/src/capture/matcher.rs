//! Responses of one connection matched with its requests, by the rules of `kafkawire.capture.matcher`.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

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
    /// Requests without their responses yet, by correlation id, and responses without their requests.
    outstanding: Ordered<i32, Pending>,
    early: Ordered<i32, (Ticket, Frame<'static>)>,
    /// After SaslHandshake v0: frames are tokens without headers.
    raw_tokens: bool,
    tokens: VecDeque<Pending>,
}

impl Matcher {
    pub fn new(ends: Option<Arc<Endpoints>>) -> Self {
        Matcher {
            ends,
            outstanding: Ordered::default(),
            early: Ordered::default(),
            raw_tokens: false,
            tokens: VecDeque::new(),
        }
    }

    pub fn awaits(&self, correlation_id: i32) -> bool {
        self.outstanding.contains(&correlation_id)
    }

    /// Correlation id, api key and version of the oldest outstanding requests.
    pub fn oldest(&self, most: usize) -> Vec<(i32, i16, i16)> {
        let oldest = self.outstanding.iter().take(most);
        oldest.map(|(correlation_id, pending)| (*correlation_id, pending.api_key, pending.version)).collect()
    }

    /// Takes a frame from the client.
    pub fn request(&mut self, py: Python<'_>, context: &mut Context, frame: Frame<'_>) -> PyResult<()> {
        if self.ends.is_none() {
            return Ok(());
        }
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
        if context.options.keep {
            exchange.frames[0] = whole(py, &frame);
        }
        self.raw_tokens = api_key == Some(SASL_HANDSHAKE) && version == Some(0);
        match (silent, correlation_id, api_key, version) {
            (false, Some(correlation_id), Some(api_key), Some(version)) => {
                self.wait(py, context, correlation_id, Pending { ticket, api_key, version, exchange })
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
            if let Some(pending) = self.outstanding.remove(&correlation_id) {
                return answer(py, context, pending, frame);
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
        let early: i64 = self.early.iter().map(|(_, (_, frame))| frame.data().len() as i64).sum();
        early + waiting.map(|pending| weight(context, &pending.exchange)).sum::<i64>()
    }

    pub fn settle(&mut self) {
        self.outstanding.settle();
        self.early.settle();
        self.tokens.shrink_to_fit();
    }

    /// Closes all open exchanges.
    pub fn end(&mut self, py: Python<'_>, context: &mut Context, problem: &'static str) {
        while let Some((_, pending)) = self.outstanding.pop_first() {
            unanswered(context, pending, problem);
        }
        for token in std::mem::take(&mut self.tokens) {
            unanswered(context, token, problem);
        }
        while let Some((_, early)) = self.early.pop_first() {
            self.unmatched(py, context, Some(early));
        }
    }

    fn wait(&mut self, py: Python<'_>, context: &mut Context, correlation_id: i32, pending: Pending) -> PyResult<()> {
        if let Some((ticket, frame)) = self.early.remove(&correlation_id) {
            context.sequencer.close(ticket, None, 0);
            return answer(py, context, pending, frame);
        }
        if let Some(same) = self.outstanding.remove(&correlation_id) {
            unanswered(context, same, NO_RESPONSE);
        } else if self.outstanding.len() >= context.options.most_outstanding {
            if let Some((_, oldest)) = self.outstanding.pop_first() {
                unanswered(context, oldest, NO_RESPONSE);
            }
        }
        self.outstanding.push(correlation_id, pending);
        Ok(())
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

fn answer(py: Python<'_>, context: &mut Context, mut pending: Pending, frame: Frame<'_>) -> PyResult<()> {
    let exchange = &mut pending.exchange;
    exchange.answered = context.response(py, frame.data(), cut(&frame), pending.api_key, pending.version)?;
    exchange.response = Some(FramePlace { at: frame.at, size: Some(frame.size()) });
    if context.options.keep {
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
