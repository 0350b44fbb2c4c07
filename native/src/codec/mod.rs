//! Messages <-> Python objects: executes the layouts of a message, whose table Python passes in once.

mod decode;
mod encode;
pub mod objects;

use std::sync::OnceLock;

use pyo3::exceptions::PyValueError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyMemoryView, PyTuple, PyType};

use crate::cursor::Cursor;
use crate::layout::{layouts_of, Kind, Layout, Op};
use crate::walk::{steps_of, Steps, Walk};
use decode::{Objects, Slot, StructSlots};
use encode::Encoder;
use objects::{Class, Input, Small, Stop};

/// The Python objects that all messages share.
struct Shared {
    uuid: Class,
    zero_uuid: Py<PyAny>,
    tagged_field: Class,
    bools: Py<PyAny>,
    is_octets: Py<PyAny>,
    octets: Py<PyAny>,
    /// The integers of which CPython keeps one object each.
    small_integers: Vec<Py<PyAny>>,
}

/// The range of those integers.
const SMALLEST: i64 = -5;
const LARGEST: i64 = 256;

static SHARED: PyOnceLock<Shared> = PyOnceLock::new();

impl Shared {
    fn get(py: Python<'_>) -> PyResult<&'static Shared> {
        SHARED.get_or_try_init(py, || {
            let values = py.import("kafkawire.wire.values")?;
            let zero = values.getattr("ZERO_UUID")?;
            let safe = zero.getattr("is_safe")?;
            let tagged_field = values.getattr("TaggedField")?.cast_into::<PyType>()?;
            let nothing = py.None().into_bound(py);
            Ok(Shared {
                uuid: Class::new(
                    &zero.get_type(),
                    &PyTuple::new(py, ["int", "is_safe"])?,
                    &PyTuple::new(py, [&nothing, &safe])?,
                )?,
                zero_uuid: zero.unbind(),
                tagged_field: Class::new(
                    &tagged_field,
                    &PyTuple::new(py, ["tag", "data"])?,
                    &PyTuple::new(py, [&nothing, &nothing])?,
                )?,
                bools: values.getattr("BOOLS")?.unbind(),
                is_octets: values.getattr("is_octets")?.unbind(),
                octets: values.getattr("octets")?.unbind(),
                small_integers: (SMALLEST..=LARGEST)
                    .map(|number| Ok(number.into_pyobject(py)?.into_any().unbind()))
                    .collect::<PyResult<_>>()?,
            })
        })
    }
}

impl Shared {
    #[inline]
    fn small_integer(&self, value: i64) -> Option<&Py<PyAny>> {
        self.small_integers.get(usize::try_from(value.wrapping_sub(SMALLEST)).ok()?)
    }
}

/// A table of layouts, ready to be executed.
struct Program {
    layouts: Vec<Layout>,
    walks: Vec<Steps<Slot, StructSlots>>,
    /// Of each layout, the ops of bytes and records, and of structs that hold some.
    octets: Vec<Vec<Op>>,
    classes: Vec<Class>,
    first_version: i64,
    roots: Vec<usize>,
    shared: &'static Shared,
}

impl Program {
    fn new(table: &Bound<'_, PyAny>, classes: &Bound<'_, PyTuple>) -> PyResult<Self> {
        let classes = classes.iter().map(|class| struct_class(class.cast()?)).collect::<PyResult<Vec<_>>>()?;
        let slots: Vec<usize> = classes.iter().map(Class::slots).collect();
        let layouts = layouts_of(table, &slots)?;
        let walks = steps_of(
            &layouts,
            |_, op, _| Slot { kind: op.kind, slot: op.slot },
            |layout| {
                let unread = |slot: &usize| layout.ops.iter().all(|op| op.slot != *slot);
                StructSlots { class: layout.class, unread: (0..slots[layout.class]).filter(unread).collect() }
            },
        );
        let octets = octets_of(&layouts);
        let roots: Vec<usize> = table.getattr("roots")?.extract()?;
        if roots.iter().any(|root| *root >= layouts.len()) {
            return Err(PyValueError::new_err("not a table of layouts"));
        }
        let first_version = table.getattr("first_version")?.extract()?;
        Ok(Program { layouts, walks, octets, classes, first_version, roots, shared: Shared::get(table.py())? })
    }

    /// The layout of the whole message in a version; none where the message does not have it.
    fn root(&self, version: &Bound<'_, PyAny>) -> Option<usize> {
        let version: i64 = version.extract().ok()?;
        self.roots.get(usize::try_from(version.checked_sub(self.first_version)?).ok()?).copied()
    }
}

fn struct_class(class: &Bound<'_, PyType>) -> PyResult<Class> {
    let fields = class.getattr("__struct_fields__")?.cast_into::<PyTuple>()?;
    let defaults = class.getattr("__struct_defaults__")?.cast_into::<PyTuple>()?;
    Class::new(class, &fields, &defaults)
}

fn octets_of(layouts: &[Layout]) -> Vec<Vec<Op>> {
    let mut found: Vec<Vec<Op>> = Vec::with_capacity(layouts.len());
    for layout in layouts {
        let octets = layout.all_ops().filter(|op| match op.kind {
            Kind::Struct => !found[op.arg].is_empty(),
            kind => !op.array && matches!(kind, Kind::Bytes | Kind::Records),
        });
        let octets = octets.copied().collect();
        found.push(octets);
    }
    found
}

/// The codec of one message. Made with its layouts and classes; they are looked at when it is first used.
#[pyclass(frozen, module = "kafkawire._native")]
pub struct Codec {
    table: Py<PyAny>,
    classes: Py<PyTuple>,
    program: OnceLock<Program>,
}

impl Codec {
    fn program(&self, py: Python<'_>) -> PyResult<&Program> {
        if let Some(program) = self.program.get() {
            return Ok(program);
        }
        // Two threads may both make one; the first to be done wins.
        let program = Program::new(self.table.bind(py), self.classes.bind(py))?;
        Ok(self.program.get_or_init(|| program))
    }
}

impl Codec {
    /// Reads the message at `offset`; with `whole` it must end where the data ends.
    fn read<'py>(
        &self,
        data: &Bound<'py, PyAny>,
        version: &Bound<'py, PyAny>,
        offset: &Bound<'py, PyAny>,
        strict: &Bound<'py, PyAny>,
        copy: &Bound<'py, PyAny>,
        whole: bool,
    ) -> PyResult<Option<(Bound<'py, PyAny>, usize)>> {
        let py = data.py();
        let program = self.program(py)?;
        let Some(root) = program.root(version) else { return Ok(None) };
        // A view of wider items, or with gaps, is read as its bytes (`memoryview.tobytes`).
        let octets = match data.is_instance_of::<PyMemoryView>() {
            true => &program.shared.octets.bind(py).call1((data,))?,
            false => data,
        };
        let input = Input::of(octets)?;
        let bytes = input.as_bytes();
        let Some(offset) = offset.extract().ok().filter(|offset| *offset <= bytes.len()) else { return Ok(None) };
        let view = if copy.is_truthy()? { None } else { Some(objects::view(octets)) };
        let Ok(view) = view.transpose() else { return stopped(py) };
        let mut cursor = Cursor::new(bytes, offset);
        let mut walk = Walk::new(&program.walks, cursor.left(), Objects { py, program, view });
        let Ok(message) = walk.structure(&program.walks[root], (), &mut cursor) else { return stopped(py) };
        let end = cursor.position();
        if whole && end != bytes.len() {
            return Ok(None);
        }
        if strict.is_truthy()? {
            // Canonical is what would be written.
            let read = &bytes[offset..end];
            let mut small = Small::uninit();
            let mut encoder = Encoder::new(py, program, &mut small);
            if encoder.reserve(root, &message).and_then(|()| encoder.structure(root, &message)).is_err() {
                return stopped(py);
            }
            if encoder.written() != read {
                return Ok(None);
            }
        }
        Ok(Some((message, end)))
    }
}

#[pymethods]
impl Codec {
    #[new]
    fn new(table: Bound<'_, PyAny>, classes: Bound<'_, PyTuple>) -> Self {
        Codec { table: table.unbind(), classes: classes.unbind(), program: OnceLock::new() }
    }

    /// The message that begins at `offset` and ends where the data ends; None for what the interpreter must explain.
    #[pyo3(signature = (data, version, offset, strict, copy, /))]
    fn decode<'py>(
        &self,
        data: &Bound<'py, PyAny>,
        version: &Bound<'py, PyAny>,
        offset: &Bound<'py, PyAny>,
        strict: &Bound<'py, PyAny>,
        copy: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let found = self.read(data, version, offset, strict, copy, true)?;
        Ok(found.map(|(message, _)| message))
    }

    /// The message at `offset` and the offset after it; None for what the interpreter must explain.
    #[pyo3(signature = (data, version, offset, strict, copy, /))]
    fn decode_from<'py>(
        &self,
        data: &Bound<'py, PyAny>,
        version: &Bound<'py, PyAny>,
        offset: &Bound<'py, PyAny>,
        strict: &Bound<'py, PyAny>,
        copy: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = data.py();
        let Some((message, end)) = self.read(data, version, offset, strict, copy, false)? else { return Ok(None) };
        let mut items = [Ok(message), objects::integer(py, end as i64)].into_iter();
        objects::tuple(py, 2, || items.next().unwrap_or(Err(Stop))).map_or_else(|_| stopped(py), |pair| Ok(Some(pair)))
    }

    /// The bytes of a message; None for what the interpreter must explain.
    #[pyo3(signature = (value, version, /))]
    fn encode<'py>(
        &self,
        py: Python<'py>,
        value: &Bound<'py, PyAny>,
        version: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let program = self.program(py)?;
        let Some(root) = program.root(version) else { return Ok(None) };
        let mut small = Small::uninit();
        let mut encoder = Encoder::new(py, program, &mut small);
        let written = encoder.reserve(root, value).and_then(|()| encoder.structure(root, value));
        let written = written.and_then(|()| encoder.finish());
        written.map_or_else(|Stop| stopped(py), |bytes| Ok(Some(bytes)))
    }

    /// Classes refer to their codec: the garbage collector must see the way back.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.table)?;
        visit.call(&self.classes)?;
        if let Some(program) = self.program.get() {
            for class in &program.classes {
                visit.call(class.class())?;
                class.defaults.iter().try_for_each(|default| visit.call(default))?;
            }
        }
        Ok(())
    }
}

/// After a stop: the exception that is set, or the refusal.
fn stopped<T>(py: Python<'_>) -> PyResult<Option<T>> {
    PyErr::take(py).map_or(Ok(None), Err)
}
