//! A connection that has been opened, until there is data.

use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::segment::{End, Segment, ACK, FIN, RST, SYN};
use super::side::Moment;

/// A side without data: the sequence number of its first byte, how far the other has acknowledged beyond it, its newest
/// segment.
pub type Begun = (u32, i64, Moment);

pub struct Opening {
    pub connection: Py<PyAny>,
    opener: End,
    /// The side that sent the SYN, and the other one once it has answered.
    begun: Begun,
    answered: Option<Begun>,
    /// The newest packet.
    now: Moment,
}

fn acknowledge((sequence, acknowledged, _): &mut Begun, number: u32) {
    *acknowledged = (*acknowledged).max(i64::from(number.wrapping_sub(*sequence) as i32));
}

impl Opening {
    pub fn new(connection: Py<PyAny>, opener: End, (begun, answered): (Begun, Option<Begun>), now: Moment) -> Self {
        Opening { connection, opener, begun, answered, now }
    }

    /// False: the segment is neither the answer to the SYN nor a mere acknowledgment, and nothing was done.
    pub fn take(&mut self, segment: &Segment<'_>, now: Moment) -> bool {
        if segment.size != 0 || segment.flags & (FIN | RST) != 0 || segment.flags & ACK == 0 {
            return false;
        }
        let from_opener = segment.source == self.opener;
        if segment.flags & SYN != 0 {
            if from_opener || self.answered.is_some() {
                return false;
            }
            self.answered = Some((segment.sequence.wrapping_add(1), 0, now));
        }
        self.now = now;
        if from_opener {
            if let Some(answered) = &mut self.answered {
                acknowledge(answered, segment.acknowledgment);
            }
            self.begun.2 = now;
        } else {
            acknowledge(&mut self.begun, segment.acknowledgment);
            if let Some(answered) = &mut self.answered {
                answered.2 = now;
            }
        }
        true
    }

    pub fn give_back(self, py: Python<'_>) -> PyResult<()> {
        let sides = PyTuple::new(py, [Some(self.begun), self.answered])?;
        self.connection.bind(py).call_method1("opened", (sides, self.now))?;
        Ok(())
    }
}
