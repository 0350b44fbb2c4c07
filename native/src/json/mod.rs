//! Messages as JSON text, straight from their bytes: what `msgspec.json.encode` writes of `to_json`, without making the
//! message. Values that only Python can write are refused; `kafkawire.wire.json_text` handles them.

mod frame;
mod sink;
pub mod text;

use std::collections::HashMap;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::cursor::{Cursor, Read, Refused};
use crate::layout::{layouts_of, Kind, Layout};
use crate::walk::Walk;
pub use sink::Counts;
use sink::JsonText;

/// A field of a class.
struct Field {
    /// `,"name":`
    name: Vec<u8>,
    counted: bool,
}

/// What a layout needs beyond itself to be written.
struct Shape {
    /// The JSON of each tagged field's default, at which the field is left out.
    defaults: Vec<Vec<u8>>,
    /// Whether its fields may be on the wire in another order than the schema's.
    in_pieces: bool,
}

struct Plan {
    layouts: Vec<Layout>,
    shapes: Vec<Shape>,
    fields: Vec<Vec<Field>>,
}

impl Plan {
    /// None where a field that is counted is no int16, or tables do not fit together.
    fn new(layouts: Vec<Layout>, fields: Vec<Vec<Field>>, given: Vec<Vec<Vec<u8>>>) -> Option<Self> {
        let mut shapes = Vec::with_capacity(layouts.len());
        if given.len() != layouts.len() {
            return None;
        }
        for (layout, defaults) in layouts.iter().zip(given) {
            let fits = layout.all_ops().all(|op| {
                let field = fields[layout.class].get(op.slot);
                field.is_some_and(|field| !field.counted || (op.kind == Kind::Int16 && !op.array))
            });
            // How a float equals its default is not to be seen in its digits.
            let floats = layout.tags.iter().any(|(_, op)| op.kind == Kind::Float64);
            if !fits || floats || defaults.len() != layout.tags.len() {
                return None;
            }
            let in_pieces = !layout.tags.is_empty() || !layout.ops.is_sorted_by_key(|op| op.slot);
            shapes.push(Shape { defaults, in_pieces });
        }
        Some(Plan { layouts, shapes, fields })
    }

    fn written(&self, cursor: Cursor<'_>, root: usize, text: Text) -> Read<Body> {
        if text == Text::None {
            return Ok((None, self.walked::<false>(cursor, root, true)?.counts));
        }
        let written = self.walked::<true>(cursor, root, text == Text::All)?;
        Ok((Some(written.out), written.counts))
    }

    /// The message of a layout, which must end where the data ends.
    fn walked<const TEXT: bool>(&self, cursor: Cursor<'_>, root: usize, payloads: bool) -> Read<JsonText<'_, TEXT>> {
        let mut walk = Walk::new(cursor, JsonText::new(self, cursor.left(), payloads));
        walk.structure(root)?;
        if walk.left() == 0 {
            Ok(walk.sink)
        } else {
            Err(Refused)
        }
    }
}

/// How much of a body is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Text {
    /// Nothing: it is only looked through.
    None,
    /// Record batches are null.
    NoPayloads,
    All,
}

/// JSON and counts, for Python.
type Written<'py> = (Option<Bound<'py, PyBytes>>, HashMap<i16, u32>);
/// JSON and counts.
pub type Body = (Option<Vec<u8>>, Counts);
/// Version, correlation id, client id, JSON of the body, counts.
pub type Request<'a> = (i16, i32, Option<&'a str>, Option<Vec<u8>>, Counts);

/// Writes one message in all its versions.
#[pyclass(frozen, module = "kafkawire._native")]
pub struct MessageText {
    plan: Plan,
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
    pub fn read_request<'a>(&self, frame: &'a [u8], text: Text) -> Option<Request<'a>> {
        let version = frame::version(frame)?;
        let (root, header) = self.root(i64::from(version))?;
        let head = frame::request(frame, header).ok()?;
        let (body, counts) = self.plan.written(head.rest, root, text).ok()?;
        Some((version, head.correlation_id, head.client_id, body, counts))
    }

    /// What a response's frame holds; None where Python must answer.
    pub fn read_response(&self, frame: &[u8], version: i64, text: Text) -> Option<Body> {
        let (root, header) = self.root(version)?;
        let rest = frame::response(frame, header).ok()?;
        self.plan.written(rest, root, text).ok()
    }
}

#[pymethods]
impl MessageText {
    /// `fields`: of each class, name and whether it is counted. `defaults`: of each layout, the JSON of
    /// its tagged fields' defaults. `headers`: for each version, that of the header.
    ///
    /// ValueError: a message that cannot be written here.
    #[new]
    fn new(
        table: &Bound<'_, PyAny>,
        fields: Vec<Vec<(String, bool)>>,
        defaults: Vec<Vec<Vec<u8>>>,
        headers: Vec<u8>,
    ) -> PyResult<Self> {
        // The last slot of each class is for unknown tagged fields, and has no name.
        let slots: Vec<usize> = fields.iter().map(|class| class.len() + 1).collect();
        let layouts = layouts_of(table, &slots)?;
        let roots: Vec<usize> = table.getattr("roots")?.extract()?;
        let known = roots.iter().all(|root| *root < layouts.len()) && headers.len() == roots.len();
        let named = |(name, counted)| Field { name: format!(",\"{name}\":").into_bytes(), counted };
        let fields = fields.into_iter().map(|class| class.into_iter().map(named).collect()).collect();
        let plan = if known { Plan::new(layouts, fields, defaults) } else { None };
        let plan = plan.ok_or_else(|| PyValueError::new_err("a message that is not written as text"))?;
        Ok(MessageText { plan, first_version: table.getattr("first_version")?.extract()?, roots, headers })
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
        let (body, counts) = self.plan.written(Cursor::new(data, 0), root, text).ok()?;
        Some((body.map(|body| PyBytes::new(py, &body)), counts.into_iter().collect()))
    }
}
