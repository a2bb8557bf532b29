use model::Kind;

use super::space::Space;
use crate::filter::{ensure, reload, unload, verify_ruleset};

const TRUTH: &str = include_str!("../ruleset.nft");
const LIST: &str = "nft list table inet spoke";

/// What `ruleset.nft` is to nft(8).
fn truth() -> String {
    listed(TRUTH, LIST)
}

/// How nft(8) lists what is in a file, which is written as it would write it.
pub(super) fn listed(file: &str, list: &str) -> String {
    let space = Space::new();
    space.run(&format!("nft -f - <<'END'\n{file}\nEND"));
    let listed = space.run(list);
    assert_eq!(statements(&listed), statements(file), "nft would write the file otherwise");
    listed
}

#[test]
fn is_what_the_file_says() {
    let space = Space::new();
    ensure(&mut space.socket()).unwrap();
    assert_eq!(space.run(LIST), truth());
}

fn statements(text: &str) -> Vec<&str> {
    text.lines().filter(|line| !line.is_empty() && !line.trim_start().starts_with('#')).collect()
}

#[test]
fn is_made_once() {
    let space = Space::new();
    let mut socket = space.socket();
    ensure(&mut socket).unwrap();
    let before = space.run("nft -a list table inet spoke");
    ensure(&mut socket).unwrap();
    assert_eq!(space.run("nft -a list table inet spoke"), before);
}

#[test]
fn other_chains_are_replaced_and_elements_kept() {
    let space = Space::new();
    space.run(
        "nft -f - <<'END'
        table inet spoke {
            set masq4 { type ipv4_addr; elements = { 10.1.0.2 comment \"a\" } }
            set ancient { type ipv4_addr; }
            chain ruleset_0 { }
            chain publish { ip saddr @ancient drop; }
            chain postrouting { type filter hook postrouting priority 0; jump publish; }
            chain gone { jump publish; }
        }
END",
    );
    ensure(&mut space.socket()).unwrap();
    let listed = space.run(LIST);
    assert!(listed.contains("10.1.0.2 comment \"a\""), "{listed}");
    space.run("nft delete set inet spoke ancient; nft flush set inet spoke masq4");
    let chains = |text: &str| text[text.find("\tchain ").unwrap()..].to_owned();
    assert_eq!(chains(&space.run(LIST)), chains(&truth()));
}

#[test]
fn what_others_changed_is_seen_and_mended() {
    let space = Space::new();
    let mut socket = space.socket();
    ensure(&mut socket).unwrap();
    verify_ruleset(&mut socket).unwrap();
    for harm in [
        "flush chain inet spoke forward",
        "add rule inet spoke publish drop",
        "insert rule inet spoke forward iifname \"br0\" accept",
        "flush ruleset",
    ] {
        space.run(&format!("nft '{harm}'"));
        let error = verify_ruleset(&mut socket).unwrap_err();
        assert_eq!(error.kind(), Kind::NotFound, "{harm}");
        reload(&mut socket).unwrap();
        verify_ruleset(&mut socket).unwrap();
        assert_eq!(space.run(LIST), truth());
    }
    // As many rules as before, and one of them another.
    for (chain, rule, other) in [
        ("for_all", "notrack", "drop"),
        ("for_all", "fib daddr type local drop", "fib saddr type local drop"),
        ("for_all", "fib daddr type local drop", "fib daddr type local accept"),
        (
            "beginning",
            "ct state new ip saddr @apart4 .*",
            "ct state established ip saddr @apart4 fib saddr . iif oif 0 drop",
        ),
        (
            "beginning",
            "ct state new ip saddr @apart4 .*",
            "ct state new ip saddr @masq4 fib saddr . iif oif 0 drop",
        ),
        (
            "beginning",
            "ct state new ip saddr @apart4 .*",
            "ct state new ip saddr != @apart4 fib saddr . iif oif 0 drop",
        ),
    ] {
        space.run(&format!(
            "handle=$(nft -a list chain inet spoke {chain} | sed -n 's/^[[:space:]]*{rule} # handle //p')
            nft replace rule inet spoke {chain} handle $handle '{other}'",
        ));
        let error = verify_ruleset(&mut socket).unwrap_err();
        assert!(error.to_string().contains(&format!("chain {chain}")), "{other}: {error}");
        reload(&mut socket).unwrap();
        verify_ruleset(&mut socket).unwrap();
    }
    unload(&mut socket).unwrap();
    unload(&mut socket).unwrap();
    assert_eq!(space.run("nft list ruleset"), "");
}

#[test]
fn a_foreign_table_of_our_name_is_named() {
    let space = Space::new();
    space.run("nft 'table inet spoke { set masq4 { type ipv6_addr; }; }'");
    let error = ensure(&mut space.socket()).unwrap_err();
    assert_eq!(error.kind(), Kind::Conflict);
    assert!(error.to_string().contains("set masq4"), "{error}");
}
