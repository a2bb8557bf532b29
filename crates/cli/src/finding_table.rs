//! Things without an owner, as they are listed.

use model::Result;

use crate::answer::Answer;
use crate::output::table::Table;
use crate::output::{Output, render};
use crate::view::FindingView;

/// The findings, for people or for scripts.
pub(crate) fn answer(findings: &[FindingView], output: Output) -> Result<Answer> {
    Ok(Answer::text(render(output, &findings, || text(findings))?))
}

fn text(findings: &[FindingView]) -> String {
    if findings.is_empty() {
        return "nothing found\n".to_owned();
    }
    let mut table = Table::new(&["KIND", "SUBJECT", "REMEDY", "WHY"]);
    for finding in findings {
        let remedy = match (finding.done, finding.remedy) {
            (true, "free") => "freed",
            (true, "quarantine") => "quarantined",
            (true, "forget") => "forgotten",
            (true, "retry") => "done",
            (_, remedy) => remedy,
        };
        let cells = [finding.kind, &finding.subject, remedy, &finding.why];
        table.row(cells.map(str::to_owned));
    }
    table.text()
}
