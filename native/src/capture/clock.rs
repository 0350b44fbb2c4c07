//! Times of packets as text.

use crate::cursor::{Read, Refused};

/// Times as ISO 8601 in UTC. The last second is remembered.
#[derive(Default)]
pub struct Clock {
    second: i64,
    text: String,
}

impl Clock {
    /// Refused: years that Python's `datetime` may not have.
    pub fn write(&mut self, time_ns: i64, out: &mut Vec<u8>) -> Read<()> {
        let (second, rest) = (time_ns.div_euclid(1_000_000_000), time_ns.rem_euclid(1_000_000_000));
        if !(0..253_402_300_800).contains(&second) {
            return Err(Refused);
        }
        if self.text.is_empty() || second != self.second {
            // Days to a date: Howard Hinnant's `civil_from_days`.
            let (day, second_of_day) = (second / 86_400 + 719_468, second % 86_400);
            let (era, of_era) = (day / 146_097, day % 146_097);
            let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
            let of_year = of_era - (365 * year + year / 4 - year / 100);
            let shifted = (5 * of_year + 2) / 153;
            let (day, month) =
                (of_year - (153 * shifted + 2) / 5 + 1, if shifted < 10 { shifted + 3 } else { shifted - 9 });
            let year = year + era * 400 + i64::from(month <= 2);
            let (hour, minute) = (second_of_day / 3600, second_of_day / 60 % 60);
            self.text = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{:02}", second_of_day % 60);
            self.second = second;
        }
        out.extend_from_slice(self.text.as_bytes());
        out.push(b'.');
        let mut digits = [b'0'; 6];
        let mut left = rest / 1000;
        for digit in digits.iter_mut().rev() {
            *digit += (left % 10) as u8;
            left /= 10;
        }
        out.extend_from_slice(&digits);
        out.push(b'Z');
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(ns: i64) -> Option<String> {
        let mut out = Vec::new();
        Clock::default().write(ns, &mut out).ok()?;
        String::from_utf8(out).ok()
    }

    #[test]
    fn times_are_iso_8601() {
        assert_eq!(time(0).unwrap(), "1970-01-01T00:00:00.000000Z");
        assert_eq!(time(951_782_399_123_456_789).unwrap(), "2000-02-28T23:59:59.123456Z");
        assert_eq!(time(951_868_799_000_001_000).unwrap(), "2000-02-29T23:59:59.000001Z");
        assert_eq!(time(4_102_444_800_000_000_000).unwrap(), "2100-01-01T00:00:00.000000Z");
        assert_eq!(time(-1), None);
    }
}
