//! OpenStack Neutron behind the engine's ports: containers are ports of its networks.

mod allocated;
mod answer_cache;
pub mod api;
mod auth;
mod cloud;
pub mod config;
pub mod contract;
mod deadline;
mod exchange;
mod expose;
pub mod facts;
mod files;
mod http;
mod nested;
mod neutron;
pub mod notifier;
pub mod ovsdb;
mod pause;
pub mod plug;
mod pool_memory;
pub mod port;
mod port_statuses;
pub mod port_update;
pub mod reconcile;
pub mod stock;
pub mod stock_key;
pub mod watch;

pub use neutron::Neutron;
