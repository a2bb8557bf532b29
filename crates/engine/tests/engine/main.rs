//! The engine over a store and a dataplane in memory.

#![allow(clippy::unwrap_used)]

mod alias;
mod cloud;
mod common;
mod default_gateway;
mod default_gateway_crash;
mod default_gateway_ports;
mod described;
mod endpoint;
mod endpoint_crash;
mod endpoint_others;
mod endpoint_ports;
mod endpoint_world;
mod fence;
mod follow;
mod heal;
mod kept;
mod kept_crash;
mod life;
mod naming;
mod overtaken;
mod plugin_networks;
mod plugin_world;
mod provision;
mod published;
mod quota;
mod races;
mod returning;
mod segment;
mod settings;
mod several;
mod subnet;
mod subnet_address;
mod subnet_many;
mod subnet_rig;
mod title;
mod unlisted;
