//! A pool as a grid: a cell for each address, or for each of equally many where there are more.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::html::{Html, short};
use crate::shown::{Pool, State, Taken};

/// Cells beside each other.
const COLUMNS: usize = 16;
/// No grid has more cells.
const MOST: u64 = 256;
/// So many lines without a holder follow the last one with one.
const EMPTY: u64 = 1;
/// A cell with the space after it.
const STEP: usize = 23;
const CELL: &str = "20";
/// Where the first cell of a line is: after the last part of its address.
const LEFT: usize = 46;

/// Addresses that are drawn as one cell.
#[derive(Clone, Debug, Default)]
struct Cell<'a> {
    taken: Vec<&'a Taken>,
    is_gateway: bool,
}

/// Whether a grid says something of the pool: IPv6 subnets are too large.
pub(crate) fn fits(pool: &Pool) -> bool {
    pool.ranges.iter().all(|range| range.first.is_ipv4())
}

/// How many addresses a cell is.
fn scale(count: u64) -> u64 {
    let mut scale = 1;
    while count.div_ceil(scale) > MOST {
        scale *= 2;
    }
    scale
}

pub(crate) fn write(html: &mut Html, pool: &Pool) {
    for range in &pool.ranges {
        let (IpAddr::V4(first), IpAddr::V4(last)) = (range.first, range.last) else { continue };
        let (first, last) = (u64::from(u32::from(first)), u64::from(u32::from(last)));
        let count = (last + 1).saturating_sub(first);
        let scale = scale(count);
        // A line begins with a multiple of its length, as people count.
        let start = first - first % (scale * COLUMNS as u64);
        let cells = cells(pool, start, last, scale);
        let within = ((first - start) / scale, (last - start) / scale);
        // Pools can be compared where the empty end of each is one line.
        let used = cells.keys().next_back().map_or(0, |at| at / COLUMNS as u64 + EMPTY);
        let end = within.1.min((used + 1) * COLUMNS as u64 - 1);
        draw(html, pool, (start, scale), &cells, (within.0, end));
        let mut words = Vec::new();
        if scale > 1 {
            words.push(format!("Each cell is {scale} addresses."));
        }
        if end < within.1 {
            words.push("All after these are free.".to_owned());
        }
        if !words.is_empty() {
            html.leaf("p", &[("class", "legend")], &words.join(" "));
        }
    }
}

fn cells(pool: &Pool, start: u64, last: u64, scale: u64) -> BTreeMap<u64, Cell<'_>> {
    let mut cells: BTreeMap<u64, Cell<'_>> = BTreeMap::new();
    let place = |address: IpAddr| match address {
        IpAddr::V4(address) => {
            let number = u64::from(u32::from(address));
            (start..=last).contains(&number).then(|| (number - start) / scale)
        }
        IpAddr::V6(_) => None,
    };
    for taken in &pool.taken {
        if let Some(at) = place(taken.address) {
            cells.entry(at).or_default().taken.push(taken);
        }
    }
    for gateway in pool.ranges.iter().filter_map(|range| range.gateway) {
        if let Some(at) = place(gateway) {
            cells.entry(at).or_default().is_gateway = true;
        }
    }
    cells
}

fn draw(
    html: &mut Html,
    pool: &Pool,
    (start, scale): (u64, u64),
    cells: &BTreeMap<u64, Cell<'_>>,
    within: (u64, u64),
) {
    let lines = within.1 as usize / COLUMNS + 1;
    let view = format!("0 0 {} {}", LEFT + COLUMNS * STEP, lines * STEP);
    let label = format!("Addresses of {}", pool.subnet);
    let attributes =
        [("class", "grid"), ("viewBox", view.as_str()), ("role", "group"), ("aria-label", &label)];
    html.el("svg", &attributes, |html| {
        for line in 0..lines {
            let address = start + (line * COLUMNS) as u64 * scale;
            let y = (line * STEP + 14).to_string();
            html.leaf("text", &[("x", "0"), ("y", &y)], &end_of(address, scale));
            free(html, line, within);
        }
        cells.iter().for_each(|(at, cell)| taken(html, *at as usize, cell, scale));
    });
}

/// The last part of an address; the last two where cells are large.
fn end_of(address: u64, scale: u64) -> String {
    match scale {
        1 => format!(".{}", address & 255),
        // A line is no less than a /16.
        4096.. => format!("{}.{}", address >> 24 & 255, address >> 16 & 255),
        _ => format!(".{}.{}", address >> 8 & 255, address & 255),
    }
}

fn free(html: &mut Html, line: usize, (first, last): (u64, u64)) {
    let mut path = String::new();
    for column in 0..COLUMNS {
        let at = (line * COLUMNS + column) as u64;
        if (first..=last).contains(&at) {
            path.push_str(&format!("M{} {}h20v20h-20z", LEFT + column * STEP, line * STEP));
        }
    }
    html.el("path", &[("class", "free"), ("d", &path)], |_| {});
}

fn taken(html: &mut Html, at: usize, cell: &Cell<'_>, scale: u64) {
    let x = (LEFT + at % COLUMNS * STEP).to_string();
    let y = (at / COLUMNS * STEP).to_string();
    let place = |class: &'static str| {
        [("class", class), ("x", ""), ("y", ""), ("width", CELL), ("height", CELL), ("rx", "4")]
    };
    let rect = |html: &mut Html, class: &'static str, title: &str| {
        let mut attributes = place(class);
        (attributes[1].1, attributes[2].1) = (&x, &y);
        if class == "gateway" {
            attributes[5].1 = "10";
        }
        html.el("rect", &attributes, |html| html.leaf("title", &[], title));
    };
    match (cell.taken.as_slice(), scale) {
        ([], _) => rect(html, "gateway", "the gateway"),
        ([one], 1) => {
            let title = line_of(one);
            match (one.holder.is_empty(), one.state) {
                (false, State::Held | State::Quarantined) => {
                    let url = crate::container_link(&one.holder, &one.runtime);
                    html.el("a", &[("href", &url)], |html| rect(html, class(one.state), &title));
                }
                _ => rect(html, class(one.state), &title),
            }
        }
        (many, _) => {
            let title = format!("{} of {scale} are not free", many.len());
            match many.iter().any(|one| one.state == State::Quarantined) {
                true => rect(html, "quarantined", &title),
                false => filled(html, (&x, at / COLUMNS * STEP), many.len() as u64, scale, &title),
            }
        }
    }
}

/// As much of the cell as is not free, from its bottom.
fn filled(html: &mut Html, (x, top): (&str, usize), count: u64, scale: u64, title: &str) {
    let tall = (count * 20).div_ceil(scale).clamp(4, 20) as usize;
    let (y, tall) = ((top + 20 - tall).to_string(), tall.to_string());
    let place =
        [("class", "held"), ("x", x), ("y", &y), ("width", CELL), ("height", &tall), ("rx", "2")];
    html.el("rect", &place, |html| html.leaf("title", &[], title));
}

fn class(state: State) -> &'static str {
    match state {
        State::Held => "held",
        State::Reserved => "reserved",
        State::Quarantined => "quarantined",
    }
}

/// An address with its holder, in a line.
fn line_of(taken: &Taken) -> String {
    let mut line = format!("{} {}", taken.address, taken.state.word());
    if !taken.holder.is_empty() {
        line.push_str(if taken.state == State::Held { " by " } else { " for " });
        line.push_str(&short(&taken.holder, 64));
    }
    if !taken.runtime.is_empty() {
        line.push_str(&format!(" ({})", taken.runtime));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shown::Range;

    fn pool(first: &str, last: &str, taken: &[&str]) -> Pool {
        let [first, last] = [first, last].map(|end| end.parse().unwrap());
        let taken = taken.iter().map(|address| Taken {
            address: address.parse().unwrap(),
            state: State::Held,
            holder: "web".into(),
            runtime: "docker".into(),
            interface: "eth0".into(),
            age: "3m".into(),
        });
        Pool {
            network: "front".into(),
            title: None,
            subnet: "10.70.0.0/16".into(),
            size: 0,
            used: 0,
            reserved: 0,
            quarantined: 0,
            free: 0,
            ranges: vec![Range { first, last, gateway: Some(first) }],
            taken: taken.collect(),
            free_ranges: Vec::new(),
        }
    }

    fn drawn(pool: &Pool) -> String {
        let mut html = Html::default();
        write(&mut html, pool);
        html.into_string()
    }

    #[test]
    fn a_cell_for_each_address() {
        let html = drawn(&pool("10.70.1.1", "10.70.1.254", &["10.70.1.2", "10.70.1.9"]));
        assert_eq!(html.matches("class=\"held\"").count(), 2);
        assert!(html.contains("10.70.1.9 held by web (docker)") && html.contains("the gateway"));
        assert_eq!(html.matches("h20v20h-20z").count(), 31);
        assert!(html.contains("All after these are free."));
        let html = drawn(&pool("10.70.1.1", "10.70.1.254", &["10.70.1.2", "10.70.1.240"]));
        assert_eq!(html.matches("h20v20h-20z").count(), 254);
        assert!(!html.contains("All after"));
    }

    #[test]
    fn a_large_pool_is_no_larger() {
        let html = drawn(&pool("10.70.0.1", "10.70.255.254", &["10.70.1.2", "10.70.200.9"]));
        assert!(html.contains("Each cell is 256 addresses") && html.contains("1 of 256"), "{html}");
        assert!(html.len() < 20_000);
    }
}
