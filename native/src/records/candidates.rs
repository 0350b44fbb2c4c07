//! Where in a range of bytes a batch could begin, by plausible values in its header (`kafkawire.records.candidates`).

use super::header::{self, Header};

const MAGIC_AT: usize = 16;
/// Bits of the attributes that mean something, and the number of codecs: of magic 2; of magic 0 and 1.
const ATTRIBUTES: i16 = 0x7F;
const CODECS: usize = 5;
const LEGACY_ATTRIBUTES: u8 = 0x0F;
const LEGACY_CODECS: u8 = 4;
/// Where a message's key begins with its length, by magic; and the bytes of one whose key and value are null.
const KEY_AT: [usize; 2] = [18, 26];
const SHORTEST: usize = 26;

/// Positions below `count` at which a header of sane values begins, and the sizes of their batches. `left` bytes there
/// are from the window's beginning on, and no batch is longer than `longest`.
pub fn candidates(window: &[u8], count: usize, left: usize, longest: usize) -> Vec<(usize, usize)> {
    // Zeros after the end: a message of magic 0 can be shorter than a header of magic 2.
    let count = count.min(window.len());
    let whole = count.min(window.len().saturating_sub(header::SIZE - 1));
    let mut found = Vec::new();
    for at in 0..whole {
        found.extend(size_at(&window[at..at + header::SIZE], window, at, left, longest).map(|size| (at, size)));
    }
    for at in whole..count {
        let mut head = [0; header::SIZE];
        head[..window.len() - at].copy_from_slice(&window[at..]);
        found.extend(size_at(&head, window, at, left, longest).map(|size| (at, size)));
    }
    found
}

/// The size of the batch whose header is `head`, at `at` of the window; `None` where none can be.
#[inline]
fn size_at(head: &[u8], window: &[u8], at: usize, left: usize, longest: usize) -> Option<usize> {
    // The cheapest and rarest first.
    if head[MAGIC_AT] > 2 || head[0] > 0x7F || head[8] > 0x7F {
        return None;
    }
    let size = int32(head, 8)? as usize + header::LOG_OVERHEAD;
    if size < SHORTEST || size > longest.min(left.saturating_sub(at)) {
        return None;
    }
    let sane = match head[MAGIC_AT] {
        2 => is_batch(head, size),
        magic => is_message(head, usize::from(magic), size, window, at),
    };
    let offset = i64::from_be_bytes(head[..8].try_into().ok()?);
    (sane && offset < header::HIGHEST_OFFSET).then_some(size)
}

fn is_batch(head: &[u8], size: usize) -> bool {
    let Ok(found) = Header::read(head, 0) else { return false };
    size >= header::SIZE
        && found.leader_epoch >= -1
        && (0..=ATTRIBUTES).contains(&found.attributes)
        && found.codec() < CODECS
        && found.last_offset_delta >= 0
        && found.count >= 0
        && i64::from(found.count) <= i64::from(found.last_offset_delta) + 1
}

fn is_message(head: &[u8], magic: usize, size: usize, window: &[u8], at: usize) -> bool {
    let attributes = head[MAGIC_AT + 1];
    let codec = attributes & 7;
    let Some(key) = int32(head, KEY_AT[magic]) else { return false };
    let value_at = KEY_AT[magic] + 4 + key.max(0) as usize;
    if attributes > LEGACY_ATTRIBUTES || codec >= LEGACY_CODECS || key < -1 || value_at + 4 > size {
        return false;
    }
    if codec != 0 && key != -1 {
        return false; // wrappers have no key
    }
    // Key and value fill the message, as far as the window shows.
    match int32(window, at + value_at) {
        Some(value) => value >= -1 && value_at + 4 + value.max(0) as usize == size,
        None => true,
    }
}

fn int32(data: &[u8], at: usize) -> Option<i32> {
    data.get(at..at + 4).map(|found| i32::from_be_bytes([found[0], found[1], found[2], found[3]]))
}
