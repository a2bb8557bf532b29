//! `spoke host`: this host among others.

mod access;
mod ca;
mod check;
mod network;
mod routes;
mod rtt;

use std::io::Read;
use std::net::IpAddr;
use std::path::Path;

use clap::Subcommand;
use cluster::{TokenId, Url};
use host::hosts::{self, Ask, HostsView, Me, Reply};
use host::time::rfc3339;
use model::{Error, HostName, Label, Labels, Result, Timestamp};
use serde::Serialize;

use super::output::{names, render};
use super::table::Table;
use super::{Answer, HostContext, Output};
pub(super) use network::{create_network, is_shared, remove_network};

/// What this host is called.
const HOSTNAME: &str = "/proc/sys/kernel/hostname";
/// How long a token is worth something unless it is said, in hours.
const HOURS: u32 = 24;
/// A token is worth something for no longer than this, in hours.
const MOST_HOURS: i64 = 24 * 365;
const SECONDS: u32 = 3600;
/// More is not read of standard input, in bytes: a longer token is none.
const LONGEST_TOKEN: u64 = 8 << 10;

#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(super) enum HostCommand {
    /// Begin a cluster of hosts, and print a token for the next one
    #[command(
        after_help = "This host runs the cluster's etcd, with the program of the distribution (Debian: \
        etcd-server); as soon as there are three hosts, three of them do. It begins a new cluster each time: a host \
        that was a member joins again with `spoke host join`. With --etcd the cluster is started \
        on an etcd that is there, or this host added to it; let only the hosts reach that. All hosts must \
        reach each other's UDP port 4789, and TCP ports 23790, 23800 and 23810 of those that run etcd.

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
        after_help = "What is an argument is seen by every user of this host, and kept by the shell: with - the \
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
        and what to do; the exit code is 1 then. At most 512 ways are asked by, the first network of each host before \
        the second.

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
    Ca(ca::CaCommand),
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
        /// Also another host whose daemon is there; or this one where the cluster does not let it in any more
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
    /// Where the other hosts reach this one; the address from which it reaches etcd, or other
    /// networks, unless given
    #[arg(long, value_name = "IP")]
    address: Option<IpAddr>,
    #[command(flatten)]
    access: access::AccessArgs,
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
            ask(Ask::Join { token: given_token(token, std::io::stdin())?, me })?;
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
        HostCommand::Drain { name, undo } => {
            ask(Ask::Drain { name: name.clone(), undo: *undo })?;
            let names: Vec<String> = name.iter().map(ToString::to_string).collect();
            Ok(Answer::text(self::names(output, &names)?))
        }
        HostCommand::Label { name, labels, remove } => {
            let labels = Labels::of(labels.iter().cloned())?;
            ask(Ask::Label { name: name.clone(), labels, remove: remove.clone() })?;
            Ok(Answer::text(names(output, &[name.to_string()])?))
        }
        HostCommand::Rtt => match ask(Ask::Rtt)? {
            Reply::Rtts(rtts) => rtt::answer(&rtts, output),
            other => Err(unexpected(&other)),
        },
        HostCommand::Routes => match ask(Ask::Routes)? {
            Reply::Routes(routes) => routes::answer(&routes, output),
            other => Err(unexpected(&other)),
        },
        HostCommand::RotateKeys => {
            ask(Ask::RotateKeys)?;
            Ok(Answer::default())
        }
        HostCommand::Ca(command) => ca::run(command, output, ask),
        HostCommand::AcceptOlder => {
            ask(Ask::AcceptOlder)?;
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

/// The token that is given, or the line of `input` where that is `-`.
fn given_token(token: &str, input: impl Read) -> Result<String> {
    if token != "-" {
        return Ok(token.to_owned());
    }
    let mut text = String::new();
    let read = input.take(LONGEST_TOKEN).read_to_string(&mut text);
    read.map_err(|cause| Error::invalid("reading the token from standard input").because(cause))?;
    Ok(text.trim().to_owned())
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
        let has_own = view.hosts.iter().any(|host| host.etcd.is_some());
        let columns = ["NAME", "ADDRESS", "STATE", "LABELS", "BLOCKS", "CONTAINERS", "ETCD"];
        let mut table = Table::new(if has_own { &columns } else { &columns[..6] });
        for host in &view.hosts {
            let blocks: Vec<String> =
                host.blocks.iter().map(|(network, net)| format!("{network} {net}")).collect();
            let name = if host.own { format!("{} *", host.name) } else { host.name.clone() };
            let mut row = vec![
                name,
                host.address.clone(),
                host.state.clone(),
                labels(host),
                blocks.join(", "),
                host.containers.to_string(),
            ];
            row.extend(has_own.then(|| host.etcd.clone().unwrap_or_default()));
            table.row(row);
        }
        table.text()
    })?;
    let mut notes = view.notes.clone();
    notes.extend(view.lost.iter().map(|(since, why)| {
        format!("since {} the cluster is not heard of: {why}", rfc3339(*since))
    }));
    Ok(Answer { text, notes, code: 0 })
}

fn labels(host: &hosts::HostView) -> String {
    let labels: Vec<String> =
        host.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    if labels.is_empty() { "-".to_owned() } else { labels.join(",") }
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

fn token_id(text: &str) -> Result<TokenId, String> {
    TokenId::try_from(text.to_owned()).map_err(|error| error.to_string())
}

fn unexpected(reply: &Reply) -> Error {
    Error::bug(format!("the daemon answered something else: {reply:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_given_or_read() {
        let given = |token, input: &[u8]| given_token(token, input);
        assert_eq!(given("spoke1-x", b"spoke1-y\n").unwrap(), "spoke1-x");
        assert_eq!(given("-", b"spoke1-y\n").unwrap(), "spoke1-y");
        assert!(given("-", b"\xff\n").is_err());
    }
}
