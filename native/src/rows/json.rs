//! Values as JSON, byte for byte as the command line writes them: what msgspec escapes, and every character that is not
//! printable, so that nothing a stranger wrote acts on a terminal (`kafkawire.cli.formatting`).

use base64::engine::{general_purpose::STANDARD, Engine};

use crate::cursor::{Read, Refused};

/// What a row shows of bytes: text where they are UTF-8, otherwise base64.
#[derive(Clone, Copy)]
pub enum Shown<'a> {
    Null,
    /// ASCII of which nothing is escaped.
    Plain(&'a [u8]),
    Text(&'a str),
    Binary(&'a [u8]),
}

impl<'a> Shown<'a> {
    pub fn new(data: Option<&'a [u8]>) -> Self {
        match data {
            None => Shown::Null,
            Some(data) if plain_prefix(data) == data.len() => Shown::Plain(data),
            Some(data) => std::str::from_utf8(data).map_or(Shown::Binary(data), Shown::Text),
        }
    }

    /// The text, or null.
    pub fn write_text(self, out: &mut Vec<u8>, printable: Option<&[u8]>) -> Read<()> {
        match self {
            Shown::Plain(data) => quoted(out, data),
            Shown::Text(data) => text(out, data, printable)?,
            Shown::Null | Shown::Binary(_) => out.extend_from_slice(b"null"),
        }
        Ok(())
    }

    /// The base64, or null.
    pub fn write_base64(self, out: &mut Vec<u8>) {
        let Shown::Binary(data) = self else { return out.extend_from_slice(b"null") };
        out.push(b'"');
        let start = out.len();
        out.resize(start + data.len().div_ceil(3) * 4, 0);
        // The room is exact, so this cannot fail.
        let written = STANDARD.encode_slice(data, &mut out[start..]).unwrap_or(0);
        out.truncate(start + written);
        out.push(b'"');
    }
}

pub fn integer<N: itoa::Integer>(out: &mut Vec<u8>, number: N) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

pub fn boolean(out: &mut Vec<u8>, value: bool) {
    out.extend_from_slice(if value { b"true" } else { b"false" });
}

fn quoted(out: &mut Vec<u8>, plain: &[u8]) {
    out.reserve(plain.len() + 2);
    out.push(b'"');
    out.extend_from_slice(plain);
    out.push(b'"');
}

/// Text in quotes. `printable` has a byte for each character from 0 on: 0 for those that are escaped. A character that
/// it does not reach is refused. None: only what JSON asks for is escaped.
fn text(out: &mut Vec<u8>, text: &str, printable: Option<&[u8]>) -> Read<()> {
    out.push(b'"');
    let mut rest = text;
    loop {
        let plain = plain_prefix(rest.as_bytes());
        out.extend_from_slice(&rest.as_bytes()[..plain]);
        rest = &rest[plain..];
        let Some(char) = rest.chars().next() else { break };
        let shown = match printable {
            Some(printable) => *printable.get(char as usize).ok_or(Refused)? != 0,
            None => char >= ' ',
        };
        match short_escape(char) {
            Some(short) => out.extend_from_slice(short),
            None if shown => out.extend_from_slice(&rest.as_bytes()[..char.len_utf8()]),
            None => escape(out, char),
        }
        rest = &rest[char.len_utf8()..];
    }
    out.push(b'"');
    Ok(())
}

/// The escape of two characters that JSON has for some.
pub fn short_escape(char: char) -> Option<&'static [u8]> {
    Some(match char {
        '"' => b"\\\"",
        '\\' => b"\\\\",
        '\n' => b"\\n",
        '\r' => b"\\r",
        '\t' => b"\\t",
        '\u{8}' => b"\\b",
        '\u{c}' => b"\\f",
        _ => return None,
    })
}

/// `\u0000`, as UTF-16: two of them for a character beyond the first 2^16.
pub fn escape(out: &mut Vec<u8>, char: char) {
    for unit in char.encode_utf16(&mut [0; 2]) {
        out.extend_from_slice(b"\\u");
        for shift in [12, 8, 4, 0] {
            out.push(b"0123456789abcdef"[usize::from(*unit >> shift & 15)]);
        }
    }
}

/// How many bytes at the beginning are ASCII that is written as it is.
pub fn plain_prefix(data: &[u8]) -> usize {
    let special = |byte: u8| byte < 0x20 || byte == b'"' || byte == b'\\' || byte >= 0x7f;
    let mut plain = 0;
    // Whole chunks without a branch inside, which the compiler turns into vector instructions.
    for chunk in data.chunks_exact(32) {
        if chunk.iter().fold(false, |found, &byte| found | special(byte)) {
            break;
        }
        plain += 32;
    }
    let rest = &data[plain..];
    plain + rest.iter().position(|&byte| special(byte)).unwrap_or(rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(data: &[u8]) -> (String, String) {
        let printable: Vec<u8> = (0..0x20000).map(|c| u8::from(c > 0x9f && c != 0x202e)).collect();
        let (mut text, mut base64) = (Vec::new(), Vec::new());
        Shown::new(Some(data)).write_text(&mut text, Some(&printable)).unwrap();
        Shown::new(Some(data)).write_base64(&mut base64);
        (String::from_utf8(text).unwrap(), String::from_utf8(base64).unwrap())
    }

    #[test]
    fn text_is_escaped() {
        assert_eq!(shown(b"a\"\\\n\x01\x7f").0, "\"a\\\"\\\\\\n\\u0001\\u007f\"");
        assert_eq!(shown("é\u{202e}😀".as_bytes()).0, "\"é\\u202e😀\"");
        let long = "x".repeat(100) + "\t";
        assert_eq!(shown(long.as_bytes()).0, format!("\"{}\\t\"", "x".repeat(100)));
    }

    #[test]
    fn bytes_become_base64() {
        assert_eq!(shown(b"\xff\xfe"), ("null".into(), "\"//4=\"".into()));
        assert_eq!(shown(b"ok"), ("\"ok\"".into(), "null".into()));
    }

    #[test]
    fn a_character_that_the_table_does_not_reach_is_refused() {
        assert!(text(&mut Vec::new(), "\u{20000}", Some(&[1; 0x20000])).is_err());
    }

    #[test]
    fn without_a_table_only_what_json_asks_for_is_escaped() {
        let mut out = Vec::new();
        text(&mut out, "\u{1}\u{7f}\u{202e}\u{20000}\"", None).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "\"\\u0001\u{7f}\u{202e}\u{20000}\\\"\"");
    }
}
