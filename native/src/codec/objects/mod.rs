//! Python objects: how they are made and read. This is the only module with `unsafe` code; each use has its reason.
//! `class` knows where structs keep their fields, `output` makes bytes.
//!
//! Objects are made through CPython's C API directly because PyO3's own makers panic where memory runs out; here that
//! is an ordinary `MemoryError`. Structs are made without calling their class, by writing their slots.
#![allow(unsafe_code)]

mod class;
mod output;

use std::ffi::c_long;

use pyo3::exceptions::{
    PyAttributeError, PyKeyError, PyOverflowError, PyTypeError, PyUnicodeEncodeError, PyValueError,
};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString, PyTuple};

use crate::cursor::Refused;

pub use class::{Class, Fields, Instance};
pub use output::{Output, Small};

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

/// What a wrong value raises when it is converted to a number or compared is a refusal
/// (`kafkawire.wire.write.FAILURES`); any other exception is raised.
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
        // SAFETY: the tuple is new and not shared, the index is within it, and its place is still null. The reference
        // is moved into the tuple. Where an item fails, the tuple is dropped with places that are null, which its
        // deallocation allows.
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
    // SAFETY: the object is a list, by its type; a new reference or null.
    let tuple = made(list.py(), unsafe { ffi::PyList_AsTuple(list.as_ptr()) })?;
    tuple.cast_into::<PyTuple>().map_err(|_| Stop)
}

/// The UTF-8 of a str; what "surrogateescape" made of other bytes becomes those bytes again.
///
/// Never `PyUnicode_AsUTF8AndSize`: it would leave a copy of the UTF-8 with every str that is not ASCII.
#[inline]
pub fn with_utf8<T>(value: &Bound<'_, PyString>, use_it: impl FnOnce(&[u8]) -> T) -> Result<T, Stop> {
    let object = value.as_ptr();
    // SAFETY: the object is a str, by its type.
    #[cfg(not(Py_3_14))]
    let narrow = unsafe { ffi::PyUnicode_IS_COMPACT_ASCII(object) } != 0;
    // From 3.14 on no function reads that flag. A str of one byte a character is Latin-1, of which ASCII is a part.
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
