//! The TLS layer of a connection, which is Python's: `kafkawire.capture.tls`.

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use pyo3::IntoPyObjectExt;

use super::context::Context;
use super::stream::Moment;

/// What became of bytes of a direction: plaintext, or the problem with which they were lost.
pub type Plain = (usize, Option<Vec<u8>>, Moment, String);

/// Those, whether nothing more is decrypted, bytes that wait, and since which packets.
type State = (Vec<Plain>, bool, i64, [Option<i64>; 2]);

pub struct Tls {
    pub session: Py<PyAny>,
    /// Nothing more is decrypted.
    pub failed: bool,
    /// Bytes that wait, and the first packet of each direction with some.
    pub held: i64,
    pub held_since: [Option<i64>; 2],
}

impl Tls {
    pub fn new(py: Python<'_>, context: &Context) -> PyResult<Self> {
        let session = context.call(py, "tls_session", ())?.unbind();
        Ok(Tls { session, failed: false, held: 0, held_since: [None; 2] })
    }

    pub fn receive(
        &mut self,
        py: Python<'_>,
        context: &Context,
        index: usize,
        data: &[u8],
        at: Moment,
    ) -> PyResult<Vec<Plain>> {
        self.call(py, context, "tls_receive", (index, PyBytes::new(py, data), at.0, at.1))
    }

    /// Calls a method of the handler, which takes the session and these arguments.
    pub fn call<'py, A: IntoPyObject<'py>>(
        &mut self,
        py: Python<'py>,
        context: &Context,
        name: &str,
        arguments: A,
    ) -> PyResult<Vec<Plain>> {
        let arguments = arguments.into_py_any(py)?;
        let found = context.call(py, name, (&self.session, arguments))?;
        let (events, failed, held, held_since): State = found.extract()?;
        (self.failed, self.held, self.held_since) = (failed, held, held_since);
        Ok(events)
    }
}
