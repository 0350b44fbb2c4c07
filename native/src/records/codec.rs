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
        if [a, b, c, d] != ZSTD_MAGIC
            || find_frame_compressed_size(data) != Ok(data.len())
            || (!single_segment && 10 + (window >> 3) >= ZSTD_WINDOW_LOG)
            || (single_segment && known.is_none_or(|size| size > ZSTD_LARGEST))
        {
            return Err(Refused);
        }
        self.first_room(data, limit);
        loop {
            let context = self.zstd.get_or_insert_with(DCtx::create);
            match context.decompress(&mut self.out[..], data) {
                Ok(size) => return (size <= limit).then_some(size).ok_or(Refused),
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
                rest = rest.get(XERIAL_HEADER..).ok_or(Refused)?; // streams may be joined
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

    /// One block, put behind the `before` bytes that are there; how many there are then. A block states its size first;
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
