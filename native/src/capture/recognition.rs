//! Whether bytes begin with a request, by the rules of `kafkawire.capture.recognition.request`.

use std::collections::HashMap;

const API_VERSIONS: i16 = 18;
const LONGEST_CLIENT_ID: usize = 1024;
/// Length of the header up to the client id.
const START: usize = 14;
/// Bytes of a request's beginning that are examined.
pub const HEAD: usize = START + LONGEST_CLIENT_ID;
const MAX_FRAME_BYTES: i32 = 256 << 20;

#[derive(Debug, PartialEq)]
pub enum Recognition<'a> {
    Yes,
    No,
    TooShort,
    /// If this client id is printable text.
    IfText(&'a [u8]),
}

/// First and last version of each api.
pub type Versions = HashMap<i16, (i16, i16)>;

/// `data`: with the size prefix.
pub fn request<'a>(data: &'a [u8], versions: &Versions) -> Recognition<'a> {
    let Some(&[a, b, c, d, key, key2, version, version2]) = data.first_chunk::<8>() else {
        return Recognition::TooShort;
    };
    let size = i32::from_be_bytes([a, b, c, d]);
    let (api_key, version) = (i16::from_be_bytes([key, key2]), i16::from_be_bytes([version, version2]));
    let Some(&(first, last)) = versions.get(&api_key) else { return Recognition::No };
    if !(8..=MAX_FRAME_BYTES).contains(&size) {
        return Recognition::No;
    }
    // Clients may send an ApiVersions of a later version; for all other apis they ask for the versions first.
    let later = api_key == API_VERSIONS && (0..100).contains(&version);
    if !(later || (first..=last).contains(&version)) {
        return Recognition::No;
    }
    let size = size as usize;
    if data.len() < START {
        // ControlledShutdown v0 has no client id.
        return if data.len() >= 4 + size { Recognition::Yes } else { Recognition::TooShort };
    }
    let length = i16::from_be_bytes([data[12], data[13]]);
    if size < 10 || length < -1 || length.max(0) as usize > (size - 10).min(LONGEST_CLIENT_ID) {
        return Recognition::No;
    }
    let client_id = &data[START..data.len().min(START + length.max(0) as usize)];
    match client_id.iter().all(|byte| (b' '..=b'~').contains(byte)) {
        true => Recognition::Yes,
        false => Recognition::IfText(client_id),
    }
}

/// Whether data begins with a TLS handshake record of any version.
pub fn is_tls(data: &[u8]) -> bool {
    data.starts_with(&[0x16, 3])
}

const TLS_HEADER: usize = 5;
/// Consecutive headers that are certain to be TLS.
const TLS_HEADERS: u32 = 3;

/// As `kafkawire.capture.recognition.TlsRecords`: recognises TLS in a direction whose beginning was not captured, by
/// headers of records at their distances.
#[derive(Default)]
pub struct TlsRecords {
    /// The bytes before the next ones, in which a header may begin.
    recent: Vec<u8>,
    /// Bytes up to the next header; None while none is known.
    left: Option<usize>,
    headers: u32,
}

impl TlsRecords {
    /// Takes the next bytes in order; whether they are TLS.
    pub fn feed(&mut self, data: &[u8]) -> bool {
        let mut all = std::mem::take(&mut self.recent);
        all.extend_from_slice(data);
        let mut place = 0;
        while self.headers < TLS_HEADERS {
            place += match self.left {
                Some(left) => left,
                None => all
                    .windows(TLS_HEADER)
                    .skip(place)
                    .position(is_tls_header)
                    .unwrap_or_else(|| (all.len() + 1).saturating_sub(TLS_HEADER).saturating_sub(place)),
            };
            let Some(header) = all.get(place..place + TLS_HEADER) else { break };
            if is_tls_header(header) {
                self.headers += 1;
                self.left = Some(TLS_HEADER + usize::from(u16::from_be_bytes([header[3], header[4]])));
            } else {
                (self.left, self.headers) = (None, 0);
            }
        }
        self.left = self.left.map(|_| place.saturating_sub(all.len()));
        all.drain(..place.min(all.len()));
        self.recent = all;
        self.headers >= TLS_HEADERS
    }

    /// Takes a hole.
    pub fn lose(&mut self) {
        *self = TlsRecords::default();
    }
}

/// Whether this is the header of a record of a connection that is established: type, version, and a length up to 16 KiB
/// and 2 KiB.
fn is_tls_header(data: &[u8]) -> bool {
    (0x14..=0x17).contains(&data[0]) && data[1..3] == [3, 3] && u16::from_be_bytes([data[3], data[4]]) <= 0x4800
}

/// Whether a connection begins with what a client sends to a proxy before Kafka's first request: HAProxy's header in text or in
/// binary, a CONNECT of HTTP, or a SOCKS 5 greeting with the command or the password that follows it.
pub fn is_preamble(data: &[u8]) -> bool {
    if [b"PROXY ".as_slice(), b"\r\n\r\n\0\r\nQUIT\n", b"CONNECT "].iter().any(|known| data.starts_with(known)) {
        return true;
    }
    let [5, count, rest @ ..] = data else { return false };
    let methods = &rest[..rest.len().min(usize::from(*count))];
    let behind = &rest[methods.len()..];
    if methods.len() < usize::from(*count) {
        return false;
    }
    (methods.contains(&2) && behind.starts_with(&[1]))
        || (behind.is_empty() && !methods.is_empty())
        || behind.starts_with(&[5, 1, 0])
}
