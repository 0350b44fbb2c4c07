//! An exchange: a request with its response. `exchange_rows` makes rows of it.

use std::borrow::Cow;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::stream::Moment;
use crate::json::names::{Named, Names};
use crate::json::Counts;

/// What all rows of a connection have in common: Python's `(number, client, broker)`, and the same as JSON, the file's
/// name included: `"file":...,"broker":"..."`.
pub struct Endpoints {
    pub row: Py<PyAny>,
    pub number: i64,
    pub client: String,
    pub broker: String,
    pub json: Vec<u8>,
}

pub struct Api {
    pub key: i16,
    pub name: String,
    /// Whether the selection wants its exchanges.
    pub selected: bool,
}

/// A request's content.
pub enum RequestContent {
    /// No request, or a token.
    Nothing,
    Read {
        api: Arc<Api>,
        version: i16,
        correlation_id: i32,
        client_id: Option<Arc<str>>,
        body: Option<Vec<u8>>,
        names: Names,
    },
    /// A `DecodedRequest`.
    Python(Py<PyAny>),
}

/// A response's content.
pub enum ResponseContent {
    Nothing,
    Read {
        errors: Counts,
        body: Option<Vec<u8>>,
        names: Names,
    },
    /// A `DecodedResponse`.
    Python(Py<PyAny>),
}

/// Where a frame begins, and its size. A problem of a connection has no size.
pub struct FramePlace {
    pub at: Moment,
    pub size: Option<i64>,
}

/// `correlation_id`: of a response without its request. `frames`: if they are kept.
pub struct Exchange {
    pub ends: Option<Arc<Endpoints>>,
    pub asked: RequestContent,
    pub request: Option<FramePlace>,
    pub answered: ResponseContent,
    pub response: Option<FramePlace>,
    pub correlation_id: Option<i32>,
    pub problem: Option<Cow<'static, str>>,
    pub frames: [Option<Py<PyBytes>>; 2],
}

impl Exchange {
    pub fn new(ends: Option<Arc<Endpoints>>) -> Box<Self> {
        Box::new(Exchange {
            ends,
            asked: RequestContent::Nothing,
            request: None,
            answered: ResponseContent::Nothing,
            response: None,
            correlation_id: None,
            problem: None,
            frames: [None, None],
        })
    }

    /// Whether Python has read the request or the response.
    pub fn is_python(&self) -> bool {
        matches!(self.asked, RequestContent::Python(_)) || matches!(self.answered, ResponseContent::Python(_))
    }

    /// What was named in the parts that were read here.
    pub fn names(&self) -> Names {
        self.each_name().cloned().collect()
    }

    pub fn each_name(&self) -> impl Iterator<Item = &(Named, Vec<u8>)> {
        let asked = match &self.asked {
            RequestContent::Read { names, .. } => &names[..],
            _ => &[],
        };
        let answered = match &self.answered {
            ResponseContent::Read { names, .. } => &names[..],
            _ => &[],
        };
        asked.iter().chain(answered)
    }

    pub fn time_ns(&self) -> Option<i64> {
        self.request.as_ref().map(|place| place.at.1)
    }

    pub fn response_time_ns(&self) -> Option<i64> {
        self.response.as_ref().map(|place| place.at.1)
    }

    /// Bytes of both bodies as JSON, which decoded records make large.
    pub fn text_size(&self) -> i64 {
        let asked = match &self.asked {
            RequestContent::Read { body, .. } => body.as_ref(),
            _ => None,
        };
        let answered = match &self.answered {
            ResponseContent::Read { body, .. } => body.as_ref(),
            _ => None,
        };
        [asked, answered].into_iter().flatten().map(|body| body.capacity() as i64).sum()
    }

    /// Bytes of both frames.
    pub fn size(&self) -> i64 {
        [&self.request, &self.response].into_iter().flatten().filter_map(|place| place.size).sum()
    }
}
