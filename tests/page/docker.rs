//! What the page shows of a host with a real Docker Engine.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};
use tests::{Engine, Plugins, Release, Serve, output};

use crate::bed::{CONFIG, PAGE, SPOKE};

const SCRIPT: &str = concat!(include_str!("browser.py"), "\n\n", include_str!("ports.py"));

/// Its own networks are not in the book: their ports are listed, and lead to no view.
#[test]
fn ports_of_dockers_own_networks() {
    let mut engine = Engine::prepared(Release::V20_10, &Plugins::subject());
    engine.world().sh("mkdir -p /etc/spoke");
    fs::write(engine.world().path("/etc/spoke/config.toml"), CONFIG).unwrap();
    let _serve = Serve::start(engine.world(), &[]);
    engine.start(&[]);
    engine.import();
    engine.world().sh(&format!(
        "docker network create -d spoke --ipam-driver spoke --subnet 10.70.1.0/24 front
        docker network create shop
        docker run -d --name web --network front -p 8080:80 busybox sleep 600
        docker run -d --name till --network shop -p 127.0.0.1:5432:5432 -p 0.0.0.0:8443:443 busybox sleep 600
        timeout 60 sh -c 'until {SPOKE} ports | grep -q web; do sleep 0.05; done'"
    ));
    let mut python = Command::new("nsenter");
    python.arg(format!("--net=/proc/{}/ns/net", engine.world().pid()));
    let done = output(python.args(["--", "python3", "-c", SCRIPT, PAGE]), "");
    assert_eq!(done.status, 0, "{}{}", done.stdout, done.stderr);
    let seen: Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(seen["complaints"], json!([]));
    assert_eq!(seen["count"], "3", "the overview counts them");
    for how in ["wide", "narrow"] {
        let seen = &seen[how];
        assert_eq!(seen["beyond"], 0, "{how}: it is wider than the screen");
        let rows: Vec<(&str, &str, u64)> =
            seen["rows"].as_array().unwrap().iter().map(row).collect();
        let own = |port, from| (port, from, 0);
        let expected = [
            own("5432/tcp", "this host"),
            ("8080/tcp", "anywhere", 2),
            own("8443/tcp", "anywhere"),
        ];
        assert_eq!(rows, expected, "{how}");
        for (at, is_own) in [(0, true), (1, false), (2, true)] {
            let text = seen["rows"][at]["text"].as_str().unwrap();
            assert_eq!(text.contains("Docker's own"), is_own, "{how}: {text}");
            assert_eq!(text.contains("till"), is_own, "{how}: {text}");
            assert_eq!(text.contains("shop"), is_own, "{how}: {text}");
            // The network is called as Docker calls it, not as the book does.
            assert!(
                is_own || text.contains("front") && !text.contains("docker-10."),
                "{how}: {text}"
            );
        }
    }
}

/// A port, from where it is reached, and how many links its row has.
fn row(seen: &Value) -> (&str, &str, u64) {
    let text = |part: &str| seen[part].as_str().unwrap();
    (text("port"), text("from"), seen["links"].as_u64().unwrap())
}
