//! The packets of a pcapng, as `kafkawire.capture.pcapng` reads them: well-formed enhanced packet blocks only. All
//! other blocks are left to it.

use super::pcap::Packet;

const ENHANCED_PACKET: u32 = 6;
/// A block's type and length, then the numbers before a packet's bytes: interface, time, bytes kept, bytes of the
/// packet.
const HEAD: usize = 8;
const NUMBERS: usize = 20;
/// As in `kafkawire.capture.pcapng`.
const MAX_BLOCK_BYTES: usize = 16 << 20;
const LAST_OPTION: u16 = 255;
const CUSTOM_OPTIONS: [u16; 4] = [2988, 2989, 19372, 19373];
const LOCAL_OPTION: u16 = 1 << 15;

/// Link type, units of time a second, and the offset of times in seconds; None: its packets are left to Python.
pub type Interface = Option<(i64, i64, i64)>;

/// The byte order of a section.
#[derive(Clone, Copy)]
pub struct Order {
    pub little: bool,
}

impl Order {
    fn int32(self, data: &[u8], at: usize) -> Option<u32> {
        let bytes = *data.get(at..)?.first_chunk()?;
        Some(if self.little { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) })
    }

    fn int16(self, data: &[u8], at: usize) -> Option<u16> {
        let bytes = *data.get(at..)?.first_chunk()?;
        Some(if self.little { u16::from_le_bytes(bytes) } else { u16::from_be_bytes(bytes) })
    }
}

/// The packet whose block begins at `at`; None where Python has to look, and at the end of the data. `seconds` is 0.
pub fn next<'a>(data: &'a [u8], at: usize, order: Order, interfaces: &[Interface]) -> Option<Packet<'a>> {
    if order.int32(data, at)? != ENHANCED_PACKET {
        return None;
    }
    let length = order.int32(data, at + 4)? as usize;
    if !(HEAD + NUMBERS + 4..=MAX_BLOCK_BYTES).contains(&length) || !length.is_multiple_of(4) {
        return None;
    }
    let block = data.get(at..at + length)?;
    if order.int32(block, length - 4)? as usize != length {
        return None;
    }
    let body = &block[HEAD..length - 4];
    let &(link_type, units, offset_s) = interfaces.get(order.int32(body, 0)? as usize)?.as_ref()?;
    let time = u64::from(order.int32(body, 4)?) << 32 | u64::from(order.int32(body, 8)?);
    let kept = order.int32(body, 12)? as usize;
    let packet = body.get(NUMBERS..NUMBERS.checked_add(kept)?)?;
    if !options_fit(body, NUMBERS + kept.next_multiple_of(4), order) {
        return None;
    }
    let time_ns = i128::from(offset_s) * 1_000_000_000 + i128::from(time) * 1_000_000_000 / i128::from(units);
    let time_ns = if time_ns.unsigned_abs() < 1 << 63 { time_ns as i64 } else { 0 };
    Some(Packet { seconds: 0, time_ns, link_type: Some(link_type), data: packet, end: at + length })
}

/// Whether the options from `at` on end where the body ends.
fn options_fit(body: &[u8], mut at: usize, order: Order) -> bool {
    while at < body.len() {
        let (Some(code), Some(length)) = (order.int16(body, at), order.int16(body, at + 2)) else { return false };
        at += 4 + usize::from(length).next_multiple_of(4);
        if code > LAST_OPTION && code < LOCAL_OPTION && !CUSTOM_OPTIONS.contains(&code) {
            return false;
        }
        if code == 0 {
            break;
        }
    }
    at == body.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LITTLE: Order = Order { little: true };

    fn block(kept: u32, options: &[u8]) -> Vec<u8> {
        let mut data = Vec::new();
        let length = 32 + kept.next_multiple_of(4) + options.len() as u32;
        for number in [6, length, 0, 1, 5, kept, kept] {
            data.extend(number.to_le_bytes());
        }
        data.resize(28 + kept.next_multiple_of(4) as usize, 7);
        data.extend(options);
        data.extend(length.to_le_bytes());
        data
    }

    #[test]
    fn a_packet_is_read_where_all_is_as_it_should_be() {
        let interfaces = [Some((1, 1_000_000, 2))];
        let comment = [1, 0, 2, 0, b'h', b'i', 0, 0, 0, 0, 0, 0];
        for options in [&[][..], &comment] {
            let data = block(3, options);
            let found = next(&data, 0, LITTLE, &interfaces).unwrap();
            assert_eq!((found.time_ns, found.link_type), (2_000_000_000 + ((1 << 32) + 5) * 1000, Some(1)));
            assert_eq!((found.data, found.end), (&[7, 7, 7][..], data.len()));
            for size in 0..data.len() {
                assert!(next(&data[..size], 0, LITTLE, &interfaces).is_none());
            }
            assert!(next(&data, 0, Order { little: false }, &interfaces).is_none());
            assert!(next(&data, 0, LITTLE, &[]).is_none());
            assert!(next(&data, 0, LITTLE, &[None]).is_none());
        }
        for wrong in [block(3, &comment[..8]), block(3, &[0, 16, 0, 0]), block(3, &[1, 0, 9, 0])] {
            assert!(next(&wrong, 0, LITTLE, &interfaces).is_none() || wrong.len() == 44);
        }
    }
}
