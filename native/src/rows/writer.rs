//! Batches and their records as lines of JSON.

use crate::cursor::{Cursor, Read, Refused};
use crate::records::batch::{for_each, header_spans, payload};
use crate::records::codec::Decompressor;
use crate::records::header::{batch_at, Header};
use crate::records::record::{count_fits, Record};

use super::fields::{BatchValue, EncodedNames, Facts, HeaderValue, Marker, RecordValue, RowField};
use super::json::{integer, Shown};

/// Batches whose records have more bytes than this, decompressed, are refused: their lines would be many times that.
const MOST_BYTES: usize = 16 << 20;
/// Fewer bytes of lines are not worth a thread.
const LEAST_PART: usize = 128 << 10;
const ABORT: i16 = 0;
const COMMIT: i16 = 1;

pub struct RowWriter {
    pub batch: Vec<RowField<BatchValue>>,
    /// Empty where records have no rows.
    pub record: Vec<RowField<RecordValue>>,
    pub header: Vec<RowField<HeaderValue>>,
    pub names: EncodedNames,
    /// See `json`.
    pub printable: Option<Vec<u8>>,
    /// Whether the records of markers are decoded: only those that are as brokers write them.
    pub decodes_markers: bool,
    pub max_batch_bytes: usize,
    /// One for each thread that writes lines.
    pub decompressors: Vec<Decompressor>,
    /// Bytes of lines that a batch took, on average, the last time; 0 before that.
    pub per_batch: usize,
}

/// The lines of whole batches, of how many, and whether the next one was refused.
#[derive(Default)]
pub struct Lines {
    pub bytes: Vec<u8>,
    pub batches: usize,
    pub refused: bool,
}

impl Lines {
    /// Adds those that come next.
    fn add(&mut self, next: Lines) {
        match self.batches {
            0 => self.bytes = next.bytes,
            _ => self.bytes.extend_from_slice(&next.bytes),
        }
        self.batches += next.batches;
        self.refused = next.refused;
    }
}

impl RowWriter {
    /// The lines of the batches that begin at `starts`, until they are `most` bytes for each thread, about, or up to a
    /// batch that is not plain: one that is damaged, a marker of another kind, text that Python has to judge.
    ///
    /// `origin`: position of `data` in its file. `states`: of the batches' transactions, places in `names.states`.
    pub fn lines(&mut self, data: &[u8], origin: i64, starts: &[i64], states: Option<&[i8]>, most: usize) -> Lines {
        let mut decompressors = std::mem::take(&mut self.decompressors);
        let found = match decompressors.as_mut_slice() {
            [one] => self.part(one, data, origin, starts, states, most),
            threads => self.parts(threads, data, origin, starts, states, most),
        };
        self.decompressors = decompressors;
        self.per_batch = found.bytes.len().checked_div(found.batches).unwrap_or(self.per_batch);
        found
    }

    /// Neighbouring parts of the batches, each by a thread. What comes after a part that is not whole is dropped.
    fn parts(
        &self,
        decompressors: &mut [Decompressor],
        data: &[u8],
        origin: i64,
        starts: &[i64],
        states: Option<&[i8]>,
        most: usize,
    ) -> Lines {
        // As many batches as fill `most`, or fewer where all are soon done; the first time one thread alone counts them.
        let fair = starts.len().div_ceil(decompressors.len().max(1));
        let each = match self.per_batch {
            0 => starts.len(),
            size => fair.max(LEAST_PART / size).clamp(1, (most / size).max(1)),
        };
        let most = if each < starts.len() { 2 * most } else { most };
        let states = |begin: usize, count: usize| {
            states.map(|states| states.get(begin..).map_or(&[][..], |after| &after[..count.min(after.len())]))
        };
        std::thread::scope(|scope| {
            let mut begin = 0;
            let mut running = Vec::new();
            for (part, decompressor) in starts.chunks(each.max(1)).zip(decompressors) {
                let states = states(begin, part.len());
                begin += part.len();
                running
                    .push((part.len(), scope.spawn(move || self.part(decompressor, data, origin, part, states, most))));
            }
            let mut whole = true;
            let mut all = Lines::default();
            for (count, thread) in running {
                let found = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                if whole {
                    whole = found.batches == count;
                    all.add(found);
                }
            }
            all
        })
    }

    /// See `lines`; `most` bytes in all.
    fn part(
        &self,
        decompressor: &mut Decompressor,
        data: &[u8],
        origin: i64,
        starts: &[i64],
        states: Option<&[i8]>,
        most: usize,
    ) -> Lines {
        let mut out = Vec::with_capacity(most.min(starts.len() * self.per_batch.max(1)) + most / 8);
        let mut batches = 0;
        let mut refused = false;
        while batches < starts.len() && out.len() < most {
            let mark = out.len();
            let state = states.map(|states| states.get(batches).copied().unwrap_or(-1));
            let at = usize::try_from(starts[batches]).map_err(|_| Refused);
            if at.and_then(|at| self.batch(decompressor, data, origin, at, state, Form::Lines, &mut out)).is_err() {
                out.truncate(mark);
                refused = true;
                break;
            }
            batches += 1;
        }
        Lines { bytes: out, batches, refused }
    }

    /// Appends whole batches as a list, each with its `records`. Refused: bytes that are anything else, and what `lines`
    /// refuses. Records have fields.
    pub fn list(&mut self, data: &[u8], out: &mut Vec<u8>) -> Read<()> {
        let mut decompressors = std::mem::take(&mut self.decompressors);
        let found = self.write_list(&mut decompressors[0], data, out);
        self.decompressors = decompressors;
        found
    }

    fn write_list(&self, decompressor: &mut Decompressor, data: &[u8], out: &mut Vec<u8>) -> Read<()> {
        out.push(b'[');
        let mut at = 0;
        while at < data.len() {
            if at > 0 {
                out.push(b',');
            }
            at += self.batch(decompressor, data, 0, at, None, Form::List, out)?;
        }
        out.push(b']');
        Ok(())
    }

    /// Appends the batch at `at`; its size. The checksum of one in a list is tested.
    #[allow(clippy::too_many_arguments)]
    fn batch(
        &self,
        decompressor: &mut Decompressor,
        data: &[u8],
        origin: i64,
        at: usize,
        state: Option<i8>,
        form: Form,
        out: &mut Vec<u8>,
    ) -> Read<usize> {
        let header = batch_at(data, at, form == Form::List, usize::MAX).ok_or(Refused)?;
        let batch = &data[at..at + header.size()];
        let deep = !self.record.is_empty();
        let records = match deep || header.control() {
            true => payload(batch, &header, decompressor, self.max_batch_bytes.min(MOST_BYTES))?,
            false => &[],
        };
        if records.len() > MOST_BYTES {
            return Err(Refused);
        }
        let facts = Facts {
            position: origin + at as i64,
            header: &header,
            marker: if header.control() {
                Some(marker(records, header.count, deep && self.decodes_markers)?)
            } else {
                None
            },
            codec: self.names.codecs.get(header.codec()).ok_or(Refused)?,
            transaction: match state {
                Some(state) => usize::try_from(state).ok().and_then(|at| self.names.states.get(at)).ok_or(Refused)?,
                None => &[],
            },
            names: &self.names,
        };
        let template = Template::new(&self.record, &facts, if form == Form::Lines { b"}\n" } else { b"}," });
        let write_records = |out: &mut Vec<u8>| {
            for_each(records, header.count, |record| {
                template.write(out, record, &header, records, &self.header, self.printable.as_deref())
            })
        };
        for field in &self.batch {
            out.extend_from_slice(&field.name);
            if form == Form::List && matches!(field.value, BatchValue::Records) {
                out.push(b'[');
                write_records(out)?;
                out.truncate(out.len() - usize::from(out.ends_with(b",")));
                out.push(b']');
            } else {
                field.value.write(out, &facts);
            }
        }
        out.push(b'}');
        if form == Form::Lines {
            out.push(b'\n');
            if deep {
                write_records(out)?;
            }
        }
        Ok(header.size())
    }
}

/// How batches and records are written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// A line each.
    Lines,
    /// Batches in a list, each with its records in place of their number.
    List,
}

/// What the records' rows of one batch have in common, and what stands between.
struct Template<'a> {
    common: Vec<u8>,
    /// Where in `common` a piece ends, and the value after it.
    values: Vec<(usize, &'a RecordValue)>,
    payload: bool,
}

impl<'a> Template<'a> {
    fn new(fields: &'a [RowField<RecordValue>], facts: &Facts, end: &[u8]) -> Self {
        let mut common = Vec::with_capacity(512);
        let mut values = Vec::with_capacity(fields.len());
        let mut payload = false;
        for field in fields {
            common.extend_from_slice(&field.name);
            match &field.value {
                RecordValue::OfBatch(value) => value.write(&mut common, facts),
                value => {
                    payload |= matches!(value, RecordValue::Key | RecordValue::Value);
                    values.push((common.len(), value));
                }
            }
        }
        common.extend_from_slice(end);
        Template { common, values, payload }
    }

    #[inline]
    fn write(
        &self,
        out: &mut Vec<u8>,
        record: &Record,
        batch: &Header,
        data: &[u8],
        headers: &[RowField<HeaderValue>],
        printable: Option<&[u8]>,
    ) -> Read<()> {
        let (key, value) = match self.payload {
            true => (Shown::new(record.key.of(data)), Shown::new(record.value.of(data))),
            false => (Shown::Null, Shown::Null),
        };
        let mut done = 0;
        for &(end, kind) in &self.values {
            out.extend_from_slice(&self.common[done..end]);
            done = end;
            match kind {
                RecordValue::Offset => integer(out, record.offset(batch)),
                RecordValue::Timestamp => integer(out, record.timestamp(batch)),
                RecordValue::Sequence => integer(out, batch.sequence(record.offset_delta)),
                RecordValue::KeySize => size(out, record.key.length),
                RecordValue::ValueSize => size(out, record.value.length),
                RecordValue::Key => key.write_text(out, printable)?,
                RecordValue::KeyBase64 => key.write_base64(out),
                RecordValue::Value => value.write_text(out, printable)?,
                RecordValue::ValueBase64 => value.write_base64(out),
                RecordValue::Headers => write_headers(out, record, data, headers, printable)?,
                RecordValue::OfBatch(_) => return Err(Refused), // none is left
            }
        }
        out.extend_from_slice(&self.common[done..]);
        Ok(())
    }
}

fn size(out: &mut Vec<u8>, length: i32) {
    match length {
        0.. => integer(out, length),
        _ => out.extend_from_slice(b"null"),
    }
}

fn write_headers(
    out: &mut Vec<u8>,
    record: &Record,
    data: &[u8],
    fields: &[RowField<HeaderValue>],
    printable: Option<&[u8]>,
) -> Read<()> {
    out.push(b'[');
    for (index, (key, value)) in header_spans(data, record).enumerate() {
        let key = Shown::new(key.of(data));
        if matches!(key, Shown::Binary(_)) {
            return Err(Refused); // a string with surrogate escapes
        }
        let value = Shown::new(value.of(data));
        if index > 0 {
            out.push(b',');
        }
        for field in fields {
            out.extend_from_slice(&field.name);
            match field.value {
                HeaderValue::Key => key.write_text(out, printable)?,
                HeaderValue::Value => value.write_text(out, printable)?,
                HeaderValue::ValueBase64 => value.write_base64(out),
            }
        }
        out.push(b'}');
    }
    out.push(b']');
    Ok(())
}

/// The transaction's marker that a control batch holds. Refused: one of another kind, or in another version; with
/// `exact`, too, what is not that marker alone.
fn marker(records: &[u8], count: i32, exact: bool) -> Read<Marker> {
    if count <= 0 || !count_fits(count, records.len()) {
        return Err(Refused);
    }
    let record = Record::read(records, 0)?;
    let mut key = Cursor::new(record.key.of(records).ok_or(Refused)?, 0);
    let mut value = Cursor::new(record.value.of(records).ok_or(Refused)?, 0);
    let (key_version, kind) = (i16::from_be_bytes(key.array()?), i16::from_be_bytes(key.array()?));
    let (version, coordinator_epoch) = (i16::from_be_bytes(value.array()?), i32::from_be_bytes(value.array()?));
    if exact && (count != 1 || key.left() + value.left() > 0) {
        return Err(Refused);
    }
    if key_version != 0 || version != 0 || !matches!(kind, ABORT | COMMIT) {
        return Err(Refused);
    }
    Ok(Marker { commit: kind == COMMIT, coordinator_epoch })
}
