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
        follow::keep(&mut socket, &before).unwrap();
        assert!(follow::is_kept(&mut socket, &before).unwrap());
        assert!(!follow::is_kept(&mut socket, &after).unwrap());
        follow::keep(&mut socket, &after).unwrap();
        assert!(follow::is_kept(&mut socket, &after).unwrap());
    }
}
