//! Names that a fence refused.

use std::net::IpAddr;

use model::NetworkName;

/// A name that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// On which network.
    pub network: NetworkName,
    /// Whose query it was, by its address there.
    pub source: IpAddr,
    /// The name, as it was asked for.
    pub name: String,
    /// Why.
    pub why: Why,
}

/// Why a name, or an address of it, was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// No rule allows it.
    NoRule,
    /// No rule does, and the fence only records.
    Learned,
    /// It leads to an address that is not a public name's, and that no rule allows.
    Private(IpAddr),
    /// It could not be opened.
    NotOpened,
}
