//! What many hosts ask of etcd, as a picture: measured points, and where their line leads.

use std::fmt::Write;

use super::scale::{DAEMON, DELIVERY, EQUAL_WORK, MEMORY, RESYNC_ETCD, levels, name};
use crate::stats::Book;

const WIDTH: f64 = 300.0;
const HEIGHT: f64 = 180.0;
/// Numbers of hosts, and what was measured with them.
type Points = Vec<(f64, f64)>;

/// The number of hosts that the lines lead to.
const FAR: f64 = 5_000.0;

struct Panel {
    title: &'static str,
    unit: &'static str,
    verb: &'static str,
    who: &'static str,
    /// Divides what was measured.
    by: f64,
    /// What it should not exceed with 200 hosts; none where that is not a number.
    bound: f64,
    /// Whether it does not depend on the number of hosts.
    is_constant: bool,
}

const PANELS: [Panel; 4] = [
    Panel {
        title: "etcd: processor of reading everything once",
        unit: "ms",
        verb: RESYNC_ETCD,
        who: "etcd",
        by: 1.0,
        bound: f64::NAN,
        is_constant: false,
    },
    Panel {
        title: "daemon: processor from start to equal entries",
        unit: "ms",
        verb: EQUAL_WORK,
        who: DAEMON,
        by: 1.0,
        bound: f64::NAN,
        is_constant: false,
    },
    Panel {
        title: "daemon in memory",
        unit: "MiB",
        verb: MEMORY,
        who: DAEMON,
        by: 1024.0,
        bound: 64.0,
        is_constant: false,
    },
    Panel {
        title: "etcd: processor of a delivery",
        unit: "µs",
        verb: DELIVERY,
        who: "etcd",
        by: 1.0,
        bound: f64::NAN,
        is_constant: true,
    },
];

/// The picture; nothing where nothing was measured.
pub(crate) fn svg(book: &Book) -> Option<String> {
    let panels: Vec<(&Panel, Points)> =
        PANELS.iter().map(|panel| (panel, points(book, panel))).collect();
    panels.iter().any(|(_, points)| points.len() > 1).then_some(())?;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        2.0 * (WIDTH + 80.0),
        2.0 * (HEIGHT + 70.0)
    );
    for (at, (panel, points)) in panels.iter().enumerate() {
        let (column, row) = ((at % 2) as f64, (at / 2) as f64);
        let _ = writeln!(
            out,
            "<g transform=\"translate({} {})\">",
            60.0 + column * (WIDTH + 80.0),
            30.0 + row * (HEIGHT + 70.0)
        );
        draw(&mut out, panel, points);
        out += "</g>\n";
    }
    out += "</svg>\n";
    Some(out)
}

fn points(book: &Book, panel: &Panel) -> Points {
    let levels = levels(false).iter().chain(levels(true));
    let mut points: Points = levels
        .filter_map(|level| {
            let measured = book.sampled(&name(*level), panel.verb, panel.who)?.summary()?;
            Some((*level as f64, measured.median / panel.by))
        })
        .collect();
    points.sort_by(|one, other| one.0.total_cmp(&other.0));
    points
}

/// The line of least squares.
pub(super) fn line(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    let count = points.len() as f64;
    let (mean_x, mean_y) =
        points.iter().fold((0.0, 0.0), |(x, y), it| (x + it.0 / count, y + it.1 / count));
    let spread: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    let slope = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum::<f64>() / spread;
    slope.is_finite().then_some((slope, mean_y - slope * mean_x))
}

/// Both axes are logarithmic.
fn draw(out: &mut String, panel: &Panel, points: &[(f64, f64)]) {
    let mean = points.iter().map(|(_, y)| y).sum::<f64>() / points.len() as f64;
    let line = if panel.is_constant { Some((0.0, mean)) } else { line(points) };
    let far = line.map(|(slope, base)| (slope * FAR + base).max(0.1));
    let most = points
        .iter()
        .map(|(_, y)| *y)
        .chain(far)
        .chain((!panel.bound.is_nan()).then_some(panel.bound));
    let (top, bottom) =
        (most.clone().fold(1.0, f64::max) * 1.5, most.fold(f64::MAX, f64::min) / 2.0);
    let x = |hosts: f64| (hosts / 8.0).ln() / (FAR * 1.2 / 8.0).ln() * WIDTH;
    let y = |value: f64| HEIGHT - (value.max(bottom) / bottom).ln() / (top / bottom).ln() * HEIGHT;
    let _ = writeln!(
        out,
        "<text x=\"0\" y=\"-8\" font-weight=\"bold\">{}, {}</text>\n\
         <path d=\"M0 0V{HEIGHT}H{WIDTH}\" fill=\"none\" stroke=\"black\"/>",
        panel.title, panel.unit
    );
    for hosts in [10.0, 50.0, 200.0, 1_000.0, FAR] {
        let at = x(hosts);
        let _ = writeln!(
            out,
            "<text x=\"{at:.0}\" y=\"{:.0}\" text-anchor=\"middle\">{hosts}</text>",
            HEIGHT + 14.0
        );
    }
    if !panel.bound.is_nan() {
        let at = y(panel.bound);
        let _ = writeln!(
            out,
            "<path d=\"M0 {at:.1}H{:.0}\" stroke=\"#c00\" stroke-dasharray=\"3 3\"/>\
             <text x=\"4\" y=\"{:.0}\" fill=\"#c00\">with 200 hosts at most {}</text>",
            x(200.0),
            at - 3.0,
            panel.bound
        );
    }
    for (hosts, value) in points {
        let (at_x, at_y) = (x(*hosts), y(*value));
        let _ = writeln!(
            out,
            "<circle cx=\"{at_x:.1}\" cy=\"{at_y:.1}\" r=\"3\" fill=\"#06c\"/>\
             <text x=\"{at_x:.0}\" y=\"{:.0}\" text-anchor=\"middle\" fill=\"#06c\">{value:.0}</text>",
            at_y - 6.0
        );
    }
    if let (Some(far), Some((hosts, value))) = (far, points.last()) {
        let _ = writeln!(
            out,
            "<path d=\"M{:.1} {:.1}L{:.1} {:.1}\" stroke=\"#06c\" stroke-dasharray=\"5 4\"/>\
             <text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"end\">{far:.0} with {FAR} hosts</text>",
            x(*hosts),
            y(*value),
            x(FAR),
            y(far),
            WIDTH,
            y(far) - 6.0
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_goes_through_its_points() {
        assert_eq!(line(&[(1.0, 3.0), (2.0, 5.0), (3.0, 7.0)]), Some((2.0, 1.0)));
        assert_eq!(line(&[(1.0, 3.0)]), None);
    }
}
