//! Digests of a log's batches, one a range of offsets: `kafkawire.transactions.log.range_digests` is the reference.

/// A range of 2^16 offsets.
const RANGE_BITS: u32 = 16;
/// Steps of SplitMix64.
const STEPS: [(u32, u64); 2] = [(30, 0xBF58_476D_1CE4_E5B9), (27, 0x94D0_49BB_1331_11EB)];

/// `range_digests.DIGEST`.
struct Digest {
    number: i64,
    first: i64,
    last: i64,
    batches: i64,
    digest: u64,
}

/// The digests of the batches so far.
#[derive(Default)]
pub struct Digests {
    found: Vec<Digest>,
    /// Their ranges do not ascend.
    mixed_up: bool,
}

impl Digests {
    #[inline]
    pub fn add(&mut self, base: i64, last: i64, crc: u64) {
        let number = base >> RANGE_BITS;
        let mixed = mixed(base, last, crc);
        match self.found.last_mut() {
            Some(range) if range.number == number => {
                range.first = range.first.min(base);
                range.last = range.last.max(last);
                range.batches += 1;
                range.digest = range.digest.wrapping_add(mixed);
            }
            range => {
                self.mixed_up |= range.is_some_and(|range| range.number >= number);
                self.found.push(Digest { number, first: base, last, batches: 1, digest: mixed });
            }
        }
    }

    /// As packed rows, in the order of the ranges.
    pub fn into_rows(self) -> Vec<u8> {
        let mut found = self.found;
        if self.mixed_up {
            found.sort_by_key(|range| range.number);
            found.dedup_by(|next, kept| {
                let same = next.number == kept.number;
                if same {
                    kept.first = kept.first.min(next.first);
                    kept.last = kept.last.max(next.last);
                    kept.batches += next.batches;
                    kept.digest = kept.digest.wrapping_add(next.digest);
                }
                same
            });
        }
        let numbers = |range: Digest| [range.number, range.first, range.last, range.batches, range.digest as i64];
        found.into_iter().flat_map(numbers).flat_map(i64::to_le_bytes).collect()
    }
}

/// The digests of batches, from first and last offsets and checksums, as packed rows in the order of the ranges.
pub fn digests(base: &[i64], last: &[i64], crc: &[u64]) -> Vec<u8> {
    let mut found = Digests::default();
    for ((&base, &last), &crc) in base.iter().zip(last).zip(crc) {
        found.add(base, last, crc);
    }
    found.into_rows()
}

#[inline]
fn mixed(base: i64, last: i64, crc: u64) -> u64 {
    let mut mixed = (base as u64)
        .wrapping_mul(0x9E37_79B9_7F4A_7C15)
        .wrapping_add((last as u64).wrapping_mul(0xC2B2_AE3D_27D4_EB4F))
        .wrapping_add(crc);
    for (shift, factor) in STEPS {
        mixed = (mixed ^ (mixed >> shift)).wrapping_mul(factor);
    }
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_come_again_are_one() {
        let (base, last) = ([0, 65_535, 65_536, 3], [3, 70_000, 65_540, 9]);
        let found = digests(&base, &last, &[1, 2, 3, 4]);
        let (rows, _) = found.as_chunks::<8>();
        let rows: Vec<i64> = rows.iter().map(|bytes| i64::from_le_bytes(*bytes)).collect();
        assert_eq!((&rows[..4], &rows[5..9]), (&[0, 0, 70_000, 3][..], &[1, 65_536, 65_540, 1][..]));
        let sum = [(0, 3, 1), (65_535, 70_000, 2), (3, 9, 4)].map(|(base, last, crc)| mixed(base, last, crc));
        assert_eq!(rows[4], sum.into_iter().fold(0u64, u64::wrapping_add) as i64);
        assert!(digests(&[], &[], &[]).is_empty());
    }
}
