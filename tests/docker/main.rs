//! Real Docker Engines, each in a world of its own.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod bed;
mod beside;
mod coexist;
mod fixture;
mod foreign;
mod held;
mod image;
mod interfaces;
mod ipam;
mod lan;
mod lan_segment;
mod later;
mod life;
mod lost;
mod lost_calls;
mod lost_engine;
mod lost_leak;
mod lost_locked;
mod lost_removal;
mod managed;
mod neighbours;
mod options;
mod ovs;
mod plugin;
mod ports;
mod swarm;
mod tenant;
mod together;
mod together_clash;
mod watch;
