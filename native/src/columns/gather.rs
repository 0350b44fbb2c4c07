//! The second pass: from positions to columns as Arrow holds them.

use std::borrow::Cow;

use super::walk::{UnknownTag, ABSENT, ABSENT_LIST, ELEMENTS, NULL, NULL_LIST};

/// A column would hold more than Arrow's int32 offsets count.
pub struct TooMuch(pub usize);

pub type Gathered<T> = Result<T, TooMuch>;

/// Arrow's offsets of strings or lists of these sizes.
fn offsets_of(sizes: impl ExactSizeIterator<Item = usize>) -> Gathered<Vec<i32>> {
    let mut offsets = Vec::with_capacity(sizes.len() + 1);
    let mut end = 0usize;
    offsets.push(0);
    for size in sizes {
        end += size;
        offsets.push(end as i32); // looked at below: sizes are not negative
    }
    if i32::try_from(end).is_ok() {
        Ok(offsets)
    } else {
        Err(TooMuch(end))
    }
}

/// Arrow's bits of what is not null; `None` where nothing is.
fn validity(count: usize, null: impl Fn(usize) -> bool) -> Option<Vec<u8>> {
    if !(0..count).any(&null) {
        return None;
    }
    let mut bits = vec![0u8; count.div_ceil(8)];
    for number in (0..count).filter(|&number| !null(number)) {
        bits[number >> 3] |= 1 << (number & 7);
    }
    Some(bits)
}

fn is_null(at: u32, absent_is_null: bool) -> bool {
    at == NULL || (absent_is_null && at == ABSENT)
}

/// Fixed-size values that stand `offset` bytes behind the begin of their run.
pub fn numbers<const N: usize, T: Copy>(
    data: &[u8],
    runs: &[u32],
    offset: usize,
    default: T,
    read: impl Fn([u8; N]) -> T,
) -> Vec<T> {
    runs.iter()
        .map(|&at| {
            if at == ABSENT {
                return default;
            }
            let at = at as usize + offset;
            data[at..].first_chunk::<N>().map_or(default, |raw| read(*raw))
        })
        .collect()
}

pub fn uuids(data: &[u8], runs: &[u32], offset: usize, default: [u8; 16]) -> Vec<u8> {
    let mut gathered = Vec::with_capacity(16 * runs.len());
    for &at in runs {
        let at = at as usize + offset;
        gathered.extend_from_slice(data.get(at..at + 16).unwrap_or(&default));
    }
    gathered
}

/// The values of arrays of fixed-size values, one array behind the other.
pub fn arrays<const N: usize, T>(data: &[u8], blobs: &[(u32, u32)], read: impl Fn([u8; N]) -> T) -> Vec<T> {
    let mut gathered = Vec::with_capacity(blobs.iter().map(|&(_, count)| count as usize).sum());
    for &(at, count) in blobs.iter().filter(|&&(_, count)| count > 0) {
        let at = at as usize;
        let values = data[at..at + N * count as usize].chunks_exact(N);
        gathered.extend(values.map(|raw| read(*raw.first_chunk::<N>().unwrap_or(&[0; N]))));
    }
    gathered
}

/// Offsets and validity of arrays of fixed-size values.
pub fn array_offsets(blobs: &[(u32, u32)], null: bool) -> Gathered<(Vec<i32>, Option<Vec<u8>>)> {
    let offsets = offsets_of(blobs.iter().map(|&(_, count)| count as usize))?;
    Ok((offsets, validity(blobs.len(), |number| is_null(blobs[number].0, null))))
}

pub struct Strings {
    pub offsets: Vec<i32>,
    pub validity: Option<Vec<u8>>,
    pub data: Vec<u8>,
}

/// Strings of bytes; those that are absent have the default.
pub fn blobs(data: &[u8], blobs: &[(u32, u32)], null: bool, default: &[u8]) -> Gathered<Strings> {
    let octets = |&(at, size): &(u32, u32)| match at {
        ABSENT => default,
        NULL => &[],
        _ => &data[at as usize..at as usize + size as usize],
    };
    let offsets = offsets_of(blobs.iter().map(|blob| octets(blob).len()))?;
    let mut gathered = Vec::with_capacity(offsets.last().map_or(0, |&end| end as usize));
    for blob in blobs {
        gathered.extend_from_slice(octets(blob));
    }
    let validity = validity(blobs.len(), |number| is_null(blobs[number].0, null));
    Ok(Strings { offsets, validity, data: gathered })
}

/// Puts U+FFFD in place of what is no UTF-8; returns which strings have it.
pub fn clean(strings: &mut Strings) -> Gathered<Vec<i64>> {
    if strings.data.is_ascii() {
        return Ok(Vec::new());
    }
    let texts: Vec<Cow<'_, str>> = strings
        .offsets
        .windows(2)
        .map(|ends| String::from_utf8_lossy(&strings.data[ends[0] as usize..ends[1] as usize]))
        .collect();
    let impure: Vec<i64> =
        (0i64..).zip(&texts).filter(|(_, text)| matches!(text, Cow::Owned(_))).map(|(n, _)| n).collect();
    if impure.is_empty() {
        return Ok(impure);
    }
    let offsets = offsets_of(texts.iter().map(|text| text.len()))?;
    let data = texts.concat().into_bytes();
    strings.offsets = offsets;
    strings.data = data;
    Ok(impure)
}

/// Offsets and validity of lists.
pub fn lists(ends: &[u64], null: bool) -> Gathered<(Vec<i32>, Option<Vec<u8>>)> {
    let mut offsets = Vec::with_capacity(ends.len() + 1);
    offsets.push(0);
    offsets.extend(ends.iter().map(|end| (end & ELEMENTS) as i32));
    let total = ends.last().map_or(0, |end| (end & ELEMENTS) as usize);
    if i32::try_from(total).is_err() {
        return Err(TooMuch(total));
    }
    let nulls = if null { NULL_LIST | ABSENT_LIST } else { NULL_LIST };
    Ok((offsets, validity(ends.len(), |number| ends[number] & nulls != 0)))
}

pub fn marks(marks: &[u32], null: bool) -> Option<Vec<u8>> {
    validity(marks.len(), |number| is_null(marks[number], null))
}

/// Unknown tags: offsets of each element's list of them, their numbers, and their data.
pub fn unknown(data: &[u8], tags: &[UnknownTag], count: usize) -> Gathered<(Vec<i32>, Vec<i32>, Strings)> {
    let mut sizes = vec![0usize; count];
    for tag in tags {
        sizes[tag.element as usize] += 1;
    }
    let places: Vec<(u32, u32)> = tags.iter().map(|tag| (tag.at, tag.size)).collect();
    let numbers = tags.iter().map(|tag| tag.tag).collect();
    Ok((offsets_of(sizes.into_iter())?, numbers, blobs(data, &places, false, &[])?))
}
