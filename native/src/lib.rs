//! `kafkawire._native`: the native engine of `kafkawire.wire` and `kafkawire.records`. The wheels of a platform contain
//! it; an install from source has it where a Rust compiler is present. It executes the same layouts as the interpreter;
//! no message is compiled in, except for the two of `__transaction_state`, of which an audit reads millions
//! (`coordinator`).
//!
//! - Parsing is safe code. Only one module has `unsafe` (`objects`), where Python objects are built, each use with its
//!   reason.
//! - Functions that find bytes or values they cannot handle refuse without explaining: the caller runs the interpreter,
//!   whose error has the place and the reason.
//! - Modules import one way: {limits, cursor} <- layout <- walk <- {codec, columns}; codec <- records <- rows <- json <-
//!   capture; records <- log <- coordinator. Files of one folder import each other one way; they may use what stands in
//!   its `mod`.

mod capture;
mod codec;
mod columns;
mod coordinator;
mod cursor;
mod json;
mod layout;
mod limits;
mod log;
mod records;
mod rows;
mod walk;

use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// What this engine offers, as Python's side is typed: `kafkawire.wire.backend` compares it with the stub that lies
/// beside the package, so that an engine built before the stub was changed is noticed.
const INTERFACE: &[u8] = include_bytes!("../../kafkawire/_native.pyi");

#[pymodule(gil_used = false)]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("INTERFACE", PyBytes::new(module.py(), INTERFACE))?;
    module.add("LIMITS", PyBytes::new(module.py(), limits::SOURCE))?;
    module.add_class::<codec::Codec>()?;
    module.add_class::<columns::ColumnPlan>()?;
    module.add_class::<json::MessageText>()?;
    module.add_class::<capture::Tracker>()?;
    coordinator::register(module)?;
    log::register(module)?;
    records::register(module)?;
    rows::register(module)?;
    Ok(())
}
