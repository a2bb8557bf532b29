//! The reconciler over the real engine and a store in memory, beside an engine's API that says what
//! a test wants it to say.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod api;
mod fake;
mod naming;
mod repair;
#[allow(dead_code, reason = "the front end's tests need more of it")]
#[path = "../driver/rig.rs"]
mod rig;
mod scene;
