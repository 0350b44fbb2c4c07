//! Single values as JSON text, byte for byte as `msgspec.json.encode` writes what `to_json` makes of them.

use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use base64::Engine;

use crate::cursor::{Read, Refused};
use crate::rows::json::{escape, plain_prefix, short_escape};

/// Whole numbers up to here are written without an exponent.
const LARGEST_PLAIN: f64 = 1e15;

/// A string. Refused: bytes that are not UTF-8, which Python keeps as lone surrogates.
pub fn string(out: &mut Vec<u8>, data: &[u8]) -> Read<()> {
    out.push(b'"');
    let plain = plain_prefix(data);
    out.extend_from_slice(&data[..plain]);
    let rest = std::str::from_utf8(&data[plain..]).map_err(|_| Refused)?;
    for char in rest.chars() {
        match short_escape(char) {
            Some(short) => out.extend_from_slice(short),
            None if char < ' ' => escape(out, char),
            None => out.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    out.push(b'"');
    Ok(())
}

/// Bytes as base64, in the alphabet of RFC 4648, section 4.
pub fn base64(out: &mut Vec<u8>, data: &[u8]) {
    encoded(out, data, data.len().div_ceil(3) * 4, &STANDARD);
}

/// Kafka's form of a uuid: base64url without padding.
pub fn uuid(out: &mut Vec<u8>, data: &[u8; 16]) {
    encoded(out, data, 22, &URL_SAFE_NO_PAD);
}

fn encoded(out: &mut Vec<u8>, data: &[u8], size: usize, engine: &impl Engine) {
    out.push(b'"');
    let start = out.len();
    out.resize(start + size, 0);
    // The room is exact, so this cannot fail.
    let written = engine.encode_slice(data, &mut out[start..]).unwrap_or(0);
    out.truncate(start + written);
    out.push(b'"');
}

/// NaN and the infinities are strings. Refused: what is no whole number, or a large one; they are rare, and Python
/// decides how many digits they take.
pub fn float(out: &mut Vec<u8>, value: f64) -> Read<()> {
    if value.is_nan() {
        out.extend_from_slice(b"\"NaN\"");
    } else if value.is_infinite() {
        out.extend_from_slice(if value > 0.0 { b"\"Infinity\"".as_slice() } else { b"\"-Infinity\"" });
    } else if value.fract() == 0.0 && value.abs() < LARGEST_PLAIN {
        if value.is_sign_negative() {
            out.push(b'-');
        }
        out.extend_from_slice(itoa::Buffer::new().format(value.abs() as u64).as_bytes());
        out.extend_from_slice(b".0");
    } else {
        return Err(Refused);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut Vec<u8>) -> Read<()>) -> Option<String> {
        let mut out = Vec::new();
        write(&mut out).ok()?;
        Some(String::from_utf8(out).unwrap())
    }

    #[test]
    fn strings_are_escaped_where_json_asks_for_it() {
        let shown = written(|out| string(out, "a\"\\\n\u{1}\u{7f}é😀".as_bytes()));
        assert_eq!(shown.unwrap(), "\"a\\\"\\\\\\n\\u0001\u{7f}é😀\"");
        assert_eq!(written(|out| string(out, b"\xff")), None);
    }

    #[test]
    fn floats_that_python_would_write_otherwise_are_refused() {
        assert_eq!(written(|out| float(out, -0.0)).unwrap(), "-0.0");
        assert_eq!(written(|out| float(out, 1048576.0)).unwrap(), "1048576.0");
        assert_eq!(written(|out| float(out, f64::NEG_INFINITY)).unwrap(), "\"-Infinity\"");
        assert_eq!(written(|out| float(out, 0.1)), None);
        assert_eq!(written(|out| float(out, 1e15)), None);
    }

    #[test]
    fn bytes_are_base64() {
        assert_eq!(
            written(|out| {
                base64(out, b"\xff\xfe");
                Ok(())
            }),
            Some("\"//4=\"".into())
        );
        assert_eq!(
            written(|out| {
                uuid(out, &[0xff; 16]);
                Ok(())
            }),
            Some("\"_____________________w\"".into())
        );
    }
}
