//! Third-party plugins, as we call them: our own server's, and broken ones.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic, reason = "tests")]

mod dead;
mod found;
mod hostile;
mod kept;
mod noted;
mod scripted;
mod served;
