//! The report as text.

use explain::{Report, Status, Verdict};
use serde::Serialize;

use crate::output::table::clean;

/// A report, with what a packet that was sent found.
#[derive(Debug, Serialize)]
pub(crate) struct View {
    #[serde(flatten)]
    pub(crate) report: Report,
    /// The verdict as a sentence.
    pub(crate) summary: String,
    /// What came back, where a packet was sent.
    probe: Option<String>,
}

impl View {
    pub(super) fn new(report: Report, probe: Option<String>) -> Self {
        let summary = summary(&report);
        Self { report, summary, probe }
    }
}

fn summary(report: &Report) -> String {
    let (from, to) = (&report.from, &report.to);
    let last = report.hops.last();
    let where_ = last.map_or(String::new(), |hop| {
        format!(", at hop {}{}", hop.hop, if hop.back { " of the answer" } else { "" })
    });
    match report.verdict {
        Verdict::Reaches => format!("{from} reaches {to}"),
        Verdict::Fails => format!("{from} does not reach {to}{where_}"),
        Verdict::Unknown => format!("cannot tell whether {from} reaches {to}{where_}"),
    }
}

/// As people read it.
pub(crate) fn word(status: Status) -> &'static str {
    match status {
        Status::Ok => "ok",
        Status::Note => "note",
        Status::Fail => "FAIL",
        Status::Unknown => "?",
    }
}

pub(super) fn text(view: &View) -> String {
    let mut text = String::new();
    for hop in &view.report.hops {
        let (status, back) = (word(hop.status), if hop.back { "back: " } else { "" });
        text += &format!("{status:<4}  {:<11} {back}{}\n", hop.hop, clean(&hop.what));
        if let Some(by) = hop.by {
            text += &format!("      set by: {by}\n");
        }
        if let Some(fix) = &hop.fix {
            text += &format!("      fix: {}\n", clean(fix));
        }
    }
    if let Some(probe) = &view.probe {
        text += &format!("probe: {}\n", clean(probe));
    }
    text + &format!("=> {}\n", clean(&view.summary))
}
