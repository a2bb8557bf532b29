//! OpenStack Neutron behind the engine's ports: containers are ports of its networks.

pub mod api;
mod auth;
mod cloud;
pub mod config;
pub mod contract;
mod deadline;
mod expose;
mod extension;
mod files;
mod handed;
mod http;
pub mod naming;
mod nested;
mod neutron;
pub mod ovsdb;
mod pause;
pub mod plug;
pub mod port;
pub mod reconcile;
pub mod stock;
pub mod watch;

pub use neutron::Neutron;
