//! The row of an exchange: a line of JSON, or the arguments of Python's `CapturedExchange`.

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::context::Context;
use super::exchange::{Exchange, FramePlace, RequestContent, ResponseContent};
use crate::cursor::{Read, Refused};
use crate::json::scalars;
use crate::rows::json::integer;

impl Exchange {
    /// Appends the line that `json_bytes` makes of the row. Refused: rows with a problem, and those that are not ASCII.
    pub fn line(&self, py: Python<'_>, context: &mut Context, out: &mut Vec<u8>) -> PyResult<bool> {
        let start = out.len();
        let plain = match self.written(py, context, out)? {
            Ok(()) => out[start..].is_ascii() && !out[start..].contains(&0x7f),
            Err(Refused) => false,
        };
        if plain {
            out.push(b'\n');
        } else {
            out.truncate(start);
        }
        Ok(plain)
    }

    fn written(&self, py: Python<'_>, context: &mut Context, out: &mut Vec<u8>) -> PyResult<Read<()>> {
        let (
            Some(ends),
            RequestContent::Read { api, version, correlation_id, client_id, body, .. },
            Some(FramePlace { at: (packet, time_ns), size: Some(size) }),
            None,
        ) = (&self.ends, &self.asked, &self.request, &self.problem)
        else {
            return Ok(Err(Refused));
        };
        if matches!(self.answered, ResponseContent::Python(_)) {
            return Ok(Err(Refused));
        }
        let response = self.response.as_ref();
        out.extend_from_slice(b"{\"time\":\"");
        if context.clock.write(*time_ns, out).is_err() {
            return Ok(Err(Refused));
        }
        out.extend_from_slice(b"\",\"time_ns\":");
        integer(out, *time_ns);
        optional(out, "response_time_ns", response.map(|response| response.at.1));
        out.push(b',');
        out.extend_from_slice(&ends.json);
        out.extend_from_slice(b",\"api\":\"");
        out.extend_from_slice(api.name.as_bytes());
        out.push(b'"');
        optional(out, "api_key", Some(api.key));
        optional(out, "version", Some(*version));
        optional(out, "correlation_id", Some(*correlation_id));
        out.extend_from_slice(b",\"client_id\":");
        match client_id {
            None => out.extend_from_slice(b"null"),
            Some(client_id) => {
                if scalars::string(out, client_id.as_bytes()).is_err() {
                    return Ok(Err(Refused));
                }
            }
        }
        out.extend_from_slice(b",\"latency_ms\":");
        match response {
            None => out.extend_from_slice(b"null"),
            Some(response) => {
                if milliseconds(out, response.at.1.saturating_sub(*time_ns)).is_err() {
                    return Ok(Err(Refused));
                }
            }
        }
        optional(out, "request_bytes", Some(*size));
        optional(out, "response_bytes", response.and_then(|response| response.size));
        optional(out, "packet", Some(*packet));
        optional(out, "response_packet", response.map(|response| response.at.0));
        out.extend_from_slice(b",\"errors\":{");
        let mut answer = None;
        if let ResponseContent::Read { errors, body, .. } = &self.answered {
            answer = body.as_ref();
            let mut errors = errors.clone();
            errors.sort_unstable();
            for (place, (code, count)) in errors.iter().enumerate() {
                if place > 0 {
                    out.push(b',');
                }
                out.push(b'"');
                out.extend_from_slice(context.error_name(py, *code)?.as_bytes());
                out.extend_from_slice(b"\":");
                integer(out, *count);
            }
        }
        out.extend_from_slice(b"},\"problem\":null,\"note\":null");
        if context.options.body {
            for (name, body) in [(&b",\"request\":"[..], body.as_ref()), (b",\"response\":", answer)] {
                out.extend_from_slice(name);
                out.extend_from_slice(body.map_or(b"null", Vec::as_slice));
            }
        }
        out.push(b'}');
        Ok(Ok(()))
    }

    /// The `CapturedExchange`.
    pub fn into_python(self, py: Python<'_>, context: &Context) -> PyResult<Py<PyAny>> {
        let place =
            |place: Option<FramePlace>| place.map(|FramePlace { at: (packet, time_ns), size }| (time_ns, packet, size));
        let bytes = |body: Option<Vec<u8>>| body.map(|body| PyBytes::new(py, &body));
        let asked = match self.asked {
            RequestContent::Nothing => None,
            RequestContent::Python(found) => Some(found.into_bound(py)),
            RequestContent::Read { api, version, correlation_id, client_id, body, .. } => {
                let fields = (&api.name, api.key, version, correlation_id, client_id.as_deref(), bytes(body));
                Some(fields.into_pyobject(py)?.into_any())
            }
        };
        let answered = match self.answered {
            ResponseContent::Nothing => None,
            ResponseContent::Python(found) => Some(found.into_bound(py)),
            ResponseContent::Read { mut errors, body, .. } => {
                errors.sort_unstable();
                Some((errors, bytes(body)).into_pyobject(py)?.into_any())
            }
        };
        let [request, response] = self.frames;
        let places = (place(self.request), place(self.response));
        let ends = self.ends.as_ref().map(|ends| &ends.row);
        let rest = (self.correlation_id, self.problem.as_deref(), request, response);
        let fields = (ends, asked, places.0, answered, places.1, rest.0, rest.1, rest.2, rest.3);
        context.rows.call1(py, fields)
    }
}

fn optional<N: itoa::Integer>(out: &mut Vec<u8>, name: &str, value: Option<N>) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
    match value {
        Some(value) => integer(out, value),
        None => out.extend_from_slice(b"null"),
    }
}

/// Nanoseconds as milliseconds. Refused: what Python writes with an exponent, or may round.
fn milliseconds(out: &mut Vec<u8>, ns: i64) -> Read<()> {
    if ns != 0 && !(10..1_000_000_000_000_000).contains(&ns) {
        return Err(Refused);
    }
    integer(out, ns / 1_000_000);
    let mut digits = format!(".{:06}", ns % 1_000_000);
    while digits.len() > 2 && digits.ends_with('0') {
        digits.pop();
    }
    out.extend_from_slice(digits.as_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_written_as_python_writes_them() {
        let written = |ns| {
            let mut out = Vec::new();
            milliseconds(&mut out, ns).ok().map(|()| String::from_utf8(out).unwrap_or_default())
        };
        for (ns, expected) in
            [(0, "0.0"), (10, "0.00001"), (1_500_000, "1.5"), (1_000_000, "1.0"), (2_000_030, "2.00003")]
        {
            assert_eq!(written(ns).as_deref(), Some(expected));
        }
        assert_eq!((written(-1), written(9), written(i64::MAX)), (None, None, None));
    }
}
