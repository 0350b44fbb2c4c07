//! LZ4 frames as Kafka's Java reads them (`Lz4BlockInputStream`), by the rules of `kafkawire.records.lz4_frame`: one frame
//! of independent blocks. What follows it is not looked at, and the checksum of its content is not verified.

use crate::cursor::{Read, Refused};

const MAGIC: [u8; 4] = [0x04, 0x22, 0x4d, 0x18];
/// Version 1 and independent blocks; then the bits that are not reserved: checksums of blocks, the content's size and
/// checksum.
const FLAGS: u8 = 0x60;
const OPTIONS: u8 = BLOCK_CHECKSUM | CONTENT_SIZE | CONTENT_CHECKSUM;
const BLOCK_CHECKSUM: u8 = 0x10;
const CONTENT_SIZE: u8 = 0x08;
const CONTENT_CHECKSUM: u8 = 0x04;
const CHECKSUM: usize = 4;
const UNCOMPRESSED: u32 = 1 << 31;

/// A frame: its flags, the most bytes of a block, and the blocks with what follows them.
pub struct Frame<'a> {
    flags: u8,
    most: usize,
    blocks: &'a [u8],
}

/// The frame with which `data` begins.
pub fn frame(data: &[u8]) -> Read<Frame<'_>> {
    let rest = data.strip_prefix(&MAGIC).ok_or(Refused)?;
    let &[flags, sizes, ..] = rest else { return Err(Refused) };
    let most = match sizes {
        0x40 => 64 << 10,
        0x50 => 256 << 10,
        0x60 => 1 << 20,
        0x70 => 4 << 20,
        _ => return Err(Refused),
    };
    let (descriptor, rest) = rest.split_at_checked(if flags & CONTENT_SIZE == 0 { 2 } else { 10 }).ok_or(Refused)?;
    let (&checksum, blocks) = rest.split_first().ok_or(Refused)?;
    if flags & !OPTIONS != FLAGS || checksum != (xxh32(descriptor) >> 8) as u8 {
        return Err(Refused);
    }
    Ok(Frame { flags, most, blocks })
}

impl Frame<'_> {
    /// Decompresses the blocks to the beginning of `out`, which grows where it must; how many bytes they hold, at most
    /// `limit`.
    pub fn decompress(&self, limit: usize, out: &mut Vec<u8>) -> Read<usize> {
        let Frame { flags, most, blocks } = *self;
        let (mut rest, mut size) = (blocks, 0);
        loop {
            let (word, after) = word(rest)?;
            if word & !UNCOMPRESSED == 0 {
                let whole = flags & CONTENT_CHECKSUM == 0 || after.len() >= CHECKSUM;
                return (whole && size <= limit).then_some(size).ok_or(Refused);
            }
            let length = (word & !UNCOMPRESSED) as usize;
            if length > most || size > limit {
                return Err(Refused);
            }
            let (block, after) = after.split_at_checked(length).ok_or(Refused)?;
            rest = after;
            if flags & BLOCK_CHECKSUM != 0 {
                let (checksum, after) = self::word(rest)?;
                if checksum != xxh32(block) {
                    return Err(Refused);
                }
                rest = after;
            }
            if out.len() < size + most {
                out.resize(size + most, 0);
            }
            let place = &mut out[size..size + most];
            size += match word & UNCOMPRESSED {
                0 => lz4::block::decompress_to_buffer(block, Some(most as i32), place).map_err(|_| Refused)?,
                _ => {
                    place[..length].copy_from_slice(block);
                    length
                }
            };
        }
    }
}

fn word(data: &[u8]) -> Read<(u32, &[u8])> {
    let (&word, after) = data.split_first_chunk().ok_or(Refused)?;
    Ok((u32::from_le_bytes(word), after))
}

const PRIMES: [u32; 5] = [2654435761, 2246822519, 3266489917, 668265263, 374761393];

/// xxHash32 with seed 0.
fn xxh32(data: &[u8]) -> u32 {
    let [first, second, third, fourth, fifth] = PRIMES;
    let (stripes, rest) = data.as_chunks::<16>();
    let mut number = fifth;
    if !stripes.is_empty() {
        let mut lanes = [first.wrapping_add(second), second, 0, first.wrapping_neg()];
        for stripe in stripes {
            for (lane, word) in lanes.iter_mut().zip(stripe.as_chunks::<4>().0) {
                let sum = lane.wrapping_add(u32::from_le_bytes(*word).wrapping_mul(second));
                *lane = sum.rotate_left(13).wrapping_mul(first);
            }
        }
        let turned = lanes.iter().zip([1, 7, 12, 18]).map(|(lane, by)| lane.rotate_left(by));
        number = turned.fold(0, u32::wrapping_add);
    }
    number = number.wrapping_add(data.len() as u32);
    let (words, rest) = rest.as_chunks::<4>();
    for word in words {
        let sum = number.wrapping_add(u32::from_le_bytes(*word).wrapping_mul(third));
        number = sum.rotate_left(17).wrapping_mul(fourth);
    }
    for &byte in rest {
        let sum = number.wrapping_add(u32::from(byte).wrapping_mul(fifth));
        number = sum.rotate_left(11).wrapping_mul(first);
    }
    number = (number ^ number >> 15).wrapping_mul(second);
    number = (number ^ number >> 13).wrapping_mul(third);
    number ^ number >> 16
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framed(flags: u8, size: u8, blocks: &[(&[u8], bool)]) -> Vec<u8> {
        let mut out = [&MAGIC[..], &[flags, size, (xxh32(&[flags, size]) >> 8) as u8]].concat();
        for (block, packed) in blocks {
            let content = match packed {
                true => lz4::block::compress(block, None, false).unwrap(),
                false => block.to_vec(),
            };
            let word = content.len() as u32 | if *packed { 0 } else { UNCOMPRESSED };
            out.extend_from_slice(&word.to_le_bytes());
            out.extend_from_slice(&content);
            if flags & BLOCK_CHECKSUM != 0 {
                out.extend_from_slice(&xxh32(&content).to_le_bytes());
            }
        }
        out.extend_from_slice(&[0; 4]);
        out
    }

    fn read(data: &[u8], limit: usize) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        let size = frame(data).ok()?.decompress(limit, &mut out).ok()?;
        Some(out[..size].to_vec())
    }

    #[test]
    fn blocks_of_both_kinds() {
        let (long, short) = (b"x".repeat(64 << 10), b"abc".to_vec());
        for flags in [FLAGS, FLAGS | BLOCK_CHECKSUM] {
            let data = framed(flags, 0x40, &[(&long, true), (&short, false), (&short, true)]);
            let whole = [&long[..], &short, &short].concat();
            assert_eq!(read(&data, whole.len()).as_ref(), Some(&whole));
            assert_eq!(read(&data, whole.len() - 1), None);
            assert_eq!(read(&[&data[..], &data].concat(), whole.len()).as_ref(), Some(&whole));
        }
        assert_eq!(read(&framed(FLAGS, 0x70, &[]), 0), Some(Vec::new()));
    }

    #[test]
    fn what_is_cut_off_or_too_long_is_refused() {
        for flags in [FLAGS, FLAGS | BLOCK_CHECKSUM] {
            let data = framed(flags, 0x40, &[(b"some bytes, some bytes, some bytes", true)]);
            for cut in 0..data.len() {
                assert_eq!(read(&data[..cut], 1 << 20), None);
            }
        }
        assert_eq!(read(&framed(FLAGS, 0x40, &[(&vec![1; (64 << 10) + 1], false)]), 1 << 20), None);
        assert_eq!(read(&framed(FLAGS, 0x40, &[(&vec![1; (64 << 10) + 1], true)]), 1 << 20), None);
        assert_eq!(read(&framed(FLAGS | CONTENT_CHECKSUM, 0x40, &[]), 1 << 20), None);
        assert_eq!(read(&framed(0x40, 0x40, &[]), 1 << 20), None);
        assert_eq!(read(&framed(FLAGS | 1, 0x40, &[]), 1 << 20), None);
    }

    #[test]
    fn checksums_are_the_librarys() {
        for size in [0x40, 0x50, 0x60, 0x70] {
            for flags in [FLAGS, FLAGS | BLOCK_CHECKSUM] {
                let data = framed(flags, size, &[(b"some bytes, some bytes, some bytes", true)]);
                let mut decoder = lz4::Decoder::new(std::io::Cursor::new(data)).unwrap();
                assert_eq!(std::io::Read::read_to_end(&mut decoder, &mut Vec::new()).unwrap(), 34);
            }
        }
    }
}
