//! The runtime beside plugins that are a few lines of shell: what they read, and what becomes
//! of what they say.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use cni::runtime::{Cache, NetworkList, Programs, Runtime, Target, Trace, parse_args};
use serde_json::Value;
use tempfile::TempDir;

/// A directory of plugins and a cache.
struct Bench {
    root: TempDir,
}

fn ignore(_: &[u8]) {}

impl Bench {
    fn new(plugins: &[(&str, &str)]) -> Self {
        let root = tempfile::tempdir().unwrap();
        for (name, body) in plugins {
            let file = root.path().join(name);
            fs::write(&file, format!("#!/bin/sh\ncd {}\n{body}\n", root.path().display())).unwrap();
            fs::set_permissions(&file, Permissions::from_mode(0o755)).unwrap();
        }
        Self { root }
    }

    fn with<T>(&self, trace: Trace, work: impl FnOnce(&Runtime<'_>) -> T) -> T {
        let path = vec![self.root.path().to_owned()];
        let programs = Programs { trace, ..Programs::new(path, &ignore) };
        let cache = Cache::new(&self.root.path().join("cache"));
        work(&Runtime { programs: &programs, cache: &cache })
    }

    fn run<T>(&self, work: impl FnOnce(&Runtime<'_>) -> T) -> T {
        self.with(Trace::default(), work)
    }

    fn said(&self, name: &str) -> String {
        fs::read_to_string(self.root.path().join(name)).unwrap_or_default()
    }
}

fn list(version: &str, kinds: &[&str]) -> NetworkList {
    let plugins: Vec<Value> = kinds.iter().map(|kind| serde_json::json!({"type": kind})).collect();
    let list = serde_json::json!({"name": "n", "cniVersion": version, "plugins": plugins});
    NetworkList::parse(list.to_string().as_bytes()).unwrap()
}

fn target() -> Target {
    Target::new("c".parse().unwrap(), "/nowhere", "eth0".parse().unwrap())
}

#[test]
fn a_trace_goes_through_every_plugin() {
    let note = "echo \"$CNI_COMMAND $TRACEPARENT $TRACESTATE $BAGGAGE\" >>trace; echo '{}'";
    let bench = Bench::new(&[("one", note), ("two", note)]);
    let trace = Trace {
        parent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into()),
        state: Some("vendor=1".into()),
        baggage: Some("user=a".into()),
    };
    let list = list("1.1.0", &["one", "two"]);
    bench.with(trace.clone(), |runtime| {
        runtime.add(&list, &target()).unwrap();
        runtime.check(&list, &target()).unwrap();
        runtime.del(&list, &target()).unwrap();
        runtime.status(&list).unwrap();
    });
    let reported = bench.said("trace");
    let parent = trace.parent.unwrap();
    let all = |verb: &str| format!("{verb} {parent} vendor=1 user=a\n").repeat(2);
    assert_eq!(reported, ["ADD", "CHECK", "DEL", "STATUS"].map(all).concat());
}

/// Nothing is executed for what the specification does not allow.
#[test]
fn what_is_not_allowed_is_no_target() {
    for bad in ["", "../c", "-c", "a/b", "a b"] {
        assert!(bad.parse::<model::ContainerId>().is_err(), "{bad}");
        let list = format!(r#"{{"name":"{bad}","plugins":[{{"type":"x"}}]}}"#);
        assert!(NetworkList::parse(list.as_bytes()).is_err(), "{bad}");
    }
    for bad in ["", ".", "..", "a/b", "a:b", "a b", "sixteen-bytes-xx"] {
        assert!(bad.parse::<model::IfName>().is_err(), "{bad}");
    }
    assert!(parse_args("A=b;").is_err());
}

/// A failed ADD is undone by every plugin, the last first.
#[test]
fn a_failure_is_undone_by_all() {
    let note = "echo \"$(basename $0) $CNI_COMMAND\" >>calls;";
    let good = format!("{note} [ $CNI_COMMAND != ADD ] || echo '{{}}'");
    let say = r#"echo '{"code":11,"msg":"later"}'"#;
    let bad = format!("{note} [ $CNI_COMMAND != ADD ] || {{ {say}; exit 1; }}");
    let bench = Bench::new(&[("good", &good), ("bad", &bad)]);
    let list = list("1.0.0", &["good", "bad"]);
    let failure = bench.run(|runtime| runtime.add(&list, &target())).unwrap_err();
    assert_eq!(
        (failure.code, failure.msg.as_str()),
        (11, "plugin type=\"bad\" failed (add): later")
    );
    assert_eq!(bench.said("calls"), "good ADD\nbad ADD\nbad DEL\ngood DEL\n");
    assert!(!bench.root.path().join("cache/results/n-c-eth0").exists());
}
