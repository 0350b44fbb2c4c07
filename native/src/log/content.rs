//! What batches are taken from: bytes that are there, or those of a file, a chunk at a time.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

use numpy::PyReadonlyArray1;
use pyo3::prelude::*;

use crate::records::header::Header;

/// Bytes of a file that are read at once, at most: where batches are long.
const LONGEST_CHUNK: usize = 4 << 20;

/// As Python gives it: bytes; or the descriptor of an open file, the first position and the one after the last, and the
/// bytes after which no more are taken and that are read at once.
#[derive(FromPyObject)]
pub enum Given<'py> {
    Bytes(PyReadonlyArray1<'py, u8>),
    File(i32, (u64, u64), (usize, usize)),
}

pub enum Content<'a> {
    Bytes(&'a [u8]),
    File { path: String, start: u64, bytes: usize, enough: usize, chunk: usize },
}

impl Given<'_> {
    pub fn content(&self) -> PyResult<Content<'_>> {
        Ok(match *self {
            Given::Bytes(ref data) => Content::Bytes(data.as_slice()?),
            Given::File(descriptor, (start, stop), (enough, chunk)) => {
                let bytes = usize::try_from(stop.saturating_sub(start)).unwrap_or(usize::MAX);
                let path = format!("/dev/fd/{descriptor}");
                Content::File { path, start, bytes, enough: enough.min(bytes), chunk }
            }
        })
    }
}

impl Content<'_> {
    /// Bytes that are taken, about.
    pub fn expected(&self) -> usize {
        match *self {
            Content::Bytes(data) => data.len(),
            Content::File { enough, .. } => enough,
        }
    }

    /// Hands bytes to `take`, which returns how many it has taken from the first on: whole batches, up to one that it does
    /// not take. Where a file cannot be read its bytes end: the reference reads on, and says why. More of them are read
    /// at once where batches are long.
    pub fn each(self, max_batch_bytes: usize, mut take: impl FnMut(&[u8]) -> usize) {
        let (path, start, bytes, enough, chunk) = match self {
            Content::Bytes(data) => {
                take(data);
                return;
            }
            Content::File { path, start, bytes, enough, chunk } => (path, start, bytes, enough, chunk),
        };
        let Ok(mut file) = File::open(path) else { return };
        let mut chunk = vec![0; chunk.clamp(1, LONGEST_CHUNK).min(bytes)];
        let mut at = 0;
        while at < enough {
            let wanted = chunk.len().min(bytes - at);
            let position = SeekFrom::Start(start + at as u64);
            let Ok(()) = file.seek(position).and_then(|_| file.read_exact(&mut chunk[..wanted])) else { return };
            let taken = take(&chunk[..wanted]);
            if wanted == bytes - at || !is_cut(&chunk[taken..wanted], max_batch_bytes) {
                return;
            }
            at += taken;
            if wanted - taken > wanted / 8 && chunk.len() < LONGEST_CHUNK {
                chunk.resize(2 * chunk.len(), 0);
            } else if taken == 0 {
                return;
            }
        }
    }
}

/// Whether bytes that a batch begins with end before it.
fn is_cut(data: &[u8], max_batch_bytes: usize) -> bool {
    Header::read(data, 0).map_or(true, |header| {
        usize::try_from(header.length).is_ok_and(|length| length <= max_batch_bytes && header.size() > data.len())
    })
}
