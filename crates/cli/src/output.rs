//! Writes a result as a table, JSON, YAML or by a template.

pub(crate) mod table;
pub(crate) mod yaml;

use clap::{Args, ValueEnum};
use model::{Error, Result};
use serde::Serialize;
use serde_json::Value;
use template::{Dialect, Template};

use crate::output::table::{Table, clean};

/// How results are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Output {
    Table,
    Json,
    Yaml,
    /// Only `spoke host routes`: for FRR.
    #[value(hide = true)]
    Frr,
    /// Only `spoke host routes`: for BIRD.
    #[value(hide = true)]
    Bird,
}

#[derive(Debug, Args)]
pub(super) struct Listing {
    /// Print only names
    #[arg(short, long)]
    pub(super) quiet: bool,
    /// Do not shorten anything
    #[arg(long)]
    pub(super) no_trunc: bool,
    /// Print each row by a template: 'table', 'json', '{{.Name}}', 'table {{.Name}}\t{{.Driver}}'
    #[arg(long, value_name = "TEMPLATE")]
    pub(super) format: Option<String>,
}

/// A result as a table, JSON or YAML.
pub(super) fn render(
    output: Output,
    view: &impl Serialize,
    table: impl FnOnce() -> String,
) -> Result<String> {
    Ok(match output {
        Output::Table => table(),
        Output::Json => json(view)?,
        Output::Yaml | Output::Frr | Output::Bird => yaml::text(&value(view)?),
    })
}

/// The names that were made, changed or removed: one on each line.
pub(super) fn names(output: Output, names: &[String]) -> Result<String> {
    render(output, &names, || names.iter().map(|name| clean(name) + "\n").collect())
}

/// Rows as Docker's listings print them: names only, by a template, or as [`render`] does.
pub(super) fn list<T: Serialize>(
    output: Output,
    listing: &Listing,
    rows: &[T],
    shown: Shown<'_, T>,
) -> Result<String> {
    if listing.quiet {
        return Ok(rows.iter().map(|row| clean(&(shown.name)(row)) + "\n").collect());
    }
    match listing.format.as_deref() {
        None => render(output, &rows, || (shown.table)(rows).text()),
        Some("table") => Ok((shown.table)(rows).text()),
        Some("json") => rows.iter().map(|row| Ok(line(row)? + "\n")).collect(),
        Some(format) => templated(format, rows),
    }
}

/// Puts the rows of a list into the order of its columns, from the left: by name, and for one name by runtime and network, as
/// they are shown. Networks of the book stand in the order of their names there, which runtimes may call otherwise.
pub(super) fn in_order<T, K: Ord>(rows: &mut [T], columns: impl Fn(&T) -> K) {
    rows.sort_by_cached_key(columns);
}

/// How rows of one kind are shown.
pub(super) struct Shown<'a, T> {
    pub(super) name: &'a dyn Fn(&T) -> String,
    pub(super) table: &'a dyn Fn(&[T]) -> Table,
}

/// Rows by a template: one line each, or columns where it begins with `table`.
pub(super) fn templated<T: Serialize>(format: &str, rows: &[T]) -> Result<String> {
    let format = format.replace("\\t", "\t").replace("\\n", "\n");
    let (format, in_columns) = match format.strip_prefix("table ") {
        Some(rest) => (rest.to_owned(), true),
        None => (format, false),
    };
    let wrong = |error: Error| error.context("template");
    let dialect = Dialect { functions: &[], without_data: None };
    let template = Template::read(&format, dialect).map_err(wrong)?;
    let lines: Vec<String> = rows
        .iter()
        .map(|row| template.render(&value(row)?, &mut ()).map_err(wrong))
        .collect::<Result<_>>()?;
    if !in_columns {
        return Ok(lines.iter().map(|line| format!("{line}\n")).collect());
    }
    let headings = template.headings();
    let mut table = Table::new(&headings.split('\t').collect::<Vec<_>>());
    for line in lines {
        table.row(line.split('\t').map(str::to_owned));
    }
    Ok(table.text())
}

/// As pretty JSON, in the order of the fields.
pub(super) fn json(view: &impl Serialize) -> Result<String> {
    let text = serde_json::to_string_pretty(view).map_err(unwritable)?;
    Ok(escaped(&text) + "\n")
}

/// As JSON on one line.
pub(super) fn line(view: &impl Serialize) -> Result<String> {
    serde_json::to_string(view).map(|text| escaped(&text)).map_err(unwritable)
}

/// JSON does not escape DEL and the control characters from U+0080 to U+009F, some of which control
/// a terminal as an escape does. They occur in strings only.
fn escaped(json: &str) -> String {
    let steers = |c: char| c.is_control() && !c.is_ascii_control() || c == '\u{7f}';
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        match steers(c) {
            true => text.push_str(&format!("\\u{:04x}", u32::from(c))),
            false => text.push(c),
        }
    }
    text
}

fn value(view: &impl Serialize) -> Result<Value> {
    serde_json::to_value(view).map_err(unwritable)
}

fn unwritable(cause: serde_json::Error) -> Error {
    Error::bug("writing a result as JSON").because(cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_wrote_does_not_steer_the_terminal() {
        let bad = ["a\u{1b}[2J\u{9b}2J\u{7f}\u{85}ü".to_owned()];
        let listing = |quiet, format: Option<&str>| {
            let listing = Listing { quiet, format: format.map(str::to_owned), no_trunc: false };
            let table = |rows: &[String]| {
                let mut table = Table::headless();
                rows.iter().for_each(|row| table.row([row.clone()]));
                table
            };
            let shown = Shown { name: &|row: &String| row.clone(), table: &table };
            list(Output::Table, &listing, &bad, shown).unwrap()
        };
        let whole = |output| render(output, &bad, String::new).unwrap();
        for text in [
            names(Output::Table, &bad).unwrap(),
            listing(true, None),
            listing(false, None),
            listing(false, Some("table")),
            listing(false, Some("{{.}}")),
            listing(false, Some("json")),
            whole(Output::Json),
            whole(Output::Yaml),
        ] {
            let steers = |c: char| c.is_control() && c != '\n';
            assert!(text.contains('ü') && !text.contains(steers), "{text:?}");
        }
        for json in [listing(false, Some("json")), whole(Output::Json)] {
            let read: Value = serde_json::from_str(&json).unwrap();
            assert!(read == bad[0].as_str() || read[0] == bad[0].as_str());
        }
    }
}
