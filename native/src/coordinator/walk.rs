//! Batches of `__transaction_state` as they lie in the log: checksum, header, records and what follows from these in one
//! pass, without columns.

use super::replay::{Found, IdReplay};
use crate::log::content::Content;
use crate::log::digests::Digests;
use crate::records::codec::Decompressor;
use crate::records::header::{batch_at, Header};

/// What some batches have in common with all others (`kafkawire.transactions.parts.segment_scan` counts it).
#[derive(Default)]
pub struct Walk {
    /// Where the batches end.
    pub size: usize,
    pub batches: u64,
    pub leader_epoch: i32,
    /// The newest timestamp of batches of this leader epoch, and of all.
    pub of_leader: i64,
    pub newest: i64,
    /// First offsets of batches that follow one another, and the offset after the last of them.
    pub bases: Vec<i64>,
    pub ends: Vec<i64>,
    pub digests: Digests,
}

impl IdReplay {
    /// Takes the batches at the beginning of what is given, until the reference has to judge `most` steps, or up to one
    /// that is to be read with the columns of its header: what is no batch, or is damaged, what is of a producer or a
    /// control batch, goes back below `following`, has no offsets of this order, or has records that are refused.
    pub fn walk(
        &mut self,
        content: Content,
        following: Option<i64>,
        max_batch_bytes: usize,
        most: usize,
    ) -> (Walk, Found) {
        let (mut walk, mut found) = (Walk::default(), Found::default());
        let (mut decompressor, mut rows) = (Decompressor::default(), Vec::new());
        let mut after = following.unwrap_or(i64::MIN);
        content.each(max_batch_bytes, |data| {
            let mut at = 0;
            while found.asked.len() < most {
                let Some(header) = batch_at(data, at, true, max_batch_bytes) else { break };
                let (base, last) = (header.base_offset, header.last_offset());
                if header.control() || header.producer_id >= 0 || base < after || last < base || last == i64::MAX {
                    break;
                }
                let batch = &data[at..at + header.size()];
                let read = self.named.read_records(batch, &header, &mut decompressor, max_batch_bytes, &mut rows);
                if read.and_then(|()| self.learn()).is_err() {
                    break;
                }
                for row in &rows {
                    self.take(row, &mut found);
                }
                walk.note(&header, after);
                after = last + 1;
                at += header.size();
            }
            at
        });
        (walk, found)
    }
}

impl Walk {
    /// Counts a batch. `after`: the offset after the batch before.
    #[inline]
    fn note(&mut self, header: &Header, after: i64) {
        let (base, last) = (header.base_offset, header.last_offset());
        match self.ends.last_mut() {
            Some(end) if base == after => *end = last + 1,
            _ => {
                self.bases.push(base);
                self.ends.push(last + 1);
            }
        }
        self.digests.add(base, last, u64::from(header.crc));
        self.note_time(header.leader_epoch, header.max_timestamp);
        self.size += header.size();
    }

    #[inline]
    fn note_time(&mut self, leader_epoch: i32, timestamp: i64) {
        let first = self.batches == 0;
        if first || leader_epoch > self.leader_epoch {
            (self.leader_epoch, self.of_leader) = (leader_epoch, timestamp);
        } else if leader_epoch == self.leader_epoch {
            self.of_leader = self.of_leader.max(timestamp);
        }
        self.newest = if first { timestamp } else { self.newest.max(timestamp) };
        self.batches += 1;
    }
}
