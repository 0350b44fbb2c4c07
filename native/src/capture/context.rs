//! What all connections of a capture share: the order of exchanges, the options, and calls into Python, which decodes
//! the exchanges that this engine does not (`kafkawire.capture.native_tracker`).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use foldhash::fast::RandomState;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::clock::Clock;
use super::exchange::{Api, Exchange, RequestContent, ResponseContent};
use super::following::Following;
use super::recognition::{self, Recognition, Versions};
use super::selection::Selection;
use super::sequencer::Sequencer;
use crate::json::inside::InsideValue;
use crate::json::{Content, MessageText, Request, Text};
use crate::rows::LogRows;

const PRODUCE: i16 = 0;
const FETCH: i16 = 1;
/// What names the topic `__cluster_metadata` in a response: its name, or its id, 15 bytes of 0 and a 1.
const METADATA: &[u8] = b"__cluster_metadata";
/// How many values inside of bytes are kept as JSON, and of how many bytes: the members of a group send the same again
/// and again.
const MOST_INSIDE: usize = 256;
const MOST_INSIDE_BYTES: usize = 3 << 10;

#[derive(FromPyObject)]
pub struct Options {
    pub body: bool,
    pub keep: bool,
    /// Whether messages or frames are held until their exchange comes.
    pub weighs: bool,
    /// Whether bodies are written here, and not by Python.
    pub texts: bool,
    pub payloads: bool,
    /// Whether record batches are decoded.
    pub records: bool,
    /// Fetch responses may have record batches with secrets.
    pub hides_records: bool,
    pub most_outstanding: usize,
    pub most_early: usize,
}

type RequestWriter = (Arc<Api>, Py<MessageText>);
/// What bytes depend on to be decoded: role, the bytes, protocol type, assignor.
type InsideKey = (u8, Vec<u8>, Option<Vec<u8>>, Option<Vec<u8>>);

pub struct Context {
    pub options: Options,
    pub sequencer: Sequencer,
    pub handler: Py<PyAny>,
    /// Makes a `CapturedExchange`.
    pub rows: Py<PyAny>,
    pub clock: Clock,
    versions: Versions,
    requests: HashMap<i16, Option<RequestWriter>, RandomState>,
    responses: HashMap<i16, Option<Py<MessageText>>, RandomState>,
    /// What writes record batches, if they are decoded.
    records: Option<Py<LogRows>>,
    inside: HashMap<InsideKey, Arc<[u8]>>,
    /// Ports of brokers, by rules.
    ports: HashSet<u16>,
    errors: HashMap<i16, String, RandomState>,
    client_id: Option<Arc<str>>,
    pub selection: Option<Selection>,
    /// Whose exchanges alone are needed, if they are.
    pub following: Option<Following>,
    /// No exchange of the connection that frames come from is selected: no bodies are written.
    pub muted: bool,
    /// Whether Python does not know yet all ids of selected topics.
    pub learned: bool,
}

/// A request as the matcher needs it.
pub struct CapturedRequest {
    pub asked: RequestContent,
    pub api_key: Option<i16>,
    pub version: Option<i16>,
    pub correlation_id: Option<i32>,
    /// The broker sends no response.
    pub silent: bool,
}

/// A problem, and the packet of its exchange.
type Problem = (String, Option<i64>);
type PythonRequest = (Py<PyAny>, Option<i16>, Option<i16>, Option<i32>, bool);

impl Context {
    pub fn new(
        py: Python<'_>,
        handler: Py<PyAny>,
        options: Options,
        sequencer: Sequencer,
        selection: Option<Selection>,
    ) -> PyResult<Self> {
        Ok(Context {
            options,
            sequencer,
            rows: handler.getattr(py, "row")?,
            versions: handler.getattr(py, "versions")?.extract(py)?,
            clock: Clock::default(),
            requests: HashMap::default(),
            responses: HashMap::default(),
            records: handler.getattr(py, "record_rows")?.extract(py)?,
            inside: HashMap::new(),
            ports: handler.getattr(py, "ports")?.extract(py)?,
            errors: HashMap::default(),
            client_id: None,
            selection,
            following: handler.getattr(py, "follows")?.extract(py)?,
            muted: false,
            learned: false,
            handler,
        })
    }

    pub fn call<'py, A: pyo3::call::PyCallArgs<'py>>(
        &self,
        py: Python<'py>,
        name: &str,
        arguments: A,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.handler.bind(py).call_method1(name, arguments)
    }

    fn text(&self, selected: bool) -> Text {
        match &self.options {
            options if !(options.body && selected && !self.muted) => Text::None,
            Options { payloads: false, .. } => Text::NoPayloads,
            Options { records: true, .. } => Text::Records,
            _ => Text::All,
        }
    }

    /// A request's content. `cut`: only the beginning of its frame was captured; the sentence about it.
    pub fn request(&mut self, py: Python<'_>, frame: &[u8], cut: Option<String>) -> PyResult<CapturedRequest> {
        if let Some(why) = cut {
            let found = self.call(py, "cut_request", (PyBytes::new(py, frame), why))?;
            return Ok(CapturedRequest::python(found.extract()?));
        }
        if let Some(found) = self.read_request(py, frame)? {
            return Ok(found);
        }
        Ok(CapturedRequest::python(self.call(py, "request", (PyBytes::new(py, frame),))?.extract()?))
    }

    fn read_request(&mut self, py: Python<'_>, frame: &[u8]) -> PyResult<Option<CapturedRequest>> {
        let Some((api, writer)) = self.request_writer(py, frame)? else { return Ok(None) };
        let (api, writer) = (api.clone(), writer.clone_ref(py));
        let Some(found) = writer.get().read_request(frame) else { return Ok(None) };
        let text = self.text(api.selected);
        let mut records = self.records.as_ref().map(|rows| rows.borrow_mut(py));
        let content = writer.get().read_body(&found, text, records.as_mut().map(|rows| &mut rows.0));
        drop(records);
        let Some(Content { body, counts, names, inside }) = content else { return Ok(None) };
        let Request { version, correlation_id, client_id, .. } = found;
        let (body, api_key) = (self.with_inside(py, writer.get(), body, &inside)?, api.key);
        // Most requests have the client id of the one before.
        if client_id != self.client_id.as_deref() {
            self.client_id = client_id.map(Arc::from);
        }
        let client_id = self.client_id.clone();
        Ok(Some(CapturedRequest {
            asked: RequestContent::Read { api, version, correlation_id, client_id, body, names },
            api_key: Some(api_key),
            version: Some(version),
            correlation_id: Some(correlation_id),
            silent: api_key == PRODUCE && counts.is_empty(),
        }))
    }

    fn request_writer(&mut self, py: Python<'_>, frame: &[u8]) -> PyResult<Option<&RequestWriter>> {
        let Some(api_key) = frame.first_chunk().map(|key| i16::from_be_bytes(*key)) else { return Ok(None) };
        if !self.options.texts {
            return Ok(None);
        }
        if !self.requests.contains_key(&api_key) {
            let found: Option<(String, bool, Py<MessageText>)> =
                self.call(py, "request_writer", (api_key,))?.extract()?;
            let found = found.map(|(name, selected, writer)| (Arc::new(Api { key: api_key, name, selected }), writer));
            self.requests.insert(api_key, found);
        }
        Ok(self.requests[&api_key].as_ref())
    }

    /// A body with what is inside of its bytes.
    fn with_inside(
        &mut self,
        py: Python<'_>,
        writer: &MessageText,
        body: Option<Vec<u8>>,
        inside: &[InsideValue],
    ) -> PyResult<Option<Vec<u8>>> {
        let Some(text) = body.as_ref().filter(|_| !inside.is_empty()) else { return Ok(body) };
        let shown: Vec<_> = inside.iter().map(|value| self.shown(py, value)).collect::<PyResult<_>>()?;
        Ok(Some(writer.with_inside(text, inside, &shown)))
    }

    /// The JSON of what is inside of bytes.
    fn shown(&mut self, py: Python<'_>, value: &InsideValue) -> PyResult<Arc<[u8]>> {
        let InsideValue { role, data, protocol_type, assignor, .. } = value;
        let key = (*role, data.clone(), protocol_type.clone(), assignor.clone());
        if let Some(known) = self.inside.get(&key) {
            return Ok(known.clone());
        }
        let bytes = |data: &[u8]| PyBytes::new(py, data);
        let given = (*role, bytes(data), protocol_type.as_deref().map(bytes), assignor.as_deref().map(bytes));
        let shown: Arc<[u8]> = self.call(py, "inside", given)?.cast_into::<PyBytes>()?.as_bytes().into();
        if data.len() <= MOST_INSIDE_BYTES {
            if self.inside.len() >= MOST_INSIDE {
                self.inside.clear();
            }
            self.inside.insert(key, shown.clone());
        }
        Ok(shown)
    }

    /// Whether these bytes of a connection begin with a whole request that is read here; if not, Python decides.
    pub fn reads_first(&mut self, py: Python<'_>, data: &[u8]) -> PyResult<bool> {
        let Some((size, rest)) = data.split_first_chunk() else { return Ok(false) };
        let frame = usize::try_from(i32::from_be_bytes(*size)).ok().and_then(|size| rest.get(..size));
        let Some(frame) = frame else { return Ok(false) };
        let Some((_, writer)) = self.request_writer(py, frame)? else { return Ok(false) };
        let writer = writer.get();
        Ok(writer.read_request(frame).and_then(|found| writer.read_body(&found, Text::None, None)).is_some())
    }

    /// Which end of a connection is a broker's by its port; None where that is not certain.
    pub fn broker(&self, ports: (u16, u16)) -> Option<usize> {
        match (self.ports.contains(&ports.0), self.ports.contains(&ports.1)) {
            (true, false) => Some(0),
            (false, true) => Some(1),
            _ => None,
        }
    }

    /// A response's content, given api key and version of its request.
    pub fn response(
        &mut self,
        py: Python<'_>,
        frame: &[u8],
        cut: Option<String>,
        api_key: i16,
        version: i16,
    ) -> PyResult<ResponseContent> {
        if let Some(why) = cut {
            return Ok(ResponseContent::Python(self.call(py, "cut_response", (why,))?.unbind()));
        }
        if self.options.texts && !(self.options.hides_records && api_key == FETCH && names_metadata(frame)) {
            if !self.responses.contains_key(&api_key) {
                let found = self.call(py, "response_writer", (api_key,))?.extract()?;
                self.responses.insert(api_key, found);
            }
            if let Some(writer) = self.responses[&api_key].as_ref().map(|writer| writer.clone_ref(py)) {
                let selected = self.requests.get(&api_key).and_then(Option::as_ref).is_none_or(|(api, _)| api.selected);
                let text = self.text(selected);
                let mut records = self.records.as_ref().map(|rows| rows.borrow_mut(py));
                let rows = records.as_mut().map(|rows| &mut rows.0);
                let content = writer.get().read_response(frame, i64::from(version), text, rows);
                drop(records);
                if let Some(Content { body, counts: errors, names, inside }) = content {
                    let body = self.with_inside(py, writer.get(), body, &inside)?;
                    return Ok(ResponseContent::Read { errors, body, names });
                }
            }
        }
        let found = self.call(py, "response", (PyBytes::new(py, frame), api_key, version))?;
        Ok(ResponseContent::Python(found.unbind()))
    }

    /// What Python makes of the frames of an exchange that the timeline needs.
    pub fn read_again(&self, py: Python<'_>, exchange: &mut Exchange) -> PyResult<()> {
        let (api_key, version): (Option<i16>, Option<i16>) = match &exchange.asked {
            RequestContent::Nothing => return Ok(()),
            RequestContent::Read { api, version, .. } => (Some(api.key), Some(*version)),
            RequestContent::Python(found) => {
                (found.getattr(py, "api_key")?.extract(py)?, found.getattr(py, "version")?.extract(py)?)
            }
        };
        let [request, response] = std::mem::take(&mut exchange.frames);
        if let (RequestContent::Read { .. }, Some(frame)) = (&exchange.asked, request) {
            let (found, ..): PythonRequest = self.call(py, "request", (frame,))?.extract()?;
            exchange.asked = RequestContent::Python(found);
        }
        if let (ResponseContent::Read { .. }, Some(frame)) = (&exchange.answered, response) {
            exchange.answered = ResponseContent::Python(self.call(py, "response", (frame, api_key, version))?.unbind());
        }
        Ok(())
    }

    /// Whether frames of requests, and of responses, with this api key are kept.
    pub fn keeps(&self, api_key: Option<i16>) -> [bool; 2] {
        let following = self.following.as_ref().zip(api_key);
        let kept = following.map(|(all, key)| [all.keeps_request(key), all.keeps_response(key)]);
        kept.unwrap_or_default().map(|kept| kept || self.options.keep)
    }

    /// Whether Python selects an exchange of which it has read something, and the problem of one that it does not.
    /// `names`: in what was read here.
    pub fn chosen(
        &mut self,
        py: Python<'_>,
        row: &Py<PyAny>,
        names: Vec<(u8, Vec<u8>)>,
    ) -> PyResult<(bool, Option<Problem>)> {
        let names: Vec<_> = names.into_iter().map(|(what, value)| (what, PyBytes::new(py, &value))).collect();
        let known = self.selection.as_ref().filter(|_| std::mem::take(&mut self.learned));
        let known: Option<Vec<_>> =
            known.map(|selection| selection.topic_ids.iter().map(|id| PyBytes::new(py, id)).collect());
        let (selected, topic_ids, problem): (bool, Vec<Vec<u8>>, Option<Problem>) =
            self.call(py, "selects", (row, names, known))?.extract()?;
        if let Some(selection) = &mut self.selection {
            selection.topic_ids.extend(topic_ids);
        }
        Ok((selected, problem))
    }

    pub fn error_name(&mut self, py: Python<'_>, code: i16) -> PyResult<&str> {
        if !self.errors.contains_key(&code) {
            let name = self.call(py, "error_name", (code,))?.extract()?;
            self.errors.insert(code, name);
        }
        Ok(&self.errors[&code])
    }

    /// Whether a request begins with these bytes, its size prefix included; None: too few bytes to decide.
    pub fn recognizes(&self, py: Python<'_>, data: &[u8]) -> PyResult<Option<bool>> {
        Ok(match recognition::request(data, &self.versions) {
            Recognition::Yes => Some(true),
            Recognition::No => Some(false),
            Recognition::TooShort => None,
            Recognition::IfText(client_id) => {
                Some(self.call(py, "is_text", (PyBytes::new(py, client_id),))?.is_truthy()?)
            }
        })
    }
}

impl CapturedRequest {
    fn python((found, api_key, version, correlation_id, silent): PythonRequest) -> Self {
        CapturedRequest { asked: RequestContent::Python(found), api_key, version, correlation_id, silent }
    }
}

/// Whether a Fetch response may contain records of `__cluster_metadata`.
fn names_metadata(frame: &[u8]) -> bool {
    let mut zeros = 0;
    for (at, &byte) in frame.iter().enumerate() {
        match byte {
            0 => zeros += 1,
            1 if zeros >= 15 => return true,
            b'_' if frame[at..].starts_with(METADATA) => return true,
            _ => zeros = 0,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_named_by_topic_or_id() {
        assert!(names_metadata(b"\0__cluster_metadata"));
        assert!(names_metadata(&[[0; 15].as_slice(), &[1]].concat()));
        assert!(!names_metadata(&[[0; 14].as_slice(), &[1], b"__cluster_metadat"].concat()));
    }
}
