//! The packets of a connection that were captured after the acknowledgments of their bytes, by the rules of
//! `kafkawire.capture.connection`.

use std::collections::VecDeque;

/// As in `kafkawire.capture.connection`.
const MOST: usize = 1000;

/// Directions have the index of the end that sends.
#[derive(Default)]
pub struct LatePackets {
    /// The newest number that the other end has sent.
    acknowledged: [Option<u32>; 2],
    late: VecDeque<i64>,
}

impl LatePackets {
    pub fn contains(&self, packet: i64) -> bool {
        self.late.contains(&packet)
    }

    /// Takes an acknowledgment of bytes of a direction.
    pub fn acknowledge(&mut self, index: usize, number: u32) {
        self.acknowledged[index] = Some(number);
    }

    /// Takes a packet with data. `following`: sequence number of the first byte of its direction that was not captured
    /// before.
    pub fn data(&mut self, index: usize, following: u32, packet: i64) {
        if self.acknowledged[index].is_none_or(|number| number.wrapping_sub(following).cast_signed() > 0) {
            if self.late.len() >= MOST {
                self.late.pop_front();
            }
            self.late.push_back(packet);
        }
    }
}
