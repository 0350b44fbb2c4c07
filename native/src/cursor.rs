//! Reading Kafka's primitives from a slice. Every read is bounds-checked. A value that is cut off or invalid is
//! `Refused`, without a reason: the interpreter describes it.

/// Bytes or values that the engine does not handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused;

pub type Read<T> = Result<T, Refused>;

/// A position in a slice: what is left of it, and where it ends.
#[derive(Clone, Copy)]
pub struct Cursor<'a> {
    rest: &'a [u8],
    end: usize,
}

impl<'a> Cursor<'a> {
    /// `at` may be after the end: then every read is refused.
    pub fn new(data: &'a [u8], at: usize) -> Self {
        Cursor { rest: data.get(at..).unwrap_or_default(), end: data.len() }
    }

    #[inline]
    pub fn position(&self) -> usize {
        self.end - self.rest.len()
    }

    #[inline]
    pub fn left(&self) -> usize {
        self.rest.len()
    }

    /// What is left.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    #[inline]
    pub fn take(&mut self, count: usize) -> Read<&'a [u8]> {
        let (found, rest) = self.rest.split_at_checked(count).ok_or(Refused)?;
        self.rest = rest;
        Ok(found)
    }

    #[inline]
    pub fn array<const N: usize>(&mut self) -> Read<[u8; N]> {
        let (found, rest) = self.rest.split_first_chunk::<N>().ok_or(Refused)?;
        self.rest = rest;
        Ok(*found)
    }

    #[inline]
    pub fn byte(&mut self) -> Read<u8> {
        let (&found, rest) = self.rest.split_first().ok_or(Refused)?;
        self.rest = rest;
        Ok(found)
    }

    /// An unsigned varint as Kafka's `ByteUtils.readUnsignedVarint` reads it: at most 5 bytes, bits above 32 dropped,
    /// 2^31 and more negative.
    #[inline(always)]
    pub fn uvarint(&mut self) -> Read<i32> {
        let first = self.byte()?;
        if first < 128 {
            return Ok(i32::from(first));
        }
        let mut value = u32::from(first & 127);
        for shift in [7, 14, 21, 28] {
            let byte = self.byte()?;
            value |= u32::from(byte & 127) << shift;
            if byte < 128 {
                return Ok(value as i32);
            }
        }
        Err(Refused)
    }

    /// Whether a nullable struct is there: an int8, but inside a tagged field (`compact`) an unsigned varint.
    #[inline(always)]
    pub fn present(&mut self, compact: bool) -> Read<bool> {
        Ok(if compact { self.uvarint()? > 0 } else { (self.byte()? as i8) >= 0 })
    }

    /// A length, `None` for null (any negative number, as Kafka reads it).
    #[inline(always)]
    pub fn length(&mut self, compact: bool, narrow: bool) -> Read<Option<usize>> {
        let number = if compact {
            i64::from(self.uvarint()?) - 1
        } else if narrow {
            i64::from(i16::from_be_bytes(self.array()?))
        } else {
            i64::from(i32::from_be_bytes(self.array()?))
        };
        // 2^31 in a compact length wraps to the highest length in Kafka's int arithmetic, which nothing can hold.
        if compact && number < i64::from(i32::MIN) {
            return Err(Refused);
        }
        Ok(usize::try_from(number).ok())
    }
}
