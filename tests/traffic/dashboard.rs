//! The dashboard in packaging/grafana, against Debian's Prometheus and a real `spoke serve`.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tests::{Etcd, World};

use crate::bed::{Beside, fetch, until};

/// Where Prometheus answers, in the world's network namespace.
const PORT: u16 = 9478;
/// Calls that the bed's runtimes made, which Prometheus sees only once they come again.
const MAY_BE_EMPTY: [&str; 1] = ["spoke_operations_total"];

/// Of each of these there is a panel.
const PARTS: [&str; 7] = [
    "spoke_container_",
    "spoke_names_queries_total",
    "spoke_egress_denied_total",
    "spoke_host_members",
    "spoke_host_certificate_end_seconds",
    "spoke_port_",
    "spoke_quota_",
];

const CONFIG: &str = "
global: {scrape_interval: 1s, scrape_timeout: 1s}
scrape_configs:
- job_name: spoke
  static_configs: [{targets: ['127.0.0.1:9477']}]
";

/// Each expression is one that Prometheus understands, with data of the bed's containers; a container with
/// a hostile name is one series among the others.
#[track_caller]
pub(crate) fn every_expression_has_data(world: &World, hostile: &str) {
    let folder = world.path("/world/prometheus");
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join("prometheus.yml"), CONFIG).expect("written");
    let _prometheus = start(world, &folder);
    let up = until("the first scrape", || {
        let result = ask(world, "up")?;
        (result[0]["value"][1] == "1").then_some(result)
    });
    assert_eq!(up.as_array().map(Vec::len), Some(1), "{up}");
    // The host becomes one of a cluster, with an etcd of its own: those figures are a member's alone.
    Etcd::install(world);
    world.sh("/opt/cni/bin/spoke host init --name alone --address 192.0.2.1");
    world.sh("/opt/cni/bin/spoke limit line --quota 50GB/month");
    let expressions = expressions();
    for part in PARTS {
        assert!(expressions.iter().any(|it| it.contains(part)), "{part}: {expressions:?}");
    }
    assert!(expressions.len() > 10, "{expressions:?}");
    for expression in &expressions {
        until(expression, || {
            fetch(world, "client", "192.0.2.1", 8080);
            let result = ask(world, expression)?;
            let may_be_empty = MAY_BE_EMPTY.iter().any(|part| expression.contains(part));
            let is_full = result.as_array().is_some_and(|series| !series.is_empty());
            (is_full || may_be_empty).then_some(())
        });
    }
    let all = ask(world, "spoke_container_receive_bytes_total").expect("an answer");
    let all = all.as_array().expect("series");
    let names: BTreeSet<&str> =
        all.iter().filter_map(|series| series["metric"]["container"].as_str()).collect();
    assert!(names.contains(hostile) && names.len() == 3, "{names:?}");
}

/// It runs with this host's files, and ends with the test.
#[track_caller]
fn start(world: &World, folder: &Path) -> Beside {
    let mut prometheus = Command::new("nsenter");
    prometheus.args(["--target", &world.pid().to_string(), "--net", "--"]);
    prometheus.arg("/usr/bin/prometheus");
    prometheus.arg(format!("--config.file={}", folder.join("prometheus.yml").display()));
    prometheus.arg(format!("--storage.tsdb.path={}", folder.join("data").display()));
    prometheus.arg(format!("--web.listen-address=127.0.0.1:{PORT}"));
    let log = fs::File::create(folder.join("log")).expect("a log");
    let child = prometheus.stderr(log).stdout(std::process::Stdio::null()).spawn();
    Beside { child: child.expect("prometheus starts (scripts/setup test)") }
}

fn dashboard() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/grafana/spoke.json");
    serde_json::from_str(&fs::read_to_string(path).expect("the dashboard")).expect("JSON")
}

/// As Grafana documents it (Dashboard JSON model; the fields of panels and variables).
#[test]
fn is_what_grafana_documents() {
    let dashboard = dashboard();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    // An identifier of 8 to 40 characters; none in a file, where the database gives one.
    assert!((8..=40).contains(&text(&dashboard["uid"]).len()), "{}", dashboard["uid"]);
    assert!(dashboard.get("id").is_none_or(Value::is_null));
    assert!(["utc", "browser"].contains(&&*text(&dashboard["timezone"])));
    assert!(dashboard["schemaVersion"].is_u64() && dashboard["version"].is_u64());
    assert!(dashboard["graphTooltip"].as_u64().is_some_and(|mode| mode <= 2));
    assert!(dashboard["editable"].is_boolean() && dashboard["refresh"].is_string());
    for list in [&dashboard["tags"], &dashboard["links"], &dashboard["annotations"]["list"]] {
        assert!(list.is_array());
    }
    assert!(dashboard["time"]["from"].is_string() && dashboard["time"]["to"].is_string());
    let variables = dashboard["templating"]["list"].as_array().expect("variables");
    let is_one = |it: &Value| {
        ["datasource", "query"].contains(&&*text(&it["type"])) && it["name"].is_string()
    };
    assert!(variables.iter().all(is_one));
    let panels = dashboard["panels"].as_array().expect("panels");
    let ids: BTreeSet<u64> = panels.iter().map(|it| it["id"].as_u64().expect("an id")).collect();
    assert_eq!(ids.len(), panels.len(), "each has an id of its own");
    for panel in panels {
        is_panel(panel, panels);
    }
}

/// The width of the page is 24 columns, and no two are on one place.
#[track_caller]
fn is_panel(panel: &Value, all: &[Value]) {
    assert!(
        ["stat", "timeseries"].contains(&panel["type"].as_str().unwrap_or_default()),
        "{panel}"
    );
    assert!(panel["title"].is_string() && panel["fieldConfig"]["defaults"].is_object(), "{panel}");
    assert!(
        panel["fieldConfig"]["overrides"].is_array() && panel["options"].is_object(),
        "{panel}"
    );
    let place = |panel: &Value| {
        ["x", "y", "w", "h"].map(|side| panel["gridPos"][side].as_u64().expect("a number"))
    };
    let [x, y, w, h] = place(panel);
    assert!(w >= 1 && h >= 1 && x + w <= 24, "{panel}");
    for other in all.iter().filter(|other| other["id"] != panel["id"]) {
        let [left, top, wide, high] = place(other);
        let is_beside = x + w <= left || left + wide <= x || y + h <= top || top + high <= y;
        assert!(is_beside, "{panel} and {other}");
    }
    let targets = panel["targets"].as_array().expect("targets");
    let names: BTreeSet<&str> = targets.iter().filter_map(|it| it["refId"].as_str()).collect();
    assert_eq!(names.len(), targets.len(), "{panel}");
    assert!(
        targets.iter().all(|it| it["expr"].is_string() && it["datasource"]["type"] == "prometheus")
    );
}

/// The dashboard's expressions, with its variables as Grafana fills them in.
fn expressions() -> BTreeSet<String> {
    let dashboard = dashboard();
    let panels = dashboard["panels"].as_array().expect("panels");
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().expect("targets"));
    let expressions = targets.map(|target| target["expr"].as_str().expect("an expression"));
    // What fills the lists of the variables: `label_values(SERIES, LABEL)`.
    let variables = dashboard["templating"]["list"].as_array().expect("variables");
    let series = variables.iter().filter_map(|variable| {
        let query = variable["query"]["query"].as_str()?;
        let (series, label) = query.strip_prefix("label_values(")?.rsplit_once(", ")?;
        Some(format!("count by ({}) ({series})", label.trim_end_matches(')')))
    });
    let series: Vec<String> = series.collect();
    assert_eq!(series.len(), 3, "{series:?}");
    let expressions = expressions.chain(series.iter().map(String::as_str));
    let fill = |text: &str| {
        ["$runtime", "$network", "$container"]
            .iter()
            .fold(text.replace("$__rate_interval", "1m"), |text, name| text.replace(name, ".*"))
    };
    expressions.map(fill).collect()
}

/// What Prometheus answers; `None` while it does not.
///
/// # Panics
/// Where it does not understand the expression.
#[track_caller]
fn ask(world: &World, expression: &str) -> Option<Value> {
    let mut ask = Command::new("nsenter");
    ask.args(["--target", &world.pid().to_string(), "--net", "--"]);
    ask.args(["busybox", "nc", "127.0.0.1", &PORT.to_string()]);
    let encoded: String = expression.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let request = format!("GET /api/v1/query?query={encoded} HTTP/1.0\r\n\r\n");
    let mut child = ask
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("nsenter starts");
    let mut input = child.stdin.take().expect("piped");
    // It may not listen yet.
    let _ = input.write_all(request.as_bytes());
    let mut text = String::new();
    child.stdout.take().expect("piped").read_to_string(&mut text).expect("text");
    drop(input);
    let _ = child.wait();
    let (head, body) = text.split_once("\r\n\r\n")?;
    if head.contains(" 503 ") {
        return None;
    }
    let answer: Value = serde_json::from_str(body).ok()?;
    assert_eq!(answer["status"], "success", "{expression}: {answer}");
    Some(answer["data"]["result"].clone())
}
