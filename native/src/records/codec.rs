//! Decompressing a batch's records, capped. What is not exactly one well-formed stream of the usual kind, or holds more
//! than the limit, is refused: `kafkawire.records.compression` then decides, and its error states what is wrong.

use super::lz4_frame;
use crate::cursor::{Read, Refused};

const GZIP: usize = 1;
const SNAPPY: usize = 2;
const LZ4: usize = 3;
const ZSTD: usize = 4;

const FIRST_STEP: usize = 64 << 10;
const XERIAL_MAGIC: &[u8] = b"\x82SNAPPY\0";
/// Magic, version, lowest version that can read it.
const XERIAL_HEADER: usize = 16;
const XERIAL_VERSION: i32 = 1;
/// No snappy element, of which each takes at least a byte, yields more bytes.
const SNAPPY_MOST: usize = 64;
/// Magic, deflate, no flags: what Kafka's Java writes; then time, extra flags and system.
const GZIP_PREFIX: [u8; 4] = [0x1f, 0x8b, 8, 0];
const GZIP_HEADER: usize = 10;
const GZIP_TRAILER: usize = 8;
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Streaming decoders refuse a frame whose window is larger than 2^27 bytes.
const ZSTD_WINDOW_LOG: u8 = 27;
const ZSTD_LARGEST: u64 = 64 << 20;
/// The most bytes of a block, if the window is not smaller.
const ZSTD_BLOCK: u64 = 128 << 10;

/// Decompresses one batch after the other, into memory that it keeps.
#[derive(Default)]
pub struct Decompressor {
    out: Vec<u8>,
    zstd: Option<zstd::zstd_safe::DCtx<'static>>,
    snappy: snap::raw::Decoder,
    gzip: Option<flate2::Decompress>,
}

impl Decompressor {
    /// The bytes that `data` holds, at most `limit`. `codec`: the number in a batch's attributes, not 0.
    pub fn decompress(&mut self, codec: usize, data: &[u8], limit: usize) -> Read<&[u8]> {
        let size = match codec {
            GZIP => self.gzip(data, limit),
            SNAPPY => self.snappy(data, limit),
            LZ4 => lz4_frame::frame(data)?.decompress(limit, &mut self.out),
            ZSTD => self.zstd(data, limit),
            _ => Err(Refused),
        }?;
        Ok(&self.out[..size])
    }

    /// Makes room for at least `size` bytes. The bytes that are there stay.
    fn room(&mut self, size: usize) {
        if self.out.len() < size {
            self.out.resize(size, 0);
        }
    }

    /// Room for a first try.
    fn first_room(&mut self, data: &[u8], limit: usize) {
        self.room(limit.min(FIRST_STEP.max(4 * data.len())));
    }

    /// More room, when there may be any.
    fn more_room(&mut self, limit: usize) -> Read<()> {
        let size = self.out.len();
        if size >= limit {
            return Err(Refused);
        }
        self.room(limit.min(4 * size));
        Ok(())
    }

    fn gzip(&mut self, data: &[u8], limit: usize) -> Read<usize> {
        if !data.starts_with(&GZIP_PREFIX) || data.len() < GZIP_HEADER + GZIP_TRAILER {
            return Err(Refused);
        }
        let (packed, trailer) = data[GZIP_HEADER..].split_at(data.len() - GZIP_HEADER - GZIP_TRAILER);
        self.first_room(data, limit);
        let mut inflate = self.gzip.take().unwrap_or_else(|| flate2::Decompress::new(false));
        inflate.reset(false);
        let size = loop {
            let (read, written) = (inflate.total_in() as usize, inflate.total_out() as usize);
            let status = inflate
                .decompress(&packed[read..], &mut self.out[written..], flate2::FlushDecompress::Finish)
                .map_err(|_| Refused)?;
            match status {
                flate2::Status::StreamEnd => break inflate.total_out() as usize,
                _ if inflate.total_out() as usize == self.out.len() => self.more_room(limit)?,
                _ => return Err(Refused), // the end of the input, without that of the stream
            }
        };
        let all_read = inflate.total_in() as usize == packed.len();
        self.gzip = Some(inflate);
        let mut crc = flate2::Crc::new();
        crc.update(self.out.get(..size).filter(|_| size <= limit).ok_or(Refused)?);
        let stated = [crc.sum().to_le_bytes(), (size as u32).to_le_bytes()].concat();
        (all_read && trailer == stated).then_some(size).ok_or(Refused)
    }

    fn zstd(&mut self, data: &[u8], limit: usize) -> Read<usize> {
        use zstd::zstd_safe::{find_frame_compressed_size, get_error_name, get_frame_content_size, DCtx};

        let &[a, b, c, d, descriptor, window, ..] = data else { return Err(Refused) };
        let single_segment = descriptor & 0x20 != 0;
        let known = get_frame_content_size(data).map_err(|_| Refused)?;
        let window_size = match single_segment {
            true => known.unwrap_or(0),
            false => (1u64 << (7 + (window >> 3))) * u64::from(8 + (window & 7)),
        };
        if [a, b, c, d] != ZSTD_MAGIC
            || find_frame_compressed_size(data) != Ok(data.len())
            || (!single_segment && 10 + (window >> 3) >= ZSTD_WINDOW_LOG)
            || (single_segment && known.is_none_or(|size| size > ZSTD_LARGEST))
        {
            return Err(Refused);
        }
        let most = zstd_most(data, window_size.min(ZSTD_BLOCK) as usize).ok_or(Refused)?;
        self.first_room(data, limit);
        loop {
            let context = self.zstd.get_or_insert_with(DCtx::create);
            match context.decompress(&mut self.out[..], data) {
                Ok(size) => return (size <= limit.min(most)).then_some(size).ok_or(Refused),
                Err(code) if get_error_name(code).contains("too small") => self.more_room(limit)?,
                Err(_) => return Err(Refused),
            }
        }
    }

    fn snappy(&mut self, data: &[u8], limit: usize) -> Read<usize> {
        if !data.starts_with(XERIAL_MAGIC) {
            return self.raw_snappy(data, 0, limit);
        }
        let mut size = 0;
        let mut rest = data.get(XERIAL_HEADER..).ok_or(Refused)?;
        while !rest.is_empty() {
            if rest.starts_with(XERIAL_MAGIC) {
                // Streams may be joined; the version of the first one is not looked at.
                let version = rest.get(XERIAL_MAGIC.len()..).and_then(|rest| rest.first_chunk()).ok_or(Refused)?;
                if i32::from_be_bytes(*version) < XERIAL_VERSION {
                    return Err(Refused);
                }
                rest = rest.get(XERIAL_HEADER..).ok_or(Refused)?;
                continue;
            }
            let (length, after) = rest.split_first_chunk().ok_or(Refused)?;
            let length = usize::try_from(i32::from_be_bytes(*length)).map_err(|_| Refused)?;
            let (block, after) = after.split_at_checked(length).ok_or(Refused)?;
            size = self.raw_snappy(block, size, limit)?;
            rest = after;
        }
        Ok(size)
    }

    /// One block, put after the `before` bytes that are there; how many there are then. A block states its size first;
    /// it is believed only as far as its bytes could reach.
    fn raw_snappy(&mut self, block: &[u8], before: usize, limit: usize) -> Read<usize> {
        let size = snap::raw::decompress_len(block).map_err(|_| Refused)?;
        if size > limit - before || size > SNAPPY_MOST * block.len() {
            return Err(Refused);
        }
        self.room(before + size);
        let written = self.snappy.decompress(block, &mut self.out[before..before + size]).map_err(|_| Refused)?;
        Ok(before + written)
    }
}

/// The most bytes that the blocks of a whole frame may hold, of at most `most` bytes each; None where one holds more.
/// Decoders of streams refuse such a block, which `decompress` reads.
fn zstd_most(frame: &[u8], most: usize) -> Option<usize> {
    let descriptor = frame[4];
    let dictionary = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let (window, size) = match descriptor & 0x20 {
        0 => (1, [0, 2, 4, 8]),
        _ => (0, [1, 2, 4, 8]),
    };
    let mut rest = frame.get(5 + window + dictionary + size[usize::from(descriptor >> 6)]..)?;
    let mut all = 0usize;
    loop {
        let (&[a, b, c], after) = rest.split_first_chunk()?;
        let head = u32::from_le_bytes([a, b, c, 0]);
        let size = (head >> 3) as usize;
        let (there, held) = match head >> 1 & 3 {
            0 => (size, size),
            1 => (1, size),
            _ => (size, most),
        };
        if held > most {
            return None;
        }
        all = all.checked_add(held)?;
        if head & 1 == 1 {
            return Some(all);
        }
        rest = after.get(there..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame of stored blocks, the second of them a byte repeated; the window has 1 KiB.
    fn stored(first: usize, second: usize) -> Vec<u8> {
        let head = |size: usize, bits: usize| (size << 3 | bits).to_le_bytes()[..3].to_vec();
        [ZSTD_MAGIC.to_vec(), vec![0, 0], head(first, 0), vec![1; first], head(second, 3), vec![2]].concat()
    }

    #[test]
    fn blocks_of_zstd_are_no_larger_than_the_window() {
        let read = |data: &[u8]| Decompressor::default().decompress(ZSTD, data, 1 << 20).map(<[u8]>::len).ok();
        assert_eq!(read(&stored(1024, 1024)), Some(2048));
        assert_eq!(read(&stored(1025, 1)), None);
        assert_eq!(read(&stored(1, 1025)), None);
        assert_eq!(zstd_most(&stored(1000, 24), 1024), Some(1024));
    }

    #[test]
    fn the_version_of_a_joined_stream_of_xerial_is_looked_at() {
        let stream = |version: i32| {
            let block = snap::raw::Encoder::new().compress_vec(b"text").unwrap();
            let header = [XERIAL_MAGIC, &version.to_be_bytes(), &1i32.to_be_bytes()].concat();
            [header, (block.len() as i32).to_be_bytes().to_vec(), block].concat()
        };
        let read = |data: &[u8]| Decompressor::default().decompress(SNAPPY, data, 1 << 20).map(<[u8]>::len).ok();
        assert_eq!(read(&stream(0)), Some(4));
        assert_eq!(read(&[stream(0), stream(1)].concat()), Some(8));
        assert_eq!(read(&[stream(1), stream(0)].concat()), None);
    }
}
