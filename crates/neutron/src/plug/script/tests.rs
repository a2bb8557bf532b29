use std::os::unix::fs::PermissionsExt;

use model::{Mac, ResourceId, Vif};
use tempfile::TempDir;

use super::*;

/// A directory with one program.
fn bindir(name: &str, text: &str) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join(name);
    fs::write(&file, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    directory
}

fn plugging(bindir: Option<PathBuf>) -> Plugging {
    Plugging { ovsdb: "unix:/nowhere".into(), bindir, ..Plugging::usual().unwrap() }
}

fn id(text: &str) -> ResourceId {
    text.parse().unwrap()
}

#[test]
fn a_program_gets_what_kuryrs_scripts_get() {
    let directory = tempfile::tempdir().unwrap();
    let given = directory.path().join("said");
    let text = format!("{{ for word; do echo \"<$word>\"; done; env; }} >> {}", given.display());
    let bindir = bindir("midonet", &text);
    let name = ScriptName::try_from("midonet".to_owned()).unwrap();
    let details = r#"{"port_filter":true,"ovs_hybrid_plug":false}"#;
    let (port, network) = (id("31b4f5a6-1c2d"), id("0f2c8d5e"));
    let switch_port = SwitchPort {
        vif: &Vif::Tap,
        port: &port,
        network: &network,
        mac: Mac::new([0xfa, 0x16, 0x3e, 1, 2, 3]),
        device: "d3v1c3",
        project: "pr0j3ct",
    };
    let plugging = plugging(Some(bindir.path().to_owned()));
    let end: IfName = "tapnobodyhas".parse().unwrap();
    bind(&switch_port, &end, (&name, details), &plugging).unwrap();
    let heard = fs::read_to_string(&given).unwrap();
    let words: Vec<&str> = heard.lines().filter(|line| line.starts_with('<')).collect();
    let repr = "<\"{'ovs_hybrid_plug': False, 'port_filter': True}\">";
    let common = ["<31b4f5a6-1c2d>", "<tapnobodyhas>", "<d3v1c3>", "<fa:16:3e:01:02:03>"];
    let wanted = [&["<bind>"][..], &common, &["<0f2c8d5e>", "<pr0j3ct>", repr]].concat();
    assert_eq!(words, wanted);
    let variables: Vec<&str> =
        heard.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
    assert!(variables.iter().all(|name| ["PATH", "LC_ALL", "PWD", "SHLVL", "_"].contains(name)));

    fs::remove_file(&given).unwrap();
    unbind(&switch_port, &end, (&name, ""), &plugging).unwrap();
    let heard = fs::read_to_string(&given).unwrap();
    let words: Vec<&str> = heard.lines().filter(|line| line.starts_with('<')).collect();
    assert_eq!(words, [&["<unbind>"][..], &common, &["<None>", "<0f2c8d5e>"]].concat());
}

#[test]
fn what_a_program_complains_of_is_reported() {
    let bindir = bindir("x", "head -c 100000 /dev/zero | tr '\\0' a >&2; exit 3");
    let error = run(Command::new(bindir.path().join("x")), LIMIT).unwrap_err().to_string();
    assert!(error.contains("exit status: 3") && error.contains("aaaa"), "{error}");
    assert!(error.len() < COMPLAINT + 500);
}

#[test]
fn a_program_that_does_not_end_is_killed() {
    let bindir = bindir("x", "sleep 1000 & wait");
    let error = run(Command::new(bindir.path().join("x")), Duration::from_millis(50)).unwrap_err();
    assert_eq!(error.kind(), Kind::TryAgain);
}

#[test]
fn what_a_program_leaves_running_is_not_waited_for() {
    let bindir = bindir("x", "sleep 20 & exit 0");
    let started = Instant::now();
    run(Command::new(bindir.path().join("x")), LIMIT).unwrap();
    assert!(started.elapsed() < Duration::from_secs(15));
}

#[test]
fn a_missing_program_is_named() {
    let name = ScriptName::try_from("iovisor".to_owned()).unwrap();
    let directory = tempfile::tempdir().unwrap();
    for bindir in [None, Some(directory.path().to_owned())] {
        let error = find(&name, &plugging(bindir)).unwrap_err();
        assert_eq!(error.kind(), Kind::NotFound);
        assert!(error.to_string().contains("iovisor"));
    }
}
