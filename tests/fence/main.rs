//! The fence of a network: what gets out, and what does not.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod answers;
mod apart;
mod bed;
mod begun;
mod begun_related;
mod begun_strict;
mod ended;
mod escapes;
mod flow;
mod forged;
mod learned;
mod life;
mod neighbours;
mod order;
mod outside;
mod own;
mod refusals;
mod restarts;
mod rows;
mod runtimes;
mod strict;
mod unknown;
mod unread;
