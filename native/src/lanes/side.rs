//! One direction of a connection while all is in order: bytes to frames.

use super::segment::{Segment, FIN};

/// As `kafkawire.capture.tcp_stream.RECENT_BYTES`.
pub const RECENT_BYTES: usize = 2 << 10;
/// The most bytes that are kept before the first ones go: a lane is to be small.
const MOST_RECENT_BYTES: usize = RECENT_BYTES + (1 << 10);
/// As `kafkawire.frames.MAX_FRAME_BYTES`.
const MAX_FRAME_BYTES: i32 = 256 << 20;
/// Bytes of a frame's size.
pub const SIZE: usize = 4;

/// A packet's number and its time in nanoseconds.
pub type Moment = (i64, i64);

#[derive(Debug)]
pub struct Side {
    /// Sequence number of the byte that comes next.
    sequence: u32,
    /// Bytes since the lane began, and those that the receiver acknowledged.
    pub advanced: i64,
    pub acknowledged: i64,
    /// The newest segment.
    pub last: Moment,
    /// The end of what came in order.
    recent: Vec<u8>,
    /// The beginning of the frame that is not whole yet, and where in it packets begin.
    pub pending: Vec<u8>,
    pub chunks: Vec<(i64, Moment)>,
    /// The sender has sent its last byte.
    pub closed: bool,
}

/// A frame.
pub enum Frame<'a> {
    /// Its first byte, here that of its size, came in an earlier segment.
    Begun(Vec<u8>, Moment),
    /// Without its size.
    Within(&'a [u8]),
}

impl Side {
    /// None: what is pending is more than the beginning of one frame.
    pub fn new(
        sequence: u32,
        acknowledged: i64,
        last: Moment,
        recent: Vec<u8>,
        pending: Vec<u8>,
        chunks: Vec<(i64, Moment)>,
    ) -> Option<Self> {
        let side = Side { sequence, advanced: 0, acknowledged, last, recent, pending, chunks, closed: false };
        let placed = side.pending.is_empty() == side.chunks.is_empty();
        (placed && side.ends(&[]).is_some_and(|ends| ends.is_empty())).then_some(side)
    }

    /// The end of what came in order.
    pub fn recent(&self) -> &[u8] {
        &self.recent[self.recent.len().saturating_sub(RECENT_BYTES)..]
    }

    /// The packet with the first byte that is in no frame yet.
    pub fn first(&self) -> Option<i64> {
        self.chunks.first().map(|(_, (packet, _))| *packet)
    }

    /// Where in the data, which comes next, frames end; None: a size that no frame has.
    fn ends(&self, data: &[u8]) -> Option<Vec<usize>> {
        let mut ends = Vec::new();
        // Of the current frame, counted from the data's beginning.
        let mut start = -(self.pending.len() as i64);
        loop {
            let mut size = [0; SIZE];
            for (place, byte) in (start..).zip(&mut size) {
                let found = match usize::try_from(place) {
                    Ok(place) => data.get(place),
                    Err(_) => self.pending.get((place + self.pending.len() as i64) as usize),
                };
                match found {
                    Some(found) => *byte = *found,
                    None => return Some(ends),
                }
            }
            let size = i32::from_be_bytes(size);
            if !(0..=MAX_FRAME_BYTES).contains(&size) {
                return None;
            }
            let end = start + SIZE as i64 + i64::from(size);
            if end > data.len() as i64 {
                return Some(ends);
            }
            // What is pending is no whole frame, so it ends in the data.
            ends.push(usize::try_from(end).ok()?);
            start = end;
        }
    }

    pub fn acknowledge(&mut self, sequence: u32) {
        let ahead = sequence.wrapping_sub(self.sequence) as i32;
        self.acknowledged = self.acknowledged.max(self.advanced + i64::from(ahead));
    }

    /// Whether the segment is next in order, and what it holds are frames: then where those end.
    pub fn accepts(&self, segment: &Segment<'_>) -> Option<Vec<usize>> {
        let ends = segment.flags & FIN != 0;
        if segment.payload.is_empty() && !ends {
            return Some(Vec::new());
        }
        if self.closed || segment.sequence != self.sequence {
            return None;
        }
        self.ends(segment.payload)
    }

    /// The frames of a segment. `ends`: as `accepts` returns them.
    pub fn take<'a>(&mut self, data: &'a [u8], ends: &[usize], moment: Moment) -> Vec<Frame<'a>> {
        self.last = moment;
        if data.is_empty() {
            return Vec::new();
        }
        self.sequence = self.sequence.wrapping_add(data.len() as u32);
        self.advanced += data.len() as i64;
        self.remember(data);
        let mut frames = Vec::with_capacity(ends.len());
        let mut start = 0;
        for &end in ends {
            match self.chunks.first() {
                Some(&(_, begun)) => {
                    self.pending.extend_from_slice(&data[start..end]);
                    frames.push(Frame::Begun(std::mem::take(&mut self.pending), begun));
                    self.chunks.clear();
                }
                None => frames.push(Frame::Within(&data[start + SIZE..end])),
            }
            start = end;
        }
        if start < data.len() {
            // Where in the pending frame this packet begins.
            let place = if start == 0 { self.pending.len() as i64 } else { -(start as i64) };
            self.pending.extend_from_slice(&data[start..]);
            self.chunks.push((place, moment));
        }
        frames
    }

    fn remember(&mut self, data: &[u8]) {
        if data.len() >= RECENT_BYTES {
            self.recent.clear();
        } else if self.recent.len() + data.len() > MOST_RECENT_BYTES {
            self.recent.drain(..self.recent.len().saturating_sub(RECENT_BYTES));
        }
        self.recent.extend_from_slice(&data[data.len().saturating_sub(RECENT_BYTES)..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side() -> Side {
        Side::new(u32::MAX, 0, (1, 1), Vec::new(), Vec::new(), Vec::new()).unwrap()
    }

    fn fed(side: &mut Side, data: &[u8], packet: i64) -> Vec<(Vec<u8>, i64)> {
        let ends = side.ends(data).unwrap();
        let frames = side.take(data, &ends, (packet, 0));
        let found = frames.into_iter().map(|frame| match frame {
            Frame::Begun(data, (begun, _)) => (data[SIZE..].to_vec(), begun),
            Frame::Within(data) => (data.to_vec(), packet),
        });
        found.collect()
    }

    #[test]
    fn frames_come_out_with_the_packet_in_which_they_began() {
        let mut side = side();
        assert_eq!(fed(&mut side, b"\0\0\0\x01a\0\0\0\0\0\0", 2), vec![(b"a".to_vec(), 2), (b"".to_vec(), 2)]);
        assert_eq!((side.first(), side.chunks[0].0), (Some(2), -9));
        assert_eq!(fed(&mut side, b"\0\x03x", 3), vec![]);
        assert_eq!(side.chunks[1].0, 2);
        assert_eq!(fed(&mut side, b"yz\0", 4), vec![(b"xyz".to_vec(), 2)]);
        assert_eq!((side.first(), side.pending.as_slice(), side.advanced), (Some(4), &b"\0"[..], 17));
        assert_eq!(side.sequence, 16);
        assert!(side.ends(b"\xff\0\0").is_some());
        side.pending = vec![0xff];
        assert!(side.ends(b"\0\0\0").is_none());
    }

    #[test]
    fn the_end_of_what_came_is_remembered() {
        let mut side = side();
        for byte in 0..40u8 {
            side.remember(&[byte; 1000]);
            assert!(side.recent.len() <= MOST_RECENT_BYTES);
        }
        assert_eq!(side.recent().len(), RECENT_BYTES);
        assert_eq!((side.recent()[0], side.recent()[RECENT_BYTES - 1]), (37, 39));
        side.remember(&[1; 5000]);
        assert_eq!(side.recent(), [1; RECENT_BYTES]);
    }

    #[test]
    fn acknowledgments_count_from_where_the_lane_began() {
        let mut side = side();
        side.take(b"\0\0\0\x04ab", &[], (2, 0));
        side.acknowledge(1);
        assert_eq!(side.acknowledged, 2);
        side.acknowledge(u32::MAX - 5);
        assert_eq!(side.acknowledged, 2);
    }
}
