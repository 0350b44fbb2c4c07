//! Lines of csv, made from rows as lines of JSON: byte for byte what `kafkawire.cli.output` writes for the rows. A text
//! is on one line: what is not printable is escaped as Python writes it, and what a spreadsheet would run is guarded. A
//! list or an object is its JSON.

use crate::cursor::{Read, Refused};

/// Where a value is in its line; empty: the row does not have it.
type Span = (usize, usize);

pub struct CsvWriter {
    /// `"name":` of each column.
    names: Vec<Vec<u8>>,
    /// The columns of the fields of the line before, in their order: most lines are of one kind.
    order: Vec<usize>,
    cells: Vec<Span>,
    text: Vec<u8>,
}

impl CsvWriter {
    pub fn new(columns: &[String]) -> Self {
        CsvWriter {
            names: columns.iter().map(|name| format!("\"{name}\":").into_bytes()).collect(),
            order: Vec::new(),
            cells: Vec::new(),
            text: Vec::new(),
        }
    }

    /// Appends the csv of lines of JSON. Refused: what is no object on a line.
    pub fn lines(&mut self, data: &[u8], out: &mut Vec<u8>) -> Read<()> {
        let mut at = 0;
        while at < data.len() {
            at = self.line(data, at, out)?;
        }
        Ok(())
    }

    /// Appends one line; gives the place after it.
    fn line(&mut self, data: &[u8], start: usize, out: &mut Vec<u8>) -> Read<usize> {
        self.cells.clear();
        self.cells.resize(self.names.len(), (0, 0));
        let mut at = expect(data, start, b'{')?;
        let mut field = 0;
        while data.get(at) != Some(&b'}') {
            if field > 0 {
                at = expect(data, at, b',')?;
            }
            let known = self.order.get(field).copied().filter(|&column| self.is_at(data, at, column));
            let column = match known {
                Some(column) => column,
                None => {
                    self.order.truncate(field);
                    let found = (0..self.names.len()).find(|&column| self.is_at(data, at, column));
                    // A field without a column is passed over, and looked up again in each line.
                    self.order.push(found.unwrap_or(usize::MAX));
                    found.unwrap_or(usize::MAX)
                }
            };
            let value = match self.names.get(column) {
                Some(name) => at + name.len(),
                None => expect(data, string_end(data, at)?, b':')?,
            };
            at = value_end(data, value)?;
            if let Some(cell) = self.cells.get_mut(column) {
                *cell = (value, at);
            }
            field += 1;
        }
        at = expect(data, at + 1, b'\n')?;
        for column in 0..self.cells.len() {
            if column > 0 {
                out.push(b',');
            }
            let (from, to) = self.cells[column];
            self.cell(&data[from..to], out)?;
        }
        out.push(b'\n');
        Ok(at)
    }

    fn is_at(&self, data: &[u8], at: usize, column: usize) -> bool {
        self.names.get(column).is_some_and(|name| data[at..].starts_with(name))
    }

    fn cell(&mut self, json: &[u8], out: &mut Vec<u8>) -> Read<()> {
        match json.first() {
            None => (),
            Some(b'n') => (), // null
            Some(b'"') => self.text_cell(json.get(1..json.len() - 1).ok_or(Refused)?, out)?,
            Some(b'{' | b'[') => {
                if json.contains(&b';') {
                    self.text.clear();
                    guard_json(std::str::from_utf8(json).map_err(|_| Refused)?, &mut self.text);
                    quoted(&self.text, out);
                } else {
                    quoted(json, out);
                }
            }
            Some(_) => number(json, out),
        }
        Ok(())
    }

    fn text_cell(&mut self, json: &[u8], out: &mut Vec<u8>) -> Read<()> {
        if json.is_ascii() && !json.iter().any(|byte| matches!(byte, b'\\' | b';' | b',')) && !begins_formula(json) {
            out.extend_from_slice(json);
            return Ok(());
        }
        let json = std::str::from_utf8(json).map_err(|_| Refused)?;
        let mut text = String::with_capacity(json.len());
        unescape(json, &mut text)?;
        self.text.clear();
        guard(&text, &mut self.text);
        if self.text.iter().any(|byte| matches!(byte, b',' | b'"')) {
            quoted(&self.text, out);
        } else {
            out.extend_from_slice(&self.text);
        }
        Ok(())
    }
}

fn expect(data: &[u8], at: usize, byte: u8) -> Read<usize> {
    if data.get(at) == Some(&byte) {
        Ok(at + 1)
    } else {
        Err(Refused)
    }
}

/// The place after the string that begins at `at`.
fn string_end(data: &[u8], at: usize) -> Read<usize> {
    let mut at = expect(data, at, b'"')?;
    loop {
        let rest = data.get(at..).ok_or(Refused)?;
        let plain = prefix(rest, |byte| byte == b'"' || byte == b'\\');
        match rest.get(plain) {
            Some(b'"') => return Ok(at + plain + 1),
            Some(_) => at += plain + 2,
            None => return Err(Refused),
        }
    }
}

/// The place after the value that begins at `at`.
fn value_end(data: &[u8], mut at: usize) -> Read<usize> {
    match data.get(at).ok_or(Refused)? {
        b'"' => string_end(data, at),
        b'{' | b'[' => {
            let mut depth = 0;
            loop {
                match data.get(at).ok_or(Refused)? {
                    b'"' => at = string_end(data, at)? - 1,
                    b'{' | b'[' => depth += 1,
                    b'}' | b']' => depth -= 1,
                    _ => (),
                }
                at += 1;
                if depth == 0 {
                    return Ok(at);
                }
            }
        }
        _ => Ok(at + data[at..].iter().position(|byte| matches!(byte, b',' | b'}')).ok_or(Refused)?),
    }
}

/// How many bytes come before the first special one.
fn prefix(data: &[u8], special: impl Fn(u8) -> bool) -> usize {
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

/// A cell in quotes where csv asks for them.
fn quoted(text: &[u8], out: &mut Vec<u8>) {
    if !text.iter().any(|byte| matches!(byte, b',' | b'"')) {
        return out.extend_from_slice(text);
    }
    out.reserve(text.len() + text.len() / 4 + 2);
    out.push(b'"');
    let mut rest = text;
    loop {
        let plain = prefix(rest, |byte| byte == b'"');
        out.extend_from_slice(&rest[..plain]);
        if plain == rest.len() {
            break;
        }
        out.extend_from_slice(b"\"\"");
        rest = &rest[plain + 1..];
    }
    out.push(b'"');
}

/// A number or a boolean. Python writes small numbers with an exponent.
fn number(json: &[u8], out: &mut Vec<u8>) {
    let (sign, digits) = match json {
        [b'-', rest @ ..] => (&json[..1], rest),
        _ => (&json[..0], json),
    };
    let Some(fraction) = digits.strip_prefix(b"0.0000") else { return out.extend_from_slice(json) };
    let zeros = fraction.iter().take_while(|byte| **byte == b'0').count();
    let Some((first, rest)) = fraction[zeros..].split_first().filter(|(byte, _)| byte.is_ascii_digit()) else {
        return out.extend_from_slice(json);
    };
    out.extend_from_slice(sign);
    out.push(*first);
    if !rest.is_empty() {
        out.push(b'.');
        out.extend_from_slice(rest);
    }
    out.extend_from_slice(format!("e-{:02}", zeros + 5).as_bytes());
}

/// The text of a JSON string with Python's escapes of what is not printable.
fn unescape(json: &str, out: &mut String) -> Read<()> {
    let mut rest = json;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let escape = rest.as_bytes().get(at + 1).ok_or(Refused)?;
        let mut length = 2;
        match escape {
            b'"' => out.push('"'),
            b'\\' => out.push('\\'),
            b'/' => out.push('/'),
            b'n' => out.push_str("\\n"),
            b'r' => out.push_str("\\r"),
            b't' => out.push_str("\\t"),
            b'b' => out.push_str("\\x08"),
            b'f' => out.push_str("\\x0c"),
            b'u' => {
                let unit = unit(rest, at)?;
                let low = match unit {
                    0xd800..=0xdbff => self::unit(rest, at + 6).ok().filter(|low| (0xdc00..=0xdfff).contains(low)),
                    _ => None,
                };
                length = if low.is_some() { 12 } else { 6 };
                let code = match low {
                    Some(low) => 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00),
                    None => unit,
                };
                match code {
                    0..=0xff => out.push_str(&format!("\\x{code:02x}")),
                    0x100..=0xffff => out.push_str(&format!("\\u{code:04x}")),
                    _ => out.push_str(&format!("\\U{code:08x}")),
                }
            }
            _ => return Err(Refused),
        }
        rest = rest.get(at + length..).ok_or(Refused)?;
    }
    out.push_str(rest);
    Ok(())
}

/// The number of an escape `\u0000` at `at`.
fn unit(text: &str, at: usize) -> Read<u32> {
    let digits = text.get(at..at + 6).and_then(|escape| escape.strip_prefix("\\u")).ok_or(Refused)?;
    u32::from_str_radix(digits, 16).map_err(|_| Refused)
}

/// How a formula begins, for a spreadsheet.
fn is_formula(char: Option<char>) -> bool {
    matches!(char, Some('=' | '+' | '-' | '@' | '＝' | '＋' | '－' | '＠'))
}

fn begins_formula(ascii: &[u8]) -> bool {
    let first = ascii.iter().find(|byte| **byte != b' ');
    is_formula(first.map(|byte| char::from(*byte)))
}

/// A text with `'` before what a spreadsheet would run: at its beginning, and after `;`, where some cut cells.
fn guard(text: &str, out: &mut Vec<u8>) {
    let blank = |char: &char| char.is_whitespace();
    if is_formula(text.chars().find(|char| !blank(char))) {
        out.push(b'\'');
    }
    let mut rest = text;
    while let Some(at) = rest.find(';') {
        out.extend_from_slice(&rest.as_bytes()[..=at]);
        rest = &rest[at + 1..];
        if is_formula(rest.chars().find(|char| !blank(char) && *char != '"')) {
            out.push(b'\'');
        }
    }
    out.extend_from_slice(rest.as_bytes());
}

/// JSON whose `;` before a formula are escaped.
fn guard_json(json: &str, out: &mut Vec<u8>) {
    let mut rest = json;
    while let Some(at) = rest.find(';') {
        out.extend_from_slice(&rest.as_bytes()[..at]);
        rest = &rest[at + 1..];
        let formula = is_formula(rest.chars().find(|char| !char.is_whitespace()));
        out.extend_from_slice(if formula { b"\\u003b" } else { b";" });
    }
    out.extend_from_slice(rest.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(columns: &[&str], json: &str) -> Option<String> {
        let columns: Vec<String> = columns.iter().map(|name| (*name).to_string()).collect();
        let mut out = Vec::new();
        CsvWriter::new(&columns).lines(json.as_bytes(), &mut out).ok()?;
        String::from_utf8(out).ok()
    }

    #[test]
    fn values_have_the_places_of_their_columns() {
        let lines = "{\"b\":1,\"a\":\"x\"}\n{\"a\":null,\"c\":[1,{\"d\":\"]\\\"\"}],\"b\":true}\n{}\n";
        assert_eq!(written(&["a", "b"], lines).as_deref(), Some("x,1\n,true\n,\n"));
        assert_eq!(written(&["c"], &lines[16..]).as_deref(), Some("\"[1,{\"\"d\"\":\"\"]\\\"\"\"\"}]\"\n\n"));
    }

    #[test]
    fn what_is_no_line_is_refused() {
        for json in ["{", "{\"a\":1}", "{\"a\":1,}\n", "{\"a\":\"\n", "[]\n", "{\"a\":[1}\n", "{\"a\":\"\\u00\"}\n"] {
            assert_eq!(written(&["a"], json), None, "{json}");
        }
    }

    #[test]
    fn texts_are_escaped_and_guarded() {
        let text = |json: &str| written(&["a"], &format!("{{\"a\":\"{json}\"}}\n")).map(|line| line.trim_end().into());
        let found: Vec<Option<String>> =
            [" =1", "a;\\\"-1", "\\u001b\\n", "\\ud83d\\ude00\\udcff", "é,", "\\f\u{3000}＝", "a;b"].map(text).into();
        let expected = ["' =1", "\"a;'\"\"-1\"", "\\x1b\\n", "\\U0001f600\\udcff", "\"é,\"", "\\x0c\u{3000}＝", "a;b"];
        assert_eq!(found, expected.map(|text| Some(text.to_string())));
        assert_eq!(
            written(&["a"], "{\"a\":{\"b\":\"x; =1;c\"}}\n").as_deref(),
            Some("\"{\"\"b\"\":\"\"x\\u003b =1;c\"\"}\"\n")
        );
    }

    #[test]
    fn small_numbers_have_exponents() {
        let found = ["0.00001", "0.000015", "-0.00002", "0.0001", "0.0", "12"]
            .map(|number| written(&["a"], &format!("{{\"a\":{number}}}\n")).unwrap_or_default());
        assert_eq!(found.concat(), "1e-05\n1.5e-05\n-2e-05\n0.0001\n0.0\n12\n");
    }
}
