//! The bytes at spans of a buffer, as Arrow columns. A span is a start and a length; a negative length is null.

use base64::engine::{general_purpose::STANDARD, Engine};

use crate::cursor::{Read, Refused};

/// Offsets and bytes of an Arrow column.
pub type Gathered = (Vec<i32>, Vec<u8>);

/// The bytes at spans, one after the other, and where each begins. Null spans are empty.
pub fn gather(data: &[u8], starts: &[i64], lengths: &[i32]) -> Read<Gathered> {
    gathered(data, starts, lengths, |length| length, |bytes, span| bytes.extend_from_slice(span))
}

/// The base64 of the bytes at spans, and where each begins.
pub fn gather_base64(data: &[u8], starts: &[i64], lengths: &[i32]) -> Read<Gathered> {
    let size = |length: i64| (length + 2) / 3 * 4;
    gathered(data, starts, lengths, size, |bytes, span| {
        let at = bytes.len();
        bytes.resize(at + span.len().div_ceil(3) * 4, 0);
        // The room is exact, so this cannot fail.
        let written = STANDARD.encode_slice(span, &mut bytes[at..]).unwrap_or(0);
        bytes.truncate(at + written);
    })
}

/// Whether each is UTF-8; false for null.
pub fn texts(data: &[u8], starts: &[i64], lengths: &[i32]) -> Read<Vec<bool>> {
    let text = |(&start, &length): (&i64, &i32)| {
        Ok(match length {
            ..0 => false,
            0 => true,
            _ => std::str::from_utf8(span(data, start, length)?).is_ok(),
        })
    };
    starts.iter().zip(lengths).map(text).collect()
}

fn gathered(
    data: &[u8],
    starts: &[i64],
    lengths: &[i32],
    size: impl Fn(i64) -> i64,
    append: impl Fn(&mut Vec<u8>, &[u8]),
) -> Read<Gathered> {
    let total = lengths.iter().map(|&length| size(i64::from(length.max(0)))).sum::<i64>();
    let total = usize::try_from(i32::try_from(total).map_err(|_| Refused)?).map_err(|_| Refused)?;
    let mut offsets = Vec::with_capacity(lengths.len() + 1);
    let mut bytes = Vec::with_capacity(total);
    offsets.push(0);
    for (&start, &length) in starts.iter().zip(lengths) {
        if length > 0 {
            append(&mut bytes, span(data, start, length)?);
        }
        offsets.push(bytes.len() as i32);
    }
    Ok((offsets, bytes))
}

fn span(data: &[u8], start: i64, length: i32) -> Read<&[u8]> {
    let start = usize::try_from(start).map_err(|_| Refused)?;
    let end = start.checked_add(length as usize).ok_or(Refused)?;
    data.get(start..end).ok_or(Refused)
}
