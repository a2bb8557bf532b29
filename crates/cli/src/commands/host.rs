//! `spoke host`: this host among others.

mod access;
mod ca;
mod check;
mod network;
mod routes;
mod rtt;

use std::io::Read;
use std::path::Path;

use cluster::TokenId;
use host::hosts::{self, Ask, HostsView, Me, Reply};
use host::time::rfc3339;
use model::{Error, HostName, Labels, Result, Timestamp};
use serde::Serialize;

use crate::answer::Answer;
use crate::args::host::{HOURS, HostCommand, IdentityArgs, TokenCommand};
use crate::context::CommandContext;
use crate::output::table::Table;
use crate::output::{Output, names, render};
pub(crate) use network::{create_network, is_shared, refuse_shared_rules, remove_network};

/// What this host is called.
const HOSTNAME: &str = "/proc/sys/kernel/hostname";
const SECONDS: u32 = 3600;
/// More is not read of standard input, in bytes: a longer token is none.
const LONGEST_TOKEN: u64 = 8 << 10;

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

pub(crate) fn run(
    command: &HostCommand,
    output: Output,
    context: &CommandContext,
) -> Result<Answer> {
    let ask = |ask: Ask| hosts::ask(&context.runtime, &ask);
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
