//! Messages as JSON text, straight from their bytes: what `msgspec.json.encode` writes of `to_json`, without making the
//! message. Values that only Python can write are refused; `kafkawire.wire.json_text` handles them.

mod frame;
mod sink;
mod text;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};

use crate::cursor::{Cursor, Read, Refused};
use crate::layout::{layouts_of, Kind, Layout};
use crate::walk::Walk;
use sink::{Counts, JsonText};

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

    fn written<'py>(&self, py: Python<'py>, cursor: Cursor<'_>, root: usize, text: Text) -> Read<Body<'py>> {
        if text == Text::None {
            return Ok((None, self.walked::<false>(cursor, root, true)?.counts));
        }
        let written = self.walked::<true>(cursor, root, text == Text::All)?;
        Ok((Some(PyBytes::new(py, &written.out)), written.counts))
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
enum Text {
    /// Nothing: it is only looked through.
    None,
    /// Record batches are null.
    NoPayloads,
    All,
}

type Body<'py> = (Option<Bound<'py, PyBytes>>, Counts);
type Object<'py, T> = Option<Bound<'py, T>>;
/// Version, correlation id, client id, JSON of the body, counts.
type Asked<'py> = Option<(i16, i32, Object<'py, PyString>, Object<'py, PyBytes>, Object<'py, PyDict>)>;
/// JSON of the body, counts.
type Answered<'py> = Option<(Object<'py, PyBytes>, Object<'py, PyDict>)>;

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

    /// The JSON of the message that `data` holds; None where Python must answer.
    fn body<'py>(&self, py: Python<'py>, data: &[u8], version: i64, payloads: bool) -> Option<Bound<'py, PyBytes>> {
        let (root, _) = self.root(version)?;
        let text = if payloads { Text::All } else { Text::NoPayloads };
        self.plan.written(py, Cursor::new(data, 0), root, text).ok()?.0
    }

    /// What a request's frame holds: version, correlation id, client id, JSON of the body and counts; None where Python
    /// must answer.
    fn request<'py>(&self, py: Python<'py>, frame: &[u8], text: bool, payloads: bool) -> PyResult<Asked<'py>> {
        let Some(version) = frame::version(frame) else { return Ok(None) };
        let Some((root, header)) = self.root(i64::from(version)) else { return Ok(None) };
        let Ok(head) = frame::request(frame, header) else { return Ok(None) };
        let Ok((body, counts)) = self.plan.written(py, head.rest, root, of(text, payloads)) else { return Ok(None) };
        let client_id = head.client_id.map(|client_id| PyString::new(py, client_id));
        Ok(Some((version, head.correlation_id, client_id, body, dict(py, &counts)?)))
    }

    /// What a response's frame holds: JSON of the body and counts; None where Python must answer.
    fn response<'py>(
        &self,
        py: Python<'py>,
        frame: &[u8],
        version: i64,
        text: bool,
        payloads: bool,
    ) -> PyResult<Answered<'py>> {
        let Some((root, header)) = self.root(version) else { return Ok(None) };
        let Ok(rest) = frame::response(frame, header) else { return Ok(None) };
        let Ok((body, counts)) = self.plan.written(py, rest, root, of(text, payloads)) else { return Ok(None) };
        Ok(Some((body, dict(py, &counts)?)))
    }
}

fn of(text: bool, payloads: bool) -> Text {
    match (text, payloads) {
        (false, _) => Text::None,
        (true, false) => Text::NoPayloads,
        (true, true) => Text::All,
    }
}

fn dict<'py>(py: Python<'py>, counts: &Counts) -> PyResult<Option<Bound<'py, PyDict>>> {
    if counts.is_empty() {
        return Ok(None);
    }
    let found = PyDict::new(py);
    for (value, count) in counts {
        found.set_item(value, count)?;
    }
    Ok(Some(found))
}
