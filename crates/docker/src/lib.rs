//! Front end: Docker. A remote network driver and a remote IPAM driver of libnetwork.
//!
//! Requests become typed calls in [`libnetwork`], once and nowhere else. [`server`] reads them from
//! sockets, passes them to a synchronous [`server::Plugin`], and sends the answers. [`driver`] is
//! that plugin: it turns each call into the engine's verbs. [`kuryr`] is another one, whose
//! networks are a cloud's. [`reconcile`] asks the engines through their [`api`] what they still
//! list, and frees what they did not release.

pub mod api;
pub mod driver;
mod ipam;
pub mod kuryr;
pub mod reconcile;
pub mod server;
