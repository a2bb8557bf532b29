//! `spoke host`: this host among others.

mod access;
mod check;

use std::fmt;
use std::net::Ipv4Addr;
use std::path::Path;
use std::str::FromStr;

use clap::Subcommand;
use cluster::{TokenId, Url};
use engine::Engine;
use model::{Error, HostName, IpNet, Kind, NetworkName, Placement, Result, Timestamp};
use serde::Serialize;

use super::args::CreateArgs;
use super::output::{names, render};
use super::table::Table;
use super::time::rfc3339;
use super::{Answer, HostContext, Output};
use crate::hosts::{self, Ask, HostsView, Me, Reply, Wanted};

/// What this host is called.
const HOSTNAME: &str = "/proc/sys/kernel/hostname";
/// How long a token is worth something unless it is said, in hours.
const HOURS: u32 = 24;
/// A token is worth something for no longer than this, in hours.
const MOST_HOURS: i64 = 24 * 365;
const SECONDS: u32 = 3600;
const NO_IPV6: &str =
    "a network of many hosts has one IPv4 subnet; IPv6 is not supported there yet";

#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(super) enum HostCommand {
    /// Begin a cluster of hosts on an etcd, or add this host to it, and print a token for the next one
    #[command(
        after_help = "All hosts must reach etcd and each other's UDP port 4789. Whoever can write to etcd \
        decides what the hosts do: let only the hosts reach it.

Examples:
  spoke host init --etcd http://192.0.2.1:2379
  spoke host init --etcd http://192.0.2.1:2379 --address 192.0.2.7 --name db1"
    )]
    Init {
        /// A server of etcd (3.4 or later), by an address that all hosts reach; several for one etcd
        #[arg(long = "etcd", value_name = "URL", required = true)]
        etcd: Vec<Url>,
        #[command(flatten)]
        identity: IdentityArgs,
    },
    /// Join the cluster that the token is of
    #[command(after_help = "Examples:\n  spoke host join spoke1-eyJl…")]
    Join {
        /// What `spoke host init` or `spoke host token create` printed on another host
        #[arg(value_name = "TOKEN")]
        token: String,
        #[command(flatten)]
        identity: IdentityArgs,
    },
    /// List the hosts
    #[command(
        visible_alias = "list",
        after_help = "STATE is up, or lost where the host's daemon has not been \
        heard of for 8 seconds. BLOCKS are the addresses that it gives to containers.

Examples:\n  spoke host ls\n  spoke host ls -o json"
    )]
    Ls,
    /// Ask the other hosts over the networks that this one shares with them
    #[command(
        after_help = "Says for each host whether packets of VXLAN arrive and come back, how large they may be, \
        and by how much its clock differs. Says what is wrong and what to do; the exit code is 1 then.

Examples:
  spoke host check
  spoke host check -o json"
    )]
    Check,
    /// Have all hosts change the keys of their tunnels
    #[command(
        after_help = "The keys of encrypted networks. Each host makes a new one, and all change over when they have \
        each other's; no packet is lost. Refused while a host has not finished the last change.

Examples:
  spoke host rotate-keys"
    )]
    RotateKeys,
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
        /// Also another host whose daemon is there
        #[arg(short, long)]
        force: bool,
    },
    /// Make, list and remove tokens, by which hosts join
    #[command(subcommand)]
    Token(TokenCommand),
}

#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(super) enum TokenCommand {
    /// Print a token, by which one host can join
    Create {
        /// For how long it is worth something
        #[arg(long, value_name = "HOURS", default_value_t = HOURS, value_parser = clap::value_parser!(u32).range(1..=MOST_HOURS))]
        hours: u32,
    },
    /// List the tokens that nobody has used; a token itself is shown only once
    #[command(visible_alias = "list")]
    Ls,
    /// Make tokens worth nothing
    Rm {
        /// The tokens, as they are listed
        #[arg(value_name = "ID", required = true, value_parser = token_id)]
        ids: Vec<TokenId>,
    },
}

// Comments that document this type would be taken for the command's own.
#[derive(Debug, clap::Args)]
pub(super) struct IdentityArgs {
    /// What this host is called in the cluster; its own name unless given
    #[arg(long, value_name = "NAME")]
    name: Option<HostName>,
    /// Where the other hosts reach this one; the address from which it reaches etcd unless given
    #[arg(long, value_name = "IP")]
    address: Option<Ipv4Addr>,
    #[command(flatten)]
    access: access::AccessArgs,
}

/// Where a network is to be: `all`, or names between commas.
#[derive(Clone, Debug)]
pub(super) struct Hosts(Placement);

impl FromStr for Hosts {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "all" => Ok(Self(Placement::All)),
            names => names
                .split(',')
                .map(str::parse)
                .collect::<Result<_>>()
                .map(Placement::Hosts)
                .map(Self),
        }
    }
}

impl fmt::Display for Hosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A token that was made.
#[derive(Serialize)]
struct TokenView {
    token: String,
    expires: String,
}

#[derive(Serialize)]
struct TokenRow {
    id: String,
    expires: String,
}

pub(super) fn run(
    command: &HostCommand,
    output: Output,
    host_context: &HostContext,
) -> Result<Answer> {
    let ask = |ask: Ask| hosts::ask(&host_context.runtime, &ask);
    match command {
        HostCommand::Init { etcd, identity } => {
            ask(Ask::Init { etcd: etcd.clone(), me: identity.me()? })?;
            created(ask(Ask::CreateToken { seconds: HOURS * SECONDS })?, output)
        }
        HostCommand::Join { token, identity } => {
            let me = identity.me()?;
            let given = me.name.to_string();
            ask(Ask::Join { token: token.clone(), me })?;
            Ok(Answer::text(names(output, &[given])?))
        }
        HostCommand::Ls => match ask(Ask::Hosts)? {
            Reply::Hosts(view) => list(&view, output),
            other => Err(unexpected(&other)),
        },
        HostCommand::Check => match ask(Ask::Check)? {
            Reply::Checks(checks) => check::answer(&checks, output),
            other => Err(unexpected(&other)),
        },
        HostCommand::RotateKeys => {
            ask(Ask::RotateKeys)?;
            Ok(Answer::default())
        }
        HostCommand::Remove { name, force } => {
            ask(Ask::Remove { name: name.clone(), force: *force })?;
            Ok(Answer::text(names(output, &[name.to_string()])?))
        }
        HostCommand::Token(TokenCommand::Create { hours }) => {
            created(ask(Ask::CreateToken { seconds: hours * SECONDS })?, output)
        }
        HostCommand::Token(TokenCommand::Ls) => match ask(Ask::Tokens)? {
            Reply::Tokens(tokens) => list_tokens(tokens, output),
            other => Err(unexpected(&other)),
        },
        HostCommand::Token(TokenCommand::Rm { ids }) => {
            for id in ids {
                ask(Ask::RemoveToken { id: id.clone() })?;
            }
            let ids: Vec<String> = ids.iter().map(|id| id.as_str().to_owned()).collect();
            Ok(Answer::text(names(output, &ids)?))
        }
    }
}

impl IdentityArgs {
    fn me(&self) -> Result<Me> {
        Ok(Me { name: self.name()?, address: self.address, access: self.access.access()? })
    }

    fn name(&self) -> Result<HostName> {
        if let Some(name) = &self.name {
            return Ok(name.clone());
        }
        let failed = |cause| Error::os(format!("reading {HOSTNAME}"), cause);
        let text = std::fs::read_to_string(Path::new(HOSTNAME)).map_err(failed)?;
        text.trim().parse().map_err(|error: Error| {
            Error::invalid(format!("{error}; say with --name what this host is to be called"))
        })
    }
}

fn created(reply: Reply, output: Output) -> Result<Answer> {
    let Reply::Token { token, expires } = reply else { return Err(unexpected(&reply)) };
    let view = TokenView { token, expires: rfc3339(expires) };
    let text = render(output, &view, || {
        format!(
            "On the next host, before {}:\n\n    spoke host join {}\n\n",
            view.expires, view.token
        )
    })?;
    Ok(Answer::text(text))
}

fn list(view: &HostsView, output: Output) -> Result<Answer> {
    let text = render(output, &view.hosts, || {
        let mut table = Table::new(&["NAME", "ADDRESS", "STATE", "BLOCKS", "CONTAINERS"]);
        for host in &view.hosts {
            let blocks: Vec<String> =
                host.blocks.iter().map(|(network, net)| format!("{network} {net}")).collect();
            let name = if host.own { format!("{} *", host.name) } else { host.name.clone() };
            table.row([
                name,
                host.address.clone(),
                host.state.clone(),
                blocks.join(", "),
                host.containers.to_string(),
            ]);
        }
        table.text()
    })?;
    let mut notes = view.notes.clone();
    notes.extend(view.lost.iter().map(|(since, why)| {
        format!("since {} the cluster is not heard of: {why}", rfc3339(*since))
    }));
    Ok(Answer { text, notes, code: 0 })
}

fn list_tokens(
    tokens: std::collections::BTreeMap<TokenId, Timestamp>,
    output: Output,
) -> Result<Answer> {
    let rows = tokens.into_iter();
    let rows: Vec<TokenRow> = rows
        .map(|(id, expires)| TokenRow { id: id.as_str().to_owned(), expires: rfc3339(expires) })
        .collect();
    let text = render(output, &rows, || {
        let mut table = Table::new(&["ID", "EXPIRES"]);
        for row in &rows {
            table.row([row.id.clone(), row.expires.clone()]);
        }
        table.text()
    })?;
    Ok(Answer::text(text))
}

/// `spoke network create --hosts`.
pub(super) fn create_network(
    wanted: &CreateArgs,
    hosts: &Hosts,
    output: Output,
    host_context: &HostContext,
) -> Result<Answer> {
    if wanted.remote.ipv6 {
        return Err(Error::unsupported(NO_IPV6));
    }
    if let Some(flag) = wanted.flags.besides("mtu") {
        return Err(Error::unsupported(format!(
            "a network of many hosts does not have --{flag} yet"
        )));
    }
    let subnet = match wanted.subnets.as_slice() {
        [] => None,
        [IpNet::V4(subnet)] => Some(*subnet),
        _ => {
            return Err(Error::unsupported(NO_IPV6));
        }
    };
    let name = wanted.name.clone();
    let ask = Wanted {
        name,
        subnet,
        block: wanted.many.block,
        mtu: wanted.flags.spec.mtu,
        hosts: hosts.0.clone(),
        encrypt: wanted.many.encrypt,
    };
    let reply = hosts::ask(&host_context.runtime, &Ask::CreateNetwork(Box::new(ask)))?;
    let Reply::Network { missing, failure, .. } = reply else { return Err(unexpected(&reply)) };
    if let Some(failure) = failure {
        return Err(Error::conflict(format!(
            "network {} is declared for the cluster, and this host cannot have it: {failure}",
            wanted.name
        )));
    }
    let late = missing.iter().map(|host| {
        format!("host {host} does not have network {} yet; see `spoke host ls` there", wanted.name)
    });
    let notes = late.collect();
    Ok(Answer { notes, ..Answer::text(names(output, &[wanted.name.to_string()])?) })
}

/// Removes a network of many hosts; `false` where it is none.
pub(super) fn remove_network(
    engine: &Engine,
    name: &NetworkName,
    host_context: &HostContext,
) -> Result<bool> {
    let mut places = host_context.store.iter().map(|state| hosts::place(state));
    // A host that does not have the network can end it too, once the hosts that had it are gone.
    let is_shared = places.any(|place| {
        hosts::networks(&place).join(name.as_str()).exists()
            || (hosts::is_member(&place) && engine.named(name).is_ok_and(|it| it.is_none()))
    });
    if !is_shared {
        return Ok(false);
    }
    match hosts::ask(&host_context.runtime, &Ask::RemoveNetwork { name: name.clone() }) {
        Ok(_) => Ok(true),
        // Of the cluster no more: what is left of it here is this host's.
        Err(error) if error.kind() == Kind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn token_id(text: &str) -> Result<TokenId, String> {
    TokenId::try_from(text.to_owned()).map_err(|error| error.to_string())
}

fn unexpected(reply: &Reply) -> Error {
    Error::bug(format!("the daemon answered something else: {reply:?}"))
}
