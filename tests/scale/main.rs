//! Many at once, many altogether, and too many; and whatever else is refused.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod crowd;
mod limits;
mod refused;
