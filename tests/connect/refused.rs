//! What is not taken, and what is said of it.

use crate::bed::Bed;

#[test]
fn hostile_values_are_named_and_change_nothing() {
    let bed = Bed::new(&["web"]);
    for (flag, values) in [
        ("--dns", &["", "x", "0.0.0.0", "1.1.1.1\\nsearch evil", "fe80::1%eth0", "224.0.0.1"][..]),
        ("--dns-search", &["", "a b", "a\\nnameserver 6.6.6.6", "a..b", "\\033[31m"]),
        ("--dns-option", &["", "a b", "x\\ny", "\\033"]),
        (
            "--alias",
            &["", "a b", "a\\n6.6.6.6 bank", "localhost", "10.0.0.1", "x-", "#", "\\033[2J"],
        ),
        ("--link-local-ip", &["10.0.0.1", "169.254.0.0", "fe80::", "::1", "x", "169.254.1.1/16"]),
    ] {
        for value in values {
            let refused = bed
                .refused(&format!("network connect {flag} \"$(printf %b '{value}')\" front web"));
            assert!(refused.contains(flag), "{flag} {value}: {refused}");
            assert!(!refused.contains('\u{1b}'), "{flag} {value}: {refused:?}");
            if !value.is_empty() && !value.contains('\\') {
                assert!(refused.contains(value), "{flag} {value}: {refused}");
            }
        }
    }
    let long = "a".repeat(10_000);
    for flag in ["--dns", "--dns-search", "--dns-option", "--alias", "--link-local-ip"] {
        let refused = bed.refused(&format!("network connect {flag} {long} front web"));
        assert!(refused.len() < 1000, "{flag}: {} bytes", refused.len());
    }
    for (flag, value) in [
        ("--dns", "10.0.0.1"),
        ("--dns-search", "x"),
        ("--dns-option", "x"),
        ("--alias", "x"),
        ("--link-local-ip", "169.254.1.1"),
    ] {
        let many = format!("{flag} {value} ").repeat(65);
        let refused = bed.refused(&format!("network connect {many} front web"));
        assert!(refused.contains(flag) && refused.contains("65 times"), "{refused}");
    }
    assert_eq!(bed.files(), "");
    assert_eq!(bed.spoke("ps -q"), "");
}
