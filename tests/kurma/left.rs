//! Namespaces that plugins out of images are shown for a CNI runtime, after that has forgotten them: it
//! crashed, or the host did.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tests::kurma::Kurma;
use tests::{Cni, PluginImage};

use crate::seed::ours;

/// A network whose plugin is in this image.
fn list(image: &str) -> Value {
    json!({"cniVersion": "1.0.0", "name": "out-of-image", "plugins": [{
        "type": "spoke-image", "image": image, "privileged": true,
        "plugin": {"type": "bridge", "bridge": "image0", "ipam": {"type": "host-local",
            "ranges": [[{"subnet": "10.63.0.0/24"}]]}}}]})
}

/// A host with the reference's plugins in an image, and containers that were added.
#[track_caller]
fn host() -> Kurma {
    let kurma = Kurma::with(&json!([]), "");
    PluginImage::cni().write(&kurma.world, "/images/cni.aci");
    kurma
}

/// Adds a container; gives what the volume has its namespace under. That follows from the container's name,
/// and one that is in use anywhere on this machine is not taken away: each test has names of its own.
#[track_caller]
fn add(kurma: &Kurma, container: &str, list: &Value) -> String {
    let before = shown(kurma);
    let answers = Cni::container(&kurma.world, container).add(list);
    assert!(answers.iter().all(tests::Answer::ok), "{answers:?}");
    shown(kurma).into_iter().find(|name| !before.contains(name)).unwrap()
}

fn shown(kurma: &Kurma) -> Vec<String> {
    let names = kurma.world.sh(&format!("mkdir -p {0} && ls {0}", Kurma::NETNS));
    names.lines().map(str::to_owned).collect()
}

/// A reader that sees all processes of this machine, where worlds have their own; but for those that root
/// may not inspect because this machine is a container itself: these are left out here.
const ALL: &str = "
mkdir -p /run/proc; mount -t proc proc /run/proc; mount -t tmpfs tmpfs /proc
for entry in /run/proc/*; do
    case ${entry##*/} in
    [0-9]*) readlink $entry/ns/net >/dev/null 2>&1 || continue ;;
    esac
    ln -s $entry /proc/
done
";

/// How often the test looks again where a process could not be inspected.
const POLLS: usize = 50;

/// What `spoke gc` finds among namespaces. Where it cannot see everybody it does nothing: a process of
/// another test may just have become one of a user's, whom root may not look at here either.
#[track_caller]
fn gc(kurma: &Kurma, options: &str) -> Vec<Value> {
    let is_blind = |found: &Value| found["why"].as_str().unwrap().contains("not every process");
    let mut looks = (0..POLLS).map(|_| look(kurma, options));
    looks.find(|found| !found.iter().any(is_blind)).expect("everybody can be looked at")
}

#[track_caller]
fn look(kurma: &Kurma, options: &str) -> Vec<Value> {
    let mut command = Command::new("nsenter");
    let world = kurma.world.pid().to_string();
    command.args(["--target", &world, "--mount", "--root", "--net", "unshare", "--mount"]);
    command.args(["--propagation", "unchanged", "/bin/bash", "-euc"]);
    command.arg(format!("{ALL}\n/opt/cni/bin/spoke gc -o json {options}"));
    let said = command.output().unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let mut found: Vec<Value> = serde_json::from_slice(&said.stdout).unwrap();
    found.retain(|found| found["kind"] == "namespace");
    found
}

/// A process that runs until [`end`], and is there when this returns.
#[track_caller]
fn process(kurma: &Kurma, script: &str) -> (Child, String) {
    let mut command = kurma.world.command("bash");
    command.args(["-c", &format!("{script}\necho $$; exec sleep 1000")]).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    let mut said = BufReader::new(child.stdout.take().unwrap());
    said.read_line(&mut line).unwrap();
    (child, line.trim().to_owned())
}

#[track_caller]
fn end(kurma: &Kurma, (mut child, id): (Child, String)) {
    kurma.world.sh(&format!("kill -9 {id}"));
    child.wait().unwrap();
}

/// Waits for the kernel.
#[track_caller]
fn until(is_so: &dyn Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(30), "it does not come about");
        tests::glance();
    }
}

fn done(found: &[Value]) -> Vec<(String, String, bool)> {
    let text = |found: &Value, key: &str| found[key].as_str().unwrap().to_owned();
    found
        .iter()
        .map(|found| (text(found, "subject"), text(found, "remedy"), found["done"] == true))
        .collect()
}

/// Who does not see all processes of the host clears nothing.
#[test]
fn what_cannot_be_known_is_kept() {
    let (kurma, list) = (host(), list("file:///images/cni.aci"));
    let name = add(&kurma, "unknown", &list);
    kurma.world.sh("ip netns del unknown");
    let said = kurma.world.sh("/opt/cni/bin/spoke gc --force");
    let line = said.lines().find(|line| line.contains(&name)).unwrap();
    assert!(line.contains("keep") && line.contains("not every process"), "{said}");
    assert_eq!(shown(&kurma), [name]);
}

/// Only what no process is in, has open, or has mounted elsewhere.
#[test]
fn what_is_unused_is_cleared() {
    let (kurma, list) = (host(), list("file:///images/cni.aci"));
    let names = ["mounted", "entered", "opened", "elsewhere", "left"];
    let shown_as = names.map(|name| add(&kurma, name, &list));
    let users = [
        process(&kurma, "exec nsenter --net=/run/netns/entered bash -c 'echo $$; exec sleep 1000'"),
        process(&kurma, "exec 9</run/netns/opened"),
        // In a mount namespace of its own, where it has another name.
        process(
            &kurma,
            "exec unshare -m --propagation private bash -c 'touch /tmp/other-name
             mount --bind /run/netns/elsewhere /tmp/other-name
             echo $$; exec sleep 1000'",
        ),
    ];
    for name in &names[1..] {
        kurma.world.sh(&format!("ip netns del {name}"));
    }
    let left = shown_as[4].clone();
    // It might have come just now.
    for options in ["--dry-run", ""] {
        let found = gc(&kurma, options);
        assert_eq!(done(&found), [(left.clone(), "keep".into(), false)], "{found:?}");
        assert!(found[0]["why"].as_str().unwrap().contains("too young"), "{found:?}");
    }
    let found = gc(&kurma, "--force --dry-run");
    assert_eq!(done(&found), [(left.clone(), "free".into(), false)], "{found:?}");
    let veths = || kurma.world.sh("ip -o link show type veth").lines().count();
    assert_eq!((shown(&kurma).len(), veths()), (5, 5));
    let found = gc(&kurma, "--force");
    assert_eq!(done(&found), [(left.clone(), "free".into(), true)], "{found:?}");
    assert!(!shown(&kurma).contains(&left));
    // The namespace is gone with what was in it; the kernel takes its time for that.
    until(&|| veths() == 4);
    for user in users {
        end(&kurma, user);
    }
    assert_eq!(done(&gc(&kurma, "--force")).len(), 3);
    assert_eq!(shown(&kurma), [shown_as[0].clone()]);
    let mounted = Cni { result: None, ..Cni::container(&kurma.world, "other") };
    let mounted =
        Cni { container: "mounted".into(), netns: "/run/netns/mounted".into(), ..mounted };
    assert!(mounted.del(&list).iter().all(tests::Answer::ok));
    assert_eq!(shown(&kurma), [] as [&str; 0]);
}

/// Nothing is mounted after a reboot, but the files are there.
#[test]
fn after_a_reboot_the_files_go() {
    let (kurma, list) = (host(), list("file:///images/cni.aci"));
    let name = add(&kurma, "rebooted", &list);
    let netns = Kurma::NETNS;
    kurma.kurma("down");
    kurma.world.sh(&format!(
        "umount {netns}/{name}; umount {netns}; touch -d '2 minutes ago' {netns}/{name}
         touch -d '2 minutes ago' {netns}/cni-users; touch {netns}/cni-0123456789abcdef01234567"
    ));
    let found = gc(&kurma, "");
    let young = "cni-0123456789abcdef01234567".to_owned();
    let expected = [(young.clone(), "keep".into(), false), (name.clone(), "free".into(), true)];
    assert_eq!(done(&found), expected, "{found:?}");
    assert_eq!(shown(&kurma), [young, "cni-users".to_owned()]);
}

/// Where a plugin of ours has an address for it in the host's book, that comes free as well.
#[test]
fn what_the_book_has_of_it_goes_too() {
    let (kurma, list) = (ours(&json!([])), list("file:///images/spoke.aci"));
    add(&kurma, "booked", &list);
    let held = || kurma.world.sh("/opt/cni/bin/spoke ps -o json");
    assert!(held().contains("10.63.0.2"), "{}", held());
    gc(&kurma, "--force");
    assert!(held().contains("10.63.0.2"), "its container lives: {}", held());
    kurma.world.sh("ip netns del booked");
    assert_eq!(gc(&kurma, "--force").len(), 1);
    until(&|| kurma.world.sh("ip -o link show type veth").is_empty());
    gc(&kurma, "");
    assert_eq!(held().trim(), "[]");
}
