//! The packets of a classic pcap, as `kafkawire.capture.packets` reads them. Packets with any irregularity are left to
//! it.

use std::collections::VecDeque;

const HEADER: usize = 16;

/// Byte order, nanoseconds of a timestamp's second part, link type, most bytes of a packet, and the seconds between two
/// packets that are not believed at first sight.
pub type Format = (bool, i64, i64, u32, i64);

pub struct Packet<'a> {
    pub seconds: i64,
    pub time_ns: i64,
    /// None: that of the file.
    pub link_type: Option<i64>,
    pub data: &'a [u8],
    /// Where the next one begins.
    pub end: usize,
}

/// The packet at `at`; None where it is not whole, or where `PcapHeaders.right` has to look twice.
pub fn next<'a>(data: &'a [u8], at: usize, format: &Format, recent: &VecDeque<i64>) -> Option<Packet<'a>> {
    let &(little, unit_ns, _, most, far) = format;
    let header: &[u8; HEADER] = data.get(at..)?.first_chunk()?;
    let field = |place: usize| {
        let bytes = [header[place], header[place + 1], header[place + 2], header[place + 3]];
        if little {
            u32::from_le_bytes(bytes)
        } else {
            u32::from_be_bytes(bytes)
        }
    };
    let (seconds, fraction, kept, original) = (i64::from(field(0)), i64::from(field(4)), field(8), field(12));
    let sane = kept <= original && original <= 4 * most && kept <= most && fraction * unit_ns < 1_000_000_000;
    if !sane || !recent.iter().any(|before| (seconds - before).abs() <= far) {
        return None;
    }
    let start = at + HEADER;
    let end = start + kept as usize;
    let time_ns = seconds * 1_000_000_000 + fraction * unit_ns;
    Some(Packet { seconds, time_ns, link_type: None, data: data.get(start..end)?, end })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: Format = (true, 1000, 1, 262_144, 100);

    fn packet(seconds: u32, fraction: u32, kept: u32, original: u32) -> Vec<u8> {
        let mut data: Vec<u8> = [seconds, fraction, kept, original].iter().flat_map(|n| n.to_le_bytes()).collect();
        data.resize(HEADER + kept as usize, 7);
        data
    }

    #[test]
    fn a_packet_is_read_where_all_is_as_it_should_be() {
        let recent = VecDeque::from([1000]);
        let data = packet(1001, 5, 3, 60);
        let found = next(&data, 0, &FORMAT, &recent).unwrap();
        assert_eq!((found.time_ns, found.data, found.end), (1_001_000_005_000, &[7, 7, 7][..], 19));
        for wrong in [packet(2000, 5, 3, 60), packet(1001, 1_000_000, 3, 60), packet(1001, 5, 3, 2)] {
            assert!(next(&wrong, 0, &FORMAT, &recent).is_none());
        }
        assert!(next(&data, 0, &FORMAT, &VecDeque::new()).is_none());
        assert!(next(&data[..18], 0, &FORMAT, &recent).is_none());
        assert!(next(&data, 18, &FORMAT, &recent).is_none());
    }
}
