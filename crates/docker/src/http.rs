//! HTTP/1.1 from the client's side: one request at a time, its answer read within bounds and until a
//! point in time.

mod body;
mod head;
mod timed;

pub(crate) use body::{Body, Framing};
pub(crate) use head::Head;
pub(crate) use timed::{Timed, connect_unix};
