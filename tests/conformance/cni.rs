//! CNI plugins: ours, the reference's, and one that is wrong in one way at a time.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use tests::{Plugins, World};

use crate::{ended, names, test};

/// What can be tested everywhere.
const TYPES: [&str; 6] = ["bridge", "ptp", "host-local", "loopback", "portmap", "tuning"];

#[test]
fn ours_violate_nothing() {
    let world = World::new(&Plugins::subject());
    for name in TYPES {
        let versions = "--only 0.2.0 --only 0.4.0 --only 1.1.0";
        let verdicts = test(&world, &format!("--cni {}/{name} {versions}", Plugins::MOUNT));
        assert_eq!(ended(&verdicts, "fail"), Default::default(), "{name}");
        assert!(names(&verdicts, "pass").len() > 60, "{name}: {verdicts:#?}");
    }
}

/// What the reference plugins 1.1.1 are known for: rules and chains of a container whose namespace
/// is gone stay for ever; loopback answers old versions with results of new ones.
#[test]
fn known_weaknesses_of_the_reference_are_found() {
    let world = World::new(&Plugins::subject());
    let directory = Plugins::previous().dir().display().to_string();
    let weak = |name: &str| {
        let verdicts = test(&world, &format!("--cni {directory} {name} --only 0.4.0"));
        let fails = names(&verdicts, "fail").into_iter();
        fails.map(|case| case.trim_start_matches("0.4.0/").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(weak("bridge"), ["del-netns-gone", "del-without-netns"]);
    assert_eq!(weak("ptp"), ["del-netns-gone", "del-without-netns"]);
    assert_eq!(weak("loopback"), ["life"]);
    assert_eq!(weak("host-local"), Vec::<String>::new());
}

/// A plugin that works on the bridge's interface alone.
const CHAINED: &str = r##"#!/bin/bash
input=$(cat)
refuse() { echo '{"cniVersion":"1.0.0","code":'$1',"msg":"'"$2"'"}'; exit 1; }
version=$(sed 's/.*"cniVersion":"\([^"]*\)".*/\1/' <<<"$input")
[ "$CNI_COMMAND" != VERSION ] || { echo '{"cniVersion":"1.1.0","supportedVersions":["0.4.0","1.0.0"]}'; exit; }
case "$CNI_COMMAND:$input" in
*:*'"cniVersion":"99'*) refuse 1 version ;;
NOSUCH:*) refuse 4 command ;;
ADD:*'"cniVersion":') refuse 6 undecodable ;;
ADD:*)
    [[ $CNI_CONTAINERID =~ ^[0-9a-z]+$ ]] || refuse 4 container
    [[ $CNI_IFNAME =~ ^[0-9a-z]+$ && -n $CNI_NETNS ]] || refuse 4 interface
    [[ $input = *'"name":"kit"'* ]] || refuse 7 name
    [[ $input = *'"name":"chain0"'* ]] || refuse 7 "no bridge chain0 before"
    sed 's/.*"prevResult":\(.*\)}$/\1/' <<<"$input" ;;
esac
exit 0
"##;

/// A third party's chained plugin: it needs what those before it in its list have made.
#[test]
fn a_list_brings_who_comes_before() {
    let world = World::new(&Plugins::subject());
    fs::create_dir_all(world.path("/wrong")).expect("a folder");
    let path = world.path("/wrong/chained");
    fs::write(&path, CHAINED).expect("a script");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("ours");
    let list = r#"{"cniVersion":"1.0.0","name":"n","plugins":[
        {"type":"bridge","bridge":"chain0","isGateway":true,"ipMasq":true,
         "ipam":{"type":"host-local","subnet":"10.94.0.0/24"}},
        {"type":"tuning","mtu":1400},{"type":"chained"}]}"#;
    fs::write(world.path("/run/list"), list).expect("a list");
    let alone = test(&world, "--cni /wrong chained --only 1.0.0/life");
    assert_eq!(names(&alone, "fail"), ["1.0.0/life"], "{alone:#?}");
    let chained = test(&world, "--cni /wrong chained --config /run/list");
    // It has no CHECK that looks, which is all that is wrong with it.
    let fails = names(&chained, "fail");
    assert!(fails.iter().all(|case| case.ends_with("/check")), "{chained:#?}");
    assert!(names(&chained, "pass").len() > 30, "{chained:#?}");
    // Ours, behind the reference's.
    let list = list.replace("chained", "portmap");
    let ports = r#""portmap","runtimeConfig":{"portMappings":[{"hostPort":"$port","containerPort":80,"protocol":"tcp"}]}"#;
    fs::write(world.path("/run/list"), list.replace(r#""portmap""#, ports)).expect("a list");
    let ours =
        test(&world, &format!("--cni {}/portmap --config /run/list --only 1.0.0", Plugins::MOUNT));
    assert_eq!(ended(&ours, "fail"), Default::default());
    assert!(names(&ours, "pass").len() > 15, "{ours:#?}");
    let refused =
        crate::plugin(&world, &format!("test --cni {}/sbr --config /run/list", Plugins::MOUNT));
    assert!(refused.status == 2 && refused.stderr.contains("no plugin sbr"), "{refused:?}");
    assert_eq!(world.try_sh("ls /var/lib/cni/networks/kit").stdout, "");
}

/// The bridge plugin, with a program in between that lies as $LIE says.
const LIAR: &str = r##"#!/bin/bash
real() { /opt/cni/bin/bridge; }
refuse() { echo '{"cniVersion":"1.0.0","code":'$1',"msg":"no"}'; exit 1; }
case "$LIE:$CNI_COMMAND" in
version:ADD) real | sed 's/"cniVersion": *"[^"]*"/"cniVersion":"0.9.9"/' ;;
address:ADD) real | sed 's|/24"|"|' ;;
rubbish:ADD) real >/dev/null; echo done ;;
endless:ADD) real >/dev/null; exec yes ;;
keeps:DEL) exit 0 ;;
again:DEL) if mkdir "/run/gone-$CNI_CONTAINERID"; then real; else refuse 3; fi ;;
netns:DEL) [ -e "$CNI_NETNS" ] || refuse 5; real ;;
id:ADD) CNI_CONTAINERID=${CNI_CONTAINERID:-x} real ;;
json:ADD) real || echo '{}' ;;
check:CHECK) exit 0 ;;
leak:DEL) real; ip link add "l$RANDOM" type veth peer name "m$RANDOM" ;;
gc:GC) refuse 7 ;;
code:ADD) real || exit 1 ;;
*) real ;;
esac
"##;

/// Each lie with the case that finds it.
const LIES: [(&str, &str); 12] = [
    ("version", "life"),
    ("address", "life"),
    ("rubbish", "life"),
    ("endless", "life"),
    ("keeps", "life"),
    ("again", "del-repeated"),
    ("netns", "del-without-netns"),
    ("id", "no-container-id"),
    ("json", "undecodable"),
    ("check", "check"),
    ("leak", "left-over"),
    ("gc", "gc"),
];

#[test]
fn each_lie_is_found() {
    let world = World::new(&Plugins::subject());
    let folder = world.path("/wrong");
    fs::create_dir_all(&folder).expect("a folder");
    let liar = folder.join("bridge");
    fs::write(&liar, LIAR).expect("a script");
    fs::set_permissions(&liar, fs::Permissions::from_mode(0o755)).expect("ours");
    for (lie, case) in LIES {
        let case = format!("1.1.0/{case}");
        let arguments = format!("--cni /wrong bridge --only {case}");
        let verdict = |lie: &str| {
            let program = format!("env LIE={lie} {}/spoke plugin test -o json", Plugins::MOUNT);
            let output = world.try_sh(&format!("{program} {arguments}"));
            let report: serde_json::Value =
                serde_json::from_str(&output.stdout).unwrap_or_default();
            let cases = report["cases"].as_array().cloned().unwrap_or_default();
            let found = cases.into_iter().find(|row| row["case"] == case.as_str());
            found.unwrap_or_else(|| panic!("no {case}: {}{}", output.stdout, output.stderr))
        };
        assert_eq!(verdict("none")["verdict"], "pass", "{case}");
        let found = verdict(lie);
        assert_eq!(found["verdict"], "fail", "{lie}: {found:#}");
    }
}
