//! Why one does not reach another: a form, and the way hop by hop.

use crate::html::Html;
use crate::shown::{Explained, Explanation, Hop};

/// The list of names that fields offer.
const CHOICES: &str = "choices";

pub(crate) fn write(html: &mut Html, explained: &Explained) {
    form(html, explained);
    match &explained.answer {
        None => html.leaf(
            "p",
            &[("class", "empty")],
            "Choose who begins and who is called. Nothing is sent and nothing is changed.",
        ),
        Some(Err(why)) => html.leaf("p", &[("class", "note"), ("role", "status")], why),
        Some(Ok(found)) => answer(html, found),
    }
}

fn form(html: &mut Html, explained: &Explained) {
    let asked = &explained.asked;
    html.el("form", &[("class", "question"), ("method", "get"), ("action", "explain")], |html| {
        field(html, ("from", "From"), &asked.from, &[("list", CHOICES), ("required", "")]);
        field(html, ("to", "To"), &asked.to, &[("list", CHOICES), ("required", "")]);
        field(html, ("port", "Port"), &asked.port, &[("placeholder", "80, 53/udp; ping without")]);
        html.el("datalist", &[("id", CHOICES)], |html| {
            explained.choices.iter().for_each(|it| html.void("option", &[("value", it)]));
        });
        html.leaf("button", &[("type", "submit")], "Explain");
    });
}

fn field(
    html: &mut Html,
    (name, title): (&'static str, &str),
    value: &str,
    more: &[(&'static str, &str)],
) {
    html.el("label", &[], |html| {
        html.leaf("span", &[], title);
        let own = [("name", name), ("value", value), ("maxlength", "200"), ("autocomplete", "off")];
        html.void("input", &[&own, more].concat());
    });
}

fn answer(html: &mut Html, found: &Explanation) {
    html.leaf("p", &[("class", "verdict"), ("role", "status")], &found.summary);
    html.el("ol", &[("class", "checks")], |html| {
        found.hops.iter().for_each(|each| hop(html, each));
    });
}

fn hop(html: &mut Html, hop: &Hop) {
    let class = match hop.status.as_str() {
        "FAIL" => "fail",
        "?" => "warn",
        _ => "ok",
    };
    html.el("li", &[("class", class)], |html| {
        html.leaf("strong", &[], &hop.status);
        html.el("div", &[], |html| {
            html.leaf("p", &[], &format!("{}: {}", hop.name, hop.what));
            if let Some(by) = &hop.by {
                html.leaf("p", &[("class", "faint")], &format!("Set by: {by}"));
            }
            if let Some(fix) = &hop.fix {
                html.leaf("code", &[], fix);
            }
        });
    });
}
