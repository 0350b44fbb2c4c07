//! The frames of one direction of a connection, by the rules of `kafkawire.capture.frame_stream`.

use std::borrow::Cow;
use std::collections::VecDeque;

use super::stream::{Moment, Stream};

/// As `kafkawire.frames.MAX_FRAME_BYTES`.
const MAX_FRAME_BYTES: i32 = 256 << 20;
/// Length of a frame's size prefix.
pub const SIZE: usize = 4;

/// A frame with its size prefix. `missing`: bytes that the capture lacks; `left_out`: captured bytes after the first
/// hole. Of a frame with a hole, `data` ends before it.
pub struct Frame<'a> {
    data: Cow<'a, [u8]>,
    pub at: Moment,
    pub missing: i64,
    left_out: i64,
}

impl Frame<'_> {
    pub fn data(&self) -> &[u8] {
        &self.data[SIZE..]
    }

    pub fn size(&self) -> i64 {
        self.data().len() as i64 + self.missing + self.left_out
    }

    pub fn owned(self) -> Frame<'static> {
        Frame { data: Cow::Owned(self.data.into_owned()), ..self }
    }
}

/// A size that no frame has.
pub struct BadSize(pub i32);

impl BadSize {
    pub fn problem(&self) -> String {
        let BadSize(size) = self;
        format!("bytes that are no frame (the size of a frame, 0 to {MAX_FRAME_BYTES} expected, {size} found)")
    }
}

/// An incomplete frame with a hole. `left`: bytes to its end.
struct Holed {
    data: Vec<u8>,
    at: Moment,
    missing: i64,
    left_out: i64,
    left: i64,
}

/// Splits the ordered bytes of one direction into frames, once the beginning of one is known.
#[derive(Default)]
pub struct FrameStream {
    pub stream: Stream,
    /// The first byte of the connection was captured, so that a frame begins there.
    pub from_start: bool,
    /// The boundaries are unknown after they were known, or after bytes were missing.
    pub lost: bool,
    /// Bytes dropped since the last frame.
    pub skipped: i64,
    /// Whether the boundaries are known.
    framed: bool,
    /// The last bytes of the stream: of the current frame if the boundaries are known, otherwise those of no frame.
    rest: Vec<u8>,
    /// Loose bytes that the next search needs.
    wanted: usize,
    /// Of the end of the bytes taken.
    position: i64,
    holed: Option<Box<Holed>>,
    /// Positions at which packets begin.
    chunks: VecDeque<(i64, Moment)>,
}

pub type Frames<'a> = (Vec<Frame<'a>>, Option<BadSize>);

impl FrameStream {
    pub fn synchronized(&self) -> bool {
        self.framed || self.holed.is_some()
    }

    /// Bytes that belong to no frame, because no boundary is known.
    pub fn loose(&self) -> &[u8] {
        if self.framed {
            &[]
        } else {
            &self.rest
        }
    }

    /// Whether no byte of it was captured.
    pub fn silent(&self) -> bool {
        self.position == 0 && self.stream.held() == 0
    }

    /// Number of bytes that are in no complete frame.
    pub fn unframed(&self) -> i64 {
        match &self.holed {
            Some(holed) => holed.data.len() as i64 + holed.left_out,
            None => self.rest.len() as i64,
        }
    }

    /// Number of those that are in memory.
    pub fn held(&self) -> i64 {
        self.unframed() - self.holed.as_ref().map_or(0, |holed| holed.left_out)
    }

    /// Bytes of the current frame that the capture lacks.
    pub fn missing(&self) -> i64 {
        self.holed.as_ref().map_or(0, |holed| holed.missing)
    }

    /// The bytes of the current frame; empty for a frame with a hole.
    pub fn head(&self) -> &[u8] {
        if self.framed {
            &self.rest
        } else {
            &[]
        }
    }

    /// The packet of the first unframed byte.
    pub fn first_unframed(&mut self) -> Option<Moment> {
        if let Some(holed) = &self.holed {
            return Some(holed.at);
        }
        (!self.rest.is_empty()).then(|| self.packet_at(self.position - self.rest.len() as i64))
    }

    /// Takes bytes in order; gives the frames that they complete.
    pub fn take<'a>(&mut self, data: Cow<'a, [u8]>, at: Moment) -> Frames<'a> {
        if self.holed.is_some() {
            return self.behind_hole(data, at);
        }
        self.chunks.push_back((self.position, at));
        self.position += data.len() as i64;
        if self.framed {
            return self.cut(data);
        }
        self.rest.extend_from_slice(&data);
        (Vec::new(), None)
    }

    /// Sets a frame's beginning at `offset` of the loose bytes; gives the frames from there.
    pub fn begin(&mut self, offset: usize) -> Frames<'static> {
        self.skipped = 0;
        self.framed = true;
        let mut data = std::mem::take(&mut self.rest);
        data.drain(..offset);
        self.cut(Cow::Owned(data))
    }

    fn cut<'a>(&mut self, data: Cow<'a, [u8]>) -> Frames<'a> {
        match data {
            Cow::Borrowed(data) => {
                let mut frames = Vec::new();
                let bad = self.frames(data, Cow::Borrowed, &mut frames);
                (frames, bad)
            }
            Cow::Owned(data) => {
                let mut frames = Vec::new();
                let bad = self.frames(&data, |data| Cow::Owned(data.to_vec()), &mut frames);
                (frames, bad)
            }
        }
    }

    fn frames<'a, 'd>(
        &mut self,
        data: &'d [u8],
        kept: impl Fn(&'d [u8]) -> Cow<'a, [u8]>,
        frames: &mut Vec<Frame<'a>>,
    ) -> Option<BadSize> {
        let mut used = 0;
        if !self.rest.is_empty() {
            // The current frame is completed first.
            used = SIZE.saturating_sub(self.rest.len()).min(data.len());
            self.rest.extend_from_slice(&data[..used]);
            let size = i32::from_be_bytes(*self.rest.first_chunk()?);
            if !(0..=MAX_FRAME_BYTES).contains(&size) {
                self.rest.extend_from_slice(&data[used..]);
                return Some(BadSize(size));
            }
            let lacking = SIZE + size as usize - self.rest.len();
            let end = data.len().min(used + lacking);
            self.rest.extend_from_slice(&data[used..end]);
            if end - used < lacking {
                return None;
            }
            used = end;
            let start = self.position - (data.len() - used) as i64 - self.rest.len() as i64;
            let at = self.packet_at(start);
            let data = Cow::Owned(std::mem::take(&mut self.rest));
            frames.push(Frame { data, at, missing: 0, left_out: 0 });
        }
        loop {
            let rest = &data[used..];
            let size = rest.first_chunk().map(|size| i32::from_be_bytes(*size));
            match size {
                Some(size) if !(0..=MAX_FRAME_BYTES).contains(&size) => {
                    self.rest.extend_from_slice(rest);
                    return Some(BadSize(size));
                }
                Some(size) if rest.len() >= SIZE + size as usize => {
                    let at = self.packet_at(self.position - rest.len() as i64);
                    let end = SIZE + size as usize;
                    frames.push(Frame { data: kept(&rest[..end]), at, missing: 0, left_out: 0 });
                    used += end;
                }
                _ => {
                    self.rest.extend_from_slice(rest);
                    return None;
                }
            }
        }
    }

    /// Whether a hole of `missing` bytes lies within the current frame.
    pub fn bridges(&self, missing: i64) -> bool {
        if let Some(holed) = &self.holed {
            return missing <= holed.left;
        }
        let Some(size) = self.head().first_chunk() else { return false };
        self.head().len() as i64 + missing <= SIZE as i64 + i64::from(i32::from_be_bytes(*size))
    }

    /// Skips a hole that it `bridges`; gives the frame if it ends with the hole.
    pub fn bridge(&mut self, missing: i64) -> Frames<'static> {
        if self.holed.is_none() {
            let at = self.packet_at(self.position - self.rest.len() as i64);
            let data = std::mem::take(&mut self.rest);
            self.framed = false;
            let size = data.first_chunk().map_or(0, |size| i64::from(i32::from_be_bytes(*size)));
            let left = SIZE as i64 + size - data.len() as i64;
            self.holed = Some(Box::new(Holed { data, at, missing: 0, left_out: 0, left }));
        }
        let Some(holed) = &mut self.holed else { return (Vec::new(), None) };
        holed.missing += missing;
        holed.left -= missing;
        let ended = holed.left == 0;
        (if ended { self.ended() } else { Vec::new() }, None)
    }

    fn behind_hole<'a>(&mut self, data: Cow<'a, [u8]>, at: Moment) -> Frames<'a> {
        let Some(holed) = &mut self.holed else { return (Vec::new(), None) };
        let passed = holed.left.min(data.len() as i64);
        holed.left -= passed;
        holed.left_out += passed;
        self.position += passed;
        if holed.left > 0 {
            return (Vec::new(), None);
        }
        let mut frames: Vec<Frame<'a>> = self.ended();
        let mut bad = None;
        if (passed as usize) < data.len() {
            let rest = match data {
                Cow::Borrowed(data) => Cow::Borrowed(&data[passed as usize..]),
                Cow::Owned(data) => Cow::Owned(data[passed as usize..].to_vec()),
            };
            let (more, wrong) = self.take(rest, at);
            frames.extend(more);
            bad = wrong;
        }
        (frames, bad)
    }

    fn ended<'a>(&mut self) -> Vec<Frame<'a>> {
        let Some(holed) = self.holed.take() else { return Vec::new() };
        self.framed = true;
        self.chunks.clear();
        let Holed { data, at, missing, left_out, .. } = *holed;
        vec![Frame { data: Cow::Owned(data), at, missing, left_out }]
    }

    /// Forgets the frame boundaries. The bytes of the current frame become loose; those of one with a hole are skipped.
    pub fn lose(&mut self) {
        if self.holed.is_some() {
            self.skipped += self.unframed();
            self.holed = None;
            self.chunks.clear();
        }
        self.framed = false;
        self.wanted = 0;
        self.from_start = false;
        self.lost = true;
    }

    /// Drops all loose bytes but the last `keep`.
    pub fn drop(&mut self, keep: usize) {
        let count = if self.framed { 0 } else { self.rest.len().saturating_sub(keep) };
        self.rest.drain(..count);
        self.skipped += count as i64;
        self.forget_before(self.position - self.loose().len() as i64);
    }

    /// Drops the loose bytes up to the first ones of a packet, or of a later one.
    pub fn drop_before(&mut self, packet: i64) {
        let first = self.chunks.iter().find(|(_, at)| at.0 >= packet);
        let at = first.map_or(self.position, |(at, _)| *at);
        if at > self.position - self.loose().len() as i64 {
            self.drop((self.position - at) as usize);
            self.wanted = 0;
        }
    }

    /// The loose bytes in which a frame is to be searched, and the offsets in them at which packets begin; None where
    /// more bytes are needed.
    pub fn searched(&self) -> Option<(&[u8], Vec<i64>)> {
        (self.loose().len() >= self.wanted).then(|| (self.loose(), self.starts()))
    }

    /// Offsets in the loose bytes at which packets begin.
    pub fn starts(&self) -> Vec<i64> {
        let start = self.position - self.loose().len() as i64;
        self.chunks.iter().map(|(at, _)| at - start).filter(|at| *at >= 0).collect()
    }

    /// Whether the loose bytes may begin with a frame, and what follows decides.
    pub fn waits(&self) -> bool {
        self.wanted > 0
    }

    /// Takes the result of the search: no frame begins before `settled`, the next search needs `wanted` bytes. `keep`:
    /// bytes before `settled` are not dropped. Those of the newest packet never are: captures swap packets, so that they
    /// may be the response to a request that comes next.
    pub fn found(&mut self, offset: Option<usize>, settled: usize, wanted: usize, keep: bool) {
        self.wanted = wanted;
        if offset.is_none() && !keep {
            let loose = self.loose().len();
            let start = self.position - loose as i64;
            let newest = self.chunks.back().map_or(0, |(at, _)| (at - start).max(0) as usize);
            let passed = settled.min(newest);
            self.drop(loose.saturating_sub(passed));
            self.wanted += if wanted > 0 { settled - passed } else { 0 };
        }
    }

    /// Takes the loose bytes out, as chunks with their packets.
    pub fn withdraw(&mut self) -> Vec<(Vec<u8>, Moment)> {
        let start = self.position - self.rest.len() as i64;
        let places: Vec<_> = self.chunks.drain(..).map(|(at, moment)| ((at - start).max(0) as usize, moment)).collect();
        let data = std::mem::take(&mut self.rest);
        let ends = places.iter().skip(1).map(|(at, _)| *at).chain([data.len()]);
        let pieces = places.iter().zip(ends).map(|(&(at, moment), end)| (data[at..end.max(at)].to_vec(), moment));
        pieces.filter(|(piece, _)| !piece.is_empty()).collect()
    }

    pub fn settle(&mut self) {
        self.stream.settle();
        self.rest.shrink_to_fit();
        self.chunks.shrink_to_fit();
    }

    pub fn look_again(&mut self) {
        self.wanted = 0;
    }

    fn packet_at(&mut self, position: i64) -> Moment {
        self.forget_before(position);
        self.chunks.front().map_or((0, 0), |(_, at)| *at)
    }

    fn forget_before(&mut self, position: i64) {
        while self.chunks.get(1).is_some_and(|(at, _)| *at <= position) {
            self.chunks.pop_front();
        }
    }
}
