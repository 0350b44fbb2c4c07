//! The header of a batch of magic 2, 61 bytes (Kafka's `DefaultRecordBatch`), and a walk from header to header.

use crate::cursor::{Read, Refused};

pub const SIZE: usize = 61;
/// What a batch's length does not count: offset and length.
pub const LOG_OVERHEAD: usize = 12;
/// Where the checksummed bytes begin.
pub const CHECKSUMMED: usize = 21;
const MAGIC: i8 = 2;
/// A base offset above this is not believed: the offsets after it would overflow.
pub const HIGHEST_OFFSET: i64 = i64::MAX - (1 << 32) + 1;

const CODEC_MASK: i16 = 0x07;
const LOG_APPEND_TIME: i16 = 0x08;
const TRANSACTIONAL: i16 = 0x10;
const CONTROL: i16 = 0x20;
const DELETE_HORIZON: i16 = 0x40;

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    pub base_offset: i64,
    pub length: i32,
    pub leader_epoch: i32,
    pub magic: i8,
    pub crc: u32,
    pub attributes: i16,
    pub last_offset_delta: i32,
    pub base_timestamp: i64,
    pub max_timestamp: i64,
    pub producer_id: i64,
    pub producer_epoch: i16,
    pub base_sequence: i32,
    pub count: i32,
}

impl Header {
    /// The header at `at`, whatever its values are.
    #[inline]
    pub fn read(data: &[u8], at: usize) -> Read<Self> {
        // Of an array the compiler knows that all of it is there: one check for all fields.
        let head: &[u8; SIZE] = data.get(at..).and_then(<[u8]>::first_chunk).ok_or(Refused)?;
        macro_rules! field {
            ($kind:ty, $at:literal) => {
                <$kind>::from_be_bytes(*head[$at..].first_chunk().expect("a field of the header"))
            };
        }
        Ok(Header {
            base_offset: field!(i64, 0),
            length: field!(i32, 8),
            leader_epoch: field!(i32, 12),
            magic: field!(i8, 16),
            crc: field!(u32, 17),
            attributes: field!(i16, 21),
            last_offset_delta: field!(i32, 23),
            base_timestamp: field!(i64, 27),
            max_timestamp: field!(i64, 35),
            producer_id: field!(i64, 43),
            producer_epoch: field!(i16, 51),
            base_sequence: field!(i32, 53),
            count: field!(i32, 57),
        })
    }

    /// Of a header only what the values of records are counted from.
    pub fn of_records(base_offset: i64, base_timestamp: i64, base_sequence: i32, append_time: Option<i64>) -> Self {
        Header {
            base_offset,
            base_timestamp,
            base_sequence,
            max_timestamp: append_time.unwrap_or(-1),
            attributes: if append_time.is_some() { LOG_APPEND_TIME } else { 0 },
            ..Header::default()
        }
    }

    /// Bytes of the whole batch; `length` must be sane.
    pub fn size(&self) -> usize {
        self.length as usize + LOG_OVERHEAD
    }

    pub fn last_offset(&self) -> i64 {
        self.base_offset.wrapping_add(i64::from(self.last_offset_delta))
    }

    pub fn codec(&self) -> usize {
        (self.attributes & CODEC_MASK) as usize
    }

    pub fn log_append_time(&self) -> bool {
        self.attributes & LOG_APPEND_TIME != 0
    }

    pub fn transactional(&self) -> bool {
        self.attributes & TRANSACTIONAL != 0
    }

    pub fn control(&self) -> bool {
        self.attributes & CONTROL != 0
    }

    pub fn delete_horizon(&self) -> Option<i64> {
        (self.attributes & DELETE_HORIZON != 0).then_some(self.base_timestamp)
    }

    /// A record's sequence number: after 2^31 - 1 comes 0; -1 where the batch carries none.
    #[inline]
    pub fn sequence(&self, offset_delta: i32) -> i32 {
        if self.base_sequence < 0 {
            return -1;
        }
        self.base_sequence.wrapping_add(offset_delta) & i32::MAX
    }
}

/// Whether the checksum in a batch is that of its bytes.
pub fn crc_ok(batch: &[u8], crc: u32) -> bool {
    crc_fast::crc32_iscsi(&batch[CHECKSUMMED..]) == crc
}

/// The batch at `at`, when it lies whole in `data` and nothing is wrong with it: what `records.read` takes for a batch.
pub fn batch_at(data: &[u8], at: usize, check_crc: bool, max_batch_bytes: usize) -> Option<Header> {
    let header = Header::read(data, at).ok()?;
    let length = usize::try_from(header.length).ok()?;
    if header.magic != MAGIC || length < SIZE - LOG_OVERHEAD || length > max_batch_bytes {
        return None;
    }
    let batch = data[at..].get(..header.size())?;
    if header.count < 0 || header.last_offset_delta < 0 || !(0..=HIGHEST_OFFSET).contains(&header.base_offset) {
        return None;
    }
    (!check_crc || crc_ok(batch, header.crc)).then_some(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CRC-32C bit by bit.
    fn plain(data: &[u8]) -> u32 {
        !data.iter().fold(u32::MAX, |crc, byte| {
            (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0x82f6_3b78 & (crc & 1).wrapping_neg()))
        })
    }

    #[test]
    fn checksums_of_all_lengths_and_places() {
        assert_eq!(plain(b"123456789"), 0xe306_9283);
        let data: Vec<u8> = (0..20_000usize).map(|i| ((i * 2_654_435_761) >> 9) as u8).collect();
        for (length, begin) in (0..1200).map(|i| (i, i % 67)).chain([(4096, 3), (16_000, 61), (19_900, 1)]) {
            let batch = [&[0; CHECKSUMMED], &data[begin..begin + length]].concat();
            let crc = plain(&batch[CHECKSUMMED..]);
            assert!(crc_ok(&batch, crc) && !crc_ok(&batch, crc ^ 1), "{length} bytes from {begin} on");
        }
    }
}
