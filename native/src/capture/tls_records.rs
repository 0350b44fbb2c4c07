//! The records of application data in one direction of a TLS connection whose keys are known, decrypted as
//! `kafkawire.capture.tls` decrypts them. Any other record is refused, and Python continues with it.

use std::collections::VecDeque;

use aes_gcm::aead::{AeadInPlace, KeyInit};
use aes_gcm::{Aes128Gcm, Aes256Gcm};
use chacha20poly1305::ChaCha20Poly1305;

use super::stream::Moment;
use crate::cursor::{Read, Refused};

const HEADER: usize = 5;
const TAG: usize = 16;
/// As in `kafkawire.capture.tls.direction`.
const MAX_FRAGMENT: usize = (1 << 14) + (1 << 11);
const APPLICATION_DATA: u8 = 23;
/// Bytes of a nonce, and those of it that a record of TLS 1.2 states.
const NONCE: usize = 12;
const EXPLICIT: usize = 8;
/// Bytes that were read are dropped in pieces of this size.
const MOST_READ: usize = 64 << 10;

enum Cipher {
    Aes128(Box<Aes128Gcm>),
    Aes256(Box<Aes256Gcm>),
    ChaCha20(ChaCha20Poly1305),
}

impl Cipher {
    /// `mode`: as of `cipher_suites.CipherSuite`. None: one that Python has.
    fn new(mode: &str, key: &[u8]) -> Option<Self> {
        Some(match (mode, key.len()) {
            ("GCM", 16) => Cipher::Aes128(Box::new(Aes128Gcm::new_from_slice(key).ok()?)),
            ("GCM", 32) => Cipher::Aes256(Box::new(Aes256Gcm::new_from_slice(key).ok()?)),
            ("POLY1305", 32) => Cipher::ChaCha20(ChaCha20Poly1305::new_from_slice(key).ok()?),
            _ => return None,
        })
    }

    /// The plaintext, if `sealed`, which ends with a tag, was written with this key, nonce and header.
    fn open(&self, nonce: &[u8; NONCE], header: &[u8], sealed: &[u8]) -> Read<Vec<u8>> {
        let (data, tag) = sealed.split_at(sealed.len().checked_sub(TAG).ok_or(Refused)?);
        let mut plain = data.to_vec();
        let nonce = nonce.into();
        match self {
            Cipher::Aes128(cipher) => cipher.decrypt_in_place_detached(nonce, header, &mut plain, tag.into()),
            Cipher::Aes256(cipher) => cipher.decrypt_in_place_detached(nonce, header, &mut plain, tag.into()),
            Cipher::ChaCha20(cipher) => cipher.decrypt_in_place_detached(nonce, header, &mut plain, tag.into()),
        }
        .map_err(|_| Refused)?;
        Ok(plain)
    }
}

/// Bytes with number and time of their packet.
pub type Piece = (Vec<u8>, i64, i64);
/// What Python hands over: the cipher's mode, whether it is TLS 1.3, key, IV, number of the next record, and the bytes
/// of a record that is not whole.
pub type Steady = (String, bool, Vec<u8>, Vec<u8>, u64, Vec<Piece>);

pub struct Records {
    cipher: Cipher,
    tls13: bool,
    iv: Vec<u8>,
    pub sequence: u64,
    /// Records that were decrypted.
    pub opened: usize,
    buffer: Vec<u8>,
    /// Where in `buffer` the next record begins, and where the bytes of each packet do.
    start: usize,
    places: VecDeque<(usize, Moment)>,
}

impl Records {
    /// None: Python goes on.
    pub fn new((mode, tls13, key, iv, sequence, pieces): Steady) -> Option<Self> {
        let explicit = !tls13 && mode == "GCM";
        let cipher =
            Cipher::new(&mode, &key).filter(|_| iv.len() == if explicit { NONCE - EXPLICIT } else { NONCE })?;
        let (buffer, places) = Default::default();
        let mut records = Records { cipher, tls13, iv, sequence, opened: 0, buffer, start: 0, places };
        for (data, packet, time_ns) in pieces {
            records.append(&data, (packet, time_ns));
        }
        Some(records)
    }

    pub fn append(&mut self, data: &[u8], at: Moment) {
        if self.start == self.buffer.len() || self.start > MOST_READ {
            self.place();
            self.buffer.drain(..self.start);
            for (offset, _) in &mut self.places {
                *offset = offset.saturating_sub(self.start);
            }
            self.start = 0;
            if self.buffer.is_empty() {
                self.places.clear();
            }
        }
        self.places.push_back((self.buffer.len(), at));
        self.buffer.extend_from_slice(data);
    }

    /// Number of bytes that are in no record yet.
    pub fn held(&self) -> usize {
        self.buffer.len() - self.start
    }

    /// The packet of the first of them.
    pub fn held_since(&mut self) -> Option<i64> {
        (self.held() > 0).then(|| self.place().0)
    }

    /// The packet with the next record's first byte.
    fn place(&mut self) -> Moment {
        while self.places.get(1).is_some_and(|(offset, _)| *offset <= self.start) {
            self.places.pop_front();
        }
        self.places.front().map_or((0, 0), |(_, at)| *at)
    }

    /// The content of the next record; None where it is not whole yet. Refused, and left where it is: any other record
    /// than the next one with application data.
    pub fn next(&mut self) -> Read<Option<(Vec<u8>, Moment)>> {
        let rest = &self.buffer[self.start..];
        let Some((header, rest)) = rest.split_first_chunk::<HEADER>() else { return Ok(None) };
        let size = usize::from(u16::from_be_bytes([header[3], header[4]]));
        if header[0] != APPLICATION_DATA || header[1] != 3 || header[2] > 3 || size > MAX_FRAGMENT {
            return Err(Refused);
        }
        let Some(fragment) = rest.get(..size) else { return Ok(None) };
        let content = if self.tls13 { self.open_13(fragment) } else { self.open_12(fragment) }?;
        let at = self.place();
        self.start += HEADER + size;
        self.sequence += 1;
        self.opened += 1;
        Ok(Some((content, at)))
    }

    /// RFC 8446, section 5.2.
    fn open_13(&self, fragment: &[u8]) -> Read<Vec<u8>> {
        let size = (fragment.len() as u16).to_be_bytes();
        let header = [APPLICATION_DATA, 3, 3, size[0], size[1]];
        let mut plain = self.cipher.open(&self.masked()?, &header, fragment)?;
        let end = plain.iter().rposition(|byte| *byte != 0).ok_or(Refused)?;
        if plain[end] != APPLICATION_DATA {
            return Err(Refused);
        }
        plain.truncate(end);
        Ok(plain)
    }

    /// RFC 5246, section 6.2.3.3; RFC 5288; RFC 7905.
    fn open_12(&self, fragment: &[u8]) -> Read<Vec<u8>> {
        let (nonce, sealed) = match self.iv.len() {
            NONCE => (self.masked()?, fragment),
            _ => {
                let (explicit, sealed) = fragment.split_first_chunk::<EXPLICIT>().ok_or(Refused)?;
                let mut nonce = [0; NONCE];
                nonce[..NONCE - EXPLICIT].copy_from_slice(&self.iv);
                nonce[NONCE - EXPLICIT..].copy_from_slice(explicit);
                (nonce, sealed)
            }
        };
        let size = (sealed.len().checked_sub(TAG).ok_or(Refused)? as u16).to_be_bytes();
        let mut header = [0; 13];
        header[..8].copy_from_slice(&self.sequence.to_be_bytes());
        header[8..].copy_from_slice(&[APPLICATION_DATA, 3, 3, size[0], size[1]]);
        self.cipher.open(&nonce, &header, sealed)
    }

    /// The IV, with the sequence number added to its last bytes by XOR.
    fn masked(&self) -> Read<[u8; NONCE]> {
        let mut nonce: [u8; NONCE] = self.iv[..].try_into().map_err(|_| Refused)?;
        for (byte, number) in nonce[NONCE - 8..].iter_mut().zip(self.sequence.to_be_bytes()) {
            *byte ^= number;
        }
        Ok(nonce)
    }

    /// The bytes that are in no record, by their packets.
    pub fn into_pieces(mut self) -> Vec<Piece> {
        if self.held() == 0 {
            return Vec::new();
        }
        self.place();
        let starts: Vec<_> = self.places.iter().map(|(offset, _)| (*offset).max(self.start)).collect();
        let ends = starts.iter().skip(1).copied().chain([self.buffer.len()]);
        let pieces = self.places.iter().zip(starts.iter().zip(ends));
        pieces.map(|((_, at), (start, end))| (self.buffer[*start..end].to_vec(), at.0, at.1)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records of TLS 1.3 under a key of zeros, each with a content of `size` bytes; a type per record.
    fn sealed(kinds: &[u8], size: usize) -> Vec<u8> {
        let cipher = Aes128Gcm::new_from_slice(&[0; 16]).unwrap();
        let mut out = Vec::new();
        for (number, kind) in kinds.iter().enumerate() {
            let mut data = [vec![b'x'; size], vec![*kind, 0, 0]].concat();
            let length = ((data.len() + TAG) as u16).to_be_bytes();
            let header = [APPLICATION_DATA, 3, 3, length[0], length[1]];
            let mut nonce = [0; NONCE];
            nonce[NONCE - 1] = number as u8;
            let tag = cipher.encrypt_in_place_detached((&nonce).into(), &header, &mut data).unwrap();
            out.extend_from_slice(&header);
            out.extend_from_slice(&data);
            out.extend_from_slice(&tag);
        }
        out
    }

    fn records() -> Records {
        Records::new(("GCM".into(), true, vec![0; 16], vec![0; NONCE], 0, Vec::new())).unwrap()
    }

    #[test]
    fn data_cut_anywhere_is_decrypted_with_the_packet_of_each_record() {
        let data = sealed(&[23, 23], 5);
        for cut in 0..data.len() {
            let mut found = records();
            found.append(&data[..cut], (1, 10));
            let first = found.next().unwrap();
            assert_eq!(first.is_some(), cut >= data.len() / 2);
            found.append(&data[cut..], (2, 20));
            let rest: Vec<_> = std::iter::from_fn(|| found.next().unwrap()).collect();
            let all: Vec<_> = first.into_iter().chain(rest).collect();
            let second = if cut > data.len() / 2 { (1, 10) } else { (2, 20) };
            let head = if cut > 0 { (1, 10) } else { (2, 20) };
            assert_eq!(all, [(b"xxxxx".to_vec(), head), (b"xxxxx".to_vec(), second)]);
            assert_eq!((found.held(), found.held_since(), found.opened), (0, None, 2));
        }
    }

    #[test]
    fn what_is_refused_stays() {
        let data = sealed(&[23, 22], 5);
        let mut found = records();
        found.append(&data, (1, 10));
        found.append(b"tail", (2, 20));
        assert!(found.next().unwrap().is_some());
        assert!(found.next().is_err());
        assert_eq!((found.sequence, found.held_since()), (1, Some(1)));
        let pieces = found.into_pieces();
        assert_eq!(pieces, [(data[data.len() / 2..].to_vec(), 1, 10), (b"tail".to_vec(), 2, 20)]);
    }

    #[test]
    fn another_byte_anywhere_is_refused() {
        let data = sealed(&[23], 3);
        for place in (0..data.len()).filter(|place| !matches!(place, 2..=4)) {
            let mut other = data.clone();
            other[place] ^= 0x40;
            let mut found = records();
            found.append(&other, (1, 10));
            assert!(found.next().is_err(), "{place}");
        }
    }
}
