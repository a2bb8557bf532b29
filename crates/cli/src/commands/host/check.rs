//! `spoke host check`: the way to each of the other hosts.

use host::hosts::HostCheck;
use model::Result;

use crate::answer::Answer;
use crate::output::table::Table;
use crate::output::{Output, render};

/// The exit code where something is wrong.
const WRONG: u8 = 1;

pub(super) fn answer(checks: &[HostCheck], output: Output) -> Result<Answer> {
    let text = render(output, &checks, || {
        let mut table = Table::new(&["NAME", "ADDRESS", "NETWORK", "ANSWERS", "MTU", "CLOCK"]);
        for check in checks {
            table.row(row(check));
        }
        table.text()
    })?;
    let problems = checks
        .iter()
        .flat_map(|check| check.problems.iter().map(|why| format!("host {}: {why}", check.name)));
    let notes: Vec<String> = problems.collect();
    let code = if notes.is_empty() { 0 } else { WRONG };
    Ok(Answer { text, notes, code })
}

fn row(check: &HostCheck) -> [String; 6] {
    let none = || "-".to_owned();
    let took = |took: u128| format!("{}.{:03} ms", took / 1000, took % 1000);
    [
        check.name.clone(),
        check.address.clone(),
        check.network.clone().unwrap_or_else(none),
        check.microseconds.map_or_else(none, took),
        check.mtu.map_or_else(none, |mtu| mtu.to_string()),
        check.clock_milliseconds.map_or_else(none, |ahead| format!("{ahead:+} ms")),
    ]
}
