//! Zigzag varints, the numbers in records (Kafka's `ByteUtils.readVarint`, `readVarlong`).

use crate::cursor::{Read, Refused};

/// An int of at most 5 bytes at `at`, which moves after it. Bits that an int cannot hold are dropped, as Java does.
#[inline(always)]
pub fn varint(data: &[u8], at: &mut usize) -> Read<i32> {
    let first = *data.get(*at).ok_or(Refused)?;
    if first < 128 {
        *at += 1;
        return Ok(i32::from(first >> 1) ^ -i32::from(first & 1));
    }
    let second = *data.get(*at + 1).ok_or(Refused)?;
    if second < 128 {
        *at += 2;
        let number = u32::from(first & 127) | u32::from(second) << 7;
        return Ok((number >> 1) as i32 ^ -((number & 1) as i32));
    }
    let number = slow(data, at, 5)? as u32;
    Ok((number >> 1) as i32 ^ -((number & 1) as i32))
}

/// A long of at most 10 bytes at `at`, which moves after it.
#[inline(always)]
pub fn varlong(data: &[u8], at: &mut usize) -> Read<i64> {
    let first = *data.get(*at).ok_or(Refused)?;
    if first < 128 {
        *at += 1;
        return Ok(i64::from(first >> 1) ^ -i64::from(first & 1));
    }
    let number = slow(data, at, 10)?;
    Ok((number >> 1) as i64 ^ -((number & 1) as i64))
}

fn slow(data: &[u8], at: &mut usize, most: usize) -> Read<u64> {
    let mut number = 0u64;
    for (i, &byte) in data[*at..].iter().take(most).enumerate() {
        number |= u64::from(byte & 127) << (7 * i);
        if byte < 128 {
            *at += i + 1;
            return Ok(number);
        }
    }
    Err(Refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ints_and_longs() {
        for (bytes, number) in
            [(&[0u8][..], 0), (&[1], -1), (&[0xff, 1], -128), (&[0xff, 0xff, 0xff, 0xff, 0x0f], i32::MIN)]
        {
            let mut at = 0;
            assert_eq!(varint(bytes, &mut at), Ok(number));
            assert_eq!(at, bytes.len());
            let mut at = 0;
            assert_eq!(varlong(bytes, &mut at), Ok(i64::from(number)));
        }
        let mut at = 0;
        let lowest = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
        assert_eq!(varlong(&lowest, &mut at), Ok(i64::MIN));
    }

    #[test]
    fn too_long_or_cut_off() {
        for cut in 0..5 {
            assert_eq!(varint(&[0xff; 5][..cut], &mut 0), Err(Refused));
        }
        assert_eq!(varint(&[0xff; 6], &mut 0), Err(Refused));
        assert_eq!(varlong(&[0xff; 11], &mut 0), Err(Refused));
    }
}
