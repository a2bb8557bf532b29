//! The command line: what was typed is parsed once, each command answers with text and an exit
//! code, and only [`run`] writes.

mod answer;
mod args;
mod check;
mod claims;
mod commands;
mod container;
mod context;
mod daemon;
mod draft;
mod finding_table;
mod groups;
mod mapped;
mod output;
mod reference;
mod shown;
mod status_table;
mod summary;
mod titles;
mod units;
mod usage;
mod via;
mod view;

use std::error::Error as _;
use std::ffi::OsString;
use std::io::Write;

use ::host::exit;
use ::host::exit::exit_code;
use clap::error::{ContextKind, ContextValue};
use model::{Kind, Result};

pub use answer::sentence;
pub use commands::cni::run_tool;
pub use context::{CommandContext, Report};
pub use shown::content;
pub use summary::{clashes, finding, pools};

/// Runs the command that `args` names (its own name first) and returns the exit code.
pub fn run(
    args: Vec<OsString>,
    context: &CommandContext,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> u8 {
    let cli = match groups::parse(args) {
        Ok(cli) => cli,
        Err(usage) => return refuse(&usage, out, err),
    };
    match commands::dispatch(&cli, context, out) {
        Ok(answer) => {
            for note in answer.notes.iter().chain(&daemon::note(&cli.command, context)) {
                let _ = writeln!(err, "spoke: {}", sentence(note));
            }
            written(exit::write(out, &answer.text), answer.code, err)
        }
        Err(error) => {
            // What the kernel denies, and not an image that is not signed, or a cloud.
            let is_the_kernels = error.kind() == Kind::Denied && error.source().is_some();
            let who = match is_the_kernels && !rustix::process::geteuid().is_root() {
                true => "; run it as root",
                false => "",
            };
            let _ = writeln!(err, "spoke: {}{who}", sentence(&error));
            exit_code(error.kind())
        }
    }
}

/// The exit code of what was done, where its result was written.
fn written(written: Result<bool>, code: u8, err: &mut dyn Write) -> u8 {
    match written {
        Ok(_) => code,
        Err(error) => {
            let _ = writeln!(err, "spoke: {}", sentence(&error));
            code.max(exit_code(error.kind()))
        }
    }
}

fn refuse(usage: &clap::Error, out: &mut dyn Write, err: &mut dyn Write) -> u8 {
    let text = usage.render().to_string();
    if usage.use_stderr() {
        let text = bounded(usage, text);
        // A command without the one that it needs shows its help: that is no sentence about an error.
        let _ = match text.strip_prefix("error: ") {
            Some(text) => writeln!(err, "spoke: {}", sentence(&text)),
            None => writeln!(err, "{}", sentence(&text)),
        };
        exit_code(Kind::Invalid)
    } else {
        written(exit::write(out, &text), 0, err)
    }
}

/// Command-line text may come from anywhere: its quote is neither long, nor more than one line.
fn bounded(usage: &clap::Error, text: String) -> String {
    let kinds =
        [ContextKind::InvalidValue, ContextKind::InvalidArg, ContextKind::InvalidSubcommand];
    kinds.iter().filter_map(|kind| usage.get(*kind)).fold(text, |text, given| match given {
        ContextValue::String(given) => match model::text::shown(given) {
            shown if shown == *given => text,
            shown => text.replace(given.as_str(), &shown),
        },
        _ => text,
    })
}

#[cfg(test)]
#[path = "../../host/src/test_file.rs"]
mod test_file;
#[cfg(test)]
mod tests;
