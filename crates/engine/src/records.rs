//! The records of the store: typed reading, and the conditions under which a record may change.

mod bind;
pub(crate) mod book;
mod described;
pub(crate) mod endpoint;
pub(crate) mod neighbours;
pub(crate) mod network;
mod orphan;
mod replace;
pub(crate) mod reservation;
mod returning;
pub(crate) mod stage;
pub(crate) mod title;
mod view;
mod way;
pub(crate) mod whose;

use crate::port::{Host, Store};
use crate::service::service;

service! {
    /// Reads records, and replaces one where it is unchanged.
    pub struct Records<'a> { store: Store, host: Host }
    over {}
}
