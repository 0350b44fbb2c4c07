//! Messages as JSON text, straight from their bytes: the text that `msgspec.json.encode` writes of `to_json`, without
//! the objects of the message. Values that only Python can write are refused; `kafkawire.wire.json_text` handles them.

mod frame;
pub mod inside;
pub mod names;
pub mod scalars;
mod sink;

use std::collections::HashMap;
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::cursor::{Cursor, Read, Refused};
use crate::layout::{layouts_of, Kind, Layout};
use crate::rows::writer::RowWriter;
use crate::walk::{steps_of, Steps, Walk};
use inside::InsideValue;
use names::{NameSink, Names};
pub use sink::Counts;
use sink::{JsonText, Named};

struct TextPlan {
    walks: Vec<Steps<Named, bool>>,
    /// `,"name":` of the fields of all classes.
    names: Vec<Vec<u8>>,
}

impl TextPlan {
    /// `fields`: of each class, names and whether they are counted; `defaults`: of each layout, the JSON of its tagged
    /// fields' defaults; `roles`: see `inside`. None where a field that is counted is no int16, tables do not fit
    /// together, or what lies after the bytes of a field may have to be moved.
    fn new(
        layouts: &[Layout],
        fields: &[Vec<(String, bool)>],
        defaults: Vec<Vec<Vec<u8>>>,
        roles: &[Vec<u8>],
    ) -> Option<Self> {
        let mut firsts = vec![0];
        firsts.extend(fields.iter().scan(0, |sum, class| {
            *sum += class.len();
            Some(*sum)
        }));
        let in_pieces = |layout: &Layout| !layout.tags.is_empty() || !layout.ops.is_sorted_by_key(|op| op.slot);
        let role = |layout: &Layout, slot: usize| roles.get(layout.class).and_then(|class| class.get(slot)).copied();
        if defaults.len() != layouts.len() || (!roles.is_empty() && layouts.iter().any(in_pieces)) {
            return None;
        }
        for (layout, defaults) in layouts.iter().zip(&defaults) {
            let fits = layout.all_ops().all(|op| {
                let field = fields[layout.class].get(op.slot);
                field.is_some_and(|(_, counted)| !counted || (op.kind == Kind::Int16 && !op.array))
            });
            // How a float equals its default is not to be seen in its digits.
            let floats = layout.tags.iter().any(|(_, op)| op.kind == Kind::Float64);
            if !fits || floats || defaults.len() != layout.tags.len() {
                return None;
            }
        }
        let mut defaults = defaults.into_iter().flatten();
        let walks = steps_of(
            layouts,
            |layout, op, tag| Named {
                kind: op.kind,
                name: firsts[layout.class] + op.slot,
                counted: fields[layout.class][op.slot].1,
                role: role(layout, op.slot).unwrap_or(0),
                default: tag.and_then(|_| defaults.next()).unwrap_or_default(),
            },
            in_pieces,
        );
        let names = fields.iter().flatten().map(|(name, _)| format!(",\"{name}\":").into_bytes()).collect();
        Some(TextPlan { walks, names })
    }

    fn written(&self, cursor: Cursor<'_>, root: usize, text: Text, records: Option<&mut RowWriter>) -> Read<Body> {
        if text == Text::None {
            return Ok((None, self.walked::<false>(cursor, root, text, None)?.counts, Vec::new()));
        }
        let written = self.walked::<true>(cursor, root, text, records)?;
        Ok((Some(written.out), written.counts, written.inside.found))
    }

    /// The message of a layout, which must end where the data ends.
    fn walked<'r, const TEXT: bool>(
        &self,
        mut cursor: Cursor<'_>,
        root: usize,
        text: Text,
        records: Option<&'r mut RowWriter>,
    ) -> Read<JsonText<'_, 'r, TEXT>> {
        let size = cursor.left();
        let mut walk = Walk::new(&self.walks, size, JsonText::new(self, size, text, records));
        walk.structure(&self.walks[root], (), &mut cursor)?;
        if cursor.left() == 0 {
            Ok(walk.sink)
        } else {
            Err(Refused)
        }
    }
}

/// None where a tagged field names something: where it is absent, its default counts.
fn name_steps(layouts: &[Layout], names: &[Vec<u8>]) -> Option<Vec<Steps<(Kind, names::Named), ()>>> {
    let of = |layout: &Layout, slot: usize| names.get(layout.class).and_then(|class| class.get(slot)).copied();
    let tagged = |layout: &Layout| layout.tags.iter().any(|(_, op)| of(layout, op.slot).unwrap_or(0) != 0);
    if layouts.iter().any(tagged) {
        return None;
    }
    Some(steps_of(layouts, |layout, op, _| (op.kind, of(layout, op.slot).unwrap_or(0)), |_| ()))
}

/// How much of a body is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Text {
    /// Nothing: it is only looked through.
    None,
    /// Record batches are null.
    NoPayloads,
    All,
    /// Record batches are decoded.
    Records,
}

/// JSON and counts, for Python.
type Written<'py> = (Option<Bound<'py, PyBytes>>, HashMap<i16, u32>);
/// JSON, counts, and what is inside of bytes.
pub type Body = (Option<Vec<u8>>, Counts, Vec<InsideValue>);

/// What a message holds.
pub struct Content {
    /// Its JSON.
    pub body: Option<Vec<u8>>,
    pub counts: Counts,
    pub names: Names,
    /// What is put into the JSON.
    pub inside: Vec<InsideValue>,
}

/// A request: version, correlation id, client id, and its body.
pub struct Request<'a> {
    pub version: i16,
    pub correlation_id: i32,
    pub client_id: Option<&'a str>,
    root: usize,
    rest: Cursor<'a>,
}

/// Writes one message in all its versions.
#[pyclass(frozen, module = "kafkawire._native")]
pub struct MessageText {
    plan: TextPlan,
    /// Where names are, if any are wanted.
    names: Option<Vec<Steps<(Kind, names::Named), ()>>>,
    first_version: i64,
    roots: Vec<usize>,
    /// The version of the header before each version of the message.
    headers: Vec<u8>,
}

impl MessageText {
    /// The root and the version of the header.
    fn root(&self, version: i64) -> Option<(usize, u8)> {
        let place = usize::try_from(version.checked_sub(self.first_version)?).ok()?;
        Some((*self.roots.get(place)?, *self.headers.get(place)?))
    }

    /// What a request's frame holds; None where Python must answer.
    pub fn read_request<'a>(&self, frame: &'a [u8]) -> Option<Request<'a>> {
        let version = frame::version(frame)?;
        let (root, header) = self.root(i64::from(version))?;
        let frame::Request { correlation_id, client_id, rest } = frame::request(frame, header).ok()?;
        Some(Request { version, correlation_id, client_id, root, rest })
    }

    /// The body of such a request.
    pub fn read_body(&self, request: &Request<'_>, text: Text, records: Option<&mut RowWriter>) -> Option<Content> {
        self.content(request.rest, request.root, text, records).ok()
    }

    fn content(&self, rest: Cursor<'_>, root: usize, text: Text, records: Option<&mut RowWriter>) -> Read<Content> {
        let (body, counts, inside) = self.plan.written(rest, root, text, records)?;
        let mut names = Names::new();
        if let Some(steps) = &self.names {
            let mut rest = rest;
            let mut walk = Walk::new(steps, rest.left(), NameSink::default());
            walk.structure(&steps[root], (), &mut rest)?;
            names = walk.sink.found;
        }
        Ok(Content { body, counts, names, inside })
    }

    /// A body with what is inside of bytes beside them. `shown`: the JSON of each.
    pub fn with_inside(&self, body: &[u8], inside: &[InsideValue], shown: &[Arc<[u8]>]) -> Vec<u8> {
        let mut out = Vec::with_capacity(body.len() + shown.iter().map(|json| json.len() + 32).sum::<usize>());
        let mut done = 0;
        for (value, json) in inside.iter().zip(shown) {
            out.extend_from_slice(&body[done..value.at]);
            done = value.at;
            let name = &self.plan.names[value.name];
            out.extend_from_slice(&name[..name.len() - 2]); // without `":`
            out.extend_from_slice(b"Decoded\":");
            out.extend_from_slice(json);
        }
        out.extend_from_slice(&body[done..]);
        out
    }

    /// What a response's frame holds; None where Python must answer.
    pub fn read_response(
        &self,
        frame: &[u8],
        version: i64,
        text: Text,
        records: Option<&mut RowWriter>,
    ) -> Option<Content> {
        let (root, header) = self.root(version)?;
        let rest = frame::response(frame, header).ok()?;
        self.content(rest, root, text, records).ok()
    }
}

#[pymethods]
impl MessageText {
    /// `fields`: of each class, name and whether it is counted. `defaults`: of each layout, the JSON of
    /// its tagged fields' defaults. `headers`: for each version, that of the header. `names`: of each class, what its
    /// fields name; empty: no names are wanted. `roles`: of each class, those of its fields (`inside`); empty: nothing
    /// is inside of bytes.
    ///
    /// ValueError: a message that cannot be written here.
    #[new]
    fn new(
        table: &Bound<'_, PyAny>,
        fields: Vec<Vec<(String, bool)>>,
        defaults: Vec<Vec<Vec<u8>>>,
        headers: Vec<u8>,
        names: Vec<Vec<u8>>,
        roles: Vec<Vec<u8>>,
    ) -> PyResult<Self> {
        // The last slot of each class is for unknown tagged fields, and has no name.
        let slots: Vec<usize> = fields.iter().map(|class| class.len() + 1).collect();
        let layouts = layouts_of(table, &slots)?;
        let roots: Vec<usize> = table.getattr("roots")?.extract()?;
        let known = roots.iter().all(|root| *root < layouts.len()) && headers.len() == roots.len();
        let plan = if known { TextPlan::new(&layouts, &fields, defaults, &roles) } else { None };
        let plan = plan.ok_or_else(|| PyValueError::new_err("a message that is not written as text"))?;
        let names = match names.is_empty() {
            true => None,
            false => Some(name_steps(&layouts, &names).ok_or_else(|| PyValueError::new_err("names in tagged fields"))?),
        };
        Ok(MessageText { plan, names, first_version: table.getattr("first_version")?.extract()?, roots, headers })
    }

    /// The JSON of the message that `data` holds, None without `text`, and its counts; None where Python must answer.
    fn body<'py>(
        &self,
        py: Python<'py>,
        data: &[u8],
        version: i64,
        text: bool,
        payloads: bool,
    ) -> Option<Written<'py>> {
        let (root, _) = self.root(version)?;
        let text = match (text, payloads) {
            (false, _) => Text::None,
            (true, false) => Text::NoPayloads,
            (true, true) => Text::All,
        };
        let (body, counts, _) = self.plan.written(Cursor::new(data, 0), root, text, None).ok()?;
        Some((body.map(|body| PyBytes::new(py, &body)), counts.into_iter().collect()))
    }
}
