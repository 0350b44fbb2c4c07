//! Exchanges as spans of OTLP. `kafkawire.capture.otlp` makes the same spans of the exchanges that Python decodes.

use std::io::Write;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use super::context::Context;
use super::exchange::{Endpoints, Exchange, FramePlace, RequestContent, ResponseContent};
use crate::cursor::{Read, Refused};
use crate::json::names::{GROUP, NAMED_TOPIC_ID, PARTITION, TOPIC, TOPIC_ID};

/// Spans that are kept until they are given to Python.
const MOST: usize = 500;
const NO_ID: [u8; 16] = [0; 16];

pub struct Spans {
    /// `SpanWriter`: the names of topics, the ids of spans, and spans of exchanges that are refused here.
    writer: Py<PyAny>,
    /// The name of the file.
    file: String,
    ready: Vec<Py<PyBytes>>,
    weights: Vec<usize>,
    out: Vec<u8>,
}

impl Spans {
    pub fn new(writer: Py<PyAny>, file: String) -> Self {
        Spans { writer, file, ready: Vec::new(), weights: Vec::new(), out: Vec::new() }
    }

    pub fn is_full(&self) -> bool {
        self.ready.len() >= MOST
    }

    /// The exchange with its span. `names`: in what was read here.
    pub fn with_span(&self, py: Python<'_>, row: &Py<PyAny>, names: Vec<(u8, Vec<u8>)>) -> PyResult<Py<PyAny>> {
        let names: Vec<_> = names.into_iter().map(|(what, value)| (what, PyBytes::new(py, &value))).collect();
        self.writer.call_method1(py, "with_span", (row, names))
    }

    /// Number of spans, each as JSON, and their weights.
    pub fn take<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        if self.ready.is_empty() {
            return Ok(None);
        }
        let count = self.ready.len();
        let spans = PyList::new(py, self.ready.drain(..))?;
        Ok(Some((count, spans, std::mem::take(&mut self.weights)).into_pyobject(py)?.into_any()))
    }

    /// Appends the span of an exchange. Refused: one with a problem, or with text that JSON or Python's `repr` escapes.
    pub fn push(&mut self, py: Python<'_>, context: &mut Context, exchange: &Exchange) -> PyResult<bool> {
        let mut out = std::mem::take(&mut self.out);
        out.clear();
        let written = self.written(py, context, exchange, &mut out);
        let weight = match written? {
            Ok(weight) => weight,
            Err(Refused) => {
                self.out = out;
                return Ok(false);
            }
        };
        self.ready.push(PyBytes::new(py, &out).unbind());
        self.weights.push(weight);
        self.out = out;
        Ok(true)
    }

    fn written(
        &self,
        py: Python<'_>,
        context: &mut Context,
        exchange: &Exchange,
        out: &mut Vec<u8>,
    ) -> PyResult<Read<usize>> {
        let (
            Some(ends),
            RequestContent::Read { api, version, correlation_id, client_id, .. },
            Some(FramePlace { at: (packet, time_ns), size: Some(size) }),
            None,
        ) = (&exchange.ends, &exchange.asked, &exchange.request, &exchange.problem)
        else {
            return Ok(Err(Refused));
        };
        let (Some(client), Some(broker)) = (address(&ends.client), address(&ends.broker)) else {
            return Ok(Err(Refused));
        };
        if exchange.is_python() {
            return Ok(Err(Refused));
        }
        let Ok(named) = self.named(py, exchange)? else { return Ok(Err(Refused)) };
        let response = exchange.response.as_ref();
        let errors = errors(py, context, &exchange.answered)?;
        let texts = [Some(&api.name), Some(&self.file), named.topic.as_ref(), named.group.as_ref()];
        if !texts.into_iter().flatten().map(String::as_str).chain(client_id.as_deref()).all(is_plain) {
            return Ok(Err(Refused));
        }
        let name = match &named.topic {
            Some(topic) if !named.by_id => format!("{} {topic}", api.name),
            _ => api.name.clone(),
        };
        let identity = identity(exchange, ends, *correlation_id, api.key);
        let digest = self.writer.call_method1(py, "digest", (PyBytes::new(py, identity.as_bytes()),))?;
        let digest: &str = digest.extract(py)?;
        let (trace, span) = (&digest[..32], &digest[32..48]);
        let start = *time_ns.max(&0);
        let end = response.map_or(start, |response| response.at.1.max(start));
        // Writing to memory does not fail.
        let _ = write!(
            out,
            "{{\"traceId\":\"{trace}\",\"spanId\":\"{span}\",\"name\":\"{name}\",\"kind\":3,\
             \"startTimeUnixNano\":\"{start}\",\"endTimeUnixNano\":\"{end}\",\"attributes\":["
        );
        let mut attributes = Attributes { out, weight: name.len() };
        if let Some(topic) = &named.topic {
            attributes.text(if named.by_id { "kafkawire.topic.id" } else { "messaging.destination.name" }, topic);
            if let Some(partition) = named.partition {
                attributes.text("messaging.destination.partition.id", &partition.to_string());
            }
        }
        named.group.iter().for_each(|group| attributes.text("messaging.consumer.group.name", group));
        attributes.text("messaging.system", "kafka");
        attributes.text("messaging.operation.name", &api.name);
        if let Some(kind) = operation(&api.name) {
            attributes.text("messaging.operation.type", kind);
        }
        client_id.iter().filter(|id| !id.is_empty()).for_each(|id| attributes.text("messaging.client.id", id));
        attributes.text("server.address", broker.0);
        attributes.number("server.port", broker.1);
        attributes.text("client.address", client.0);
        attributes.number("client.port", client.1);
        // Of several that are as frequent, the first.
        let mut most: Option<&(String, i64)> = None;
        for error in &errors {
            most = most.filter(|most| most.1 >= error.1).or(Some(error));
        }
        most.into_iter().for_each(|(error, _)| attributes.text("error.type", error));
        attributes.number("kafkawire.api.key", i64::from(api.key));
        attributes.number("kafkawire.api.version", i64::from(*version));
        attributes.number("kafkawire.correlation_id", i64::from(*correlation_id));
        attributes.number("kafkawire.request.bytes", *size);
        if let Some(size) = response.and_then(|response| response.size) {
            attributes.number("kafkawire.response.bytes", size);
        }
        attributes.number("kafkawire.connection", ends.number);
        attributes.number("kafkawire.packet", *packet);
        attributes.text("kafkawire.file", &self.file);
        let weight = attributes.weight;
        out.push(b']');
        if !errors.is_empty() {
            let message: Vec<_> = errors.iter().map(|(name, count)| format!("{name} ({count})")).collect();
            let _ = write!(out, ",\"status\":{{\"code\":2,\"message\":\"{}\"}}", message.join(", "));
        }
        out.push(b'}');
        Ok(Ok(weight))
    }

    /// What the messages name, where it is one. The names of topics that a response tells are learned.
    fn named(&self, py: Python<'_>, exchange: &Exchange) -> PyResult<Read<Named>> {
        if let ResponseContent::Read { names, .. } = &exchange.answered {
            for pair in names.windows(2) {
                let [(TOPIC, name), (NAMED_TOPIC_ID, id)] = pair else { continue };
                self.writer.call_method1(py, "learn", (PyBytes::new(py, name), PyBytes::new(py, id)))?;
            }
        }
        let mut topics = One::<Topic>::default();
        let mut groups = One::<&[u8]>::default();
        let mut partitions = One::<i32>::default();
        for (what, value) in exchange.each_name() {
            match *what {
                TOPIC if !value.is_empty() => topics.add(Topic { by_id: false, text: value.to_vec() }),
                TOPIC_ID | NAMED_TOPIC_ID if !topics.several && *value != NO_ID => {
                    let found: (bool, Vec<u8>) =
                        self.writer.call_method1(py, "topic", (PyBytes::new(py, value),))?.extract(py)?;
                    topics.add(Topic { by_id: !found.0, text: found.1 });
                }
                GROUP if !value.is_empty() => groups.add(value),
                PARTITION => match value.as_slice().try_into() {
                    Ok(number) => partitions.add(i32::from_be_bytes(number)),
                    Err(_) => return Ok(Err(Refused)),
                },
                _ => (),
            }
        }
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).map_err(|_| Refused);
        let named = || {
            let topic = topics.only();
            Ok(Named {
                by_id: topic.as_ref().is_some_and(|topic| topic.by_id),
                topic: topic.map(|topic| text(topic.text)).transpose()?,
                partition: partitions.only(),
                group: groups.only().map(|group| text(group.to_vec())).transpose()?,
            })
        };
        Ok(named())
    }
}

/// A topic is its name, or the text of an id for which no response gave a name.
#[derive(PartialEq)]
struct Topic {
    by_id: bool,
    text: Vec<u8>,
}

struct Named {
    by_id: bool,
    topic: Option<String>,
    partition: Option<i32>,
    group: Option<String>,
}

/// The only value of some, or none where there are several.
struct One<T> {
    first: Option<T>,
    several: bool,
}

impl<T> Default for One<T> {
    fn default() -> Self {
        One { first: None, several: false }
    }
}

impl<T: PartialEq> One<T> {
    fn add(&mut self, value: T) {
        match &self.first {
            None => self.first = Some(value),
            Some(first) => self.several |= *first != value,
        }
    }

    fn only(self) -> Option<T> {
        self.first.filter(|_| !self.several)
    }
}

/// Attributes as OTLP has them: integers of 64 bits are strings in JSON. `weight`: as `otlp.weight` counts.
struct Attributes<'a> {
    out: &'a mut Vec<u8>,
    weight: usize,
}

impl Attributes<'_> {
    fn text(&mut self, key: &str, value: &str) {
        self.put(key, "stringValue", value);
    }

    fn number(&mut self, key: &str, value: i64) {
        self.put(key, "intValue", itoa::Buffer::new().format(value));
    }

    fn put(&mut self, key: &str, kind: &str, value: &str) {
        if self.out.last() != Some(&b'[') {
            self.out.push(b',');
        }
        for part in ["{\"key\":\"", key, "\",\"value\":{\"", kind, "\":\"", value, "\"}}"] {
            self.out.extend_from_slice(part.as_bytes());
        }
        self.weight += key.len() + "{'': ''}".len() + kind.len() + value.len();
    }
}

/// Text that JSON and Python's `repr` write as it is.
fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| (b' '..=b'~').contains(&byte) && !matches!(byte, b'"' | b'\'' | b'\\'))
}

/// Errors and how many there are, in the order of their codes.
fn errors(py: Python<'_>, context: &mut Context, answered: &ResponseContent) -> PyResult<Vec<(String, i64)>> {
    let ResponseContent::Read { errors, .. } = answered else { return Ok(Vec::new()) };
    let mut errors = errors.clone();
    errors.sort_unstable();
    errors.into_iter().map(|(code, count)| Ok((context.error_name(py, code)?.to_owned(), i64::from(count)))).collect()
}

fn operation(api: &str) -> Option<&'static str> {
    Some(match api {
        "Produce" => "send",
        "Fetch" | "ShareFetch" => "receive",
        "OffsetCommit" | "TxnOffsetCommit" | "ShareAcknowledge" => "settle",
        _ => return None,
    })
}

fn address(end: &str) -> Option<(&str, i64)> {
    let (host, port) = end.rsplit_once(':')?;
    Some((host.trim_matches(['[', ']']), port.parse().ok()?))
}

/// What identifies an exchange, as `otlp` writes it: the `repr` of a list.
fn identity(exchange: &Exchange, ends: &Arc<Endpoints>, correlation_id: i32, api_key: i16) -> String {
    let number = |value: Option<i64>| value.map_or("None".to_owned(), |value| value.to_string());
    let (asked, answered) = (exchange.request.as_ref(), exchange.response.as_ref());
    let moment = |place: Option<&FramePlace>| [number(place.map(|at| at.at.1)), number(place.map(|at| at.at.0))];
    let ([asked_ns, packet], [answered_ns, answer]) = (moment(asked), moment(answered));
    let size = number(asked.and_then(|place| place.size));
    let Endpoints { client, broker, number: connection, .. } = &**ends;
    format!(
        "[{asked_ns}, {packet}, {answered_ns}, {answer}, '{client}', '{broker}', {connection}, {correlation_id}, \
         {api_key}, {size}]"
    )
}
