//! `spoke host rtt`: how long each of the other hosts takes to answer.

use host::hosts::HostRtt;
use model::Result;

use crate::answer::Answer;
use crate::output::table::Table;
use crate::output::{Output, render};

pub(super) fn answer(rtts: &[HostRtt], output: Output) -> Result<Answer> {
    let text = render(output, &rtts, || {
        let mut table = Table::new(&["NAME", "ADDRESS", "HOST", "NETWORK", "OVERLAY"]);
        for rtt in rtts {
            table.row([
                rtt.name.clone(),
                rtt.address.clone(),
                shown(rtt.host_microseconds),
                rtt.network.clone().unwrap_or_default(),
                shown(rtt.network_microseconds),
            ]);
        }
        table.text()
    })?;
    Ok(Answer::text(text))
}

fn shown(took: Option<u128>) -> String {
    took.map(|took| format!("{}.{:03} ms", took / 1000, took % 1000)).unwrap_or_default()
}
