//! The conformance kit: it finds nothing where nothing is wrong, and each violation where one is.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod cni;
mod foreign;
mod liar;
mod ours;
mod trace;

use std::collections::BTreeMap;

use serde_json::Value;
use tests::{Output, Plugins, World};

/// What became of each case, and why.
type Verdicts = BTreeMap<String, (String, String)>;

/// Runs `spoke plugin` with these arguments in `world`.
fn plugin(world: &World, arguments: &str) -> Output {
    let program = format!("{}/spoke", Plugins::MOUNT);
    world.try_sh(&format!("{program} plugin {arguments}"))
}

/// Runs `spoke plugin test` and reads its report.
#[track_caller]
fn test(world: &World, arguments: &str) -> Verdicts {
    let output = plugin(world, &format!("test -o json {arguments}"));
    let report: Value = serde_json::from_str(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {arguments}\n{}{}", output.stdout, output.stderr));
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let cases = report["cases"].as_array().expect("cases").iter();
    let verdicts: Verdicts = cases
        .map(|case| (text(&case["case"]), (text(&case["verdict"]), case["reasons"].to_string())))
        .collect();
    let fails = verdicts.values().any(|(verdict, _)| verdict == "fail");
    assert_eq!(output.status, i32::from(fails), "{}", output.stderr);
    verdicts
}

/// The cases that ended so, each with its reasons.
fn ended<'v>(verdicts: &'v Verdicts, how: &str) -> BTreeMap<&'v str, &'v str> {
    let ended = verdicts.iter().filter(|(_, (verdict, _))| verdict == how);
    ended.map(|(case, (_, why))| (case.as_str(), why.as_str())).collect()
}

/// The names of the cases that ended so.
fn names<'v>(verdicts: &'v Verdicts, how: &str) -> Vec<&'v str> {
    ended(verdicts, how).into_keys().collect()
}
