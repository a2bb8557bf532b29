//! Neutron's API (v2.0), as far as it is needed: typed resources, typed calls.
//!
//! Who carries a request to the server, with which token and how often, is the [`Transport`]'s.

mod call;
mod decode;
mod group;
mod network;
mod port;
mod trunk;

use std::time::Instant;

use model::{ResourceId, Result};
use serde_json::Value;

pub use call::Api;
pub use group::{
    Direction, FloatingIp, NewFloatingIp, NewGroup, NewRule, RuleResource, SecurityGroup,
};
pub use network::{
    AllocationPool, HostRoute, NetworkResource, NewNetwork, NewPool, NewSubnet, SubnetPool,
    SubnetResource,
};
pub use port::{FixedIp, NewPort, Pair, PortChange, PortResource, Profile};
pub use trunk::{SubPort, Trunk};

/// How a request is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verb {
    /// Reads; may be repeated by the transport.
    Get,
    /// Makes; repeated by the transport once it may have arrived only where the server says that it is
    /// busy, and nothing of what it makes is found ([`Request::find`]).
    Post,
    /// Changes; may be repeated by the transport.
    Put,
    /// Removes; may be repeated by the transport, which takes "not found" for an answer.
    Delete,
}

impl Verb {
    /// The method of HTTP.
    pub fn as_str(self) -> &'static str {
        match self {
            Verb::Get => "GET",
            Verb::Post => "POST",
            Verb::Put => "PUT",
            Verb::Delete => "DELETE",
        }
    }
}

/// One request.
#[derive(Clone, Debug, PartialEq)]
pub struct Request<'a> {
    /// How.
    pub verb: Verb,
    /// Below the endpoint, without a slash in front: `v2.0/ports/ID`.
    pub path: &'a str,
    /// Keys and values, not escaped yet.
    pub query: &'a [(&'a str, String)],
    /// The body.
    pub body: Option<Value>,
    /// Only while the resource has this revision (`If-Match`).
    pub revision: Option<u64>,
    /// The query that finds the result of a POST, if there is one. It is used where the server says
    /// that it is busy, and the effect of the request is unknown.
    pub find: Option<&'a [(&'a str, String)]>,
    /// By when it has to be answered.
    pub until: Option<Instant>,
}

impl<'a> Request<'a> {
    /// One without anything else.
    pub fn of(verb: Verb, path: &'a str) -> Self {
        Self { verb, path, query: &[], body: None, revision: None, find: None, until: None }
    }
}

/// The transport of requests to Neutron.
///
/// # Errors
/// A refusal has the kind of its status, the status itself ([`model::Error::status`]) and Neutron's
/// request id in its sentence: 400 `Invalid`, 401 and 403 `Denied`, 404 `NotFound`, 409 `Conflict`
/// (an exhausted pool or quota: `Exhausted`), 412 and 429 and 5xx `TryAgain`. Without an answer,
/// `TryAgain` with the request.
pub trait Transport: Send + Sync {
    /// Carries it there; the answer's body, `null` where it has none.
    fn carry(&self, request: &Request<'_>) -> Result<Value>;

    /// The id of the project that things are made in, where that is known.
    fn project(&self) -> Result<Option<String>> {
        Ok(None)
    }
}

/// The resources that can have tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tagged {
    /// `networks`
    Networks,
    /// `subnets`
    Subnets,
    /// `subnetpools`
    Pools,
    /// `ports`
    Ports,
}

impl Tagged {
    /// The collection's name in a path.
    pub fn path(self) -> &'static str {
        match self {
            Tagged::Networks => "networks",
            Tagged::Subnets => "subnets",
            Tagged::Pools => "subnetpools",
            Tagged::Ports => "ports",
        }
    }
}

/// A filter of a list: `("name", "front")`. Several are all to hold; `tags` takes several tags with
/// commas between them.
pub type Filter<'a> = &'a [(&'a str, String)];

/// Of which resource a change is.
pub type Of<'a> = &'a ResourceId;

/// A change of a resource: one that is gone needs none.
pub(crate) fn gone_is_done(done: Result<()>) -> Result<()> {
    match done {
        Err(error) if error.status() == Some(404) => Ok(()),
        done => done,
    }
}
