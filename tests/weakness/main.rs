//! What the reference plugins are known to do wrong: each has a test here in which ours does not.
//!
//! A scenario says what is wrong in a world. In ours nothing may be; in that of the reference plugins
//! 1.9 something must be, or the scenario would prove nothing.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod bed;
mod del;
mod each;
mod files;
mod loopback;
mod moved;
mod open_router;
mod orphans;
mod painful;
mod protocol;
mod routers;
mod several;
