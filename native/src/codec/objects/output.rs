//! Bytes that are being written: in a small buffer first, then in a `bytes` object that grows.

use std::marker::PhantomData;
use std::mem::MaybeUninit;

use pyo3::ffi::{self, compat};
use pyo3::prelude::*;

use super::{made, Made, Stop};

/// Room for small messages, which need no memory before their length is known.
pub type Small = MaybeUninit<[u8; 512]>;

pub struct Output<'a, 'py> {
    py: Python<'py>,
    small: PhantomData<&'a mut Small>,
    /// What holds the bytes once they are more than fit into `small`, before that null.
    writer: *mut compat::PyBytesWriter,
    start: *mut u8,
    used: usize,
    room: usize,
}

impl<'a, 'py> Output<'a, 'py> {
    pub fn new(py: Python<'py>, small: &'a mut Small) -> Self {
        let (start, room) = (small.as_mut_ptr().cast(), size_of::<Small>());
        Output { py, small: PhantomData, writer: std::ptr::null_mut(), start, used: 0, room }
    }

    #[inline]
    pub fn written(&self) -> &[u8] {
        // SAFETY: `used` bytes from `start` on were written, and they are ours alone.
        unsafe { std::slice::from_raw_parts(self.start, self.used) }
    }

    #[inline]
    pub fn written_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `written`.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.used) }
    }

    #[inline]
    pub fn push(&mut self, byte: u8) -> Result<(), Stop> {
        self.put([byte])
    }

    /// Writes a number's bytes.
    #[inline]
    pub fn put<const N: usize>(&mut self, bytes: [u8; N]) -> Result<(), Stop> {
        self.reserve(N)?;
        // SAFETY: there is room for N more bytes.
        unsafe { self.start.add(self.used).cast::<[u8; N]>().write_unaligned(bytes) };
        self.used += N;
        Ok(())
    }

    #[inline]
    pub fn extend(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        self.reserve(bytes.len())?;
        // SAFETY: there is room for them, and they are not ours.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.add(self.used), bytes.len()) };
        self.used += bytes.len();
        Ok(())
    }

    /// Takes back the last bytes, at most all of them.
    pub fn cut(&mut self, count: usize) {
        self.used = self.used.saturating_sub(count);
    }

    /// Makes room for `more` bytes.
    #[inline]
    pub fn reserve(&mut self, more: usize) -> Result<(), Stop> {
        if self.room - self.used < more {
            self.grow(more)?;
        }
        Ok(())
    }

    #[cold]
    fn grow(&mut self, more: usize) -> Result<(), Stop> {
        let room = self.used.saturating_add(more).max(self.room.saturating_mul(2));
        let size = ffi::Py_ssize_t::try_from(room).map_err(|_| Stop)?;
        // SAFETY: the size is no negative one; null with an exception set where memory runs out.
        let writer = unsafe { compat::PyBytesWriter_Create(size) };
        if writer.is_null() {
            return Err(Stop);
        }
        // SAFETY: the new writer has room for all that was written. The old one was made here, and is not used again.
        unsafe {
            let start = compat::PyBytesWriter_GetData(writer).cast::<u8>();
            std::ptr::copy_nonoverlapping(self.start, start, self.used);
            compat::PyBytesWriter_Discard(self.writer);
            (self.writer, self.start, self.room) = (writer, start, room);
        }
        Ok(())
    }

    /// All that was written.
    pub fn finish(mut self) -> Made<'py> {
        let writer = std::mem::replace(&mut self.writer, std::ptr::null_mut());
        if writer.is_null() {
            return super::bytes(self.py, self.written());
        }
        // SAFETY: the writer was made by `grow`; it is consumed. A new reference or null.
        made(self.py, unsafe { compat::PyBytesWriter_FinishWithSize(writer, self.used as ffi::Py_ssize_t) })
    }
}

impl Drop for Output<'_, '_> {
    fn drop(&mut self) {
        // SAFETY: null, or a writer that was made by `grow` and not consumed.
        unsafe { compat::PyBytesWriter_Discard(self.writer) }
    }
}
