//! What `spoke doctor` found, the worst first.

use crate::html::{Html, counted};
use crate::shown::Check;

pub(crate) fn write(html: &mut Html, checks: &[Check]) {
    let count = |status: &str| checks.iter().filter(|check| check.status == status).count();
    let sum = match (count("FAIL"), count("warn")) {
        (0, 0) => "Nothing is wrong.".to_owned(),
        (fails, warnings) => {
            format!("{}, {}", counted(fails, "failure"), counted(warnings, "warning"))
        }
    };
    html.el("p", &[("class", "sum")], |html| {
        html.text(&sum);
        html.text(if sum.ends_with('.') { " " } else { ". " });
        html.leaf("a", &[("href", "checks")], "Check again");
    });
    html.el("ul", &[("class", "checks")], |html| {
        for status in ["FAIL", "warn", "ok"] {
            checks.iter().filter(|check| check.status == status).for_each(|check| one(html, check));
        }
    });
}

fn one(html: &mut Html, check: &Check) {
    let class = match check.status.as_str() {
        "FAIL" => "fail",
        "warn" => "warn",
        _ => "ok",
    };
    html.el("li", &[("class", class)], |html| {
        html.leaf("strong", &[], &check.status);
        html.el("div", &[], |html| {
            html.leaf("p", &[], &check.what);
            if let Some(fix) = &check.fix {
                html.leaf("code", &[], fix);
            }
            if let Some(note) = &check.note {
                html.leaf("p", &[("class", "faint")], note);
            }
        });
    });
}
