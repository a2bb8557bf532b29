use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::space::Space;
use crate::follow::{self, Followed, Judgement};

/// What ufw does with this rule.
fn judgement(root: &Path, rule: &str) -> Judgement {
    let write = |path: &str, text: &str| {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("etc/default/ufw", "IPV6=no\nDEFAULT_INPUT_POLICY=\"ACCEPT\"\n");
    write("etc/ufw/ufw.conf", "ENABLED=yes\n");
    write("etc/ufw/before.rules", "*filter\nCOMMIT\n");
    write("etc/ufw/after.rules", "*filter\nCOMMIT\n");
    write("etc/ufw/user.rules", &format!("*filter\n-A ufw-user-input {rule}\nCOMMIT\n"));
    let mut socket = netlink::Socket::netfilter().unwrap();
    follow::read(Followed::Ufw, root, &mut socket).unwrap()
}

/// The kernel lists these alike.
#[test]
fn a_rule_that_differs_only_in_a_value_is_another() {
    let (space, root) = (Space::new(), tempfile::tempdir().unwrap());
    let mut socket = space.socket();
    for [before, after] in [
        ["-p tcp --dport 8000:8010 -j DROP", "-p tcp --dport 8000:8020 -j DROP"],
        ["-s 10.0.0.0/8 -j DROP", "-s 192.168.0.0/16 -j DROP"],
        ["! -s 10.0.0.1 -j DROP", "! -s 10.0.0.2 -j DROP"],
    ] {
        let [before, after] = [before, after].map(|rule| judgement(root.path(), rule));
        assert_ne!(before, after);
        follow::keep(&mut socket, &before, &BTreeSet::new()).unwrap();
        assert!(follow::is_kept(&mut socket, &before).unwrap());
        assert!(!follow::is_kept(&mut socket, &after).unwrap());
        follow::keep(&mut socket, &after, &BTreeSet::new()).unwrap();
        assert!(follow::is_kept(&mut socket, &after).unwrap());
    }
}

/// A rule of the kernel's has at most 128 expressions (`NFT_RULE_MAXEXPRS`).
#[test]
fn a_long_list_of_what_is_not_meant_is_loaded() {
    let space = Space::new();
    let mut socket = space.socket();
    let elements: Vec<String> = (0..100).map(|host| format!("10.0.{host}.1")).collect();
    let table = format!(
        "table inet firewalld {{
            set timed {{ type ipv4_addr; flags timeout; elements = {{ 10.0.0.7 timeout 1h }} }}
            set few {{ type ipv4_addr; elements = {{ 10.0.0.1, 10.0.0.2 }} }}
            set many {{ type ipv4_addr; elements = {{ {} }} }}
            chain filter_INPUT {{
                type filter hook input priority 10; policy accept;
                ip saddr != @few tcp dport 80 accept
                ip saddr != @many tcp dport 81 accept
                ip saddr != @many tcp dport 82 drop
                ip saddr @timed tcp dport 83 accept
                ip saddr @timed tcp dport 84 drop
                reject
            }}
        }}",
        elements.join(", ")
    );
    space.run(&format!("echo '{table}' | nft -f -"));
    let read = follow::read(Followed::Firewalld, Path::new("/"), &mut socket).unwrap();
    follow::keep(&mut socket, &read, &BTreeSet::new()).unwrap();
    assert!(follow::is_kept(&mut socket, &read).unwrap());
    let unclear = |part| read.notes.iter().filter(|note| note.contains(part)).count();
    assert_eq!((unclear("many exceptions"), unclear("end by themselves")), (2, 1));
    assert_eq!(read.notes.len(), 3, "{:?}", read.notes);
}
