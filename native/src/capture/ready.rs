//! The output of exchanges that are in order: lines, columns, counts, or rows of Python.

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::exchange::Exchange;
use super::Tracker;

impl Tracker {
    /// Takes the exchanges that are in order.
    pub(super) fn advance(&mut self, py: Python<'_>) -> PyResult<()> {
        while let Some(mut exchange) = self.context.sequencer.next() {
            if self.context.following.is_some() && exchange.is_python() {
                self.context.read_again(py, &mut exchange)?;
            }
            let ends = exchange.ends.is_some();
            if let Some(selection) = &mut self.context.selection {
                self.context.learned |= selection.learn(&exchange);
                if exchange.is_python() {
                    self.choose(py, exchange, ends)?;
                    continue;
                }
                if !selection.selects(&exchange) {
                    self.pass_over(py, &exchange)?;
                    continue;
                }
            }
            if self.context.following.is_some() {
                self.follow(py, exchange)?;
                continue;
            }
            if let Some(statistics) = self.statistics.as_mut().filter(|_| !exchange.is_python()) {
                if let Some(problem) = &exchange.problem {
                    let place = exchange.request.as_ref().or(exchange.response.as_ref());
                    self.context.call(py, "problem", (&**problem, place.map(|place| place.at.0)))?;
                }
                statistics.add(&exchange);
                if statistics.is_full() {
                    self.flush(py)?;
                }
                continue;
            }
            if self.spans.is_some() {
                self.make_span(py, exchange)?;
                continue;
            }
            if self.as_lines && exchange.line(py, &mut self.context, &mut self.lines)? {
                self.count += 1;
                continue;
            }
            if let Some(columns) = self.columns.as_mut().filter(|_| ends) {
                columns.push(py, &mut self.context, exchange)?;
                if columns.is_full() {
                    self.flush_columns(py)?;
                }
                continue;
            }
            self.flush(py)?;
            self.flush_columns(py)?;
            self.ready.push(exchange.into_python(py, &self.context)?);
        }
        Ok(())
    }

    /// An exchange of which Python has read something, and which it selects or not.
    fn choose(&mut self, py: Python<'_>, exchange: Box<Exchange>, ends: bool) -> PyResult<()> {
        let names = exchange.names();
        let learned = self.spans.is_some().then(|| names.clone());
        let row = exchange.into_python(py, &self.context)?;
        let (selected, problem) = self.context.chosen(py, &row, names)?;
        if !selected {
            self.passed += 1;
            return problem.map_or(Ok(()), |(problem, packet)| self.count_problem(py, &problem, packet));
        }
        self.learn(py, &row)?;
        if let Some((spans, names)) = self.spans.as_ref().zip(learned) {
            let row = spans.with_span(py, &row, names)?;
            self.flush(py)?;
            self.ready.push(row);
            return Ok(());
        }
        if let Some(columns) = self.columns.as_mut().filter(|_| ends) {
            columns.push_row(py, &self.context, row)?;
            return if columns.is_full() { self.flush_columns(py) } else { Ok(()) };
        }
        self.flush(py)?;
        self.flush_columns(py)?;
        self.ready.push(row);
        Ok(())
    }

    /// Gives an exchange with its messages, or counts one that the timeline does not need.
    fn follow(&mut self, py: Python<'_>, mut exchange: Box<Exchange>) -> PyResult<()> {
        let python = exchange.is_python();
        if !python {
            if !self.context.following.as_mut().is_some_and(|following| following.needs(&exchange)) {
                self.skipped += 1;
                return self.count_problem_of(py, &exchange);
            }
            self.context.read_again(py, &mut exchange)?;
        }
        let row = exchange.into_python(py, &self.context)?;
        if python {
            self.learn(py, &row)?;
        }
        self.ready.push(row);
        Ok(())
    }

    /// Takes the ids in what Python has read.
    fn learn(&mut self, py: Python<'_>, row: &Py<PyAny>) -> PyResult<()> {
        if self.context.following.is_some() {
            let names = self.context.call(py, "named", (row,))?.extract()?;
            self.context.following.iter_mut().for_each(|following| following.learn(&names));
        }
        Ok(())
    }

    /// The span of an exchange; with its row, where Python makes it.
    fn make_span(&mut self, py: Python<'_>, exchange: Box<Exchange>) -> PyResult<()> {
        let Some(spans) = &mut self.spans else { return Ok(()) };
        if !spans.push(py, &mut self.context, &exchange)? {
            let names = exchange.names();
            let row = spans.with_span(py, &exchange.into_python(py, &self.context)?, names)?;
            self.flush(py)?;
            self.ready.push(row);
        } else if spans.is_full() {
            self.flush(py)?;
        }
        Ok(())
    }

    /// An exchange that is not selected: its problem counts.
    fn pass_over(&mut self, py: Python<'_>, exchange: &Exchange) -> PyResult<()> {
        self.passed += 1;
        self.count_problem_of(py, exchange)
    }

    fn count_problem_of(&mut self, py: Python<'_>, exchange: &Exchange) -> PyResult<()> {
        if let Some(problem) = &exchange.problem {
            let place = exchange.request.as_ref().or(exchange.response.as_ref());
            self.count_problem(py, problem, place.map(|place| place.at.0))?;
        }
        Ok(())
    }

    /// The problem of an exchange that is not selected, in the order in which those of others are counted.
    fn count_problem(&mut self, py: Python<'_>, problem: &str, packet: Option<i64>) -> PyResult<()> {
        if self.columns.is_some() || self.statistics.is_some() {
            self.context.call(py, "problem", (problem, packet))?;
        } else {
            let none: Option<i64> = None;
            self.ready.push((problem, packet, none, none).into_pyobject(py)?.into_any().unbind());
        }
        Ok(())
    }

    pub(super) fn flush(&mut self, py: Python<'_>) -> PyResult<()> {
        if self.count > 0 {
            let lines = (self.count, PyBytes::new(py, &self.lines)).into_pyobject(py)?;
            self.ready.push(lines.into_any().unbind());
            self.lines.clear();
            self.count = 0;
        }
        if let Some(spans) = &mut self.spans {
            self.ready.extend(spans.take(py)?.map(Bound::unbind));
        }
        if let Some(statistics) = &mut self.statistics {
            self.ready.extend(statistics.take(py, &mut self.context, false)?.map(Bound::unbind));
        }
        Ok(())
    }

    pub(super) fn flush_columns(&mut self, py: Python<'_>) -> PyResult<()> {
        if let Some(columns) = &mut self.columns {
            self.ready.extend(columns.take(py)?.map(Bound::unbind));
        }
        Ok(())
    }
}
