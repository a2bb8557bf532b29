//! Processes that die in the middle: at every system call, overtaken by others, on a disk that
//! takes nothing more, and with the whole host. What they began is adopted or removed, never left.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod bed;
mod damaged;
mod disk;
mod killed;
mod overtaken;
mod ovs;
mod plugins;
mod reboot;
mod rival;
mod sends;
