//! The sink that finds names: the values of fields that name something, and the producers of record batches. Which fields
//! these are states `kafkawire.capture.named_entities`.

use crate::cursor::{Cursor, Read, Refused};
use crate::layout::{Kind, WireType};
use crate::records::header::batch_at;
use crate::walk::{Sink, Walk};

/// What a value names, as in `kafkawire.capture.named_entities`; 0: nothing.
pub type Named = u8;
pub const TOPIC: Named = 1;
pub const TOPIC_ID: Named = 2;
pub const TRANSACTIONAL_ID: Named = 3;
pub const PRODUCER_ID: Named = 4;
/// Of a batch: producer id and epoch, as they are in its header.
pub const PRODUCER: Named = 5;
/// As `TOPIC_ID`, in a response that tells its name: the value before, a `TOPIC`.
pub const NAMED_TOPIC_ID: Named = 6;
/// The value before is a `PRODUCER_ID`.
pub const PRODUCER_EPOCH: Named = 7;
pub const GROUP: Named = 8;
/// A partition's number.
pub const PARTITION: Named = 9;

/// Values, in the order of their bytes; of several equal ones in a row one.
pub type Names = Vec<(Named, Vec<u8>)>;

/// Place of the producer id and epoch in a batch.
const PRODUCER_AT: std::ops::Range<usize> = 43..53;

#[derive(Default)]
pub struct NameSink {
    pub found: Names,
}

impl NameSink {
    #[inline]
    fn add(&mut self, what: Named, data: &[u8]) {
        if what != 0 && !self.found.last().is_some_and(|(before, value)| *before == what && value == data) {
            self.found.push((what, data.to_vec()));
        }
    }

    /// Refused: what is no whole batch of magic 2, which Python looks through.
    fn batches(&mut self, what: Named, data: &[u8]) -> Read<()> {
        let mut at = 0;
        while at < data.len() {
            let header = batch_at(data, at, false, usize::MAX).ok_or(Refused)?;
            let batch = data.get(at..at + header.size()).ok_or(Refused)?;
            self.add(what, batch.get(PRODUCER_AT).ok_or(Refused)?);
            at += batch.len();
        }
        Ok(())
    }
}

impl Sink for NameSink {
    type Field = (Kind, Named);
    type Own = ();
    type Place = ();
    type Struct = ();
    type Value = ();
    type Stop = Refused;

    const BUDGET: bool = true;
    const ASCENDING: bool = true;

    fn begin(&mut self, (): &()) -> Read<()> {
        Ok(())
    }

    fn put(&mut self, (): &mut (), _: &Self::Field, (): ()) {}

    fn put_unknown(&mut self, (): &mut (), (): &(), (): (), _: i32, _: &[u8]) -> Read<()> {
        Ok(())
    }

    fn end(&mut self, (): (), (): &()) -> Read<()> {
        Ok(())
    }

    #[inline(always)]
    fn fixed(&mut self, (): (), field: &Self::Field, size: usize, cursor: &mut Cursor<'_>) -> Read<()> {
        let data = cursor.take(size)?;
        self.add(field.1, data);
        Ok(())
    }

    fn numbers(&mut self, (): (), field: &Self::Field, count: usize, data: &[u8]) -> Read<()> {
        if field.1 != 0 && count > 0 {
            data.chunks_exact(data.len() / count).for_each(|value| self.add(field.1, value));
        }
        Ok(())
    }

    #[inline]
    fn blob(&mut self, (): (), field: &Self::Field, _: Cursor<'_>, data: &[u8]) -> Read<()> {
        match field {
            (_, 0) => (),
            (Kind::Records, what) => self.batches(*what, data)?,
            (_, what) => self.add(*what, data),
        }
        Ok(())
    }

    #[inline]
    fn list<'w>(
        walk: &mut Walk<'w, Self>,
        (): (),
        _: &Self::Field,
        count: usize,
        mut item: impl FnMut(&mut Walk<'w, Self>, ()) -> Read<()>,
    ) -> Read<()> {
        (0..count).try_for_each(|_| item(walk, ()))
    }

    fn null(&mut self, (): (), _: &Self::Field, _: WireType) {}
}
