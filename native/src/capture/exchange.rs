//! An exchange: a request with its response, as a line of JSON or as arguments of Python's row.

use std::borrow::Cow;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::context::Context;
use super::stream::Moment;
use crate::cursor::{Read, Refused};
use crate::json::text;
use crate::json::Counts;
use crate::rows::json::integer;

/// What all rows of a connection have in common: Python's `(number, client, broker)`, and the same as JSON, the file's
/// name included: `"file":...,"broker":"..."`.
pub struct Ends {
    pub row: Py<PyAny>,
    pub number: i64,
    pub client: String,
    pub broker: String,
    pub json: Vec<u8>,
}

pub struct Api {
    pub key: i16,
    pub name: String,
}

/// A request's content.
pub enum Asked {
    /// No request, or a token.
    Nothing,
    Read {
        api: Arc<Api>,
        version: i16,
        correlation_id: i32,
        client_id: Option<Arc<str>>,
        body: Option<Vec<u8>>,
    },
    /// A `DecodedRequest`.
    Python(Py<PyAny>),
}

/// A response's content.
pub enum Answered {
    Nothing,
    Read {
        errors: Counts,
        body: Option<Vec<u8>>,
    },
    /// A `DecodedResponse`.
    Python(Py<PyAny>),
}

/// Where a frame begins, and its size. A problem of a connection has no size.
pub struct Place {
    pub at: Moment,
    pub size: Option<i64>,
}

/// `correlation_id`: of a response without its request. `frames`: if they are kept.
pub struct Exchange {
    pub ends: Option<Arc<Ends>>,
    pub asked: Asked,
    pub request: Option<Place>,
    pub answered: Answered,
    pub response: Option<Place>,
    pub correlation_id: Option<i32>,
    pub problem: Option<Cow<'static, str>>,
    pub frames: [Option<Py<PyBytes>>; 2],
}

impl Exchange {
    pub fn new(ends: Option<Arc<Ends>>) -> Box<Self> {
        Box::new(Exchange {
            ends,
            asked: Asked::Nothing,
            request: None,
            answered: Answered::Nothing,
            response: None,
            correlation_id: None,
            problem: None,
            frames: [None, None],
        })
    }

    pub fn time_ns(&self) -> Option<i64> {
        self.request.as_ref().map(|place| place.at.1)
    }

    pub fn response_time_ns(&self) -> Option<i64> {
        self.response.as_ref().map(|place| place.at.1)
    }

    /// Bytes of both frames.
    pub fn size(&self) -> i64 {
        [&self.request, &self.response].into_iter().flatten().filter_map(|place| place.size).sum()
    }

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
            Asked::Read { api, version, correlation_id, client_id, body },
            Some(Place { at: (packet, time_ns), size: Some(size) }),
            None,
        ) = (&self.ends, &self.asked, &self.request, &self.problem)
        else {
            return Ok(Err(Refused));
        };
        if matches!(self.answered, Answered::Python(_)) {
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
                if text::string(out, client_id.as_bytes()).is_err() {
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
        if let Answered::Read { errors, body } = &self.answered {
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
        out.extend_from_slice(b"},\"problem\":null");
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
        let place = |place: Option<Place>| place.map(|Place { at: (packet, time_ns), size }| (time_ns, packet, size));
        let bytes = |body: Option<Vec<u8>>| body.map(|body| PyBytes::new(py, &body));
        let asked = match self.asked {
            Asked::Nothing => None,
            Asked::Python(found) => Some(found.into_bound(py)),
            Asked::Read { api, version, correlation_id, client_id, body } => {
                let fields = (&api.name, api.key, version, correlation_id, client_id.as_deref(), bytes(body));
                Some(fields.into_pyobject(py)?.into_any())
            }
        };
        let answered = match self.answered {
            Answered::Nothing => None,
            Answered::Python(found) => Some(found.into_bound(py)),
            Answered::Read { mut errors, body } => {
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

/// Times as ISO 8601 in UTC. The last second is remembered.
#[derive(Default)]
pub struct Clock {
    second: i64,
    text: String,
}

impl Clock {
    /// Refused: years that Python's `datetime` may not have.
    pub fn write(&mut self, time_ns: i64, out: &mut Vec<u8>) -> Read<()> {
        let (second, rest) = (time_ns.div_euclid(1_000_000_000), time_ns.rem_euclid(1_000_000_000));
        if !(0..253_402_300_800).contains(&second) {
            return Err(Refused);
        }
        if self.text.is_empty() || second != self.second {
            // Days to a date: Howard Hinnant's `civil_from_days`.
            let (day, second_of_day) = (second / 86_400 + 719_468, second % 86_400);
            let (era, of_era) = (day / 146_097, day % 146_097);
            let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
            let of_year = of_era - (365 * year + year / 4 - year / 100);
            let shifted = (5 * of_year + 2) / 153;
            let (day, month) =
                (of_year - (153 * shifted + 2) / 5 + 1, if shifted < 10 { shifted + 3 } else { shifted - 9 });
            let year = year + era * 400 + i64::from(month <= 2);
            let (hour, minute) = (second_of_day / 3600, second_of_day / 60 % 60);
            self.text = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{:02}", second_of_day % 60);
            self.second = second;
        }
        out.extend_from_slice(self.text.as_bytes());
        out.push(b'.');
        let mut digits = [b'0'; 6];
        let mut left = rest / 1000;
        for digit in digits.iter_mut().rev() {
            *digit += (left % 10) as u8;
            left /= 10;
        }
        out.extend_from_slice(&digits);
        out.push(b'Z');
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(ns: i64) -> Option<String> {
        let mut out = Vec::new();
        Clock::default().write(ns, &mut out).ok()?;
        String::from_utf8(out).ok()
    }

    #[test]
    fn times_are_iso_8601() {
        assert_eq!(time(0).unwrap(), "1970-01-01T00:00:00.000000Z");
        assert_eq!(time(951_782_399_123_456_789).unwrap(), "2000-02-28T23:59:59.123456Z");
        assert_eq!(time(951_868_799_000_001_000).unwrap(), "2000-02-29T23:59:59.000001Z");
        assert_eq!(time(4_102_444_800_000_000_000).unwrap(), "2100-01-01T00:00:00.000000Z");
        assert_eq!(time(-1), None);
    }

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
