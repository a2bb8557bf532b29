//! Published ports obey the host's own firewall, as if programs of the host listened at them.
//!
//! ufw and firewalld judge what is delivered to this host. What is led to a container is forwarded, and
//! passes them by. [`read`] reads what they do with a new connection to a port of the host: of ufw from its
//! files, which it writes before it changes the kernel; of firewalld from its table. [`keep`] makes a table
//! of Spoke's that does the same with connections to published ports, by the port and address that the
//! client called. Its chains come before those of `inet spoke`, which restrict further.
//!
//! What cannot be understood never opens a port: a rule that accepts is left out, one that refuses holds
//! without the condition, and where nothing can be read everything is refused ([`State::Unknown`]).

mod behind;
mod firewalld;
mod option;
mod rules;
mod services;
mod shut;
mod table;
mod ufw;

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use model::{Error, Result};
use netlink::Socket;
use serde::{Deserialize, Serialize};

pub(crate) use self::behind::{forget_behind, reach_behind};
pub use self::rules::{Arrival, Chains, Outcome};
pub use self::shut::{SHUT, is_shut, open, shut};
pub use self::table::{TABLE, is_kept, is_loaded, keep, unload};
pub use self::ufw::{SETTINGS as UFW_SETTINGS, refuses_input, ufw_is_loaded};

/// A firewall that is obeyed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum Followed {
    Ufw,
    Firewalld,
}

impl fmt::Display for Followed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ufw => "ufw",
            Self::Firewalld => "firewalld",
        })
    }
}

impl FromStr for Followed {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "ufw" => Ok(Self::Ufw),
            "firewalld" => Ok(Self::Firewalld),
            _ => Err(Error::invalid("a firewall is ufw or firewalld")),
        }
    }
}

/// Whether a firewall judges.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// By these rules.
    On,
    /// It is switched off: the host's own ports are open, and so are published ones.
    Off,
    /// It cannot be known, and why.
    Unknown(String),
}

/// What a firewall does with new connections to this host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judgement {
    /// Which.
    pub by: Followed,
    /// Whether it does.
    pub state: State,
    /// With IPv4.
    pub v4: Chains,
    /// With IPv6.
    pub v6: Chains,
    /// Rules that are not understood, and what holds in their place.
    pub notes: Vec<String>,
}

impl Judgement {
    /// One that refuses everything.
    pub fn unknown(by: Followed, why: String) -> Self {
        let state = State::Unknown(why);
        Self { by, state, v4: Chains::refusing(), v6: Chains::refusing(), notes: Vec::new() }
    }

    /// One that refuses nothing.
    fn off(by: Followed) -> Self {
        let open = Chains::accepting();
        Self { by, state: State::Off, v4: open.clone(), v6: open, notes: Vec::new() }
    }
}

/// Reads what the firewall does; `root` is where its files are. Without firewalld's table there is nothing
/// to read, which is [`State::Unknown`]: its last rules are the caller's to keep.
///
/// # Errors
/// Where the kernel cannot be asked.
pub fn read(followed: Followed, root: &Path, socket: &mut Socket) -> Result<Judgement> {
    match followed {
        Followed::Ufw => Ok(ufw::read(root)),
        Followed::Firewalld => firewalld::read(socket),
    }
}

/// Whether firewalld is in panic mode: it drops everything then, also what goes to published ports.
///
/// # Errors
/// Where the kernel cannot be asked.
pub fn is_in_panic(socket: &mut Socket) -> Result<bool> {
    crate::firewalld::is_in_panic(socket)
}

/// Whether firewalld runs, as the system's bus says; where its table is not there, its rules were flushed.
pub fn firewalld_runs() -> bool {
    crate::firewalld::runs()
}

/// Whether the firewall is there: ufw by its files, firewalld by its table.
///
/// # Errors
/// Where the kernel cannot be asked.
pub fn is_there(followed: Followed, root: &Path, socket: &mut Socket) -> Result<bool> {
    match followed {
        Followed::Ufw => Ok(ufw::is_installed(root)),
        Followed::Firewalld => firewalld::is_loaded(socket),
    }
}
