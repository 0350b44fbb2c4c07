//! Python objects, made and looked into: the only module with `unsafe` code, each use with its reason.
//!
//! Objects are made through CPython's C API directly because PyO3's own makers panic where memory runs out; here that is
//! an ordinary `MemoryError`. Structs are made without calling their class, by writing their slots.
#![allow(unsafe_code)]

use std::ffi::c_long;

use pyo3::exceptions::{
    PyAttributeError, PyKeyError, PyOverflowError, PyTypeError, PyUnicodeEncodeError, PyValueError,
};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString, PyTuple, PyType};

use crate::cursor::Refused;

/// There is no result: a Python exception is set, or, where none is, bytes or values were refused.
///
/// It holds nothing, so that a result is as large as a pointer.
#[derive(Debug, Clone, Copy)]
pub struct Stop;

impl From<Refused> for Stop {
    fn from(_: Refused) -> Self {
        Stop
    }
}

pub type Object<'py> = Bound<'py, PyAny>;
pub type Made<'py> = Result<Object<'py>, Stop>;

/// Sets an exception.
#[cold]
pub fn raise(py: Python<'_>, error: PyErr) -> Stop {
    error.restore(py);
    Stop
}

/// What a wrong value raises when it is asked to be a number or compared is a refusal (`kafkawire.wire.write.FAILURES`);
/// any other exception goes on.
#[cold]
pub fn refuse_or_raise(py: Python<'_>, error: PyErr) -> Stop {
    let refusals = error.is_instance_of::<PyTypeError>(py)
        || error.is_instance_of::<PyValueError>(py)
        || error.is_instance_of::<PyOverflowError>(py)
        || error.is_instance_of::<PyAttributeError>(py)
        || error.is_instance_of::<PyKeyError>(py);
    if refusals {
        Stop
    } else {
        raise(py, error)
    }
}

/// A new reference that the C API returned; null where an exception is set.
#[inline]
fn made(py: Python<'_>, object: *mut ffi::PyObject) -> Made<'_> {
    // SAFETY: callers pass what a function of the C API returned as a new reference.
    unsafe { Bound::from_owned_ptr_or_opt(py, object) }.ok_or(Stop)
}

#[inline]
pub fn integer(py: Python<'_>, value: i64) -> Made<'_> {
    // PyLong_FromLong is the faster of the two, but a C long has 32 bits on Windows.
    // SAFETY: no preconditions beyond an attached thread, which `py` proves.
    let object = match c_long::try_from(value) {
        Ok(value) => unsafe { ffi::PyLong_FromLong(value) },
        Err(_) => unsafe { ffi::PyLong_FromLongLong(value) },
    };
    made(py, object)
}

/// The integer of 16 bytes, the highest first.
pub fn wide_integer(py: Python<'_>, bytes: [u8; 16]) -> Made<'_> {
    // SAFETY: the pointer is valid for the length given; a new reference or null.
    #[cfg(not(Py_3_13))]
    let object = unsafe { ffi::_PyLong_FromByteArray(bytes.as_ptr(), bytes.len(), 0, 0) };
    #[cfg(Py_3_13)]
    let object = unsafe {
        ffi::PyLong_FromUnsignedNativeBytes(bytes.as_ptr().cast(), bytes.len(), ffi::Py_ASNATIVEBYTES_BIG_ENDIAN)
    };
    made(py, object)
}

#[inline]
pub fn float(py: Python<'_>, value: f64) -> Made<'_> {
    // SAFETY: no preconditions beyond an attached thread.
    made(py, unsafe { ffi::PyFloat_FromDouble(value) })
}

#[inline]
pub fn bytes<'py>(py: Python<'py>, data: &[u8]) -> Made<'py> {
    // SAFETY: the pointer is valid for the slice's length (never above isize::MAX), and the bytes are copied.
    made(py, unsafe { ffi::PyBytes_FromStringAndSize(data.as_ptr().cast(), data.len() as ffi::Py_ssize_t) })
}

/// A str; bytes that are not UTF-8 become lone surrogates, as Python's "surrogateescape" has it.
#[inline]
pub fn text<'py>(py: Python<'py>, data: &[u8]) -> Made<'py> {
    // SAFETY: as for `bytes`; the handler's name is a C string.
    made(py, unsafe {
        let length = data.len() as ffi::Py_ssize_t;
        ffi::PyUnicode_DecodeUTF8(data.as_ptr().cast(), length, c"surrogateescape".as_ptr())
    })
}

/// A tuple of `length` items, each made in its turn.
#[inline]
pub fn tuple<'py>(py: Python<'py>, length: usize, mut item: impl FnMut() -> Made<'py>) -> Made<'py> {
    // SAFETY: no preconditions; the length is that of an array that fits into the input.
    let tuple = made(py, unsafe { ffi::PyTuple_New(length as ffi::Py_ssize_t) })?;
    for index in 0..length {
        let value = item()?.into_ptr();
        // SAFETY: the tuple is new and seen by nobody, the index lies within it, and its place is still null. The
        // reference goes over to the tuple. Where an item fails, the tuple is dropped with places that are null, for
        // which its deallocation is prepared.
        unsafe { ffi::PyTuple_SET_ITEM(tuple.as_ptr(), index as ffi::Py_ssize_t, value) };
    }
    if length > 0 {
        // SAFETY: a tuple is a container, and still tracked. It only goes into a struct, and those (`gc=False`) are not
        // looked into by the garbage collector: it could never free a cycle through this tuple, only spend time on it.
        unsafe { ffi::PyObject_GC_UnTrack(tuple.as_ptr().cast()) };
    }
    Ok(tuple)
}

/// A part of a memoryview, without a copy.
pub fn slice<'py>(view: &Object<'py>, start: usize, end: usize) -> Made<'py> {
    // SAFETY: no preconditions; a new reference or null. Positions in a buffer do not pass isize::MAX.
    made(view.py(), unsafe {
        ffi::PySequence_GetSlice(view.as_ptr(), start as ffi::Py_ssize_t, end as ffi::Py_ssize_t)
    })
}

/// A view of all that an object exports.
pub fn view<'py>(object: &Object<'py>) -> Made<'py> {
    // SAFETY: no preconditions; a new reference or null.
    made(object.py(), unsafe { ffi::PyMemoryView_FromObject(object.as_ptr()) })
}

/// The elements that a list holds now.
pub fn elements<'py>(list: &Bound<'py, PyList>) -> Result<Bound<'py, PyTuple>, Stop> {
    // SAFETY: the object is a list, as its type says; a new reference or null.
    let tuple = made(list.py(), unsafe { ffi::PyList_AsTuple(list.as_ptr()) })?;
    tuple.cast_into::<PyTuple>().map_err(|_| Stop)
}

/// Whether it is exactly of that class.
#[inline]
pub fn is_exactly(value: &Object<'_>, class: &Class) -> bool {
    value.get_type_ptr() == class.pointer()
}

/// The UTF-8 of a str; what "surrogateescape" made of other bytes becomes those bytes again.
///
/// Never `PyUnicode_AsUTF8AndSize`: it would leave a copy of the UTF-8 with every str that is not ASCII.
#[inline]
pub fn with_utf8<T>(value: &Bound<'_, PyString>, use_it: impl FnOnce(&[u8]) -> T) -> Result<T, Stop> {
    let object = value.as_ptr();
    // SAFETY: the object is a str, as its type says.
    #[cfg(not(Py_3_14))]
    let narrow = unsafe { ffi::PyUnicode_IS_COMPACT_ASCII(object) } != 0;
    // From 3.14 on that flag is behind no function. A str of one byte a character is Latin-1, of which ASCII is a part.
    #[cfg(Py_3_14)]
    let narrow = unsafe { ffi::PyUnicode_KIND(object) } == ffi::PyUnicode_1BYTE_KIND;
    if narrow {
        // SAFETY: it has one byte a character. A str does not change, and `value` keeps it alive for the call.
        let data = unsafe {
            let length = ffi::PyUnicode_GET_LENGTH(object) as usize;
            std::slice::from_raw_parts(ffi::PyUnicode_DATA(object).cast::<u8>().cast_const(), length)
        };
        if cfg!(not(Py_3_14)) || data.is_ascii() {
            return Ok(use_it(data));
        }
    }
    let py = value.py();
    // SAFETY: the object is a str, the names are C strings; a new reference to bytes or null.
    let encoded =
        made(py, unsafe { ffi::PyUnicode_AsEncodedString(object, c"utf-8".as_ptr(), c"surrogateescape".as_ptr()) });
    match encoded {
        Ok(encoded) => Ok(use_it(encoded.cast::<PyBytes>().map_err(|_| Stop)?.as_bytes())),
        Err(_) => Err(match PyErr::fetch(py) {
            error if error.is_instance_of::<PyUnicodeEncodeError>(py) => Stop,
            error => raise(py, error),
        }),
    }
}

/// The bytes of an object, for as long as this lives.
pub enum Input<'a, 'py> {
    Bytes(&'a [u8]),
    Exported(Export<'py>),
}

impl<'a, 'py> Input<'a, 'py> {
    pub fn of(object: &'a Object<'py>) -> PyResult<Self> {
        match object.cast_exact::<PyBytes>() {
            Ok(bytes) => Ok(Input::Bytes(bytes.as_bytes())),
            Err(_) => Export::of(object).map(Input::Exported),
        }
    }

    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Input::Bytes(bytes) => bytes,
            Input::Exported(export) => export.as_bytes(),
        }
    }
}

/// A buffer that an object exports.
pub struct Export<'py> {
    view: ffi::Py_buffer,
    py: Python<'py>,
}

impl<'py> Export<'py> {
    fn of(object: &Object<'py>) -> PyResult<Self> {
        let mut view = ffi::Py_buffer::new();
        // SAFETY: the view is only taken over when it was filled.
        match unsafe { ffi::PyObject_GetBuffer(object.as_ptr(), &mut view, ffi::PyBUF_SIMPLE) } {
            0 => Ok(Export { view, py: object.py() }),
            _ => Err(PyErr::fetch(object.py())),
        }
    }

    fn as_bytes(&self) -> &[u8] {
        if self.view.len == 0 {
            return &[]; // its address may be null
        }
        // SAFETY: PyBUF_SIMPLE gives `len` bytes in a row, which stay where they are until the view is released. Who
        // writes into a bytearray or a shared map while another thread decodes it gets some mixture of values: every
        // byte is read once or checked again where it is used, so no torn length leads outside.
        unsafe { std::slice::from_raw_parts(self.view.buf.cast::<u8>().cast_const(), self.view.len as usize) }
    }
}

impl Drop for Export<'_> {
    fn drop(&mut self) {
        let _attached = self.py;
        // SAFETY: the view was filled by PyObject_GetBuffer and is released once.
        unsafe { ffi::PyBuffer_Release(&mut self.view) }
    }
}

/// A class whose instances hold their fields in slots, and where each slot lies in an instance.
pub struct Class {
    class: Py<PyType>,
    offsets: Vec<usize>,
    /// What a field holds that was not read, slot by slot.
    pub defaults: Vec<Py<PyAny>>,
}

impl Class {
    /// Reads the offsets from the class's member descriptors. `TypeError` where its fields are not kept in slots, or
    /// where making an instance needs more than filling them.
    pub fn new(class: &Bound<'_, PyType>, names: &Bound<'_, PyTuple>, defaults: &Bound<'_, PyTuple>) -> PyResult<Self> {
        let offsets = names
            .iter()
            .map(|name| offset(class, &class.getattr(name.cast::<PyString>()?)?))
            .collect::<PyResult<Vec<_>>>()?;
        if defaults.len() != offsets.len() || class.hasattr("__post_init__")? {
            return Err(unknown(class));
        }
        Ok(Class { class: class.clone().unbind(), offsets, defaults: defaults.iter().map(Bound::unbind).collect() })
    }

    pub fn slots(&self) -> usize {
        self.offsets.len()
    }

    pub fn class(&self) -> &Py<PyType> {
        &self.class
    }

    #[inline]
    fn pointer(&self) -> *mut ffi::PyTypeObject {
        self.class.as_ptr().cast()
    }

    /// The value in a slot; None where it was never set. `value` must be an instance of exactly this class.
    #[inline]
    pub fn get<'py>(&self, value: &Object<'py>, slot: usize) -> Option<Object<'py>> {
        let offset = self.offsets[slot];
        assert!(is_exactly(value, self));
        // SAFETY: the value is an instance of exactly this class, in which `offset` is where a slot lies: a reference or
        // null. A reference of our own is taken, so the value may be replaced (msgspec.structs.force_setattr) while it
        // is in use.
        #[cfg(not(Py_GIL_DISABLED))]
        unsafe {
            let held = *value.as_ptr().cast::<u8>().add(offset).cast::<*mut ffi::PyObject>();
            Bound::from_borrowed_ptr_or_opt(value.py(), held)
        }
        // Without a global lock another thread may replace the value between reading it and taking a reference, which
        // PyMember_GetOne guards against.
        #[cfg(Py_GIL_DISABLED)]
        unsafe {
            let mut member = ffi::PyMemberDef {
                name: c"".as_ptr(),
                type_code: ffi::Py_T_OBJECT_EX,
                offset: offset as ffi::Py_ssize_t,
                flags: 0,
                doc: std::ptr::null(),
            };
            let held = ffi::PyMember_GetOne(value.as_ptr().cast(), &mut member);
            if held.is_null() {
                ffi::PyErr_Clear();
            }
            Bound::from_owned_ptr_or_opt(value.py(), held)
        }
    }
}

fn unknown(class: &Bound<'_, PyType>) -> PyErr {
    PyTypeError::new_err(format!(
        "the native engine does not know how {class} keeps its fields; KAFKAWIRE_BACKEND=python does without it"
    ))
}

/// Where a slot lies in the instances of a class, from the descriptor that the class has for it.
fn offset(class: &Bound<'_, PyType>, descriptor: &Object<'_>) -> PyResult<usize> {
    const PLACE: usize = size_of::<*mut ffi::PyObject>();
    // SAFETY: only addresses are compared, and fields read of structs that CPython documents: a descriptor of exactly
    // this type is a PyMemberDescrObject, whose member lives as long as the class that it was made for.
    let (kind, offset, made_for) = unsafe {
        if ffi::Py_TYPE(descriptor.as_ptr()) != &raw mut ffi::PyMemberDescr_Type {
            return Err(unknown(class));
        }
        let descriptor = descriptor.as_ptr().cast::<ffi::PyMemberDescrObject>();
        let member = (*descriptor).d_member;
        ((*member).type_code, (*member).offset, (*descriptor).d_common.d_type)
    };
    // SAFETY: both are types.
    let (fits, size, alloc) = unsafe {
        let class = class.as_type_ptr();
        (ffi::PyType_IsSubtype(class, made_for) != 0, (*class).tp_basicsize, (*class).tp_alloc)
    };
    let offset = usize::try_from(offset).map_err(|_| unknown(class))?;
    let inside = offset >= size_of::<ffi::PyObject>()
        && offset % PLACE == 0
        && usize::try_from(size).is_ok_and(|size| offset + PLACE <= size);
    if kind == ffi::Py_T_OBJECT_EX && fits && inside && alloc.is_some() {
        Ok(offset)
    } else {
        Err(unknown(class))
    }
}

/// A new instance of a class, whose slots are being filled.
pub struct Instance<'a, 'py> {
    object: Object<'py>,
    class: &'a Class,
}

impl<'a, 'py> Instance<'a, 'py> {
    #[inline]
    pub fn new(py: Python<'py>, class: &'a Class) -> Result<Self, Stop> {
        let pointer = class.pointer();
        // SAFETY: the type is alive and its allocator is there, which `offset` saw. It returns an instance in which all
        // slots are null: what the class's own `__new__` begins with. That nothing but filling them is left to do is
        // what `Class::new` asked of the class.
        let object = made(py, unsafe { ((*pointer).tp_alloc.ok_or(Stop)?)(pointer, 0) })?;
        Ok(Instance { object, class })
    }

    /// Where the slot lies in the new instance.
    #[inline]
    fn place(&self, slot: usize) -> *mut *mut ffi::PyObject {
        let offset = self.class.offsets[slot];
        // SAFETY: `offset` lies within an instance of the class, on the boundary of a pointer.
        unsafe { self.object.as_ptr().cast::<u8>().add(offset).cast() }
    }

    /// Fills a slot.
    #[inline]
    pub fn set(&mut self, slot: usize, value: Object<'py>) {
        let place = self.place(slot);
        // SAFETY: nobody else has seen the instance. The slot is a reference or null; the reference goes over to it, and
        // what it held before is released after that.
        unsafe {
            let before = place.replace(value.into_ptr());
            if !before.is_null() {
                ffi::Py_DECREF(before);
            }
        }
    }

    /// Fills a slot with its default where it is empty.
    #[inline]
    pub fn set_default(&mut self, slot: usize) {
        let place = self.place(slot);
        // SAFETY: as in `set`.
        unsafe {
            if (*place).is_null() {
                *place = self.class.defaults[slot].clone_ref(self.object.py()).into_ptr();
            }
        }
    }

    #[inline]
    pub fn finish(self) -> Object<'py> {
        self.object
    }
}
