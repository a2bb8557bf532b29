//! The volume of namespaces against a plugin that writes there.

use std::fs;
use std::os::unix::fs::symlink;

use kurma::{Name, PodId, Pods};
use netlink::Netns;
use serde_json::json;

use super::spy::{Spy, in_a_world};

const U: &str = "146d7cef-fbf6-41da-a2f8-eba218597f9c";
const OTHER: &str = "246d7cef-fbf6-41da-a2f8-eba218597f9c";

fn pod(text: &str) -> PodId {
    text.parse().unwrap()
}

#[test]
fn a_plugin_sees_later_namespaces_and_writes_nothing() {
    in_a_world(|| {
        let spy = Spy::new(&json!([{"name": "a"}]));
        let pods = Pods::new(&spy.pod, &spy.networks);
        let names: [Name; 1] = ["a".parse().unwrap()];
        spy.instruct(
            "add",
            "for f in x $1 $1.x; do (: >>/var/lib/kurma/netns/${f##*/}) 2>>/spy/why && echo $f >>/spy/out; done
             echo {}",
        );
        for text in [U, OTHER] {
            let record = pods.provision(&pod(text), &names).unwrap();
            let inode = Netns::open(&record.netns).unwrap().inode().to_string();
            assert!(spy.calls().last().unwrap().ends_with(&inode), "{:?}", spy.calls());
        }
        assert!(spy.kept("why").contains("Read-only file system"), "{}", spy.kept("why"));
        assert!(!spy.directory().join("spy/out").exists(), "{}", spy.kept("out"));
        assert_eq!(fs::read_dir(&spy.pod.directories.netns).unwrap().count(), 2);
        for text in [U, OTHER] {
            pods.deprovision(&pod(text)).unwrap();
        }
    });
}

/// A privileged plugin still writes there, and so did every plugin before.
#[test]
fn links_in_the_volume_lead_nowhere() {
    in_a_world(|| {
        let spy = Spy::new(&json!([{"name": "a"}]));
        let pods = Pods::new(&spy.pod, &spy.networks);
        let names: [Name; 1] = ["a".parse().unwrap()];
        pods.provision(&pod(OTHER), &names).unwrap();
        let (victim, file) = (spy.directory().join("victim"), spy.directory().join("file"));
        let kept = Netns::make(&victim).unwrap();
        fs::write(&file, "").unwrap();
        let link = spy.pod.directories.netns.join(U);
        for to in [victim.as_path(), "/proc/1/ns/net".as_ref(), file.as_ref(), "/nowhere".as_ref()]
        {
            symlink(to, &link).unwrap();
            assert!(pods.clear().unwrap().is_empty());
            assert!(fs::symlink_metadata(&link).is_err(), "{}", to.display());
            symlink(to, &link).unwrap();
            assert!(Netns::make(&link).is_err(), "{}", to.display());
            assert!(kept.keep_at(&link).is_err(), "{}", to.display());
            // It is removed, and a namespace of the pod's own is made.
            let record = pods.provision(&pod(U), &names).unwrap();
            assert!(!Netns::kept(&record.netns).unwrap().is_same(&kept));
            pods.deprovision(&pod(U)).unwrap();
            assert!(fs::symlink_metadata(&link).is_err(), "{}", to.display());
        }
        assert!(Netns::kept(&victim).unwrap().is_same(&kept));
        assert!(Netns::open(&file).is_err());
        pods.deprovision(&pod(OTHER)).unwrap();
        Netns::unmake(&victim).unwrap();
    });
}

/// What a plugin can write, it can rename: also what lies above the records of all plugins.
#[test]
fn no_directory_above_what_is_hidden_is_replaced() {
    in_a_world(|| {
        let mut spy = Spy::new(&json!([]));
        let runtime = spy.directory().join("deep/er/run");
        spy.directories().runtime = runtime.clone();
        let host = json!([{"host": spy.directory(), "container": "/host"}]);
        spy.configure(&json!([{"name": "a", "mounts": host}]));
        spy.instruct(
            "add",
            "for f in deep netns; do
               busybox mv /host/$f /host/gone 2>>/spy/why && echo $f >>/spy/out
             done
             (: >/host/netns/x) 2>>/spy/why && echo netns >>/spy/out
             echo {}",
        );
        let pods = Pods::new(&spy.pod, &spy.networks);
        let names: [Name; 1] = ["a".parse().unwrap()];
        pods.provision(&pod(U), &names).unwrap();
        assert!(!spy.directory().join("spy/out").exists(), "{}", spy.kept("out"));
        let why = spy.kept("why");
        assert_eq!(why.matches("busy").count(), 2, "{why}");
        assert!(runtime.join("plugins/a/state.json").exists());
        pods.deprovision(&pod(U)).unwrap();
    });
}
