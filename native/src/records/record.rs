//! One record of a batch: the positions of its parts. Accepts what `kafkawire.records.record.read_records` accepts.

use super::header::Header;
use super::varint::{varint, varlong};
use crate::cursor::{Read, Refused};

/// length, attributes, timestamp delta, offset delta, key length, value length, header count: a byte each.
pub const SMALLEST: usize = 7;

/// Bytes `start..start + length`; a length of -1 is null.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    pub start: usize,
    pub length: i32,
}

impl Span {
    #[inline]
    pub fn of<'a>(&self, data: &'a [u8]) -> Option<&'a [u8]> {
        usize::try_from(self.length).ok().map(|length| &data[self.start..self.start + length])
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Record {
    pub timestamp_delta: i64,
    pub offset_delta: i32,
    pub key: Span,
    pub value: Span,
    pub header_count: i32,
    /// Where the first header begins.
    pub headers: usize,
    /// Where the record ends.
    pub end: usize,
}

impl Record {
    /// The record at `at`. Its headers are checked too.
    #[inline(always)]
    pub fn read(data: &[u8], at: usize) -> Read<Self> {
        let mut at = at;
        let length = usize::try_from(varint(data, &mut at)?).map_err(|_| Refused)?;
        if length > data.len() - at {
            return Err(Refused);
        }
        let end = at + length;
        at += 1; // attributes: unused
        let timestamp_delta = varlong(data, &mut at)?;
        let offset_delta = varint(data, &mut at)?;
        let key = span(data, &mut at, end)?;
        let value = span(data, &mut at, end)?;
        let header_count = varint(data, &mut at)?;
        let headers = at;
        if header_count != 0 {
            // A header takes two bytes at least.
            if at > end || header_count < 0 || header_count as usize > (end - at) / 2 {
                return Err(Refused);
            }
            for _ in 0..header_count {
                let key = span(data, &mut at, end)?;
                if key.length < 0 {
                    return Err(Refused);
                }
                span(data, &mut at, end)?;
            }
        }
        if at != end {
            return Err(Refused);
        }
        Ok(Record { timestamp_delta, offset_delta, key, value, header_count, headers, end })
    }

    #[inline]
    pub fn offset(&self, batch: &Header) -> i64 {
        batch.base_offset.wrapping_add(i64::from(self.offset_delta))
    }

    #[inline]
    pub fn timestamp(&self, batch: &Header) -> i64 {
        if batch.log_append_time() {
            batch.max_timestamp
        } else {
            batch.base_timestamp.wrapping_add(self.timestamp_delta)
        }
    }
}

/// The length at `at` and the bytes after it, which end at `end` at the latest.
#[inline(always)]
pub fn span(data: &[u8], at: &mut usize, end: usize) -> Read<Span> {
    let length = varint(data, at)?;
    let start = *at;
    if length < 0 {
        return Ok(Span { start, length: -1 });
    }
    if start > end || length as usize > end - start {
        return Err(Refused);
    }
    *at = start + length as usize;
    Ok(Span { start, length })
}

/// Whether a batch's count could be that of the records in `size` bytes.
pub fn count_fits(count: i32, size: usize) -> bool {
    usize::try_from(count).is_ok_and(|count| count <= size / SMALLEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record() {
        let data = [0x20, 0, 0, 2, 2, b'k', 4, b'v', b'1', 4, 2, b'h', 2, b'x', 2, b'n', 1];
        let record = Record::read(&data, 0).unwrap();
        assert_eq!((record.offset_delta, record.timestamp_delta, record.end), (1, 0, data.len()));
        assert_eq!(record.key.of(&data), Some(&b"k"[..]));
        assert_eq!(record.value.of(&data), Some(&b"v1"[..]));
        let last = crate::records::batch::header_spans(&data, &record).last();
        assert_eq!(last, Some((Span { start: 15, length: 1 }, Span { start: 17, length: -1 })));
    }

    #[test]
    fn every_cut_is_refused() {
        let data = [0x20, 0, 0, 2, 2, b'k', 4, b'v', b'1', 4, 2, b'h', 2, b'x', 2, b'n', 1];
        for cut in 0..data.len() {
            assert!(Record::read(&data[..cut], 0).is_err());
        }
    }
}
