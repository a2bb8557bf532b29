//! `spoke egress test`: whether rules allow what is asked.

use model::{EgressRule, Fence, Result};
use serde::Serialize;

use super::{allows, fenced, own};
use crate::answer::{Answer, FOUND};
use crate::args::egress::TestArgs;
use crate::context::CommandContext;
use crate::output::table::Table;
use crate::output::{Output, render};

/// What the rules say of one name or address with its ports.
#[derive(Serialize)]
struct JudgedView {
    target: String,
    allowed: bool,
    /// The rule that allows it; none where there are no rules, or none allows it.
    rule: Option<String>,
}

pub(super) fn test(wanted: &TestArgs, output: Output, context: &CommandContext) -> Result<Answer> {
    let engine = (context.engine)()?;
    let network = engine.records.network(&wanted.network)?;
    let found = match &wanted.container {
        Some(name) => own::called(&engine, name, Some(&wanted.network), context)?,
        None => Vec::new(),
    };
    let is_of_one = !found.is_empty();
    let own = found.into_iter().find_map(|it| it.wiring.own_fence);
    let fence = match own {
        Some(own) => Some(own),
        // A container without rules on a network without any.
        None if is_of_one && network.wiring.fence.is_none() => None,
        None => Some(fenced(&engine, &network)?.fence),
    };
    let views: Vec<JudgedView> =
        wanted.targets.iter().map(|target| judged(fence.as_ref(), target)).collect();
    let code = if views.iter().all(|view| view.allowed) { 0 } else { FOUND };
    Ok(Answer { code, ..Answer::text(render(output, &views, || text(&views))?) })
}

fn judged(fence: Option<&Fence>, target: &EgressRule) -> JudgedView {
    let by = fence.and_then(|fence| fence.rules.iter().find(|rule| allows(rule, target)));
    JudgedView {
        target: target.to_string(),
        allowed: fence.is_none() || by.is_some(),
        rule: by.map(ToString::to_string),
    }
}

fn text(views: &[JudgedView]) -> String {
    let mut table = Table::headless();
    for view in views {
        let shown = match (&view.rule, view.allowed) {
            (Some(rule), _) => format!("allowed by {rule}"),
            (None, true) => "allowed: no rules".to_owned(),
            (None, false) => "refused".to_owned(),
        };
        table.row([view.target.clone(), shown]);
    }
    table.text()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_says_the_rule_and_the_table_says_the_same() {
        let rule = |text: &str| text.parse::<EgressRule>().unwrap();
        let fence = Fence { rules: vec![rule("github.com:443")], ..Fence::default() };
        let views = ["github.com:443", "api.github.com:443"]
            .map(|target| judged(Some(&fence), &rule(target)));
        let json = render(Output::Json, &views, || text(&views)).unwrap();
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(
            json,
            serde_json::json!([
                {"target": "github.com:443", "allowed": true, "rule": "github.com:443"},
                {"target": "api.github.com:443", "allowed": false, "rule": null},
            ])
        );
        let shown = text(&views);
        assert!(
            shown.contains("allowed by github.com:443") && shown.contains("refused"),
            "{shown}"
        );
        assert!(text(&[judged(None, &rule("a.b:1"))]).contains("allowed: no rules"));
    }
}
