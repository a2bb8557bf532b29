//! `spoke host ca`: the authority that signs the hosts' certificates.

use host::hosts::{Ask, AuthorityView, Reply};
use host::time::rfc3339;
use model::Result;

use super::unexpected;
use crate::answer::Answer;
use crate::args::host::CaCommand;
use crate::output::table::Table;
use crate::output::{Output, render};

/// So many digits of a digest tell authorities apart.
const SHOWN: usize = 12;

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
