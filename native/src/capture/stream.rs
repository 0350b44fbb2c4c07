//! Reassembly of one direction of a TCP connection, by the rules of `kafkawire.capture.tcp_stream`.

use std::borrow::Cow;
use std::collections::BTreeMap;

/// As `kafkawire.capture.tcp_stream`: segments waited for before an acknowledged hole is given up, most bytes held ahead
/// of the order, bytes kept to compare retransmissions with.
const PATIENCE: u32 = 16;
pub const MAX_HELD_BYTES: i64 = 4 << 20;
pub const RECENT_BYTES: usize = 2 << 10;
/// The kept bytes may grow to this length before the oldest are dropped.
const MOST_RECENT_BYTES: usize = RECENT_BYTES + (1 << 10);

/// Number and time of a packet.
pub type Moment = (i64, i64);

#[derive(Debug, PartialEq)]
pub enum Event<'a> {
    /// Bytes in order.
    Chunk(Cow<'a, [u8]>, Moment),
    /// Bytes that the capture lacks, before the next ones in order; the packet that showed it.
    Loss(i64, Moment),
    /// Retransmitted bytes with other content. The first copy counts.
    Conflict(usize, Moment),
}

impl Event<'_> {
    pub fn packet(&self) -> i64 {
        match self {
            Event::Chunk(_, at) | Event::Loss(_, at) | Event::Conflict(_, at) => at.0,
        }
    }
}

/// Positions count bytes from the first one seen. They do not wrap, unlike sequence numbers.
#[derive(Default)]
pub struct Stream {
    /// Bytes dropped as retransmissions, and because they precede the first one seen.
    pub repeated: i64,
    pub early: i64,
    /// Number of the first packet whose bytes may still be held.
    since: i64,
    /// Sequence number of position 0.
    first: Option<u32>,
    next: i64,
    held: BTreeMap<i64, (Vec<u8>, Moment)>,
    held_bytes: i64,
    acknowledged: i64,
    waited: u32,
    last: Moment,
    recent: Vec<u8>,
    /// Position of the FIN.
    end: Option<i64>,
    /// Position of the end of a segment that was cut off.
    reached: i64,
}

impl Stream {
    pub fn complete(&self) -> bool {
        self.end.is_some_and(|end| self.next >= end)
    }

    pub fn started(&self) -> bool {
        self.first.is_some()
    }

    pub fn held_since(&self) -> Option<i64> {
        (!self.held.is_empty()).then_some(self.since)
    }

    pub fn held(&self) -> i64 {
        self.held_bytes
    }

    /// The sequence number of the next byte in order.
    pub fn following(&self) -> u32 {
        self.first.unwrap_or(0).wrapping_add(self.next as u32)
    }

    pub fn begins_at(&self, sequence: u32) -> bool {
        self.first == Some(sequence.wrapping_add(1))
    }

    pub fn awaits(&self, sequence: u32) -> bool {
        let ended = self.end == Some(self.next); // a FIN counts as a byte
        let acknowledged = if self.acknowledged == 0 { -1 } else { self.acknowledged };
        let position = self.position(sequence);
        self.first.is_some() && (position == self.next + i64::from(ended) || position == acknowledged)
    }

    pub fn ahead(&self, sequence: u32) -> i64 {
        self.position(sequence) - self.next
    }

    pub fn open(&mut self, sequence: u32) {
        self.first.get_or_insert(sequence.wrapping_add(1));
    }

    pub fn close(&mut self, sequence: u32) {
        self.first.get_or_insert(sequence);
        self.end = Some(self.position(sequence));
    }

    pub fn reach(&mut self, sequence: u32) {
        if self.first.is_some() {
            self.reached = self.reached.max(self.position(sequence));
        }
    }

    pub fn acknowledge(&mut self, sequence: u32) {
        if self.first.is_some() {
            self.acknowledged = self.acknowledged.max(self.position(sequence));
        }
    }

    /// Whether a segment is next in order and nothing waits for it: then it is taken, without an event.
    pub fn follows(&mut self, sequence: u32, data: &[u8], at: Moment) -> bool {
        if self.first.is_none() || !self.held.is_empty() || sequence != self.following() {
            return false;
        }
        self.last = at;
        self.advance(data);
        true
    }

    pub fn segment<'a>(&mut self, sequence: u32, data: &'a [u8], at: Moment, events: &mut Vec<Event<'a>>) {
        if self.first.is_none() {
            if data.is_empty() {
                return;
            }
            self.first = Some(sequence);
        }
        self.last = at;
        let position = self.position(sequence);
        if data.is_empty() {
            return;
        }
        if position > self.next {
            self.hold(position, data, at, events);
            while self.held_bytes > MAX_HELD_BYTES {
                self.give_up(events);
            }
            return;
        }
        if position < self.next {
            self.compare(position, data, at, events);
            self.drop(position, data.len());
        }
        if position + data.len() as i64 > self.next {
            let fresh = &data[(self.next - position) as usize..];
            self.advance(fresh);
            events.push(Event::Chunk(Cow::Borrowed(fresh), at));
            self.drain(events);
        }
    }

    /// Gives up a hole that will not be filled. It is called once for each segment of the connection.
    pub fn tick(&mut self, events: &mut Vec<Event<'_>>) {
        if self.held.is_empty() {
            self.waited = 0;
        } else if self.acknowledged > self.next {
            self.waited += 1;
            if self.waited > PATIENCE {
                self.waited = 0;
                self.give_up(events);
            }
        }
    }

    pub fn settle(&mut self) {
        self.recent = Vec::new();
    }

    /// Releases all held bytes and reports the holes before them.
    pub fn flush(&mut self, events: &mut Vec<Event<'_>>) {
        while !self.held.is_empty() {
            self.give_up(events);
        }
    }

    pub fn finish(&mut self, events: &mut Vec<Event<'_>>) {
        self.flush(events);
        // A FIN counts as one acknowledged byte.
        let end = self.reached.max(self.acknowledged - 1);
        let missing = end - self.next;
        if missing > 0 {
            self.next = end;
            events.push(Event::Loss(missing, self.last));
        }
    }

    /// The position of a sequence number: the one nearest to the next byte in order.
    fn position(&self, sequence: u32) -> i64 {
        self.next + i64::from(sequence.wrapping_sub(self.following()) as i32)
    }

    fn advance(&mut self, data: &[u8]) {
        self.next += data.len() as i64;
        if data.len() >= RECENT_BYTES {
            self.recent.clear();
        } else if self.recent.len() + data.len() > MOST_RECENT_BYTES {
            let old = (self.recent.len() + data.len()).saturating_sub(RECENT_BYTES).min(self.recent.len());
            self.recent.drain(..old);
        }
        self.recent.extend_from_slice(&data[data.len().saturating_sub(RECENT_BYTES)..]);
    }

    /// Counts the bytes of a segment that precede the next one in order.
    fn drop(&mut self, position: i64, size: usize) {
        let size = size as i64;
        let known = size.min(self.next - position);
        // A keep-alive repeats the byte before (RFC 9293), which may not have been captured.
        let keep_alive = size == 1 && position == self.next - 1;
        let early = if keep_alive { 0 } else { size.min((-position).max(0)) };
        self.early += early;
        self.repeated += known - early;
    }

    /// Compares retransmitted bytes with their first copies, where those are still kept.
    fn compare(&self, position: i64, data: &[u8], at: Moment, events: &mut Vec<Event<'_>>) {
        let recent = &self.recent[self.recent.len().saturating_sub(RECENT_BYTES)..];
        let first = self.next - recent.len() as i64;
        let until = ((self.next - position) as usize).min(data.len());
        let again = data.get((first - position).max(0) as usize..until).unwrap_or_default();
        let there = recent.get((position - first).max(0) as usize..).unwrap_or_default();
        let there = &there[..again.len().min(there.len())];
        let keep_alive = data.len() == 1 && position == self.next - 1;
        if again != there && !keep_alive {
            events.push(Event::Conflict(differing(again, there), at));
        }
    }

    fn hold(&mut self, position: i64, data: &[u8], at: Moment, events: &mut Vec<Event<'_>>) {
        if self.held.is_empty() {
            self.since = at.0;
        }
        let (there, _) = self.held.entry(position).or_insert_with(|| (Vec::new(), at));
        // Of two segments at one position the longer is held. Where both have bytes, those of the first count.
        let common = there.len().min(data.len());
        self.repeated += common as i64;
        if there[..common] != data[..common] {
            events.push(Event::Conflict(differing(there, data), at));
        }
        there.extend_from_slice(&data[common..]);
        self.held_bytes += (data.len() - common) as i64;
    }

    /// Releases held segments that are in order now.
    fn drain(&mut self, events: &mut Vec<Event<'_>>) {
        while let Some(entry) = self.held.first_entry().filter(|entry| *entry.key() <= self.next) {
            let (position, (data, at)) = entry.remove_entry();
            self.held_bytes -= data.len() as i64;
            if position < self.next {
                self.compare(position, &data, at, events);
                self.drop(position, data.len());
            }
            let fresh = data.get((self.next - position) as usize..).unwrap_or_default();
            if !fresh.is_empty() {
                self.advance(fresh);
                events.push(Event::Chunk(Cow::Owned(fresh.to_vec()), at));
            }
        }
    }

    fn give_up(&mut self, events: &mut Vec<Event<'_>>) {
        if let Some((&position, (_, at))) = self.held.first_key_value() {
            events.push(Event::Loss(position - self.next, *at));
            self.next = position;
            self.drain(events);
        }
    }
}

fn differing(one: &[u8], other: &[u8]) -> usize {
    one.iter().zip(other).filter(|(one, other)| one != other).count()
}
