//! One walk over the bytes of a value, along the steps of its structs. A `Sink` makes the result from the values:
//! Python objects (`codec::decode`), JSON text (`json::sink`), columns (`columns::walk`).
//!
//! - Limits, budget, tags and order are the walk's. A sink may refuse what the walk accepts, never the reverse.
//! - A sink sees values in the order of their bytes; after a refusal it gets none.
//! - Structs nest at most `MAX_DEPTH` deep (`layout::layouts_of`), which bounds the stack.

use crate::cursor::{Cursor, Refused};
use crate::layout::{Layout, Op, WireType};
use crate::limits::{ALLOCATION_BASE, ALLOCATION_FACTOR, MAX_STRING, MAX_TAGS};

/// A field: its wire type, and where a sink puts it.
#[derive(Debug)]
pub struct Step<F> {
    pub wire: WireType,
    pub field: F,
}

/// How a struct is read.
#[derive(Debug)]
pub struct Steps<F, O> {
    pub flexible: bool,
    /// Bytes in memory of what is made of it.
    pub cost: i64,
    pub steps: Vec<Step<F>>,
    pub tags: Vec<(i32, Step<F>)>,
    /// Tags of other versions, which are refused.
    pub foreign_tags: Vec<i32>,
    /// What a sink keeps of it.
    pub own: O,
}

/// The steps of layouts.
///
/// Args: `field` of an op, and of which tag of the layout it is; `own` of a layout.
pub fn steps_of<F, O>(
    layouts: &[Layout],
    mut field: impl FnMut(&Layout, &Op, Option<usize>) -> F,
    own: impl Fn(&Layout) -> O,
) -> Vec<Steps<F, O>> {
    let mut step = |layout: &Layout, op: &Op, tag| Step { wire: op.wire_type(), field: field(layout, op, tag) };
    let steps = |layout: &Layout| Steps {
        flexible: layout.flexible,
        cost: layout.cost,
        steps: layout.ops.iter().map(|op| step(layout, op, None)).collect(),
        tags: (layout.tags.iter().enumerate())
            .map(|(place, (tag, op))| (*tag, step(layout, op, Some(place))))
            .collect(),
        foreign_tags: layout.foreign_tags.clone(),
        own: own(layout),
    };
    layouts.iter().map(steps).collect()
}

/// What is made of the values, which come in the order of their bytes.
pub trait Sink: Sized {
    /// What it keeps of a field, and of a struct.
    type Field;
    type Own;
    /// Which of many structs a value belongs to.
    type Place: Copy;
    /// A struct whose fields are being read.
    type Struct;
    /// A value of a field or an element, a struct or an array among them.
    type Value;
    /// Why there is no value.
    type Stop: From<Refused>;

    /// Whether the memory of what it makes is bounded by the walk.
    const BUDGET: bool;
    /// Whether tags that do not ascend are refused. Kafka accepts them in any order, and twice: the last one counts.
    const ASCENDING: bool;

    fn begin(&mut self, own: &Self::Own) -> Result<Self::Struct, Self::Stop>;
    /// The value of this field comes next.
    #[inline(always)]
    fn field(&mut self, _: &mut Self::Struct, _: &Self::Field) {}
    fn put(&mut self, made: &mut Self::Struct, field: &Self::Field, value: Self::Value);
    /// As `put`, of a tagged field.
    #[inline(always)]
    fn put_tagged(&mut self, made: &mut Self::Struct, field: &Self::Field, value: Self::Value) {
        self.put(made, field, value);
    }
    fn put_unknown(
        &mut self,
        made: &mut Self::Struct,
        own: &Self::Own,
        place: Self::Place,
        tag: i32,
        data: &[u8],
    ) -> Result<(), Self::Stop>;
    fn end(&mut self, made: Self::Struct, own: &Self::Own) -> Made<Self>;

    /// Values of fixed size: the next `size` bytes, which it takes.
    fn fixed(&mut self, place: Self::Place, field: &Self::Field, size: usize, cursor: &mut Cursor<'_>) -> Made<Self>;
    /// An array of `count` values of fixed size.
    fn numbers(&mut self, place: Self::Place, field: &Self::Field, count: usize, data: &[u8]) -> Made<Self>;
    /// A string, bytes or records: `data`, which the cursor begins with.
    fn blob(&mut self, place: Self::Place, field: &Self::Field, start: Cursor<'_>, data: &[u8]) -> Made<Self>;
    /// An array of `count` values, each read by `item` in its turn.
    fn list<'a>(
        walk: &mut Walk<'a, Self>,
        place: Self::Place,
        field: &Self::Field,
        count: usize,
        item: impl FnMut(&mut Walk<'a, Self>, Self::Place) -> Made<Self>,
    ) -> Made<Self>;
    /// A nullable struct that is there comes next.
    #[inline(always)]
    fn present(&mut self, _: Self::Place, _: &Self::Field) {}
    fn null(&mut self, place: Self::Place, field: &Self::Field, wire: WireType) -> Self::Value;
}

type StepsOf<S> = Steps<<S as Sink>::Field, <S as Sink>::Own>;
type Made<S> = Result<<S as Sink>::Value, <S as Sink>::Stop>;

/// A value that is being read.
pub struct Walk<'a, S: Sink> {
    walks: &'a [StepsOf<S>],
    budget: i64,
    pub sink: S,
}

impl<'a, S: Sink> Walk<'a, S> {
    /// `size`: how many bytes there are to be read.
    pub fn new(walks: &'a [StepsOf<S>], size: usize, sink: S) -> Self {
        Walk { walks, budget: ALLOCATION_BASE + ALLOCATION_FACTOR * size as i64, sink }
    }

    /// Values of `cost` bytes each would be made.
    #[inline(always)]
    fn afford(&self, count: usize, cost: i64) -> Result<(), S::Stop> {
        if S::BUDGET && count as i64 * cost > self.budget {
            return Err(Refused.into());
        }
        Ok(())
    }

    /// They are made.
    #[inline(always)]
    fn spend(&mut self, count: usize, cost: i64) -> Result<(), S::Stop> {
        self.afford(count, cost)?;
        if S::BUDGET {
            self.budget -= count as i64 * cost;
        }
        Ok(())
    }

    /// The struct at a cursor.
    pub fn structure(&mut self, steps: &'a StepsOf<S>, place: S::Place, cursor: &mut Cursor<'_>) -> Made<S> {
        self.spend(1, steps.cost)?;
        // A cursor of its own stays in registers.
        let mut own = *cursor;
        let mut made = self.sink.begin(&steps.own)?;
        for step in &steps.steps {
            self.sink.field(&mut made, &step.field);
            // Most fields are of fixed size: a comparison is faster than the jump of `step`.
            let value = match step.wire {
                WireType::Fixed { size } => self.sink.fixed(place, &step.field, size, &mut own)?,
                _ => self.step(step, place, &mut own)?,
            };
            self.sink.put(&mut made, &step.field, value);
        }
        if steps.flexible {
            let count = own.uvarint()?;
            if count != 0 {
                let mut inside = own;
                self.tagged(steps, count, &mut made, place, &mut inside)?;
                own = inside;
            }
        }
        *cursor = own;
        self.sink.end(made, &steps.own)
    }

    #[inline(always)]
    fn step(&mut self, step: &'a Step<S::Field>, place: S::Place, cursor: &mut Cursor<'_>) -> Made<S> {
        let (wire, field) = (step.wire, &step.field);
        let nullable = match wire {
            WireType::Fixed { size } => return self.sink.fixed(place, field, size, cursor),
            WireType::Blob { string, compact, nullable } => match self.blob(string, compact, field, place, cursor)? {
                Some(value) => return Ok(value),
                None => nullable,
            },
            WireType::Blobs { string, size, compact, nullable } => match cursor.length(compact, false)? {
                Some(count) if count.saturating_mul(size) <= cursor.left() => {
                    self.spend(count, 8)?;
                    let mut inside = *cursor;
                    let value = S::list(self, place, field, count, |walk, place| {
                        walk.blob(string, compact, field, place, &mut inside)?.ok_or(Refused.into())
                    });
                    *cursor = inside;
                    return value;
                }
                Some(_) => false,
                None => nullable,
            },
            WireType::Numbers { size, compact, nullable } => match cursor.length(compact, false)? {
                Some(count) => {
                    let data = cursor.take(count.checked_mul(size).ok_or(Refused)?)?;
                    self.spend(count, 8)?;
                    return self.sink.numbers(place, field, count, data);
                }
                None => nullable,
            },
            WireType::List { size, compact, nullable, walk } => match cursor.length(compact, false)? {
                Some(count) if count.saturating_mul(size) <= cursor.left() => {
                    let steps = &self.walks[walk];
                    self.afford(count, steps.cost)?;
                    let mut inside = *cursor;
                    let value =
                        S::list(self, place, field, count, |walk, place| walk.structure(steps, place, &mut inside));
                    *cursor = inside;
                    return value;
                }
                Some(_) => false,
                None => nullable,
            },
            WireType::Nested { compact, nullable, walk } => {
                if !nullable || cursor.present(compact)? {
                    if nullable {
                        self.sink.present(place, field);
                    }
                    let mut inside = *cursor;
                    let value = self.structure(&self.walks[walk], place, &mut inside);
                    *cursor = inside;
                    return value;
                }
                true
            }
        };
        if nullable {
            Ok(self.sink.null(place, field, wire))
        } else {
            Err(Refused.into())
        }
    }

    /// A string, bytes or records; None for null.
    #[inline(always)]
    fn blob(
        &mut self,
        string: bool,
        compact: bool,
        field: &S::Field,
        place: S::Place,
        cursor: &mut Cursor<'_>,
    ) -> Result<Option<S::Value>, S::Stop> {
        let Some(size) = cursor.length(compact, string)? else { return Ok(None) };
        if string && size > MAX_STRING {
            return Err(Refused.into());
        }
        let start = *cursor;
        let data = cursor.take(size)?;
        self.sink.blob(place, field, start, data).map(Some)
    }

    fn tagged(
        &mut self,
        steps: &'a StepsOf<S>,
        count: i32,
        made: &mut S::Struct,
        place: S::Place,
        cursor: &mut Cursor<'_>,
    ) -> Result<(), S::Stop> {
        let count = usize::try_from(count).map_err(|_| Refused)?;
        if count > cursor.left().min(MAX_TAGS) {
            return Err(Refused.into());
        }
        let mut last = -1;
        for _ in 0..count {
            let tag = cursor.uvarint()?;
            let size = cursor.uvarint()?;
            if S::ASCENDING && tag <= last {
                return Err(Refused.into());
            }
            last = tag;
            if let Some((_, step)) = steps.tags.iter().find(|(known, _)| *known == tag) {
                // Kafka does not look at the size of a field that it knows.
                self.sink.field(made, &step.field);
                let value = self.step(step, place, cursor)?;
                self.sink.put_tagged(made, &step.field, value);
                continue;
            }
            if steps.foreign_tags.contains(&tag) {
                return Err(Refused.into());
            }
            let data = cursor.take(usize::try_from(size).map_err(|_| Refused)?)?;
            self.sink.put_unknown(made, &steps.own, place, tag, data)?;
        }
        Ok(())
    }
}
