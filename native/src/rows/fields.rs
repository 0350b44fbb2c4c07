//! The fields of rows, in the order and under the names that `kafkawire.rows` gives them at run time.

use crate::records::header::Header;

use super::json::{boolean, integer};

/// A field: its name as it is written (`,"offset":`), and where its value comes from.
pub struct RowField<T> {
    pub name: Vec<u8>,
    pub value: T,
}

/// Values that a batch has.
pub enum BatchValue {
    /// The same in all rows, written as JSON already.
    Constant(Vec<u8>),
    Position,
    BaseOffset,
    LastOffset,
    Records,
    Magic,
    Codec,
    Crc,
    Size,
    Timestamp,
    TimestampType,
    ProducerId,
    ProducerEpoch,
    Sequence,
    LastSequence,
    LeaderEpoch,
    Transactional,
    Control,
    CoordinatorEpoch,
    DeleteHorizon,
    Transaction,
    /// Of a record: the marker that it is, or null.
    Decoded,
}

/// Values that differ between the records of a batch, and those of the batch.
pub enum RecordValue {
    Offset,
    Timestamp,
    Sequence,
    KeySize,
    ValueSize,
    Key,
    KeyBase64,
    Value,
    ValueBase64,
    Headers,
    OfBatch(BatchValue),
}

/// Values of a record's header.
pub enum HeaderValue {
    Key,
    Value,
    ValueBase64,
}

impl BatchValue {
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "position" => Self::Position,
            "base_offset" => Self::BaseOffset,
            "last_offset" => Self::LastOffset,
            "records" => Self::Records,
            "magic" => Self::Magic,
            "codec" => Self::Codec,
            "crc" => Self::Crc,
            "size" => Self::Size,
            "timestamp" => Self::Timestamp,
            "timestamp_type" => Self::TimestampType,
            "producer_id" => Self::ProducerId,
            "producer_epoch" => Self::ProducerEpoch,
            "sequence" => Self::Sequence,
            "last_sequence" => Self::LastSequence,
            "leader_epoch" => Self::LeaderEpoch,
            "transactional" => Self::Transactional,
            "control" => Self::Control,
            "coordinator_epoch" => Self::CoordinatorEpoch,
            "delete_horizon" => Self::DeleteHorizon,
            "transaction" => Self::Transaction,
            _ => return None,
        })
    }
}

impl RecordValue {
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "offset" => Self::Offset,
            "timestamp" => Self::Timestamp,
            "sequence" => Self::Sequence,
            "key_size" => Self::KeySize,
            "value_size" => Self::ValueSize,
            "key" => Self::Key,
            "key_base64" => Self::KeyBase64,
            "value" => Self::Value,
            "value_base64" => Self::ValueBase64,
            "headers" => Self::Headers,
            "position" | "timestamp_type" | "producer_id" | "producer_epoch" | "transactional" | "control"
            | "coordinator_epoch" | "transaction" => Self::OfBatch(BatchValue::named(name)?),
            "decoded" => Self::OfBatch(BatchValue::Decoded),
            _ => return None,
        })
    }
}

impl HeaderValue {
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "key" => Self::Key,
            "value" => Self::Value,
            "value_base64" => Self::ValueBase64,
            _ => return None,
        })
    }
}

/// A transaction's marker.
#[derive(Clone, Copy)]
pub struct Marker {
    pub commit: bool,
    pub coordinator_epoch: i32,
}

/// Names that rows hold, as JSON text, in Kafka's spelling.
pub struct EncodedNames {
    pub codecs: Vec<Vec<u8>>,
    pub create_time: Vec<u8>,
    pub log_append_time: Vec<u8>,
    pub abort: Vec<u8>,
    pub commit: Vec<u8>,
    /// Of transactions, by number.
    pub states: Vec<Vec<u8>>,
    /// Of an ABORT and a COMMIT: what stands before and after its epoch in the record's JSON.
    pub decoded_markers: [(Vec<u8>, Vec<u8>); 2],
}

/// What a batch's values are taken from.
pub struct Facts<'a> {
    pub position: i64,
    pub header: &'a Header,
    pub marker: Option<Marker>,
    /// Of the batch's codec, which must be known.
    pub codec: &'a [u8],
    /// The state of its transaction; empty where that is not shown.
    pub transaction: &'a [u8],
    pub names: &'a EncodedNames,
}

impl BatchValue {
    pub fn write(&self, out: &mut Vec<u8>, facts: &Facts) {
        let header = facts.header;
        match self {
            Self::Constant(json) => out.extend_from_slice(json),
            Self::Position => integer(out, facts.position),
            Self::BaseOffset => integer(out, header.base_offset),
            Self::LastOffset => integer(out, header.last_offset()),
            Self::Records => integer(out, header.count),
            Self::Magic => integer(out, header.magic),
            Self::Codec => out.extend_from_slice(facts.codec),
            Self::Crc => integer(out, header.crc),
            Self::Size => integer(out, header.size()),
            Self::Timestamp => integer(out, header.max_timestamp),
            Self::TimestampType => out.extend_from_slice(match header.log_append_time() {
                true => &facts.names.log_append_time,
                false => &facts.names.create_time,
            }),
            Self::ProducerId => integer(out, header.producer_id),
            Self::ProducerEpoch => integer(out, header.producer_epoch),
            Self::Sequence => integer(out, header.base_sequence),
            Self::LastSequence => integer(out, header.sequence(header.last_offset_delta)),
            Self::LeaderEpoch => integer(out, header.leader_epoch),
            Self::Transactional => boolean(out, header.transactional()),
            Self::Control => out.extend_from_slice(match facts.marker {
                Some(Marker { commit: true, .. }) => &facts.names.commit,
                Some(Marker { commit: false, .. }) => &facts.names.abort,
                None => b"null",
            }),
            Self::CoordinatorEpoch => match facts.marker {
                Some(marker) => integer(out, marker.coordinator_epoch),
                None => out.extend_from_slice(b"null"),
            },
            Self::DeleteHorizon => match header.delete_horizon() {
                Some(timestamp) => integer(out, timestamp),
                None => out.extend_from_slice(b"null"),
            },
            Self::Transaction => out.extend_from_slice(facts.transaction),
            Self::Decoded => match facts.marker {
                Some(Marker { commit, coordinator_epoch }) => {
                    let (before, behind) = &facts.names.decoded_markers[usize::from(commit)];
                    out.extend_from_slice(before);
                    integer(out, coordinator_epoch);
                    out.extend_from_slice(behind);
                }
                None => out.extend_from_slice(b"null"),
            },
        }
    }
}
