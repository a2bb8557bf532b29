//! OpenStack Neutron behind the engine's ports: containers are ports of its networks.

pub mod api;
mod auth;
pub mod config;
pub mod contract;
pub mod extension;
mod http;
mod neutron;
pub mod ovsdb;
pub mod plug;
pub mod stock;

pub use neutron::Neutron;
