//! One error type: a [`Kind`] to branch on, a sentence to show.

use std::error::Error as StdError;
use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;

use crate::{Device, IfName, Mac, Route};

/// The result of everything that can fail in Spoke.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The kinds that a front end branches on. Each front end maps every kind once, in one exhaustive
/// match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The configuration or a parameter is wrong; the same call will fail again.
    Invalid,
    /// An option, verb or version that Spoke lacks.
    Unsupported,
    /// The network or container is unknown. Never returned by a deletion.
    NotFound,
    /// An address, a port or a name is taken; the sentence names the holder.
    Conflict,
    /// The pool is full.
    Exhausted,
    /// Busy, unreachable, or a race was lost: the same call may succeed later.
    TryAgain,
    /// The caller lacks a permission (EPERM, EACCES).
    Denied,
    /// The kernel refused for another reason; the sentence carries its own message.
    Kernel,
    /// An invariant of Spoke itself is broken.
    Bug,
}

/// A sentence that says what failed, on which object, and what to do.
#[derive(Debug)]
pub struct Error {
    kind: Kind,
    what: String,
    source: Option<Box<dyn StdError + Send + Sync>>,
    status: Option<u16>,
    fact: Option<Box<Fact>>,
}

impl Error {
    /// An error of `kind` with its sentence.
    pub fn new(kind: Kind, what: impl Into<String>) -> Self {
        Self { kind, what: what.into(), source: None, status: None, fact: None }
    }

    /// [`Kind::Invalid`].
    pub fn invalid(what: impl Into<String>) -> Self {
        Self::new(Kind::Invalid, what)
    }

    /// [`Kind::Unsupported`].
    pub fn unsupported(what: impl Into<String>) -> Self {
        Self::new(Kind::Unsupported, what)
    }

    /// [`Kind::NotFound`].
    pub fn not_found(what: impl Into<String>) -> Self {
        Self::new(Kind::NotFound, what)
    }

    /// [`Kind::Conflict`].
    pub fn conflict(what: impl Into<String>) -> Self {
        Self::new(Kind::Conflict, what)
    }

    /// [`Kind::Exhausted`].
    pub fn exhausted(what: impl Into<String>) -> Self {
        Self::new(Kind::Exhausted, what)
    }

    /// [`Kind::TryAgain`].
    pub fn try_again(what: impl Into<String>) -> Self {
        Self::new(Kind::TryAgain, what)
    }

    /// [`Kind::Bug`].
    pub fn bug(what: impl Into<String>) -> Self {
        Self::new(Kind::Bug, what)
    }

    /// An operating-system error of doing `what`: permissions are [`Kind::Denied`], the rest
    /// [`Kind::Kernel`].
    pub fn os(what: impl Into<String>, source: std::io::Error) -> Self {
        let kind = match source.kind() {
            std::io::ErrorKind::PermissionDenied => Kind::Denied,
            _ => Kind::Kernel,
        };
        Self { kind, what: what.into(), source: Some(Box::new(source)), status: None, fact: None }
    }

    /// Adds the cause; it is shown after the sentence.
    #[must_use]
    pub fn because(mut self, source: impl StdError + Send + Sync + 'static) -> Self {
        self.source = Some(Box::new(source));
        self
    }

    /// Puts what was being done in front of the sentence, keeping kind and cause.
    #[must_use]
    pub fn context(mut self, doing: impl fmt::Display) -> Self {
        self.what = format!("{doing}: {}", self.what);
        if let Some(Fact::Words(words)) = self.fact.as_deref_mut() {
            *words = format!("{doing}: {words}");
        }
        self
    }

    /// Adds a fact, for front ends whose messages have a prescribed form.
    #[must_use]
    pub fn about(mut self, fact: Fact) -> Self {
        self.fact = Some(Box::new(fact));
        self
    }

    /// The fact that was added, if one was.
    pub fn fact(&self) -> Option<&Fact> {
        self.fact.as_deref()
    }

    /// Remembers the HTTP status with which a service that we called refused.
    #[must_use]
    pub fn with_status(mut self, status: u16) -> Self {
        self.status = Some(status);
        self
    }

    /// The HTTP status with which a service that we called refused, if one did.
    pub fn status(&self) -> Option<u16> {
        self.status
    }

    /// The kind of the error.
    pub fn kind(&self) -> Kind {
        self.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        match &self.source {
            Some(source) => write!(f, ": {source}"),
            None => Ok(()),
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_ref().map(|source| source.as_ref() as &(dyn StdError + 'static))
    }
}

/// The fact behind an error, apart from any sentence, for front ends whose messages have a prescribed form: programs
/// compare the messages of the CNI reference plugins.
#[derive(Clone, Debug, PartialEq)]
pub enum Fact {
    /// Exactly these words are expected, after what was being done.
    Words(String),
    /// Exactly these words are expected, whatever was being done.
    Whole(String),
    /// The attachment exists already.
    Attached {
        /// Its first address from a range set.
        first: Option<IpAddr>,
        /// The requested address of a range set, and the set's ranges.
        wanted: Option<RequestedAddress>,
        /// The host's end, where it is a pair.
        peer: Option<IfName>,
    },
    /// A requested address has another holder.
    Held(RequestedAddress),
    /// A range set has no free address.
    Full {
        /// Which set.
        index: u8,
        /// Its ranges.
        ranges: String,
    },
    /// The name of an interface to be made is taken. Of a pair, with the other end's.
    NameTaken(Option<IfName>),
    /// An interface is gone.
    NoInterface(IfName),
    /// An interface has another hardware address.
    OtherMac {
        /// The interface.
        name: IfName,
        /// The hardware address that it has.
        is: Mac,
        /// The hardware address that it should have.
        wanted: Mac,
    },
    /// An interface lacks an address.
    NoAddress {
        /// The interface.
        name: IfName,
        /// The address.
        address: IpNet,
    },
    /// A route is gone.
    NoRoute(Route),
    /// An interface is of another kind.
    OtherKind(IfName),
    /// An interface is down.
    Down(IfName),
    /// An interface works in another mode.
    OtherMode {
        /// In which it does.
        is: String,
        /// In which it should.
        wanted: String,
    },
    /// A bridge does not take every frame.
    NotPromiscuous(IfName),
    /// A bridge does not have the container's port.
    NoPort(IfName),
    /// A rule of the packet filter is gone.
    NoRule {
        /// The chain.
        chain: String,
        /// The rule's words, as `iptables-save` writes them.
        rule: String,
    },
    /// The parent of an interface is gone.
    NoParent,
    /// The host has no such device.
    NoDevice(Device),
    /// A device does not leave its namespace.
    StaysHere(IfName),
}

/// An address that was asked for by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestedAddress {
    /// The address.
    pub address: IpAddr,
    /// Which range set it is of.
    pub index: u8,
    /// The set's ranges.
    pub ranges: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_sentence_then_cause() {
        let cause = std::io::Error::from_raw_os_error(13);
        let error = Error::os("opening /run/spoke", cause).context("ADD");
        assert_eq!(error.kind(), Kind::Denied);
        assert!(error.to_string().starts_with("ADD: opening /run/spoke: Permission denied"));
    }
}
