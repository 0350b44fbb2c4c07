//! A join of two columns by keys: for each key the place of its only match in the other column.

/// As an index: no key is equal; several are.
pub const ABSENT: i32 = -1;
pub const SEVERAL: i32 = -2;
const FREE: u32 = u32::MAX;
const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;

/// For each sought key the index of the one that equals it, `ABSENT` or `SEVERAL`. `seed`: random.
pub fn matched(keys: &[i64], sought: &[i64], seed: u64) -> Vec<i32> {
    let size = (2 * keys.len()).next_power_of_two().max(2);
    let shift = 64 - size.trailing_zeros();
    let mut table = vec![FREE; size];
    let mut several = vec![false; keys.len()];
    let place_of = |key: i64| {
        let mixed = (key as u64 ^ seed).wrapping_mul(FACTOR);
        ((mixed ^ (mixed >> 32)).wrapping_mul(FACTOR) >> shift) as usize
    };
    for (number, &key) in keys.iter().enumerate() {
        let mut place = place_of(key);
        loop {
            let at = table[place];
            if at == FREE {
                table[place] = number as u32;
                break;
            }
            if keys[at as usize] == key {
                several[at as usize] = true;
                break;
            }
            place = (place + 1) & (size - 1);
        }
    }
    let find = |&key: &i64| {
        let mut place = place_of(key);
        loop {
            let at = table[place];
            if at == FREE {
                return ABSENT;
            }
            if keys[at as usize] == key {
                return if several[at as usize] { SEVERAL } else { at as i32 };
            }
            place = (place + 1) & (size - 1);
        }
    };
    sought.iter().map(find).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_once() {
        assert_eq!(matched(&[5, 7, 5, i64::MIN], &[7, 5, 6, i64::MIN, 7], 9), [1, SEVERAL, ABSENT, 3, 1]);
        assert_eq!(matched(&[], &[7], 9), [ABSENT]);
        let keys: Vec<i64> = (0..10_000).map(|at| at << 16).collect();
        assert!(matched(&keys, &keys, 3).into_iter().eq(0..10_000));
    }
}
