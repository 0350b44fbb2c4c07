//! The headers of requests and responses (RequestHeader v1 and v2, ResponseHeader v0 and v1).

use crate::cursor::{Cursor, Read, Refused};
use crate::limits::MAX_TAGS;

pub struct Request<'a> {
    pub correlation_id: i32,
    pub client_id: Option<&'a str>,
    /// The body.
    pub rest: Cursor<'a>,
}

/// The version of a request.
pub fn version(frame: &[u8]) -> Option<i16> {
    Some(i16::from_be_bytes(*frame.get(2..)?.first_chunk()?))
}

/// A request's header after api key and version. Refused: version 0, and client ids that are not UTF-8.
pub fn request(frame: &[u8], header: u8) -> Read<Request<'_>> {
    if header == 0 {
        return Err(Refused);
    }
    let mut rest = Cursor::new(frame, 4);
    let correlation_id = i32::from_be_bytes(rest.array()?);
    let client_id = match rest.length(false, true)? {
        Some(length) => Some(std::str::from_utf8(rest.take(length)?).map_err(|_| Refused)?),
        None => None,
    };
    if header > 1 {
        skip_tags(&mut rest)?;
    }
    Ok(Request { correlation_id, client_id, rest })
}

/// What follows a response's header.
pub fn response(frame: &[u8], header: u8) -> Read<Cursor<'_>> {
    let mut rest = Cursor::new(frame, 0);
    rest.take(4)?;
    if header > 0 {
        skip_tags(&mut rest)?;
    }
    Ok(rest)
}

/// Tagged fields, none of which is known.
fn skip_tags(rest: &mut Cursor<'_>) -> Read<()> {
    let count = usize::try_from(rest.uvarint()?).map_err(|_| Refused)?;
    if count > rest.left().min(MAX_TAGS) {
        return Err(Refused);
    }
    for _ in 0..count {
        rest.uvarint()?;
        let size = rest.uvarint()?;
        rest.take(usize::try_from(size).map_err(|_| Refused)?)?;
    }
    Ok(())
}
