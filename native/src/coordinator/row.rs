//! A record of `__transaction_state`, decoded: `id_columns.ROW`.

/// Bytes of a packed row.
pub const SIZE: usize = 80;
/// Numbers of a row where it goes to the reference.
pub const NUMBERS: usize = 16;

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    pub offset: i64,
    pub timestamp: i64,
    pub producer_id: i64,
    pub previous: i64,
    pub next: i64,
    pub updated: i64,
    pub started: i64,
    /// Numbers of the transactional id, and of the list of partitions (-1: null).
    pub id: u32,
    pub leader_epoch: i32,
    pub timeout: i32,
    pub partitions: i32,
    pub epoch: i16,
    pub next_epoch: i16,
    pub version: i16,
    pub status: i8,
    /// Not of a tombstone.
    pub has_value: bool,
}

impl Row {
    #[inline]
    pub fn push(&self, rows: &mut Vec<u8>) {
        let mut bytes = [0; SIZE];
        let longs =
            [self.offset, self.timestamp, self.producer_id, self.previous, self.next, self.updated, self.started];
        for (place, value) in bytes.chunks_exact_mut(8).zip(longs) {
            place.copy_from_slice(&value.to_le_bytes());
        }
        for (place, value) in
            bytes[56..].chunks_exact_mut(4).zip([self.id as i32, self.leader_epoch, self.timeout, self.partitions])
        {
            place.copy_from_slice(&value.to_le_bytes());
        }
        for (place, value) in bytes[72..].chunks_exact_mut(2).zip([self.epoch, self.next_epoch, self.version]) {
            place.copy_from_slice(&value.to_le_bytes());
        }
        bytes[78] = self.status as u8;
        bytes[79] = u8::from(self.has_value);
        rows.extend_from_slice(&bytes);
    }

    #[inline]
    pub fn read(bytes: &[u8; SIZE]) -> Self {
        let long = |at: usize| i64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let int = |at: usize| i32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let short = |at: usize| i16::from_le_bytes(bytes[at..at + 2].try_into().expect("two bytes"));
        Row {
            offset: long(0),
            timestamp: long(8),
            producer_id: long(16),
            previous: long(24),
            next: long(32),
            updated: long(40),
            started: long(48),
            id: int(56) as u32,
            leader_epoch: int(60),
            timeout: int(64),
            partitions: int(68),
            epoch: short(72),
            next_epoch: short(74),
            version: short(76),
            status: bytes[78] as i8,
            has_value: bytes[79] != 0,
        }
    }

    /// As the reference takes it.
    pub fn push_numbers(&self, numbers: &mut Vec<i64>) {
        numbers.extend([
            self.offset,
            self.timestamp,
            self.producer_id,
            self.previous,
            self.next,
            self.updated,
            self.started,
            i64::from(self.id),
            i64::from(self.leader_epoch),
            i64::from(self.timeout),
            i64::from(self.partitions),
            i64::from(self.epoch),
            i64::from(self.next_epoch),
            i64::from(self.version),
            i64::from(self.status),
            i64::from(self.has_value),
        ]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packed_row_is_read_again() {
        let row = Row {
            offset: 1,
            timestamp: -2,
            producer_id: 3,
            previous: -1,
            next: 5,
            updated: 6,
            started: -7,
            id: 8,
            leader_epoch: -9,
            timeout: 10,
            partitions: -1,
            epoch: 12,
            next_epoch: -1,
            version: 2,
            status: 4,
            has_value: true,
        };
        let mut bytes = Vec::new();
        row.push(&mut bytes);
        assert_eq!(Row::read(bytes.as_slice().try_into().unwrap()), row);
    }
}
