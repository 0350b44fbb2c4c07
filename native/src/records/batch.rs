//! A batch's records, one after the other.

use super::codec::Decompressor;
use super::header::{Header, SIZE};
use super::record::{count_fits, span, Record, Span};
use crate::cursor::{Read, Refused};

/// The bytes of a batch's records, decompressed where they are compressed; none where it counts no record, whatever
/// follows its header (`DefaultRecordBatch.iterator`).
pub fn payload<'a>(
    batch: &'a [u8],
    header: &Header,
    decompressor: &'a mut Decompressor,
    limit: usize,
) -> Read<&'a [u8]> {
    let packed = batch.get(SIZE..).ok_or(Refused)?;
    match header.codec() {
        _ if header.count == 0 => Ok(&[]),
        0 => Ok(packed),
        codec => decompressor.decompress(codec, packed, limit),
    }
}

/// Hands the batch's records to `each`, up to the first that is malformed. Refused where one is, and where the bytes do
/// not hold as many as the batch counts, all of them.
#[inline]
pub fn for_each(payload: &[u8], count: i32, mut each: impl FnMut(&Record) -> Read<()>) -> Read<()> {
    if !count_fits(count, payload.len()) {
        return Err(Refused);
    }
    let mut at = 0;
    for _ in 0..count {
        let record = Record::read(payload, at)?;
        each(&record)?;
        at = record.end;
    }
    (at == payload.len()).then_some(()).ok_or(Refused)
}

/// Where key and value of each header of a record lie that was read.
pub fn header_spans<'a>(payload: &'a [u8], record: &Record) -> impl Iterator<Item = (Span, Span)> + use<'a> {
    let (mut at, end) = (record.headers, record.end);
    (0..record.header_count).map_while(move |_| {
        let key = span(payload, &mut at, end).ok()?;
        Some((key, span(payload, &mut at, end).ok()?))
    })
}
