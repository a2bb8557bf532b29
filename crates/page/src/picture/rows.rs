//! Many containers: a row of squares for those whose names differ by a number or an id.

use std::collections::BTreeMap;

use super::{Lane, PAD, Size, shape, text};
use crate::html::{Html, short};
use crate::shown::Attachment;
use crate::target::link;

/// A square with the space after it.
const STEP: usize = 12;
/// A lane has no more rows; the last one has all others.
const MOST: usize = 16;
/// Between rows.
const GAP: usize = 10;

/// Containers with similar names.
struct Row<'a> {
    stem: String,
    runtime: &'a str,
    attachments: Vec<&'a Attachment>,
}

/// Where squares begin, and how many are beside each other.
fn squares(size: Size) -> (usize, usize) {
    match size {
        Size::Wide => (220, (size.inner() - 220) / STEP),
        Size::Narrow => (0, size.inner() / STEP),
    }
}

fn tall(row: &Row<'_>, size: Size) -> usize {
    let lines = row.attachments.len().div_ceil(squares(size).1);
    match size {
        Size::Wide => (lines * STEP).max(18),
        Size::Narrow => lines * STEP + 20,
    }
}

pub(super) fn height(lane: &Lane<'_>, size: Size) -> usize {
    let rows = rows(lane);
    let sum: usize = rows.iter().map(|row| tall(row, size) + GAP).sum();
    if rows.is_empty() { 0 } else { sum - GAP + PAD }
}

pub(super) fn draw(html: &mut Html, lane: &Lane<'_>, top: usize, size: Size) {
    let left = size.left() + PAD;
    let mut y = top;
    for row in rows(lane) {
        let url = match row.stem.is_empty() {
            true => link("containers", &[("network", &lane.network.name)]),
            false => {
                let (network, runtime) = (lane.network.name.as_str(), row.runtime);
                link("containers", &[("network", network), ("q", &row.stem), ("runtime", runtime)])
            }
        };
        html.el("a", &[("href", &url), ("class", "row")], |html| {
            let stem = if row.stem.is_empty() { "others" } else { &row.stem };
            let label = match row.attachments.len() {
                1 => short(stem, 26),
                count => format!("{} ×{count}", short(stem, 20)),
            };
            html.leaf("title", &[], &format!("{label} ({})", row.runtime));
            text(html, (left, y + 11), "label", &label);
            let (x, beside) = squares(size);
            let down = if size == Size::Wide { 0 } else { 20 };
            paths(html, &row, (left + x, y + down), beside);
        });
        y += tall(&row, size) + GAP;
    }
}

/// One path for many squares of a kind: an element for each would be slow. A text of more squares
/// than these would be cut.
const IN_A_PATH: usize = 100;

fn paths(html: &mut Html, row: &Row<'_>, (left, top): (usize, usize), beside: usize) {
    for (chunk, some) in row.attachments.chunks(IN_A_PATH).enumerate() {
        let mut paths: BTreeMap<&str, String> = BTreeMap::new();
        for (at, one) in some.iter().enumerate() {
            let class = match (one.state.as_str(), one.ports.is_empty()) {
                ("attached", true) => "square",
                ("attached", false) => "square open",
                _ => "square faint",
            };
            let at = chunk * IN_A_PATH + at;
            let (x, y) = (left + at % beside * STEP, top + at / beside * STEP);
            paths.entry(class).or_default().push_str(&format!("M{x} {y}h9v9h-9z"));
        }
        for (class, path) in paths {
            shape(html, "path", &[("class", class), ("d", &path)]);
        }
    }
}

/// The largest first; all containers with names of their own are in the last one.
fn rows<'a>(lane: &Lane<'a>) -> Vec<Row<'a>> {
    let mut by_stem: BTreeMap<(String, &str), Vec<&Attachment>> = BTreeMap::new();
    for one in &lane.attachments {
        by_stem.entry((stem(&one.name), &one.runtime)).or_default().push(one);
    }
    let row = |((stem, runtime), attachments)| Row { stem, runtime, attachments };
    let mut rows: Vec<Row<'_>> = by_stem.into_iter().map(row).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.attachments.len()));
    if rows.len() > MOST {
        let others = rows.split_off(MOST - 1);
        let attachments = others.into_iter().flat_map(|row| row.attachments).collect();
        rows.push(Row { stem: String::new(), runtime: "", attachments });
    }
    rows
}

/// A name without a number or an id at its end: `web` of `web-3` and of `web-7f9c6d5b4-x2x8p`.
fn stem(name: &str) -> String {
    let mut stem = name.trim_end_matches(|letter: char| letter.is_ascii_digit());
    stem = stem.trim_end_matches(['-', '_', '.']);
    while let Some((start, end)) = stem.rsplit_once('-') {
        let is_id = end.len() >= 5
            && end.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
            && end.bytes().any(|byte| byte.is_ascii_digit());
        if !is_id || start.is_empty() {
            break;
        }
        stem = start;
    }
    if stem.is_empty() { name.to_owned() } else { stem.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stems() {
        for (name, expected) in [
            ("web-3", "web"),
            ("c417", "c"),
            ("web-7f9c6d5b4-x2x8p", "web"),
            ("db_primary", "db_primary"),
            ("shop/cart-2", "shop/cart"),
            ("42", "42"),
            ("web-frontend", "web-frontend"),
        ] {
            assert_eq!(stem(name), expected);
        }
    }
}
