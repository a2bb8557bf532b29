//! Manual pages (man-pages(7)), one of each command.

use std::fs;
use std::io;
use std::path::Path;

use clap::{Command, CommandFactory};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};
use model::{Error, Result};

use crate::answer::Answer;
use crate::args::Cli;

/// What stands before the examples of a command's help.
const EXAMPLES: &str = "Examples:";
/// What the footer of each page says.
const SOURCE: &str = concat!("spoke ", env!("CARGO_PKG_VERSION"));

/// Writes the pages into a directory.
pub(crate) fn write(directory: &Path) -> Result<Answer> {
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    fs::create_dir_all(directory).and_then(|()| pages(&command, directory)).map_err(|cause| {
        Error::os(format!("writing the manual to {}", directory.display()), cause)
    })?;
    Ok(Answer::default())
}

/// The page of a command, and those of the commands below.
fn pages(command: &Command, directory: &Path) -> io::Result<()> {
    let below = command.get_subcommands().filter(|command| !command.is_hide_set());
    below.into_iter().try_for_each(|command| pages(command, directory))?;
    let man = Man::new(command.clone()).source(SOURCE);
    fs::write(directory.join(man.get_filename()), page(&man, command)?)
}

fn page(man: &Man, command: &Command) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    if command.get_arguments().any(|argument| !argument.is_hide_set()) {
        man.render_options_section(&mut page)?;
    }
    if command.get_subcommands().any(|command| !command.is_hide_set()) {
        man.render_subcommands_section(&mut page)?;
    }
    let help = command.get_after_long_help().or_else(|| command.get_after_help());
    let help = help.map(ToString::to_string).unwrap_or_default();
    let (before, behind) = help.split_once(EXAMPLES).unwrap_or((&help, ""));
    // Examples are indented; what else is said stands before or behind them.
    let is_example = |part: &&str| part.lines().all(|line| line.starts_with("  "));
    let behind = behind.trim_matches('\n').split("\n\n");
    let (examples, after): (Vec<&str>, Vec<&str>) = behind.partition(is_example);
    let mut last = Roff::default();
    paragraphs(&mut last, "NOTES", &[before.trim(), &after.join("\n\n")].join("\n\n"));
    as_written(&mut last, "EXAMPLES", &examples.join("\n\n"));
    last.to_writer(&mut page)?;
    Ok(page)
}

/// A section of running text.
fn paragraphs(roff: &mut Roff, title: &str, text: &str) {
    let text = text.trim();
    if text.is_empty() {
        return;
    }
    roff.control("SH", [title]);
    for line in text.lines() {
        match line.trim().is_empty() {
            true => roff.control("PP", []),
            false => roff.text([roman(line)]),
        };
    }
}

/// A section whose lines stay as they are.
fn as_written(roff: &mut Roff, title: &str, text: &str) {
    let text = text.trim_matches('\n');
    if text.trim().is_empty() {
        return;
    }
    roff.control("SH", [title]).control("nf", []);
    text.lines().for_each(|line| {
        roff.text([roman(line)]);
    });
    roff.control("fi", []);
}
