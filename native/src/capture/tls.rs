//! The TLS layer of a connection. Python (`kafkawire.capture.tls`) reads it, except for runs of application data in a
//! direction whose keys are known (`tls_records`).

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use pyo3::IntoPyObjectExt;

use super::context::Context;
use super::stream::Moment;
use super::tls_records::{Records, Steady};

/// What became of bytes of a direction: plaintext, or the problem with which they were lost.
pub type Plain = (usize, Option<Vec<u8>>, Moment, String);

/// Those, whether nothing more is decrypted, bytes that wait, since which packets, and the directions that are handed
/// over.
type State = (Vec<Plain>, bool, i64, [Option<i64>; 2], [Option<Steady>; 2]);

pub struct Tls {
    pub session: Py<PyAny>,
    /// Nothing more is decrypted.
    pub failed: bool,
    /// Bytes that wait in Python, and the first packet of each direction with some.
    held: i64,
    held_since: [Option<i64>; 2],
    /// Directions that Python has handed over.
    steady: [Option<Records>; 2],
}

impl Tls {
    pub fn new(py: Python<'_>, context: &Context) -> PyResult<Self> {
        let session = context.call(py, "tls_session", ())?.unbind();
        Ok(Tls { session, failed: false, held: 0, held_since: [None; 2], steady: [None, None] })
    }

    /// Bytes that wait.
    pub fn held(&self) -> i64 {
        self.held + self.steady.iter().flatten().map(|records| records.held() as i64).sum::<i64>()
    }

    /// The first packet of a direction with some.
    pub fn held_since(&mut self, index: usize) -> Option<i64> {
        self.steady[index].as_mut().map_or(self.held_since[index], Records::held_since)
    }

    pub fn receive(
        &mut self,
        py: Python<'_>,
        context: &Context,
        index: usize,
        data: &[u8],
        at: Moment,
    ) -> PyResult<Vec<Plain>> {
        let Some(records) = &mut self.steady[index] else {
            return self.call(py, context, "tls_receive", (index, PyBytes::new(py, data), at.0, at.1));
        };
        records.append(data, at);
        let mut found = Vec::new();
        loop {
            match records.next() {
                Ok(Some((content, _))) if content.is_empty() => (),
                Ok(Some((content, at))) => found.push((index, Some(content), at, String::new())),
                Ok(None) => return Ok(found),
                Err(_) => break,
            }
        }
        found.extend(self.call(py, context, "tls_advance", (index,))?);
        Ok(found)
    }

    /// Calls a method of the handler, which takes the session and these arguments.
    pub fn call<'py, A: IntoPyObject<'py>>(
        &mut self,
        py: Python<'py>,
        context: &Context,
        name: &str,
        arguments: A,
    ) -> PyResult<Vec<Plain>> {
        for (index, steady) in self.steady.iter_mut().enumerate() {
            if let Some(records) = steady.take() {
                let (sequence, opened) = (records.sequence, records.opened);
                let bytes = |data: Vec<u8>| PyBytes::new(py, &data);
                let pieces = records.into_pieces().into_iter();
                let pieces: Vec<_> = pieces.map(|(data, packet, time_ns)| (bytes(data), packet, time_ns)).collect();
                context.call(py, "tls_resume", (&self.session, index, sequence, opened, pieces))?;
            }
        }
        let arguments = arguments.into_py_any(py)?;
        let found = context.call(py, name, (&self.session, arguments))?;
        let (events, failed, held, held_since, steady): State = found.extract()?;
        (self.failed, self.held, self.held_since) = (failed, held, held_since);
        for (place, given) in self.steady.iter_mut().zip(steady) {
            let unknown = || PyValueError::new_err("keys of TLS that the engine does not know");
            *place = given.map(|given| Records::new(given).ok_or_else(unknown)).transpose()?;
        }
        Ok(events)
    }
}
