//! Many containers: a row of squares for those whose names differ by a number or an id, and the names
//! of the others below each other in columns.

use std::collections::BTreeMap;

use super::{Lane, PAD, Size, shape, text};
use crate::html::{Html, short};
use crate::shown::Attachment;
use crate::target::link;

/// A square with the space after it.
const STEP: usize = 12;
/// A lane has no more rows; what does not fit has a row of its own.
const MOST: usize = 16;
/// Between rows.
const GAP: usize = 10;
/// Where squares begin on a wide screen: beside the row's name.
pub(super) const ASIDE: usize = 220;
/// With more single containers than this they have squares and no names.
const NAMED: usize = 160;
/// A line of names.
const LINE: usize = 20;

/// Containers with similar names; all others where the stem is empty.
struct Row<'a> {
    stem: String,
    runtime: &'a str,
    attachments: Vec<&'a Attachment>,
}

/// What a lane has.
struct Drawn<'a> {
    rows: Vec<Row<'a>>,
    /// Those that are like no other.
    singles: Vec<&'a Attachment>,
}

/// Whether few enough containers are like no other, so that all of these have their names.
pub(super) fn are_named(lanes: &[Lane<'_>]) -> bool {
    let singles = |lane| groups(lane).iter().filter(|row| row.attachments.len() == 1).count();
    lanes.iter().map(singles).sum::<usize>() <= NAMED
}

/// Where squares begin, and how many are beside each other.
fn squares(size: Size) -> (usize, usize) {
    match size {
        Size::Wide => (ASIDE, (size.inner() - ASIDE) / STEP),
        Size::Narrow => (0, size.inner() / STEP),
    }
}

fn columns(size: Size) -> usize {
    match size {
        Size::Wide => 6,
        Size::Narrow => 2,
    }
}

fn tall(row: &Row<'_>, size: Size) -> usize {
    let lines = row.attachments.len().div_ceil(squares(size).1);
    match size {
        Size::Wide => (lines * STEP).max(18),
        Size::Narrow => lines * STEP + 20,
    }
}

pub(super) fn height(lane: &Lane<'_>, (size, is_named): (Size, bool)) -> usize {
    let drawn = drawn(lane, is_named);
    let rows: usize = drawn.rows.iter().map(|row| tall(row, size) + GAP).sum();
    let lines = drawn.singles.len().div_ceil(columns(size)) * LINE;
    if rows + lines == 0 { 0 } else { rows + lines + PAD - if lines == 0 { GAP } else { 2 } }
}

pub(super) fn draw(html: &mut Html, lane: &Lane<'_>, top: usize, (size, is_named): (Size, bool)) {
    let left = size.left() + PAD;
    let drawn = drawn(lane, is_named);
    let mut y = top;
    for row in &drawn.rows {
        draw_row(html, lane, row, (left, y), size);
        y += tall(row, size) + GAP;
    }
    let width = size.inner() / columns(size);
    for (at, one) in drawn.singles.iter().enumerate() {
        let place = (left + at % columns(size) * width, y + at / columns(size) * LINE);
        single(html, one, place, (width - 24) / 8);
    }
}

fn draw_row(
    html: &mut Html,
    lane: &Lane<'_>,
    row: &Row<'_>,
    (left, top): (usize, usize),
    size: Size,
) {
    let all = [("network", lane.network.name.as_str()), ("q", &row.stem), ("runtime", row.runtime)];
    html.el("a", &[("href", &link("containers", &all)), ("class", "row")], |html| {
        let stem = if row.stem.is_empty() { "others" } else { &row.stem };
        let label = format!("{} ×{}", short(stem, 20), row.attachments.len());
        html.leaf("title", &[], format!("{label} {}", row.runtime).trim_end());
        text(html, (left, top + 11), "label", &label);
        let (x, beside) = squares(size);
        let down = if size == Size::Wide { 0 } else { 20 };
        paths(html, row, (left + x, top + down), beside);
    });
}

fn single(html: &mut Html, one: &Attachment, (x, y): (usize, usize), letters: usize) {
    let url = crate::container_link(&one.name, &one.runtime);
    html.el("a", &[("href", &url), ("class", "row")], |html| {
        let path = square(one, x, y + 2);
        shape(html, "path", &[("class", class(one)), ("d", &path)]);
        text(html, (x + 16, y + 11), "label", &short(&one.name, letters));
    });
}

/// Larger where a port is published: colour is not all that says so.
fn square(one: &Attachment, x: usize, y: usize) -> String {
    match one.ports.is_empty() {
        true => format!("M{} {}h7v7h-7z", x + 1, y + 1),
        false => format!("M{x} {y}h10v10h-10z"),
    }
}

fn class(one: &Attachment) -> &'static str {
    match (one.state.as_str(), one.ports.is_empty()) {
        ("attached", true) => "square",
        ("attached", false) => "square open",
        _ => "square faint",
    }
}

/// One path for many squares of a kind: an element for each would be slow. A text of more squares
/// than these would be cut.
const IN_A_PATH: usize = 100;

fn paths(html: &mut Html, row: &Row<'_>, (left, top): (usize, usize), beside: usize) {
    for (chunk, some) in row.attachments.chunks(IN_A_PATH).enumerate() {
        let mut paths: BTreeMap<&str, String> = BTreeMap::new();
        for (at, one) in some.iter().enumerate() {
            let at = chunk * IN_A_PATH + at;
            let (x, y) = (left + at % beside * STEP, top + at / beside * STEP);
            paths.entry(class(one)).or_default().push_str(&square(one, x, y));
        }
        for (class, path) in paths {
            shape(html, "path", &[("class", class), ("d", &path)]);
        }
    }
}

/// The largest first.
fn groups<'a>(lane: &Lane<'a>) -> Vec<Row<'a>> {
    let mut by_stem: BTreeMap<(String, &str), Vec<&Attachment>> = BTreeMap::new();
    for one in &lane.attachments {
        by_stem.entry((stem(&one.name), &one.runtime)).or_default().push(one);
    }
    let row = |((stem, runtime), attachments)| Row { stem, runtime, attachments };
    let mut rows: Vec<Row<'_>> = by_stem.into_iter().map(row).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.attachments.len()));
    rows
}

fn drawn<'a>(lane: &Lane<'a>, is_named: bool) -> Drawn<'a> {
    let mut rows = groups(lane);
    let several = rows.partition_point(|row| row.attachments.len() > 1);
    let of = |rows: Vec<Row<'a>>| rows.into_iter().flat_map(|row| row.attachments).collect();
    let mut singles: Vec<&Attachment> = of(rows.split_off(several));
    let mut others: Vec<&Attachment> = match rows.len() {
        count if count > MOST => of(rows.split_off(MOST - 1)),
        _ => Vec::new(),
    };
    if !is_named {
        others.append(&mut singles);
    }
    if !others.is_empty() {
        rows.push(Row { stem: String::new(), runtime: "", attachments: others });
    }
    Drawn { rows, singles }
}

/// A name without a number or an id at its end: `web` of `web-3` and of `web-7f9c6d5b4-x2x8p`.
fn stem(name: &str) -> String {
    let mut stem = name;
    while let Some((start, end)) = stem.rsplit_once(['-', '_', '.']) {
        let is_number = end.bytes().all(|byte| byte.is_ascii_digit());
        let is_id = end.len() >= 5
            && end.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
            && end.bytes().any(|byte| byte.is_ascii_digit());
        if start.is_empty() || !(is_number || is_id) {
            break;
        }
        stem = start;
    }
    let short = stem.trim_end_matches(|letter: char| letter.is_ascii_digit());
    if short.is_empty() { stem.to_owned() } else { short.to_owned() }
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
            ("job-7f9c6d5b4-x2001", "job"),
            ("db_primary", "db_primary"),
            ("shop/cart-2", "shop/cart"),
            ("42", "42"),
            ("web-frontend", "web-frontend"),
            ("-7", "-"),
        ] {
            assert_eq!(stem(name), expected);
        }
    }
}
