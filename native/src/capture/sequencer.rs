//! Exchanges in the order of their first packets, by the rules of `kafkawire.capture.sequencer`.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::exchange::Exchange;

/// Index of a place in the order, taken when the first byte of a frame was seen.
pub type Ticket = usize;

#[derive(Default)]
struct Place {
    exchange: Option<Box<Exchange>>,
    weight: i64,
    closed: bool,
    /// Later exchanges came out before it.
    late: bool,
    since_ns: Option<i64>,
}

pub struct Sequencer {
    most: usize,
    most_bytes: i64,
    patience_ns: Option<i64>,
    /// The latest time in any exchange.
    now_ns: Option<i64>,
    held_bytes: i64,
    places: Vec<Place>,
    unused: Vec<Ticket>,
    order: BinaryHeap<Reverse<(i64, u64, Ticket)>>,
    taken: u64,
    late: VecDeque<Box<Exchange>>,
}

impl Sequencer {
    pub fn new(most: usize, most_bytes: i64, patience_ns: Option<i64>) -> Self {
        Sequencer {
            most,
            most_bytes,
            patience_ns,
            now_ns: None,
            held_bytes: 0,
            places: Vec::new(),
            unused: Vec::new(),
            order: BinaryHeap::new(),
            taken: 0,
            late: VecDeque::new(),
        }
    }

    /// Takes a place after all that began in earlier packets.
    pub fn ticket(&mut self, packet: i64) -> Ticket {
        let place = Place { since_ns: self.now_ns, ..Place::default() };
        let ticket = match self.unused.pop() {
            Some(ticket) => {
                self.places[ticket] = place;
                ticket
            }
            None => {
                self.places.push(place);
                self.places.len() - 1
            }
        };
        self.taken += 1;
        self.order.push(Reverse((packet, self.taken, ticket)));
        ticket
    }

    /// Closes a place. `exchange`: None if the bytes became none.
    pub fn close(&mut self, ticket: Ticket, exchange: Option<Box<Exchange>>, weight: i64) {
        if let Some(exchange) = &exchange {
            self.now_ns = self.now_ns.max(exchange.time_ns()).max(exchange.response_time_ns());
        }
        let place = &mut self.places[ticket];
        if place.late {
            self.late.extend(exchange);
            self.unused.push(ticket);
            return;
        }
        (place.exchange, place.weight, place.closed) = (exchange, weight, true);
        self.held_bytes += weight;
    }

    /// The next exchange that no open place holds back; those that are late come last.
    pub fn next(&mut self) -> Option<Box<Exchange>> {
        while let Some(&Reverse((_, _, ticket))) = self.order.peek() {
            let within = self.order.len() <= self.most && self.held_bytes <= self.most_bytes;
            let place = &mut self.places[ticket];
            if !place.closed && within && !is_old(place, self.patience_ns, self.now_ns) {
                break;
            }
            self.order.pop();
            place.late = !place.closed;
            self.held_bytes -= place.weight;
            if place.closed {
                self.unused.push(ticket);
                if let Some(exchange) = place.exchange.take() {
                    return Some(exchange);
                }
            }
        }
        self.late.pop_front()
    }
}

fn is_old(place: &mut Place, patience_ns: Option<i64>, now_ns: Option<i64>) -> bool {
    match (patience_ns, now_ns) {
        (Some(patience_ns), Some(now_ns)) => now_ns.saturating_sub(*place.since_ns.get_or_insert(now_ns)) > patience_ns,
        _ => false,
    }
}

/// An open place at one packet, which may move: later exchanges wait while its bytes may still become frames.
#[derive(Default)]
pub struct Hold(Option<(i64, Ticket)>);

impl Hold {
    /// Holds from that packet on; None: from none.
    pub fn put(&mut self, packet: Option<i64>, sequencer: &mut Sequencer) {
        if packet == self.0.map(|(packet, _)| packet) {
            return;
        }
        if let Some((_, ticket)) = self.0 {
            sequencer.close(ticket, None, 0);
        }
        self.0 = packet.map(|packet| (packet, sequencer.ticket(packet)));
    }
}
