//! What `spoke doctor` says of plugins out of images.

use serde_json::{Value, json};
use tests::kurma::Kurma;

use crate::U;

/// What it says about this word, as `STATUS WHAT`, and what mends it.
#[track_caller]
fn about(kurma: &Kurma, word: &str) -> Vec<(String, String)> {
    // Where there is no program but ours.
    let said = kurma.world.try_sh("PATH=/opt/cni/bin spoke doctor -o json").stdout;
    let checks: Vec<Value> = serde_json::from_str(&said).unwrap_or_else(|_| panic!("{said}"));
    let text = |check: &Value, key: &str| check[key].as_str().unwrap_or_default().to_owned();
    let line = |check: &Value| {
        let mends = text(check, "fix") + &text(check, "note");
        (format!("{} {}", text(check, "status"), text(check, "what")), mends)
    };
    checks.iter().map(line).filter(|(line, _)| line.contains(word)).collect()
}

#[test]
fn the_doctor_knows_plugins_out_of_images() {
    let kurma = Kurma::new(&json!([]));
    // Without any of them nothing is reported.
    assert_eq!(about(&kurma, "images"), []);
    let names = ["well", "ends", "late"].map(|name| Kurma::spy(name, &json!({})));
    kurma.networks(&json!(names));
    assert_eq!(about(&kurma, "images")[0].0, "ok nothing is wrong with networks out of images");
    for name in ["well", "ends", "late"] {
        kurma.kurma(&format!("up {name}"));
    }
    assert_eq!(about(&kurma, "images")[0].0, "ok nothing is wrong with networks out of images");
    kurma.kurma(&format!("provision {U} late"));
    kurma.instruct("late", "del", "echo not now; exit 4");
    kurma.try_kurma(&format!("deprovision {U}"));
    let (late, fix) = about(&kurma, U).remove(0);
    assert!(late.starts_with("warn ") && late.contains("pending: del of network late ("), "{late}");
    assert!(late.contains("not now") && fix.contains("deprovision --force"), "{late} {fix}");
    kurma.world.sh(&format!("kill -9 {}", kurma.plugin("ends")["pid"]));
    while kurma.plugin("ends")["state"] == "running" {}
    let (ended, fix) = about(&kurma, "network ends").remove(0);
    assert!(ended.starts_with("FAIL ") && ended.contains(": it"), "{ended}");
    assert_eq!(fix, "spoke kurma up ends");
    assert_eq!(about(&kurma, "network well"), []);
}

#[test]
fn the_doctor_knows_wrong_networks() {
    let kurma = Kurma::new(&json!([
        Kurma::spy("good", &json!({})),
        Kurma::spy("Bad_Name", &json!({})),
        Kurma::spy("other", &json!({"engine": "crun"})),
    ]));
    let (bad, fix) = about(&kurma, "Bad_Name").remove(0);
    assert!(bad.starts_with("FAIL ") && bad.contains("pod_networks[1].name"), "{bad}");
    assert_eq!(fix, "spoke kurma validate");
    let (missing, fix) = about(&kurma, "by crun").remove(0);
    assert!(missing.starts_with("FAIL ") && fix.contains("install crun"), "{missing} {fix}");
    kurma.networks_text("{");
    assert!(about(&kurma, "kurma.json")[0].0.starts_with("FAIL "));
}
