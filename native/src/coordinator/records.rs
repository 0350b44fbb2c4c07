//! Batches of `__transaction_state` -> rows. A batch is taken only if each key is exactly a `TransactionLogKey` and
//! each value a `TransactionLogValue`. Any other batch is refused, and the reference reads it.

use super::interner::Interner;
use super::row::Row;
use super::NULL;
use crate::cursor::{Cursor, Read as Taken, Refused};
use crate::records::batch::{for_each, payload};
use crate::records::codec::Decompressor;
use crate::records::header::{batch_at, Header};
use crate::records::record::Record;

/// Bytes of a value before its list of partitions: version, producer id, epoch, timeout, status.
const HEAD: usize = 17;
/// Bytes of the tagged fields.
const TAG_SIZES: [usize; 4] = [8, 8, 2, 2];

#[derive(Default)]
pub struct Read {
    pub rows: Vec<u8>,
    pub named: Named,
    /// The batch to go on with.
    pub next: usize,
}

impl Read {
    pub fn of(data: &[u8], positions: &[i64], first: usize, max_batch_bytes: usize) -> Self {
        let mut found = Read { next: first, ..Read::default() };
        let mut decompressor = Decompressor::default();
        let mut rows = Vec::new();
        for &at in positions.iter().skip(first) {
            if found.named.read_batch(data, at, &mut decompressor, max_batch_bytes, &mut rows).is_err() {
                break;
            }
            rows.iter().for_each(|row: &Row| row.push(&mut found.rows));
            found.next += 1;
        }
        found
    }
}

/// What rows name by numbers.
#[derive(Default)]
pub struct Named {
    /// Transactional ids.
    pub names: Interner,
    /// Lists of partitions: the version of the value, and the bytes of the field.
    pub lists: Interner,
}

impl Named {
    /// The records of the batch at `at`, in place of what is in `rows`. Of one that is refused nothing is kept.
    #[inline]
    pub fn read_batch(
        &mut self,
        data: &[u8],
        at: i64,
        decompressor: &mut Decompressor,
        max_batch_bytes: usize,
        rows: &mut Vec<Row>,
    ) -> Taken<()> {
        let at = usize::try_from(at).ok().filter(|&at| at <= data.len()).ok_or(Refused)?;
        let header = batch_at(data, at, false, usize::MAX).ok_or(Refused)?;
        self.read_records(&data[at..at + header.size()], &header, decompressor, max_batch_bytes, rows)
    }

    /// The same, of a batch whose header was read.
    #[inline]
    pub fn read_records(
        &mut self,
        batch: &[u8],
        header: &Header,
        decompressor: &mut Decompressor,
        max_batch_bytes: usize,
        rows: &mut Vec<Row>,
    ) -> Taken<()> {
        rows.clear();
        if header.control() {
            return Ok(());
        }
        let (names, lists) = (self.names.len(), self.lists.len());
        let records = payload(batch, header, decompressor, max_batch_bytes)?;
        let found = for_each(records, header.count, |record| {
            // In its place: a row that is moved right after its fields were set waits for all of them.
            rows.push(self.without_value(records, header, record)?);
            match (rows.last_mut(), record.value.of(records)) {
                (Some(row), Some(value)) => self.set_value(row, value),
                _ => Ok(()),
            }
        });
        if found.is_err() {
            self.names.truncate(names);
            self.lists.truncate(lists);
        }
        found
    }

    #[inline(always)]
    fn without_value(&mut self, data: &[u8], header: &Header, record: &Record) -> Taken<Row> {
        let name = name_in(record.key.of(data).ok_or(Refused)?)?;
        Ok(Row {
            offset: record.offset(header),
            timestamp: record.timestamp(header),
            id: self.names.number(name),
            leader_epoch: header.leader_epoch,
            previous: -1,
            next: -1,
            next_epoch: -1,
            partitions: NULL,
            ..Row::default()
        })
    }

    #[inline]
    fn set_value(&mut self, row: &mut Row, value: &[u8]) -> Taken<()> {
        let mut cursor = Cursor::new(value, 0);
        let mut head = Cursor::new(cursor.take(HEAD)?, 0);
        let version = i16::from_be_bytes(head.array()?);
        let compact = match version {
            0 => false,
            1 => true,
            _ => return Err(Refused),
        };
        row.has_value = true;
        row.producer_id = i64::from_be_bytes(head.array()?);
        row.epoch = i16::from_be_bytes(head.array()?);
        row.timeout = i32::from_be_bytes(head.array()?);
        row.status = i8::from_be_bytes(head.array()?);
        let start = cursor.position();
        if let Some(count) = length(&mut cursor, compact, false)? {
            for _ in 0..count {
                skip_topic(&mut cursor, compact)?;
            }
            // The last byte of the version goes along: lists of both versions are told apart.
            let list = self.lists.number_of([version as u8], &value[start..cursor.position()]);
            row.partitions = i32::try_from(list).map_err(|_| Refused)?;
        }
        row.updated = i64::from_be_bytes(cursor.array()?);
        row.started = i64::from_be_bytes(cursor.array()?);
        if compact {
            tags(&mut cursor, row)?;
        }
        if cursor.left() > 0 {
            return Err(Refused);
        }
        Ok(())
    }
}

/// The transactional id in a key.
#[inline]
fn name_in(key: &[u8]) -> Taken<&[u8]> {
    let mut cursor = Cursor::new(key, 0);
    if i16::from_be_bytes(cursor.array()?) != 0 {
        return Err(Refused);
    }
    let name = text(&mut cursor, false)?;
    (cursor.left() == 0).then_some(name).ok_or(Refused)
}

#[inline]
fn text<'a>(cursor: &mut Cursor<'a>, compact: bool) -> Taken<&'a [u8]> {
    let size = length(cursor, compact, true)?.ok_or(Refused)?;
    cursor.take(size)
}

/// A length; `None` for null. Other negative numbers are refused.
#[inline]
fn length(cursor: &mut Cursor, compact: bool, narrow: bool) -> Taken<Option<usize>> {
    let number = if compact {
        let number = cursor.uvarint()?;
        if number < 0 {
            return Err(Refused);
        }
        number - 1
    } else if narrow {
        i32::from(i16::from_be_bytes(cursor.array()?))
    } else {
        i32::from_be_bytes(cursor.array()?)
    };
    match number {
        -1 => Ok(None),
        _ => usize::try_from(number).map(Some).map_err(|_| Refused),
    }
}

/// Passes over a topic and the numbers of its partitions.
#[inline]
pub fn skip_topic<'a>(cursor: &mut Cursor<'a>, compact: bool) -> Taken<(&'a [u8], &'a [u8])> {
    let topic = text(cursor, compact)?;
    let count = length(cursor, compact, false)?.ok_or(Refused)?;
    let numbers = cursor.take(count.checked_mul(4).ok_or(Refused)?)?;
    if compact && cursor.uvarint()? != 0 {
        return Err(Refused);
    }
    Ok((topic, numbers))
}

#[inline]
fn tags(cursor: &mut Cursor, row: &mut Row) -> Taken<()> {
    let count = cursor.uvarint()?;
    let mut next = 0;
    for _ in 0..count {
        let tag = usize::try_from(cursor.uvarint()?).map_err(|_| Refused)?;
        let size = usize::try_from(cursor.uvarint()?).map_err(|_| Refused)?;
        if tag < next || TAG_SIZES.get(tag) != Some(&size) {
            return Err(Refused);
        }
        next = tag + 1;
        match tag {
            0 => row.previous = i64::from_be_bytes(cursor.array()?),
            1 => row.next = i64::from_be_bytes(cursor.array()?),
            2 => row.version = i16::from_be_bytes(cursor.array()?),
            _ => row.next_epoch = i16::from_be_bytes(cursor.array()?),
        }
    }
    (count >= 0).then_some(()).ok_or(Refused)
}

/// The topics of a list, each with the bytes of its partitions' numbers.
pub fn topics_of(list: &[u8]) -> Taken<Vec<(&[u8], &[u8])>> {
    let (&version, rest) = list.split_first().ok_or(Refused)?;
    let mut cursor = Cursor::new(rest, 0);
    let count = length(&mut cursor, version == 1, false)?.unwrap_or(0);
    let found: Vec<_> = (0..count).map(|_| skip_topic(&mut cursor, version == 1)).collect::<Taken<_>>()?;
    (cursor.left() == 0).then_some(found).ok_or(Refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_taken_whole_or_not_at_all() {
        let mut value = vec![0, 1];
        value.extend(4000i64.to_be_bytes());
        value.extend([0, 7, 0, 0, 234, 96, 2]);
        value.extend([2, 7, b'o', b'r', b'd', b'e', b'r', b's', 2, 0, 0, 0, 3, 0]);
        value.extend([9i64.to_be_bytes(), 8i64.to_be_bytes()].concat());
        value.extend([2, 0, 8]);
        value.extend(4001i64.to_be_bytes());
        value.extend([2, 2, 0, 2]);
        let mut read = Named::default();
        let mut row = Row::default();
        read.set_value(&mut row, &value).unwrap();
        assert_eq!((row.producer_id, row.epoch, row.timeout, row.status), (4000, 7, 60_000, 2));
        assert_eq!((row.updated, row.started, row.previous, row.version), (9, 8, 4001, 2));
        let lists: Vec<_> = read.lists.values_from(0).collect();
        assert_eq!(topics_of(lists[0]).unwrap(), [(&b"orders"[..], &[0, 0, 0, 3][..])]);
        for cut in 0..value.len() {
            assert!(Named::default().set_value(&mut Row::default(), &value[..cut]).is_err(), "{cut}");
        }
        value.push(0);
        assert!(Named::default().set_value(&mut Row::default(), &value).is_err());
    }
}
