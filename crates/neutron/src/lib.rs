//! OpenStack Neutron behind the engine's ports: containers are ports of its networks.

pub mod api;
pub mod config;
pub mod contract;
mod neutron;
pub mod stock;

pub use neutron::Neutron;
