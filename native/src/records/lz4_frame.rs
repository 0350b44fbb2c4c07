//! LZ4 frames as Kafka's Java writes them: blocks that do not refer to each other, no checksums but the header's. They
//! are read block by block into their place; what is any other frame, or none, the library's decoder for frames reads.

use crate::cursor::{Read, Refused};

const MAGIC: [u8; 4] = [0x04, 0x22, 0x4d, 0x18];
/// Version 1, independent blocks.
const FLAGS: u8 = 0x60;
/// The byte with the code of the largest block, the checksum (of xxHash32) of a header with it, and that block's size.
const SIZES: [(u8, u8, usize); 4] =
    [(0x40, 0x82, 64 << 10), (0x50, 0xfb, 256 << 10), (0x60, 0x51, 1 << 20), (0x70, 0x73, 4 << 20)];
const UNCOMPRESSED: u32 = 1 << 31;

/// The most bytes of a block, and the blocks, where `data` is a frame with one of these headers.
pub fn blocks(data: &[u8]) -> Option<(usize, &[u8])> {
    let (&[a, b, c, d, flags, size, checksum], blocks) = data.split_first_chunk()?;
    if [a, b, c, d] != MAGIC || flags != FLAGS {
        return None;
    }
    let &(_, _, most) = SIZES.iter().find(|&&known| (known.0, known.1) == (size, checksum))?;
    Some((most, blocks))
}

/// Decompresses the blocks to the beginning of `out`, which grows where it must; how many bytes they hold, at most
/// `limit`. `data` ends with the frame, or is refused.
pub fn decompress(data: &[u8], most: usize, limit: usize, out: &mut Vec<u8>) -> Read<usize> {
    let (mut rest, mut size) = (data, 0);
    loop {
        let (&word, after) = rest.split_first_chunk().ok_or(Refused)?;
        let word = u32::from_le_bytes(word);
        if word == 0 {
            return (after.is_empty() && size <= limit).then_some(size).ok_or(Refused);
        }
        let length = (word & !UNCOMPRESSED) as usize;
        if length > most || size > limit {
            return Err(Refused);
        }
        let (block, after) = after.split_at_checked(length).ok_or(Refused)?;
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
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(size: (u8, u8), blocks: &[(&[u8], bool)]) -> Vec<u8> {
        let mut out = [&MAGIC[..], &[FLAGS, size.0, size.1]].concat();
        for (block, packed) in blocks {
            let content = match packed {
                true => lz4::block::compress(block, None, false).unwrap(),
                false => block.to_vec(),
            };
            let word = content.len() as u32 | if *packed { 0 } else { UNCOMPRESSED };
            out.extend_from_slice(&word.to_le_bytes());
            out.extend_from_slice(&content);
        }
        out.extend_from_slice(&[0; 4]);
        out
    }

    fn read(data: &[u8], limit: usize) -> Option<Vec<u8>> {
        let (most, packed) = blocks(data)?;
        let mut out = Vec::new();
        let size = decompress(packed, most, limit, &mut out).ok()?;
        Some(out[..size].to_vec())
    }

    #[test]
    fn blocks_of_both_kinds() {
        let (long, short) = (b"x".repeat(64 << 10), b"abc".to_vec());
        let data = frame((0x40, 0x82), &[(&long, true), (&short, false), (&short, true)]);
        let whole = [&long[..], &short, &short].concat();
        assert_eq!(read(&data, whole.len()).as_ref(), Some(&whole));
        assert_eq!(read(&data, whole.len() - 1), None);
        assert_eq!(read(&frame((0x70, 0x73), &[]), 0), Some(Vec::new()));
    }

    #[test]
    fn what_is_cut_off_or_too_long_is_refused() {
        let data = frame((0x40, 0x82), &[(b"some bytes, some bytes, some bytes", true)]);
        for cut in 0..data.len() {
            assert_eq!(read(&data[..cut], 1 << 20), None);
        }
        assert_eq!(read(&[&data[..], &[0]].concat(), 1 << 20), None);
        assert_eq!(read(&frame((0x40, 0x82), &[(&vec![1; (64 << 10) + 1], false)]), 1 << 20), None);
        assert_eq!(read(&frame((0x40, 0x82), &[(&vec![1; (64 << 10) + 1], true)]), 1 << 20), None);
        assert_eq!(read(&frame((0x40, 0x83), &[]), 1 << 20), None);
    }

    #[test]
    fn the_checksums_are_the_librarys() {
        for (size, checksum, _) in SIZES {
            let mut decoder = lz4::Decoder::new(std::io::Cursor::new(frame((size, checksum), &[]))).unwrap();
            assert_eq!(std::io::Read::read_to_end(&mut decoder, &mut Vec::new()).unwrap(), 0);
        }
    }
}
