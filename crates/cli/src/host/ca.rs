//! `spoke host ca`: the authority that signs the hosts' certificates.

use clap::Subcommand;
use host::hosts::{Ask, AuthorityView, Reply};
use host::time::rfc3339;
use model::{HostName, Result};

use super::unexpected;
use crate::output::render;
use crate::table::Table;
use crate::{Answer, Output};

/// So many digits of a digest tell authorities apart.
const SHOWN: usize = 12;

#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum CaCommand {
    /// Change the authority, and all certificates with it
    #[command(
        after_help = "Run it on a host with a server of the cluster's etcd. Every host comes to trust the new authority \
        (phase trust), then gets a certificate of it (sign), then ceases to trust the old one (drop); each phase waits until \
        every host has confirmed the one before. Traffic is not touched; etcd's servers begin anew one after another. \
        `spoke host ca ls` says how far it is, and which hosts it waits for. Before drop no token is made and no host joins. Tokens \
        that were made before are worth nothing from sign on. It is refused while a host runs 0.1.0, which cannot do it.

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

pub(super) fn run(
    command: &CaCommand,
    output: Output,
    ask: impl Fn(Ask) -> Result<Reply>,
) -> Result<Answer> {
    match command {
        CaCommand::Rotate { without } => {
            ask(Ask::RotateAuthority { without: without.iter().cloned().collect() })?;
            Ok(Answer::default())
        }
        CaCommand::Abandon => {
            ask(Ask::AbandonAuthority)?;
            Ok(Answer::default())
        }
        CaCommand::Ls => match ask(Ask::Authority)? {
            Reply::Authority(view) => list(&view, output),
            other => Err(unexpected(&other)),
        },
    }
}

fn list(view: &AuthorityView, output: Output) -> Result<Answer> {
    let text = render(output, view, || {
        let mut text = format!("authority {}\n", view.authority);
        if let (Some(phase), Some(since)) = (&view.phase, view.since) {
            text.push_str(&format!("change of {}: {phase}\n", rfc3339(since)));
        }
        let mut table = Table::new(&["NAME", "ISSUER", "TRUSTS", "STATE"]);
        for host in &view.hosts {
            let trusted: Vec<&str> = host.trusted.iter().map(|digest| short(digest)).collect();
            table.row([
                host.name.clone(),
                host.issuer.as_deref().map_or("-", short).to_owned(),
                if trusted.is_empty() { "-".to_owned() } else { trusted.join(" ") },
                host.state.clone(),
            ]);
        }
        text + &table.text()
    })?;
    Ok(Answer::text(text))
}

fn short(digest: &str) -> &str {
    digest.get(..SHOWN).unwrap_or(digest)
}
