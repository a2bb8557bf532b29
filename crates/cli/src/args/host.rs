//! The arguments of `spoke host`.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::Subcommand;
use cluster::{TokenId, Url};
use model::{Error, HostName, Label, Result};

/// How long a token is valid unless it is said, in hours.
pub(crate) const HOURS: u32 = 24;
/// No token is valid for longer than this, in hours.
const MOST_HOURS: i64 = 24 * 365;

#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum HostCommand {
    /// Begin a cluster of hosts, and print a token for the next one
    #[command(
        after_help = "This host runs the cluster's etcd, with the program of the distribution (Debian: \
        etcd-server); as soon as there are three hosts, three of them do. It begins a new cluster each time: a host \
        that was a member joins again with `spoke host join`. With --etcd the cluster is started \
        on an etcd that is there, or this host added to it; let only the hosts reach that. All hosts must \
        reach each other's UDP port 4789 (51820 and 51821 for encrypted networks), and TCP ports 23790, 23800 and \
        23810 of those that run etcd.

Examples:
  spoke host init
  spoke host init --etcd http://192.0.2.1:2379
  spoke host init --etcd http://192.0.2.1:2379 --address 192.0.2.7 --name db1"
    )]
    Init {
        /// A server of an etcd that is there (3.4 or later), by an address that all hosts reach; several for
        /// one etcd
        #[arg(long = "etcd", value_name = "URL")]
        etcd: Vec<Url>,
        #[command(flatten)]
        identity: IdentityArgs,
    },
    /// Join the cluster that the token is of
    #[command(
        after_help = "Every user of this host can read arguments, and the shell keeps them: with - the \
        token is read from standard input.

Examples:
  spoke host join spoke1-eyJl…
  spoke host join - < token"
    )]
    Join {
        /// What `spoke host init` or `spoke host token create` printed on another host; - for standard input
        #[arg(value_name = "TOKEN")]
        token: String,
        #[command(flatten)]
        identity: IdentityArgs,
    },
    /// List the hosts
    #[command(
        visible_alias = "list",
        after_help = "STATE is up, draining where the host takes no more containers, or lost where its daemon has \
        not been heard of for 8 seconds. BLOCKS are the addresses that it gives to containers.

Examples:\n  spoke host ls\n  spoke host ls -o json"
    )]
    Ls,
    /// Ask the other hosts over the networks that this one shares with them
    #[command(
        after_help = "Says for each host, and each network that it shares with this one, whether packets arrive \
        and come back, how large they may be, and by how much the host's clock differs (by IPv4). Says what is wrong \
        and what to do; the exit code is 1 then. At most 512 pairs of a host and a network are checked, the first network \
        of each host before the second.

Examples:
  spoke host check
  spoke host check -o json"
    )]
    Check,
    /// Let a host take no more containers on networks of the cluster
    #[command(
        after_help = "This host unless one is named. Its containers stay until they are stopped; new ones, also \
        restarted ones, are refused there by every runtime, and can be started on another host. Before a host is \
        removed, or its kernel updated.

Examples:
  spoke host drain
  spoke host drain --undo db1"
    )]
    Drain {
        /// The host
        #[arg(value_name = "HOST")]
        name: Option<HostName>,
        /// Let it take containers again
        #[arg(long)]
        undo: bool,
    },
    /// Give a host labels, by which networks choose their hosts
    #[command(
        after_help = "`spoke network create --hosts zone=eu` makes a network on all hosts with this label, also on \
        those that get it later.

Examples:
  spoke host label db1 zone=eu disk=ssd
  spoke host label db1 --remove disk"
    )]
    Label {
        /// The host
        #[arg(value_name = "HOST")]
        name: HostName,
        /// What it gets; a label that it has is changed
        #[arg(value_name = "KEY=VALUE", required_unless_present = "remove", value_parser = label)]
        labels: Vec<Label>,
        /// A label that it has no more
        #[arg(long, value_name = "KEY")]
        remove: Vec<String>,
    },
    /// Measure how long the other hosts take to answer
    #[command(
        after_help = "HOST is the way between the hosts' own addresses, OVERLAY that of the network: the \
        difference is what VXLAN costs. Each is the least of a few echoes; - where none came back.

Examples:
  spoke host rtt
  spoke host rtt -o json"
    )]
    Rtt,
    /// List which host has which addresses, also for routers
    #[command(
        after_help = "With -o frr or -o bird the list is written as static routes for FRR or BIRD on a router that is \
        on the segment of the hosts. A routed network (`spoke network create --transport route`) takes from others \
        than its hosts only what is published, and answers. A router reaches IPv6 addresses of routed networks only, \
        by its device of the same name as this host's.

Examples:
  spoke host routes
  spoke host routes -o frr
  spoke host routes -o bird"
    )]
    Routes,
    /// Have all hosts change the keys of their tunnels
    #[command(
        after_help = "The keys of encrypted networks. Each host makes a new one, and all change over when they have \
        each other's; no packet is lost. Refused while a host has not finished the last change.

Examples:
  spoke host rotate-keys"
    )]
    RotateKeys,
    /// Show and change the authority that signs the hosts' certificates
    #[command(subcommand)]
    Ca(CaCommand),
    /// Take the state of an etcd that was restored from a backup as it is
    #[command(
        after_help = "A host does nothing with an older state of the cluster than it has heard of, also after a restart \
        of its daemon, and `spoke host ls` says so. With this it does, on this host alone: networks and addresses that the \
        state does not have are not reached from other hosts, and a host that it does not have leaves the cluster. \
        Better restore a later backup, where there is one.

Examples:
  spoke host accept-older"
    )]
    AcceptOlder,
    /// Take a host out of the cluster, with its addresses
    #[command(
        after_help = "Of the host itself, or of one that is lost for good. A host that is there notices it, \
        and its containers reach those of other hosts no more.

Examples:\n  spoke host remove db1\n  spoke host remove --force db1"
    )]
    Remove {
        /// The host
        #[arg(value_name = "HOST")]
        name: HostName,
        /// Also remove another host that is up; or this one where the cluster does not let it in any more
        #[arg(short, long)]
        force: bool,
    },
    /// Make, list and remove tokens, by which hosts join
    #[command(subcommand)]
    Token(TokenCommand),
}

#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum CaCommand {
    /// Change the authority, and all certificates with it
    #[command(
        after_help = "Run it on a host with a server of the cluster's etcd. Every host comes to trust the new authority \
        (phase trust), then gets a certificate of it (sign), then ceases to trust the old one (drop); each phase waits until \
        every host has confirmed the one before. Traffic is not touched; etcd's servers restart one after another. \
        `spoke host ca ls` says how far it is, and which hosts it waits for. Before drop no token is made and no host joins. Tokens \
        that were made before are refused from sign on. It is refused while a host runs 0.1.0, which cannot do it.

A host that is lost holds it up. With --without, also while it goes on, it is not waited for: it has to be removed, and to \
join again. To keep out a host that may know the authority's key, remove it first.

Examples:
  spoke host ca rotate
  spoke host ca rotate --without db1"
    )]
    Rotate {
        /// A host that is lost and not waited for; it has to join again. May be given several times
        #[arg(long, value_name = "HOST")]
        without: Vec<HostName>,
    },
    /// Show the authority, and how far a change of it is
    #[command(
        visible_alias = "list",
        after_help = "ISSUER is the authority that has signed the host's certificate, TRUSTS those that it believes. STATE is \
        `ready` where the host has done what the phase asks for, `waited for` or `lost` where the change waits for it, and \
        `left out` after --without.

Examples:
  spoke host ca ls
  spoke host ca ls -o json"
    )]
    Ls,
    /// Give a change up while no host has a certificate of the new authority
    #[command(
        after_help = "Only in the phase trust, as `spoke host ca ls` shows it: later it has to go on. The hosts cease to trust the \
        new authority, and forget its key; another change begins once all have. Tokens that were made before it stay good.

Examples:
  spoke host ca abandon"
    )]
    Abandon,
}

#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum TokenCommand {
    /// Print a token, by which one host can join
    Create {
        /// How long the token is valid, in hours
        #[arg(long, value_name = "HOURS", default_value_t = HOURS, value_parser = clap::value_parser!(u32).range(1..=MOST_HOURS))]
        hours: u32,
    },
    /// List the tokens that no host has used; a token itself is shown only once
    #[command(visible_alias = "list")]
    Ls,
    /// Revoke tokens
    Rm {
        /// The tokens, as they are listed
        #[arg(value_name = "ID", required = true, value_parser = token_id)]
        ids: Vec<TokenId>,
    },
}

// Comments that document this type would be taken for the command's own.
#[derive(Debug, clap::Args)]
pub(crate) struct IdentityArgs {
    /// What this host is called in the cluster; its own name unless given
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<HostName>,
    /// Where the other hosts reach this one; the address from which it reaches etcd, or other
    /// networks, unless given
    #[arg(long, value_name = "IP")]
    pub(crate) address: Option<IpAddr>,
    #[command(flatten)]
    pub(crate) access: AccessArgs,
}

// Comments that document this type would be taken for the command's own.
#[derive(Debug, clap::Args)]
pub(crate) struct AccessArgs {
    /// The authorities of etcd's certificate, in PEM; those of this host unless given
    #[arg(long, value_name = "FILE")]
    pub(crate) etcd_ca: Option<PathBuf>,
    /// The certificate of this host for etcd, in PEM
    #[arg(long, value_name = "FILE", requires = "etcd_key")]
    pub(crate) etcd_cert: Option<PathBuf>,
    /// Its key, in PEM
    #[arg(long, value_name = "FILE", requires = "etcd_cert")]
    pub(crate) etcd_key: Option<PathBuf>,
    /// The user of etcd
    #[arg(long, value_name = "NAME", requires = "etcd_password")]
    pub(crate) etcd_user: Option<String>,
    /// A file with the user's password
    #[arg(long, value_name = "FILE", requires = "etcd_user")]
    pub(crate) etcd_password: Option<PathBuf>,
}

/// Without a value it would take the one that is there.
fn label(text: &str) -> Result<Label> {
    match text.contains('=') {
        true => text.parse(),
        false => Err(Error::invalid(format!(
            "'{}' is no label: a label is KEY=VALUE",
            model::text::shown(text)
        ))),
    }
}

fn token_id(text: &str) -> Result<TokenId, String> {
    TokenId::try_from(text.to_owned()).map_err(|error| error.to_string())
}
