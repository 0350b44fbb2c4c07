//! The connections of a capture: packets -> exchanges in order, as `kafkawire.capture.tracker` gives them. A connection
//! is held here from its first packet to its last. Python parses packets of other kinds than `segment` reads, decrypts
//! TLS, decodes frames that are refused here, and searches frames where no boundary is known (`context`).

mod clock;
mod columns;
mod connection;
mod context;
mod exchange;
mod exchange_rows;
mod following;
mod frames;
mod late_packets;
mod matcher;
mod ordered;
mod pcap;
mod pcapng;
mod ready;
mod recognition;
mod segment;
mod selection;
mod sequencer;
mod spans;
mod statistics;
mod stream;
mod tls;
mod tls_records;

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};

use foldhash::fast::RandomState;
use pyo3::exceptions::PyValueError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyList;

use columns::ExchangeColumns;
use connection::{Connection, Verdict};
use context::{Context, Options};
use exchange::Exchange;
use ordered::Ordered;
use segment::{plain, End, Segment, SYN};
use selection::Selection;
use sequencer::Sequencer;
use spans::Spans;
use statistics::GroupedStatistics;
use stream::Moment;

/// Times of packets that are kept (`PcapHeaders`).
const RECENT: usize = 4;
/// As in `kafkawire.capture.resets`: how long data in flight is waited for after a reset, and how long both endpoints
/// have to be idle until one in doubt is believed.
const CERTAIN_NS: i64 = 1_000_000_000;
const DOUBTED_NS: i64 = 60_000_000_000;

/// The two ends of a connection, the smaller first.
type Key = (End, End);
type Address = (PyBackedBytes, u16);

/// As in `kafkawire.capture.memory_limits`, and connections that are over and are remembered.
#[derive(FromPyObject)]
struct Limits {
    most_ended: usize,
    most_held: i64,
    every_bytes: i64,
    most_open: usize,
    idle_ns: i64,
}

/// The connections of a capture.
#[pyclass(module = "kafkawire._native")]
pub struct Tracker {
    context: Context,
    limits: Limits,
    connections: HashMap<Key, Box<Connection>, RandomState>,
    /// Connections that are over: their last acknowledgments may still come.
    ended: Ordered<Key, ()>,
    /// Reset connections: with the time of the reset; with the time of the last segment where it is in doubt.
    certain: Ordered<Key, i64>,
    doubted: Ordered<Key, i64>,
    /// Bytes until memory is weighed.
    weighed: i64,
    opened: i64,
    /// Connections were dropped that may continue.
    crowded: bool,
    /// Whether exchanges become lines of JSON.
    as_lines: bool,
    /// Those that become columns, if any do.
    columns: Option<ExchangeColumns>,
    /// What they are only counted in, if they are.
    statistics: Option<GroupedStatistics>,
    /// Those that become spans, if they do.
    spans: Option<Spans>,
    /// Exchanges since the last `ready` that are not selected, and those that the timeline does not need.
    passed: usize,
    skipped: usize,
    ready: Vec<Py<PyAny>>,
    lines: Vec<u8>,
    /// Exchanges in `lines`.
    count: usize,
}

impl Tracker {
    fn process(&mut self, py: Python<'_>, segment: &Segment<'_>, at: Moment) -> PyResult<()> {
        let (one, other) = (segment.source, segment.destination);
        let key = (one.min(other), one.max(other));
        if let Some(connection) = self.connections.get_mut(&key) {
            let far = connection.is_far(segment);
            if far {
                connection.report_far(py, &mut self.context, segment, at)?;
            }
            if far || connection.reopened_by(segment) {
                if let Some(connection) = self.connections.remove(&key) {
                    self.finish_one(py, connection)?;
                }
            }
        }
        let connection = match self.connections.get_mut(&key) {
            Some(connection) => connection,
            None => {
                let known = self.ended.contains(&key);
                if known && segment.payload.is_empty() && segment.flags & SYN == 0 {
                    return self.pass(py, at.1); // one of the last acknowledgments of a connection that is over
                }
                self.ended.remove(&key);
                self.opened += 1;
                let ends = (key.0.address_and_port(), key.1.address_and_port());
                let owned = self.context.call(py, "owned", (ends,))?.is_truthy()?;
                let ports = (segment.source.port, segment.destination.port);
                let broker = self.context.broker(ports);
                let connection = Connection::new(self.opened, segment, broker, owned, self.crowded || known);
                self.connections.entry(key).or_insert(Box::new(connection))
            }
        };
        let selection = self.context.selection.as_ref();
        self.context.muted = selection.is_some_and(|wanted| !wanted.takes_connection(connection.number, None));
        connection.process(py, &mut self.context, segment, at)?;
        let (certain, doubted) = (connection.reset_ns, connection.reset_in_doubt());
        let ended = connection.ended();
        self.doubted.remove(&key);
        if doubted {
            self.doubted.push(key, at.1);
        }
        match certain {
            None => drop(self.certain.remove(&key)),
            Some(since) if !self.certain.contains(&key) => self.certain.push(key, since),
            Some(_) => (),
        }
        if ended {
            self.end(py, &key)?;
        }
        self.weighed -= segment.payload.len() as i64;
        if self.connections.len() > self.limits.most_open {
            self.crowded = true;
            let ending = self.limits.most_open / 10;
            let mut last: Vec<i64> = self.connections.values().map(|found| found.now.0).collect();
            let (_, &mut newest, _) = last.select_nth_unstable(ending);
            let idle = self.connections.iter().map(|(key, found)| (found.now.0, *key));
            let mut idle: Vec<_> = idle.filter(|(packet, _)| *packet <= newest).collect();
            idle.sort_unstable_by_key(|(packet, _)| *packet);
            for (_, key) in idle {
                self.end(py, &key)?;
            }
        }
        self.pass(py, at.1)
    }

    /// Does what is due after a packet: ends reset connections, takes exchanges that are in order, bounds memory.
    fn pass(&mut self, py: Python<'_>, now_ns: i64) -> PyResult<()> {
        while let Some(&(key, since)) = self.certain.first() {
            if now_ns.saturating_sub(since) <= CERTAIN_NS {
                break;
            }
            self.end(py, &key)?;
        }
        while let Some(&(key, since)) = self.doubted.first() {
            if now_ns.saturating_sub(since) <= DOUBTED_NS {
                break;
            }
            self.end(py, &key)?;
        }
        self.advance(py)?;
        if self.weighed <= 0 {
            self.weigh(py, now_ns)?;
        }
        Ok(())
    }

    fn weigh(&mut self, py: Python<'_>, now_ns: i64) -> PyResult<()> {
        self.weighed = self.limits.every_bytes;
        for connection in self.connections.values_mut() {
            if now_ns.saturating_sub(connection.now.1) > self.limits.idle_ns {
                connection.settle();
            }
        }
        let mut total = self.held();
        if total <= self.limits.most_held {
            return Ok(());
        }
        let context = &mut self.context;
        let connections = self.connections.iter();
        let mut held: Vec<_> =
            connections.map(|(key, connection)| (connection.held(context), connection.number, *key)).collect();
        held.sort_unstable();
        while total > self.limits.most_held / 2 {
            let Some((size, _, key)) = held.pop() else { break };
            if let Some(connection) = self.connections.get_mut(&key) {
                connection.free_memory(py, context)?;
            }
            total -= size;
        }
        Ok(())
    }

    /// Ends a connection that is over, or that is dropped since too many are open.
    fn end(&mut self, py: Python<'_>, key: &Key) -> PyResult<()> {
        self.certain.remove(key);
        self.doubted.remove(key);
        if let Some(connection) = self.connections.remove(key) {
            self.finish_one(py, connection)?;
            self.ended.push(*key, ());
            if self.ended.len() > self.limits.most_ended {
                self.ended.pop_first();
            }
        }
        Ok(())
    }

    fn finish_one(&mut self, py: Python<'_>, mut connection: Box<Connection>) -> PyResult<()> {
        connection.finish(py, &mut self.context)?;
        let ends = connection.ends.each_ref().map(End::address_and_port);
        let session = connection.tls.as_ref().map(|tls| &tls.session);
        let joined = if connection.owned { connection.joined } else { 0 };
        let (repeated, cut) = match connection.verdict {
            Verdict::Kafka => (connection.repeated(), connection.cut),
            _ => (0, 0),
        };
        let joined = if connection.verdict == Verdict::Kafka { joined } else { 0 };
        let counts = (connection.verdict.name(), connection.bytes, repeated, cut, joined, ends, session);
        self.context.call(py, "finished", counts)?;
        Ok(())
    }
}

#[pymethods]
impl Tracker {
    /// `handler`: of `kafkawire.capture.native_tracker`. `order`: the arguments of a `Sequencer`. `as_columns`: limits
    /// of a batch, if exchanges become columns. `as_statistics`: as `GroupedStatistics` has them, if exchanges are only
    /// counted.
    #[new]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        handler: Py<PyAny>,
        options: Options,
        limits: Limits,
        order: (usize, i64, Option<i64>),
        as_lines: bool,
        as_columns: Option<(usize, usize)>,
        selection: Option<Selection>,
        as_statistics: Option<(f64, f64)>,
    ) -> PyResult<Self> {
        let spans: Option<(Py<PyAny>, String)> = handler.getattr(py, "spans")?.extract(py)?;
        Ok(Tracker {
            context: Context::new(py, handler, options, Sequencer::new(order.0, order.1, order.2), selection)?,
            weighed: limits.every_bytes,
            limits,
            connections: HashMap::default(),
            ended: Ordered::default(),
            certain: Ordered::default(),
            doubted: Ordered::default(),
            opened: 0,
            crowded: false,
            as_lines,
            columns: as_columns.map(ExchangeColumns::new),
            statistics: as_statistics.map(GroupedStatistics::new),
            spans: spans.map(|(writer, file)| Spans::new(writer, file)),
            passed: 0,
            skipped: 0,
            ready: Vec::new(),
            lines: Vec::new(),
            count: 0,
        })
    }

    /// Number of open connections.
    #[getter]
    fn open(&self) -> usize {
        self.connections.len()
    }

    /// Estimate of the memory that they take, in bytes.
    #[getter]
    fn held(&self) -> i64 {
        self.connections.values().map(|connection| connection.held(&self.context)).sum()
    }

    /// One packet. False: not a plain segment, and nothing was done.
    #[pyo3(signature = (link_type, data, packet, time_ns, /))]
    fn packet(&mut self, py: Python<'_>, link_type: i64, data: &[u8], packet: i64, time_ns: i64) -> PyResult<bool> {
        let Some(found) = plain(link_type, data) else { return Ok(false) };
        self.process(py, &found, (packet, time_ns))?;
        Ok(true)
    }

    /// One TCP segment.
    ///
    /// ValueError: an address of neither 4 nor 16 bytes.
    #[pyo3(signature = (source, destination, sequence, acknowledgment, flags, payload, missing, packet, time_ns, /))]
    #[allow(clippy::too_many_arguments)]
    fn segment(
        &mut self,
        py: Python<'_>,
        source: Address,
        destination: Address,
        sequence: u32,
        acknowledgment: u32,
        flags: u16,
        payload: &[u8],
        missing: usize,
        packet: i64,
        time_ns: i64,
    ) -> PyResult<()> {
        let end = |(address, port): Address| {
            End::new(&address, port).ok_or_else(|| PyValueError::new_err("an address of neither 4 nor 16 bytes"))
        };
        let size = payload.len() + missing;
        let (source, destination) = (end(source)?, end(destination)?);
        let segment = Segment { source, destination, sequence, acknowledgment, flags, payload, size };
        self.process(py, &segment, (packet, time_ns))
    }

    /// A packet without a segment: time passes.
    fn passed(&mut self, py: Python<'_>, time_ns: i64) -> PyResult<()> {
        self.pass(py, time_ns)
    }

    /// A problem of the file, before that packet.
    fn damaged(&mut self, packet: i64, problem: String) {
        let mut exchange = Exchange::new(None);
        exchange.problem = Some(Cow::Owned(problem));
        let ticket = self.context.sequencer.ticket(packet);
        self.context.sequencer.close(ticket, Some(exchange), 0);
    }

    /// Ends all connections.
    fn finish(&mut self, py: Python<'_>) -> PyResult<()> {
        let mut left: Vec<_> = self.connections.drain().map(|(_, connection)| connection).collect();
        left.sort_unstable_by_key(|connection| connection.number);
        left.into_iter().try_for_each(|connection| self.finish_one(py, connection))?;
        self.advance(py)?;
        if let Some(statistics) = &mut self.statistics {
            self.ready.extend(statistics.take(py, &mut self.context, true)?.map(Bound::unbind));
        }
        self.flush_columns(py)
    }

    /// The exchanges that came in order since the last call: `CapturedExchange`, or a number of them with their lines or
    /// columns, or in a tuple of three with their spans; of one that is not selected its problem and packet, in a tuple of
    /// four.
    fn ready<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        if self.statistics.is_none() {
            self.flush(py)?;
        }
        if self.passed > 0 || self.skipped > 0 {
            let counts = (std::mem::take(&mut self.passed), std::mem::take(&mut self.skipped));
            self.context.call(py, "passed", counts)?;
        }
        PyList::new(py, self.ready.drain(..))
    }

    /// The packets of a classic pcap from `at` on, as long as they are plain. Gives the place after them, how many they
    /// are, and the seconds of the last ones (`recent`). `number`: of the packet before.
    fn run(
        &mut self,
        py: Python<'_>,
        data: &[u8],
        at: usize,
        format: pcap::Format,
        number: i64,
        recent: Vec<i64>,
    ) -> PyResult<(usize, i64, Vec<i64>)> {
        let (mut at, mut count, most) = (at, 0, recent.len().max(RECENT));
        let mut recent = VecDeque::from(recent);
        while let Some(packet) = pcap::next(data, at, &format, &recent) {
            let Some(segment) = plain(format.2, packet.data) else { break };
            self.process(py, &segment, (number + count + 1, packet.time_ns))?;
            at = packet.end;
            count += 1;
            recent.push_back(packet.seconds);
            if recent.len() > most {
                recent.pop_front();
            }
        }
        Ok((at, count, recent.into()))
    }

    /// The packets of a pcapng from `at` on, as long as they are plain. Gives the place after them, and their number.
    fn run_blocks(
        &mut self,
        py: Python<'_>,
        data: &[u8],
        at: usize,
        little: bool,
        interfaces: Vec<pcapng::Interface>,
        number: i64,
    ) -> PyResult<(usize, i64)> {
        let (mut at, mut count) = (at, 0);
        while let Some(packet) = pcapng::next(data, at, pcapng::Order { little }, &interfaces) {
            let Some(segment) = packet.link_type.and_then(|kind| plain(kind, packet.data)) else { break };
            self.process(py, &segment, (number + count + 1, packet.time_ns))?;
            at = packet.end;
            count += 1;
        }
        Ok((at, count))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.context.handler)?;
        visit.call(&self.context.rows)
    }
}
