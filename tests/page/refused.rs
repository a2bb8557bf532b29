//! Who does not get the page.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use tests::output;

use crate::bed::{Bed, PAGE, SPOKE};

const CROWD: &str = include_str!("crowd.py");

/// No more listen at a time.
const LISTENING: u64 = 16;

/// More idle connections than are served at a time.
const SLOW: usize = 40;

/// The daemon has its own threads, and no more for clients than twice those that are served.
const THREADS: usize = 100;

/// `spoke web`, and its URL; ended when dropped.
struct Web {
    process: Child,
    url: String,
}

impl Web {
    #[track_caller]
    fn start(bed: &Bed) -> Self {
        let mut command: Command = bed.world.command(SPOKE);
        let mut process = command.arg("web").stdout(Stdio::piped()).spawn().unwrap();
        let mut url = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut url).unwrap();
        Self { process, url: url.trim().to_owned() }
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The status of an answer.
#[track_caller]
fn status(bed: &Bed, arguments: &str) -> String {
    bed.sh(&format!("curl -s -o /dev/null -w '%{{http_code}}' --max-time 60 {arguments} || :"))
}

/// What both doors refuse; `base` is the URL of the overview.
#[track_caller]
fn refuses(bed: &Bed, base: &str) {
    for (arguments, expected) in [
        ("", "200"),
        ("-I", "200"),
        ("-H 'Host: localhost:9180'", "200"),
        ("-H 'Host: rebound.example'", "421"),
        ("-H 'Host: 192.0.2.1:9180'", "421"),
        ("-H 'Host:'", "421"),
        ("-X POST", "405"),
        ("-X OPTIONS -H 'Origin: http://evil.example'", "405"),
        ("-X DELETE", "405"),
        ("-H 'Sec-Fetch-Site: cross-site' -H 'Sec-Fetch-Mode: no-cors'", "403"),
        ("-H 'Sec-Fetch-Site: same-site'", "403"),
        ("-H \"Long: $(printf x%.0s $(seq 9000))\"", "431"),
    ] {
        assert_eq!(status(bed, &format!("{arguments} '{base}'")), expected, "{arguments} {base}");
    }
    let from_elsewhere = format!("curl -si -H 'Origin: http://evil.example' '{base}'");
    let head = bed.sh(&from_elsewhere).to_ascii_lowercase();
    assert!(!head.contains("access-control"), "{head}");
    for field in
        ["content-security-policy: default-src 'none';", "nosniff", "no-referrer", "no-store"]
    {
        assert!(head.contains(field), "{field}: {head}");
    }
}

#[test]
fn others_are_refused() {
    let bed = Bed::new();
    refuses(&bed, PAGE);
    let mode = bed.sh("stat -c '%a %U' /run/spoke/web.sock");
    assert_eq!(mode.trim(), "600 root");
    for (target, word) in [
        ("nosuch", "choose one above"),
        ("container?name=Call+this+number&runtime=x", "no container of this name"),
        ("containers?network=nosuch", "no network of this name"),
        ("addresses?network=nosuch", "no network of this name"),
    ] {
        assert_eq!(status(&bed, &format!("'{PAGE}{target}'")), "404", "{target}");
        let page = bed.sh(&format!("curl -s '{PAGE}{target}'"));
        assert!(page.contains(word) && !page.contains("Call this"), "{target}: {page}");
    }
    let web = Web::start(&bed);
    let (origin, token) = web.url.rsplit_once('/').unwrap().0.rsplit_once('/').unwrap();
    assert!(token.len() >= 32 && origin.starts_with("http://127.0.0.1:"), "{}", web.url);
    refuses(&bed, &web.url);
    for wrong in ["/", "/ports", "/00000000000000000000000000000000000000000000000000000000/"] {
        assert_eq!(status(&bed, &format!("{origin}{wrong}")), "403", "{wrong}");
    }
    assert_eq!(status(&bed, &format!("{origin}/{}x/", &token[1..])), "403");
    let other = Web::start(&bed);
    assert_ne!(other.url.rsplit('/').nth(1), Some(token), "each command has a token of its own");
    assert_eq!(bed.sh("ss -Hltn | awk '{print $4}' | grep -v '^127.0.0.1:' | wc -l").trim(), "0");
    slow(&bed);
    crowd(&bed);
    drop(bed.serve);
    let gone = bed.world.try_sh(&format!("curl -s -o /dev/null -w '%{{http_code}}' '{}'", web.url));
    assert_eq!(gone.stdout, "502");
    let without = bed.world.try_sh(&format!("{SPOKE} web"));
    assert_eq!(without.status, 75, "{without:?}");
    assert!(without.stderr.contains("spoke serve"), "{without:?}");
    fs::write(bed.world.path("/etc/spoke/config.toml"), "[web]\nlisten = \"0.0.0.0:9180\"\n")
        .unwrap();
    let open = bed.world.try_sh(&format!("{SPOKE} serve"));
    assert!(
        open.status == 2 && open.stderr.contains("can be reached from other hosts"),
        "{open:?}"
    );
}

/// Of many that listen as many hear as may, no client is kept out, and what is no request of a browser's is refused.
#[track_caller]
fn crowd(bed: &Bed) {
    let pid = bed.world.pid();
    let make = format!(
        "nsenter --target {pid} --mount --root --net --pid -- {SPOKE} network create --subnet 10.98.0.0/24 crowd"
    );
    let done = output(bed.beside("python3").args(["-c", CROWD, "9180", &make]), "");
    assert_eq!(done.status, 0, "{}{}", done.stdout, done.stderr);
    let seen: Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(seen["odd"], json!({}), "a request is answered in another way");
    assert_eq!((&seen["while"], &seen["heard"]), (&json!("200"), &seen["listening"]), "{seen}");
    let listening = seen["listening"].as_u64().unwrap();
    assert!((1..=LISTENING).contains(&listening), "{seen}");
}

/// Clients that say nothing, and some that listen for ever, keep no other one out.
#[track_caller]
fn slow(bed: &Bed) {
    let script = format!(
        "for at in $(seq {SLOW}); do exec {{slow}}<>/dev/tcp/127.0.0.1/9180; printf 'GET /' >&$slow; done
        for at in $(seq 20); do
            exec {{slow}}<>/dev/tcp/127.0.0.1/9180
            printf 'GET /live HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n' >&$slow
        done
        curl -sf --max-time 60 {PAGE}ports >/dev/null && echo served"
    );
    assert_eq!(bed.sh(&script).trim(), "served");
    let threads = bed.serve.pid().map(|pid| pid.as_raw_nonzero()).expect("it runs");
    let count = fs::read_dir(format!("/proc/{threads}/task")).unwrap().count();
    assert!(count < THREADS, "{count} threads");
    // Who has asked stays while others only connect. The listeners from before make room as soon as it is
    // noticed that they are gone.
    let script = format!(
        "setsid sh -c 'until curl -sfN {PAGE}live; do sleep 0.05; done' >/world/live & listens=$!
        until_so() {{ timeout 60 sh -c \"until grep -q '$1' /world/live; do sleep 0.05; done\"; }}
        until_so retry
        for at in $(seq {SLOW}); do exec {{slow}}<>/dev/tcp/127.0.0.1/9180; done
        {SPOKE} network create --subnet 10.99.0.0/24 later
        until_so 'event: change' && kill -- -$listens && echo heard"
    );
    assert!(bed.sh(&script).ends_with("heard\n"));
}
