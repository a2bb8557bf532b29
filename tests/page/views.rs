//! Every view in a headless Chromium.

use serde_json::Value;
use tests::output;

use crate::bed::{Bed, EACH_DAY, PAGE, SPOKE};

const BROWSER: &str = concat!(include_str!("browser.py"), "\n\n", include_str!("views.py"));

/// No view with 500 containers is larger, in bytes, compressed or not.
const LARGEST: usize = 150_000;

/// The least contrast of text (WCAG 2.2, 1.4.3).
const CONTRAST: f64 = 4.5;

/// An announced change is shown within this, in seconds (`SOON` of views.py). The page asks by itself after 30.
const ANNOUNCED: f64 = 2.0;

/// What each view says.
const SAYS: [(&str, &[&str]); 18] = [
    (
        "overview",
        &["This host", "front", "worker ×490", "10.80.0.0/22", "internal", "494 containers"],
    ),
    ("addresses", &["10.70.1.0/24", "fd00:70::/64", "1 reserved", "490 held"]),
    ("network", &["fd00:70::2", "db", "Free: "]),
    ("containers", &["cache", "10.70.2.2/24", "1 of 3"]),
    ("filtered", &["1 of 494 containers", "db", "vault"]),
    ("container", &["10.70.1.2/24", "8080", "/run/netns/web", "tier", "is on network front"]),
    ("hostile", &["<img src=x onerror=alert(1)>\"'&�live��", "10.70.1.3/24"]),
    ("ports", &["8080/tcp", "anywhere", "10.70.1.2:80"]),
    ("events", &["attached", "1 of 19"]),
    ("second", &["2 of 19"]),
    ("day", &["60 events on 2026-10-20", "failed", "old-19-7"]),
    ("checks", &["no leaked addresses"]),
    ("explain", &["From", "Port", "Choose who begins"]),
    ("explained", &["does not reach", "FAIL"]),
    ("unknown", &["port \"x\" is not written as 80 or 80/udp"]),
    ("denied", &["3 refusals", "evil.example", "name refused", "<b>"]),
    ("of network", &["2 refusals on front"]),
    ("hosts", &["Hosts of this cluster", "alone", "this host", "192.0.2.1", "up"]),
];

#[test]
fn views_in_a_browser() {
    let bed = Bed::full();
    sizes(&bed);
    parts(&bed);
    bed.begin_cluster();
    let pid = bed.world.pid();
    let of_late = |what: &str| {
        let inside = format!("nsenter --target {pid} --mount --root --net --pid");
        format!("{inside} -- {SPOKE} network {what} front late")
    };
    let (connect, disconnect) = (of_late("connect"), of_late("disconnect"));
    let arguments = ["-c", BROWSER, PAGE, &connect, &disconnect];
    let done = output(bed.beside("python3").args(arguments), "");
    assert_eq!(done.status, 0, "{}{}\n{}", done.stdout, done.stderr, bed.world.logs());
    let seen: Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(seen["complaints"], serde_json::json!([]));
    for how in ["wide", "narrow", "plain"] {
        for (view, says) in SAYS {
            look(&seen[how][view], &format!("{view}, {how}"), says);
        }
    }
    tabs(&seen["tabs"]);
    spoken(&seen["spoken"]);
    println!("first paint in ms: {}", seen["painted"]);
    let seconds = seen["live"]["seconds"].as_f64().unwrap();
    assert!(seconds < ANNOUNCED, "{seconds} s");
    assert_eq!(seen["live"]["focus"], "container?name=web&runtime=spoke", "the focus stays");
    let find = &seen["find"];
    assert!(find[0].as_str().unwrap().contains("cache"), "{find}");
    assert_eq!((&find[1], &find[2]), (&Value::from("?q=cache"), &Value::from("cache")));
}

#[track_caller]
fn look(seen: &Value, name: &str, says: &[&str]) {
    let text = seen["text"].as_str().unwrap().replace(['\n', '\t'], " ");
    for words in says {
        assert!(text.contains(words), "{name}: no {words:?} in {text}");
    }
    assert_eq!(seen["wide"], 0, "{name} is wider than the screen");
    for none in ["heads", "tables", "foreign"] {
        assert_eq!(seen[none], 0, "{name}: {none}");
    }
    assert_eq!(seen["marks"], serde_json::json!([]), "{name}");
    assert_eq!(seen["hidden"], false, "{name}: what cannot be seen");
    assert_eq!((&seen["h1"], &seen["current"]), (&Value::from(1), &Value::from(1)), "{name}");
    let contrast = &seen["contrast"];
    assert!(contrast[0].as_f64().unwrap() >= CONTRAST, "{name}: {contrast}");
}

#[track_caller]
fn tabs(seen: &Value) {
    for (view, tabs) in seen.as_object().unwrap() {
        assert!(tabs["links"].as_u64().unwrap() > 8, "{view}: {tabs}");
        assert_eq!(tabs["missed"], serde_json::json!([]), "{view}: the tab key does not reach all");
        assert_eq!(tabs["plain"], serde_json::json!([]), "{view}: a focus that cannot be seen");
    }
}

/// What a screen reader reads of each view.
#[track_caller]
fn spoken(seen: &Value) {
    for (view, spoken) in seen.as_object().unwrap() {
        assert!(spoken["parts"].as_u64().unwrap() > 20, "{view}: {spoken}");
        for none in ["unnamed", "missing", "skipped", "alike"] {
            assert_eq!(spoken[none], serde_json::json!([]), "{view}: {none}");
        }
    }
}

#[track_caller]
fn sizes(bed: &Bed) {
    for view in ["", "addresses", "containers", "ports", "events"] {
        let size =
            bed.sh(&format!("curl -sf '{PAGE}{view}' | wc -c")).trim().parse::<usize>().unwrap();
        assert!((1_000..LARGEST).contains(&size), "{view}: {size} bytes");
        let packed =
            bed.sh(&format!("curl -sf -H 'Accept-Encoding: gzip' '{PAGE}{view}' | gunzip | wc -c"));
        let packed: usize = packed.trim().parse().unwrap();
        assert!(packed.abs_diff(size) < 2_000, "{view}: {packed} and {size}");
    }
}

/// All events of 30 days are on one of the parts.
#[track_caller]
fn parts(bed: &Bed) {
    let all = bed.sh(&format!(
        "for at in $(seq 25); do curl -sf '{PAGE}events?page='$at; done |
            grep -o 'old-[0-9]*-[0-9]* is on\\|old-[0-9]*-[0-9]*</a> is on' | sort -u | wc -l"
    ));
    assert_eq!(all.trim().parse::<usize>().unwrap(), 30 * EACH_DAY);
}
