//! Connections in order: packets in, whole frames out. A connection of `kafkawire.capture` is handed over when it has been
//! opened, until there is data, and when both of its directions are in order and cut into frames. With the first packet
//! that is not plain (out of order, a flag that is not expected, a size that no frame has) it goes back to where
//! everything is understood, with all that is held; and when both ends have closed it.

mod opening;
mod pcap;
mod segment;
mod side;

use std::collections::{HashMap, HashSet, VecDeque};

use pyo3::exceptions::PyValueError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBool, PyBytes, PyList, PyTuple};

use opening::{Begun, Opening};
use segment::{plain, End, Segment, ACK, FIN, RST, SYN};
use side::{Frame, Moment, Side, SIZE};

/// Times of packets that are kept (`PcapHeaders`).
const RECENT: usize = 4;

/// A connection that is here.
enum Held {
    Opening(Opening),
    Open(Lane),
}

struct Lane {
    connection: Py<PyAny>,
    first: End,
    sides: [Side; 2],
    /// The newest packet.
    now: Moment,
    /// Bytes of data in packets.
    bytes: usize,
}

/// A side as Python knows it: sequence number, acknowledged, last, recent, pending, chunks.
type Given = (u32, i64, Moment, PyBackedBytes, PyBackedBytes, Vec<(i64, Moment)>);
type Address = (PyBackedBytes, u16);

fn key(one: End, other: End) -> (End, End) {
    (one.min(other), one.max(other))
}

fn pair((one, other): &(Address, Address)) -> PyResult<(End, End)> {
    let end = |(address, port): &Address| {
        End::new(address, *port).ok_or_else(|| PyValueError::new_err("an address of neither 4 nor 16 bytes"))
    };
    Ok((end(one)?, end(other)?))
}

/// The connections of a capture that are in order.
#[pyclass(module = "kafkawire._native")]
pub struct Lanes {
    held: HashMap<(End, End), Held>,
    /// Connections that were closed here: their last acknowledgments may still come.
    closed: HashSet<(End, End)>,
    /// The caller, which has the connections, remembers this many of those.
    most_closed: usize,
}

impl Lanes {
    fn give_back(&mut self, py: Python<'_>, key: &(End, End)) -> PyResult<()> {
        match self.held.remove(key) {
            None => Ok(()),
            Some(Held::Opening(opening)) => opening.give_back(py),
            Some(Held::Open(lane)) => lane.give_back(py),
        }
    }

    /// None: not plain for the connection that it belongs to, or of none that is here; nothing was done. Otherwise the
    /// tuple that `take` returns.
    fn taken<'py>(
        &mut self,
        py: Python<'py>,
        segment: &Segment<'_>,
        now: Moment,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let key = key(segment.source, segment.destination);
        let nothing = || Ok(Some(PyTuple::empty(py).into_any()));
        match self.held.get_mut(&key) {
            Some(Held::Opening(opening)) => match opening.take(segment, now) {
                true => nothing(),
                false => Ok(None),
            },
            Some(Held::Open(lane)) => {
                let taken = lane.take(py, segment, now)?;
                if lane.closed() {
                    self.give_back(py, &key)?;
                    self.closed.insert(key);
                }
                Ok(taken)
            }
            None if segment.payload.is_empty() && segment.flags & SYN == 0 && self.closed.contains(&key) => nothing(),
            None => Ok(None),
        }
    }
}

#[pymethods]
impl Lanes {
    #[new]
    fn new(most_closed: usize) -> Self {
        Lanes { held: HashMap::new(), closed: HashSet::new(), most_closed }
    }

    /// Takes over a connection with data. `ends`: address and port of each side.
    ///
    /// ValueError: one of its sides is not in order.
    fn adopt(
        &mut self,
        connection: Py<PyAny>,
        ends: (Address, Address),
        sides: (Given, Given),
        now: Moment,
    ) -> PyResult<()> {
        let side = |(sequence, acknowledged, last, recent, pending, chunks): Given| {
            Side::new(sequence, acknowledged, last, recent.to_vec(), pending.to_vec(), chunks)
        };
        let (first, second) = pair(&ends)?;
        match (side(sides.0), side(sides.1)) {
            (Some(one), Some(other)) if first != second => {
                let lane = Lane { connection, first, sides: [one, other], now, bytes: 0 };
                self.held.insert(key(first, second), Held::Open(lane));
                Ok(())
            }
            _ => Err(PyValueError::new_err("a connection that is not in order")),
        }
    }

    /// Takes over a connection of which nothing but a SYN was seen, from the side `opener`; `begun` is that side, and
    /// the other one where it has answered.
    ///
    /// ValueError: it has one end only.
    fn adopt_opening(
        &mut self,
        connection: Py<PyAny>,
        ends: (Address, Address),
        opener: usize,
        begun: (Begun, Option<Begun>),
        now: Moment,
    ) -> PyResult<()> {
        let (first, second) = pair(&ends)?;
        if first == second {
            return Err(PyValueError::new_err("a connection of an end with itself"));
        }
        let opening = Opening::new(connection, if opener == 0 { first } else { second }, begun, now);
        self.held.insert(key(first, second), Held::Opening(opening));
        Ok(())
    }

    /// It is no longer known that a connection was closed.
    fn forget(&mut self, ends: (Address, Address)) -> PyResult<()> {
        let (first, second) = pair(&ends)?;
        self.closed.remove(&key(first, second));
        Ok(())
    }

    /// Gives a connection back, through its `resume`; nothing happens where it is not here.
    fn release(&mut self, py: Python<'_>, ends: (Address, Address)) -> PyResult<()> {
        let (first, second) = pair(&ends)?;
        self.give_back(py, &key(first, second))
    }

    /// Gives all connections back.
    fn release_all(&mut self, py: Python<'_>) -> PyResult<()> {
        let keys: Vec<_> = self.held.keys().copied().collect();
        keys.iter().try_for_each(|key| self.give_back(py, key))
    }

    /// Bytes of frames that are not whole.
    #[getter]
    fn held(&self) -> usize {
        self.held.values().map(Held::pending).sum()
    }

    /// One packet. None: not a plain segment. False: one of a connection that is not here, or no longer. Otherwise it
    /// has been taken: (connection, side, frames, the packet with the first byte that is in no frame yet, whether both
    /// ends have closed it now: then it is no longer here), or an empty tuple where it completes no frame and changes
    /// neither of the last two; a frame is (bytes, packet, time).
    #[pyo3(signature = (link_type, data, packet, time_ns, /))]
    fn take<'py>(
        &mut self,
        py: Python<'py>,
        link_type: i64,
        data: &[u8],
        packet: i64,
        time_ns: i64,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(found) = plain(link_type, data) else { return Ok(None) };
        if let Some(taken) = self.taken(py, &found, (packet, time_ns))? {
            return Ok(Some(taken));
        }
        self.give_back(py, &key(found.source, found.destination))?;
        Ok(Some(PyBool::new(py, false).to_owned().into_any()))
    }

    /// The packets of a classic pcap from `at` on, as long as connections that are here take them. Gives the place
    /// behind them, how many they are, the seconds of the last ones (`recent`), and what `take` would have, where
    /// that is not an empty tuple. `number`: of the packet before.
    fn run<'py>(
        &mut self,
        py: Python<'py>,
        data: &[u8],
        at: usize,
        format: pcap::Format,
        number: i64,
        recent: Vec<i64>,
    ) -> PyResult<(usize, i64, Vec<i64>, Bound<'py, PyList>)> {
        let (mut at, mut count, most) = (at, 0, recent.len().max(RECENT));
        let mut recent = VecDeque::from(recent);
        let taken = PyList::empty(py);
        while let Some(packet) = pcap::next(data, at, &format, &recent) {
            let Some(segment) = plain(format.2, packet.data) else { break };
            let Some(found) = self.taken(py, &segment, (number + count + 1, packet.time_ns))? else { break };
            at = packet.end;
            count += 1;
            recent.push_back(packet.seconds);
            if recent.len() > most {
                recent.pop_front();
            }
            if !found.is_empty()? {
                taken.append(found)?;
            }
            if self.closed.len() >= self.most_closed {
                break; // the caller forgets one first
            }
        }
        Ok((at, count, recent.into(), taken))
    }

    /// A connection knows the lanes that it is in: the garbage collector must see the way back.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.held.values().try_for_each(|held| visit.call(held.connection()))
    }

    fn __clear__(&mut self) {
        self.held.clear();
    }

    fn __len__(&self) -> usize {
        self.held.len()
    }
}

impl Held {
    fn connection(&self) -> &Py<PyAny> {
        match self {
            Held::Opening(opening) => &opening.connection,
            Held::Open(lane) => &lane.connection,
        }
    }

    /// Bytes of frames that are not whole.
    fn pending(&self) -> usize {
        match self {
            Held::Opening(_) => 0,
            Held::Open(lane) => lane.sides.iter().map(|side| side.pending.len()).sum(),
        }
    }
}

impl Lane {
    fn closed(&self) -> bool {
        self.sides.iter().all(|side| side.closed)
    }

    fn give_back(self, py: Python<'_>) -> PyResult<()> {
        let sides = self.sides.iter().map(|side| {
            let (recent, pending) = (PyBytes::new(py, side.recent()), PyBytes::new(py, &side.pending));
            let chunks = side.chunks.clone();
            (side.advanced, side.acknowledged, side.last, recent, pending, chunks, side.closed).into_pyobject(py)
        });
        let sides = PyTuple::new(py, sides.collect::<PyResult<Vec<_>>>()?)?;
        self.connection.bind(py).call_method1("resume", (sides, self.now, self.bytes))?;
        Ok(())
    }

    /// None: the segment is not plain, and nothing was done.
    fn take<'py>(
        &mut self,
        py: Python<'py>,
        segment: &Segment<'_>,
        now: Moment,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        if segment.flags & (SYN | RST) != 0 {
            return Ok(None);
        }
        let index = usize::from(segment.source != self.first);
        if segment.size != segment.payload.len() {
            return Ok(None); // cut off
        }
        let Some(ends) = self.sides[index].accepts(segment) else { return Ok(None) };
        if segment.flags & ACK != 0 {
            self.sides[1 - index].acknowledge(segment.acknowledgment);
        }
        self.now = now;
        self.bytes += segment.size;
        let side = &mut self.sides[index];
        let before = side.first();
        let frames = side.take(segment.payload, &ends, now);
        side.closed |= segment.flags & FIN != 0;
        let first = side.first();
        let closed = self.closed();
        if frames.is_empty() && first == before && !closed {
            return Ok(Some(PyTuple::empty(py).into_any()));
        }
        let listed = PyList::empty(py);
        for frame in frames {
            let (data, (packet, time_ns)) = match &frame {
                Frame::Begun(data, begun) => (&data[SIZE..], *begun),
                Frame::Within(data) => (*data, now),
            };
            listed.append((PyBytes::new(py, data), packet, time_ns))?;
        }
        Ok(Some((&self.connection, index, listed, first, closed).into_pyobject(py)?.into_any()))
    }
}
