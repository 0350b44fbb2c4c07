//! The slots in which structs keep their fields: filled when a struct is made, read when it is encoded.

use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple, PyType};

use super::{made, Object, Stop};

/// A class whose instances hold their fields in slots, and where each slot lies in an instance.
pub struct Class {
    class: Py<PyType>,
    offsets: Vec<usize>,
    /// Bytes of an instance, where making one needs no more than memory.
    plain_size: Option<usize>,
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
        let defaults = defaults.iter().map(Bound::unbind).collect();
        Ok(Class { class: class.clone().unbind(), offsets, plain_size: plain_size(class), defaults })
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

    /// The fields of an instance of exactly this class; none of anything else.
    #[inline]
    pub fn fields<'a, 'py>(&'a self, value: &'a Object<'py>) -> Option<Fields<'a, 'py>> {
        (value.get_type_ptr() == self.pointer()).then_some(Fields { class: self, value })
    }
}

/// The fields of an instance of exactly that class.
#[derive(Clone, Copy)]
pub struct Fields<'a, 'py> {
    class: &'a Class,
    value: &'a Object<'py>,
}

impl<'py> Fields<'_, 'py> {
    /// What a slot holds: a reference, or null where it was never set.
    #[inline]
    fn held(&self, slot: usize) -> *mut ffi::PyObject {
        let offset = self.class.offsets[slot];
        // SAFETY: the value is an instance of exactly the class, in which `offset` is where a slot lies.
        unsafe { *self.value.as_ptr().cast::<u8>().add(offset).cast() }
    }

    /// The value in a slot; None where it was never set.
    #[inline]
    pub fn get(&self, slot: usize) -> Option<Object<'py>> {
        // SAFETY: a reference or null. A reference of our own is taken, so the value may be replaced
        // (msgspec.structs.force_setattr) while it is in use.
        #[cfg(not(Py_GIL_DISABLED))]
        unsafe {
            Bound::from_borrowed_ptr_or_opt(self.value.py(), self.held(slot))
        }
        // Without a global lock another thread may replace the value between reading it and taking a reference, which
        // PyMember_GetOne guards against.
        #[cfg(Py_GIL_DISABLED)]
        unsafe {
            let mut member = ffi::PyMemberDef {
                name: c"".as_ptr(),
                type_code: ffi::Py_T_OBJECT_EX,
                offset: self.class.offsets[slot] as ffi::Py_ssize_t,
                flags: 0,
                doc: std::ptr::null(),
            };
            let held = ffi::PyMember_GetOne(self.value.as_ptr().cast(), &mut member);
            if held.is_null() {
                ffi::PyErr_Clear();
            }
            Bound::from_owned_ptr_or_opt(self.value.py(), held)
        }
    }

    /// Whether a slot holds the very object that is its default.
    #[inline]
    pub fn holds_default(&self, slot: usize) -> bool {
        self.held(slot) == self.class.defaults[slot].as_ptr()
    }

    /// The number in a slot that holds an int (of exactly that class) of 64 bits.
    #[inline]
    pub fn integer(&self, slot: usize) -> Option<i64> {
        // Nothing runs here that could replace the value, so no reference of our own is needed.
        #[cfg(not(Py_GIL_DISABLED))]
        let held = self.held(slot);
        #[cfg(Py_GIL_DISABLED)]
        let own = self.get(slot)?;
        #[cfg(Py_GIL_DISABLED)]
        let held = own.as_ptr();
        // SAFETY: a reference or null; an object of exactly the class int is one. Its conversion sets no exception
        // where it does not fit, only the flag.
        unsafe {
            if held.is_null() || ffi::PyLong_CheckExact(held) == 0 {
                return None;
            }
            let mut overflow = 0;
            let number = ffi::PyLong_AsLongLongAndOverflow(held, &mut overflow);
            (overflow == 0).then_some(number)
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

/// Bytes of an instance of a class that has the allocator of all classes and is not looked into by the garbage collector.
fn plain_size(class: &Bound<'_, PyType>) -> Option<usize> {
    // SAFETY: both are types, which stay alive; only fields of them are read.
    unsafe {
        let class = class.as_type_ptr();
        let usual = ffi::PyBaseObject_Type.tp_alloc?;
        let plain = std::ptr::fn_addr_eq((*class).tp_alloc?, usual)
            && ffi::PyType_HasFeature(class, ffi::Py_TPFLAGS_HAVE_GC) == 0
            && (*class).tp_itemsize == 0;
        usize::try_from((*class).tp_basicsize).ok().filter(|_| plain)
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
        let object = match class.plain_size {
            // SAFETY: the type is alive and its allocator is there, which `offset` saw. It returns an instance in which
            // all slots are null: what the class's own `__new__` begins with. `Class::new` has checked that nothing but
            // filling them is left to do.
            None => unsafe { ((*pointer).tp_alloc.ok_or(Stop)?)(pointer, 0) },
            // SAFETY: what the allocator of all classes does for one that is not looked into by the garbage collector:
            // memory of the instance's size, empty after the header that is filled.
            Some(size) => unsafe {
                let object: *mut ffi::PyObject = ffi::PyObject_New(pointer);
                if !object.is_null() {
                    object.add(1).cast::<u8>().write_bytes(0, size - size_of::<ffi::PyObject>());
                }
                object
            },
        };
        Ok(Instance { object: made(py, object)?, class })
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
        // SAFETY: the instance is not shared yet. The slot is a reference or null; the reference is moved into it, and
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
