//! Packets -> TCP segments, as `kafkawire.capture.network.parse` reads them. Fragments, tunnels, IPv6 extension headers
//! and malformed packets are left to it.

use std::hash::{Hash, Hasher};

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86DD;
const VLAN: [u16; 3] = [0x8100, 0x88A8, 0x9100];
const TCP: u8 = 6;

pub const FIN: u16 = 0x01;
pub const SYN: u16 = 0x02;
pub const RST: u16 = 0x04;
pub const ACK: u16 = 0x10;
/// Not a flag of TCP: a segment without sequence numbers, of Wireshark's exported PDUs.
pub const EXPORTED: u16 = 0x100;

/// One end of a connection. Of IPv4, the address is the first four bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct End {
    pub address: [u8; 16],
    pub version: u8,
    pub port: u16,
}

/// As two numbers: a hash is taken of them for each packet.
impl Hash for End {
    fn hash<H: Hasher>(&self, state: &mut H) {
        u128::from_ne_bytes(self.address).hash(state);
        (u32::from(self.version) << 16 | u32::from(self.port)).hash(state);
    }
}

impl End {
    /// None: an address of neither 4 nor 16 bytes.
    pub fn new(address: &[u8], port: u16) -> Option<Self> {
        let version = match address.len() {
            4 => 4,
            16 => 6,
            _ => return None,
        };
        let mut whole = [0; 16];
        whole[..address.len()].copy_from_slice(address);
        Some(End { address: whole, version, port })
    }

    /// As Python has it.
    pub fn address_and_port(&self) -> (&[u8], u16) {
        (&self.address[..if self.version == 4 { 4 } else { 16 }], self.port)
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Segment<'a> {
    pub source: End,
    pub destination: End,
    pub sequence: u32,
    pub acknowledgment: u32,
    pub flags: u16,
    pub payload: &'a [u8],
    /// Bytes of data, those that the capture cut off too.
    pub size: usize,
}

fn word(data: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*data.get(at..)?.first_chunk()?))
}

fn double_word(data: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*data.get(at..)?.first_chunk()?))
}

/// The segment in a packet, whose first header is `link_type` (LINKTYPE_...); None: not plain, or none.
pub fn plain(link_type: i64, data: &[u8]) -> Option<Segment<'_>> {
    let (kind_at, start) = match link_type {
        1 => {
            let mut kind_at = 12;
            while VLAN.contains(&word(data, kind_at)?) {
                kind_at += 4;
            }
            (Some(kind_at), kind_at + 2)
        }
        113 => (Some(14), 16),
        276 => (Some(0), 20),
        0 | 108 => (None, 4),
        12 | 14 | 101 | 228 | 229 => (None, 0),
        _ => return None,
    };
    match kind_at {
        Some(at) if ![IPV4, IPV6].contains(&word(data, at)?) => None,
        _ => ip(data, start),
    }
}

fn ip(data: &[u8], start: usize) -> Option<Segment<'_>> {
    match *data.get(start)? >> 4 {
        4 => ipv4(data, start),
        6 => ipv6(data, start),
        _ => None,
    }
}

fn ipv4(data: &[u8], start: usize) -> Option<Segment<'_>> {
    let header = usize::from(data[start] & 15) * 4;
    let length = usize::from(word(data, start + 2)?);
    let fragment = word(data, start + 6)? & 0x3FFF;
    if header < 20 || fragment != 0 || *data.get(start + 9)? != TCP {
        return None;
    }
    // Packets that the network card was to split up have a length of 0.
    let end = if length == 0 { data.len() } else { start + length };
    let ends = (data.get(start + 12..start + 16)?, data.get(start + 16..start + 20)?);
    tcp(data, start + header, end, ends)
}

fn ipv6(data: &[u8], start: usize) -> Option<Segment<'_>> {
    let length = usize::from(word(data, start + 4)?);
    if *data.get(start + 6)? != TCP {
        return None;
    }
    let end = if length == 0 { data.len() } else { start + 40 + length };
    let ends = (data.get(start + 8..start + 24)?, data.get(start + 24..start + 40)?);
    tcp(data, start + 40, end, ends)
}

fn tcp<'a>(data: &'a [u8], start: usize, end: usize, ends: (&[u8], &[u8])) -> Option<Segment<'a>> {
    let header = usize::from(*data.get(start + 12)? >> 4) * 4;
    let flags = u16::from(*data.get(start + 13)?);
    let from = start + header;
    if header < 20 || from > end {
        return None;
    }
    Some(Segment {
        source: End::new(ends.0, word(data, start)?)?,
        destination: End::new(ends.1, word(data, start + 2)?)?,
        sequence: double_word(data, start + 4)?,
        acknowledgment: double_word(data, start + 8)?,
        flags,
        payload: data.get(from..end.min(data.len())).unwrap_or_default(),
        size: end - from,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An Ethernet packet with these bytes of data, of which the last `cut` were not captured.
    fn packet(payload: &[u8], cut: usize) -> Vec<u8> {
        let mut data = vec![0; 12];
        data.extend(IPV4.to_be_bytes());
        data.extend([0x45, 0]);
        data.extend((40 + payload.len() as u16).to_be_bytes());
        data.extend([0, 1, 0, 0, 64, TCP, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        data.extend([0x9C, 0x40, 0x23, 0x84, 0, 0, 0, 7, 0, 0, 0, 9, 0x50, ACK as u8, 0, 0, 0, 0, 0, 0]);
        data.extend(payload);
        data.truncate(data.len() - cut);
        data
    }

    #[test]
    fn a_segment_is_read() {
        let data = packet(b"data", 0);
        let found = plain(1, &data).unwrap();
        assert_eq!((found.payload, found.size, found.sequence, found.acknowledgment), (&b"data"[..], 4, 7, 9));
        assert_eq!((found.source.port, found.destination.port, found.flags), (40000, 9092, ACK));
        assert_eq!((found.source.version, &found.source.address[..4]), (4, &[10, 0, 0, 1][..]));
        assert_eq!(plain(1, &packet(b"data", 3)).map(|found| (found.payload, found.size)), Some((&b"d"[..], 4)));
    }

    #[test]
    fn what_is_not_plain_is_left_alone() {
        let data = packet(b"data", 0);
        for size in 0..48 {
            assert!(plain(1, &data[..size]).is_none());
        }
        assert!(plain(2, &data).is_none());
        let mut fragment = data.clone();
        fragment[20] = 0x20;
        assert!(plain(1, &fragment).is_none());
        let mut udp = data;
        udp[23] = 17;
        assert!(plain(1, &udp).is_none());
    }
}
