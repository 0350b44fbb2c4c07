//! Exchanges as columns: Arrow buffers with one element for each exchange. `kafkawire.capture.exchange_arrays` makes
//! arrays of them, and gives the values that only Python can write as text.

use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use super::context::Context;
use super::exchange::{Exchange, FramePlace, RequestContent, ResponseContent};

/// Capacity of a column that is kept for the next batch.
const MOST_KEPT: usize = 4 << 20;
/// Latencies from here on may be rounded by Python; about eleven days.
const LONGEST_NS: i64 = 1_000_000_000_000_000;

#[derive(Default)]
struct Validity {
    bits: Vec<u8>,
    count: usize,
    nulls: usize,
}

impl Validity {
    fn push(&mut self, present: bool) {
        if self.count.is_multiple_of(8) {
            self.bits.push(0);
        }
        if let Some(last) = self.bits.last_mut().filter(|_| present) {
            *last |= 1 << (self.count % 8);
        }
        self.count += 1;
        self.nulls += usize::from(!present);
    }

    fn take<'py>(&mut self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        let found = std::mem::take(self);
        (found.nulls > 0).then(|| PyBytes::new(py, &found.bits))
    }
}

/// A column of numbers of 8 bytes.
#[derive(Default)]
struct NumberColumn {
    validity: Validity,
    data: Vec<u8>,
}

impl NumberColumn {
    fn push(&mut self, value: Option<[u8; 8]>) {
        self.validity.push(value.is_some());
        self.data.extend_from_slice(&value.unwrap_or_default());
    }
}

#[derive(Default)]
struct TextColumn {
    validity: Validity,
    /// The end of each text.
    ends: Vec<u8>,
    data: Vec<u8>,
}

impl TextColumn {
    fn push(&mut self, value: Option<&[u8]>) -> PyResult<()> {
        self.validity.push(value.is_some());
        self.data.extend_from_slice(value.unwrap_or_default());
        self.ends.extend_from_slice(&offset(self.data.len())?);
        Ok(())
    }

    fn take<'py>(&mut self, py: Python<'py>) -> Buffers<'py> {
        let validity = self.validity.take(py);
        (validity, Some(offsets(py, &std::mem::take(&mut self.ends))), bytes(py, &mut self.data))
    }
}

/// Validity, offsets of texts, data.
type Buffers<'py> = (Option<Bound<'py, PyBytes>>, Option<Bound<'py, PyBytes>>, Bound<'py, PyBytes>);

fn offset(place: usize) -> PyResult<[u8; 4]> {
    let place = i32::try_from(place).map_err(|_| PyOverflowError::new_err("more than 2 GiB of text in one column"))?;
    Ok(place.to_ne_bytes())
}

fn offsets<'py>(py: Python<'py>, ends: &[u8]) -> Bound<'py, PyBytes> {
    PyBytes::new(py, &[&[0; 4], ends].concat())
}

fn bytes<'py>(py: Python<'py>, data: &mut Vec<u8>) -> Bound<'py, PyBytes> {
    let found = PyBytes::new(py, data);
    data.clear();
    data.shrink_to(MOST_KEPT);
    found
}

const NUMBERS: [&str; 11] = [
    "time_ns",
    "response_time_ns",
    "connection",
    "api_key",
    "version",
    "correlation_id",
    "latency_ms",
    "request_bytes",
    "response_bytes",
    "packet",
    "response_packet",
];
const TEXTS: [&str; 9] = ["time", "client", "broker", "api", "client_id", "problem", "note", "request", "response"];

/// A row of `kafkawire.rows.Exchange`, as Python made it; texts are UTF-8, and bodies JSON.
#[derive(FromPyObject)]
struct Made {
    time: Option<String>,
    time_ns: Option<i64>,
    response_time_ns: Option<i64>,
    connection: Option<i64>,
    client: Option<String>,
    broker: Option<String>,
    api: Option<String>,
    api_key: Option<i64>,
    version: Option<i64>,
    correlation_id: Option<i64>,
    client_id: Option<String>,
    latency_ms: Option<f64>,
    request_bytes: Option<i64>,
    response_bytes: Option<i64>,
    packet: Option<i64>,
    response_packet: Option<i64>,
    problem: Option<String>,
    note: Option<String>,
    request: Option<String>,
    response: Option<String>,
}

/// Exchanges since the last `take`.
pub struct ExchangeColumns {
    most_rows: usize,
    most_bytes: usize,
    count: usize,
    numbers: [NumberColumn; NUMBERS.len()],
    texts: [TextColumn; TEXTS.len()],
    /// Of each exchange: the end of its errors; of each error: its name and count.
    error_ends: Vec<u8>,
    error_names: TextColumn,
    error_counts: Vec<u8>,
    time: Vec<u8>,
}

impl ExchangeColumns {
    /// Limits of a batch: exchanges, and bytes of text, about.
    pub fn new((most_rows, most_bytes): (usize, usize)) -> Self {
        ExchangeColumns {
            most_rows,
            most_bytes,
            count: 0,
            numbers: Default::default(),
            texts: Default::default(),
            error_ends: Vec::new(),
            error_names: TextColumn::default(),
            error_counts: Vec::new(),
            time: Vec::new(),
        }
    }

    pub fn is_full(&self) -> bool {
        self.count >= self.most_rows
            || self.texts.iter().map(|texts| texts.data.len()).sum::<usize>() >= self.most_bytes
    }

    /// Adds an exchange of a connection.
    pub fn push(&mut self, py: Python<'_>, context: &mut Context, exchange: Box<Exchange>) -> PyResult<()> {
        if !self.push_plain(py, context, &exchange)? {
            let row = exchange.into_python(py, context)?;
            return self.push_row(py, context, row);
        }
        self.count += 1;
        Ok(())
    }

    /// Adds an exchange that is a row.
    pub fn push_row(&mut self, py: Python<'_>, context: &Context, row: Py<PyAny>) -> PyResult<()> {
        let (row, errors): (Made, Vec<(String, i64)>) = context.call(py, "cells", (row,))?.extract()?;
        self.push_made(&row, &errors)?;
        self.count += 1;
        Ok(())
    }

    /// False: what Python has to write; nothing was added.
    fn push_plain(&mut self, py: Python<'_>, context: &mut Context, exchange: &Exchange) -> PyResult<bool> {
        let Some(ends) = &exchange.ends else { return Ok(false) };
        let (api, version, correlation_id, client_id, request) = match &exchange.asked {
            RequestContent::Nothing => (None, None, exchange.correlation_id, None, None),
            RequestContent::Read { api, version, correlation_id, client_id, body, .. } => {
                (Some(api), Some(*version), Some(*correlation_id), client_id.as_deref(), body.as_deref())
            }
            RequestContent::Python(_) => return Ok(false),
        };
        let (errors, response) = match &exchange.answered {
            ResponseContent::Nothing => (&[][..], None),
            ResponseContent::Read { errors, body, .. } => (&errors[..], body.as_deref()),
            ResponseContent::Python(_) => return Ok(false),
        };
        let (asked, answered) = (exchange.time_ns(), exchange.response_time_ns());
        self.time.clear();
        let latency = asked.zip(answered).map(|(asked, answered)| answered.saturating_sub(asked));
        if latency.is_some_and(|ns| !(-LONGEST_NS..LONGEST_NS).contains(&ns))
            || asked.is_some_and(|time_ns| context.clock.write(time_ns, &mut self.time).is_err())
            || [request, response].into_iter().flatten().any(|body| !body.is_ascii() || body.contains(&0x7f))
        {
            return Ok(false);
        }
        let time = asked.map(|_| &self.time[..]);
        let places = [&exchange.request, &exchange.response].map(Option::as_ref);
        let [sizes, packets] = [|place: &FramePlace| place.size, |place: &FramePlace| Some(place.at.0)]
            .map(|of: fn(&FramePlace) -> Option<i64>| places.map(|place| place.and_then(of)));
        if let Some(problem) = &exchange.problem {
            context.call(py, "problem", (&**problem, packets[0].or(packets[1])))?;
        }
        let problem = exchange.problem.as_ref().map(|problem| problem.as_bytes());
        let texts: [Option<&[u8]>; TEXTS.len()] = [
            time,
            Some(ends.client.as_bytes()),
            Some(ends.broker.as_bytes()),
            api.map(|api| api.name.as_bytes()),
            client_id.map(str::as_bytes),
            problem,
            None,
            request,
            response,
        ];
        for (column, text) in self.texts.iter_mut().zip(texts) {
            column.push(text)?;
        }
        let latency_ms = latency.map(|ns| ns as f64 / 1e6);
        let rest = [sizes, packets].concat();
        let integers = [asked, answered, Some(ends.number), api.map(|api| i64::from(api.key)), version.map(i64::from)];
        self.push_numbers(&integers, correlation_id.map(i64::from), latency_ms, &rest);
        let mut errors = errors.to_vec();
        errors.sort_unstable();
        for (code, count) in errors {
            self.error_names.push(Some(context.error_name(py, code)?.as_bytes()))?;
            self.error_counts.extend_from_slice(&i64::from(count).to_ne_bytes());
        }
        self.error_ends.extend_from_slice(&offset(self.error_counts.len() / 8)?);
        Ok(true)
    }

    fn push_made(&mut self, row: &Made, errors: &[(String, i64)]) -> PyResult<()> {
        let texts = [
            &row.time,
            &row.client,
            &row.broker,
            &row.api,
            &row.client_id,
            &row.problem,
            &row.note,
            &row.request,
            &row.response,
        ];
        for (column, text) in self.texts.iter_mut().zip(texts) {
            column.push(text.as_deref().map(str::as_bytes))?;
        }
        let integers = [row.time_ns, row.response_time_ns, row.connection, row.api_key, row.version];
        let rest = [row.request_bytes, row.response_bytes, row.packet, row.response_packet];
        self.push_numbers(&integers, row.correlation_id, row.latency_ms, &rest);
        for (name, count) in errors {
            self.error_names.push(Some(name.as_bytes()))?;
            self.error_counts.extend_from_slice(&count.to_ne_bytes());
        }
        self.error_ends.extend_from_slice(&offset(self.error_counts.len() / 8)?);
        Ok(())
    }

    /// Values in the order of `NUMBERS`.
    fn push_numbers(
        &mut self,
        integers: &[Option<i64>],
        correlation_id: Option<i64>,
        latency_ms: Option<f64>,
        rest: &[Option<i64>],
    ) {
        let bytes = |number: &Option<i64>| number.map(i64::to_ne_bytes);
        let middle = [bytes(&correlation_id), latency_ms.map(f64::to_ne_bytes)];
        let all = integers.iter().map(bytes).chain(middle).chain(rest.iter().map(bytes));
        self.numbers.iter_mut().zip(all).for_each(|(column, value)| column.push(value));
    }

    /// The number of exchanges, buffers of each column but `errors`, and those of errors: offsets of exchanges, offsets
    /// and text of names, counts. None without exchanges.
    pub fn take<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let count = std::mem::take(&mut self.count);
        if count == 0 {
            return Ok(None);
        }
        let columns = PyDict::new(py);
        for (name, column) in NUMBERS.iter().zip(&mut self.numbers) {
            let none: Option<Bound<'py, PyBytes>> = None;
            columns.set_item(name, (column.validity.take(py), none, bytes(py, &mut column.data)))?;
        }
        for (name, column) in TEXTS.iter().zip(&mut self.texts) {
            columns.set_item(name, column.take(py))?;
        }
        let (_, name_offsets, names) = self.error_names.take(py);
        let ends = offsets(py, &std::mem::take(&mut self.error_ends));
        let errors = (ends, name_offsets, names, bytes(py, &mut self.error_counts));
        Ok(Some((count, columns, errors).into_pyobject(py)?.into_any()))
    }
}
