//! The limits of the format and of decoders: the numbers of `kafkawire/wire/limits.py`, read from that file when this
//! engine is compiled.

pub const SOURCE: &[u8] = include_bytes!("../../kafkawire/wire/limits.py");

/// Longest string in bytes.
pub const MAX_STRING: usize = limit(b"\nMAX_STRING = ");
/// Most tagged fields in one struct.
pub const MAX_TAGS: usize = limit(b"\nMAX_TAGS = ");
/// Deepest nesting of structs.
pub const MAX_DEPTH: usize = limit(b"\nMAX_DEPTH = ");
/// Bytes that a decode may allocate: `ALLOCATION_BASE`, and `ALLOCATION_FACTOR` for each byte of input.
pub const ALLOCATION_BASE: i64 = limit(b"\nALLOCATION_BASE = ") as i64;
pub const ALLOCATION_FACTOR: i64 = limit(b"\nALLOCATION_FACTOR = ") as i64;

/// The number on the line that begins so.
const fn limit(line: &[u8]) -> usize {
    let mut at = 0;
    while !starts_with(line, at) {
        at += 1; // compilation fails at the end of the file
    }
    at += line.len();
    let mut number = 0;
    while SOURCE[at].is_ascii_digit() {
        number = 10 * number + (SOURCE[at] - b'0') as usize;
        at += 1;
    }
    assert!(number > 0 && SOURCE[at].is_ascii_whitespace(), "a limit is a plain number");
    number
}

const fn starts_with(line: &[u8], at: usize) -> bool {
    let mut i = 0;
    while i < line.len() && SOURCE[at + i] == line[i] {
        i += 1;
    }
    i == line.len()
}
