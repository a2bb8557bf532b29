use proptest::prelude::*;

use super::*;

fn fence(text: &str) -> Fence {
    text.parse().unwrap()
}

#[test]
fn rules_are_read_and_written_again() {
    for (given, written) in [
        ("github.com:443", "github.com:443"),
        ("GitHub.com.:443/TCP, *.Example.org:8000-8010", "github.com:443,*.example.org:8000-8010"),
        ("example.org:53/udp,10.9.0.7:5432", "example.org:53/udp,10.9.0.7:5432"),
        ("10.9.1.7/16:1-65535", "10.9.0.0/16:1-65535"),
        ("[fd00::1]:443,[2001:db8::/32]:53/udp", "[fd00::1]:443,[2001:db8::/32]:53/udp"),
        ("0.0.0.0/0:443", "0.0.0.0/0:443"),
        ("[::ffff:50.0.0.66]:443,[::ffff:10.9.1.7]:1", "50.0.0.66:443,10.9.1.7:1"),
        ("[::ffff:10.9.1.7/112]:1,[::ffff:0:0/96]:2", "10.9.0.0/16:1,0.0.0.0/0:2"),
        ("[::/0]:1,[::/95]:1", "[::/0]:1,[::/95]:1"),
        ("0xfoo.org:1,a.0xg:1,0x1.example:1", "0xfoo.org:1,a.0xg:1,0x1.example:1"),
        ("none", "none"),
        ("a.b:1,a.b:1", "a.b:1"),
    ] {
        assert_eq!(fence(given).to_string(), written);
        assert_eq!(fence(written), fence(given));
    }
}

/// No packet for these leaves a container. A file or a record of an earlier version may have them.
#[test]
fn addresses_that_lead_nowhere_are_refused() {
    for given in [
        "127.0.0.1:80",
        "127.0.0.0/8:80",
        "127.9.0.0/16:80",
        "[::1]:80",
        "0.0.0.0:80",
        "[::]:80",
        "255.255.255.255:67/udp",
        "[::ffff:127.0.0.1]:80",
    ] {
        let error = given.parse::<Fence>().unwrap_err().to_string();
        assert!(error.contains("no packet leaves the container"), "{given}: {error}");
        assert_eq!(Fence::recorded(given).unwrap().rules.len(), 1, "{given}");
    }
    for given in
        ["0.0.0.0/0:80", "[::/0]:80", "126.0.0.0/7:80", "239.1.1.1:5000/udp", "[ff05::1]:1"]
    {
        assert_eq!(fence(given).rules.len(), 1, "{given}");
    }
}

#[test]
fn what_says_nothing_is_refused() {
    for given in [
        "",
        "github.com",
        "github.com:0",
        "github.com:x",
        "github.com:70000",
        "*:443",
        ":443",
        "a..b:1",
        "*.*.b:1",
        "a.*.b:1",
        "fd00::1:443",
        "[10.0.0.1]:1",
        "10.9.0:1",
        "1.2.3.4.5:1",
        "web.front.spoke:80",
        "*.spoke:80",
        "0x32000042:443",
        "10.0.0.0x1:443",
        "*.0x0:443",
        "a.0X:443",
        "838860866:443",
        "a.b:1/icmp",
        "a.b:2-1",
        "bücher.example:1",
        "a b:1",
        "a.b:1-65",
        "none,a.b:1",
        "a.b:1,",
        "a\u{0}b:1",
    ] {
        assert!(given.parse::<Fence>().is_err(), "{given}");
    }
}

#[test]
fn a_number_is_told_from_a_name_and_a_record_of_one_stays_readable() {
    let error = "0x32000042:443".parse::<Fence>().unwrap_err().to_string();
    assert!(error.contains("0x32000042 ends in a number"), "{error}");
    assert!(error.contains("four decimal numbers"), "{error}");
    // A record has its rules one by one.
    let read: EgressRule = "0x32000042:443".parse().unwrap();
    assert_eq!(read.to_string(), "0x32000042:443");
}

#[test]
fn names_are_matched_by_labels() {
    let fence = fence("github.com:443,*.example.org:80-81,*.example.org:53/udp,10.0.0.0/8:22");
    let of = |name: &str| {
        let services = fence.services_of(&name.parse().unwrap());
        services.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(of("github.com"), "443");
    assert_eq!(of("a.example.org"), "80-81 53/udp");
    assert_eq!(of("a.b.example.org"), "80-81 53/udp");
    for other in ["example.org", "x.github.com", "github.com.evil", "notexample.org", "com"] {
        assert_eq!(of(other), "", "{other}");
    }
    assert!(fence.covers([10, 1, 1, 1].into()) && !fence.covers([11, 1, 1, 1].into()));
    assert!(fence.allows([10, 1, 1, 1].into(), Protocol::Tcp, 22));
    assert!(!fence.allows([10, 1, 1, 1].into(), Protocol::Udp, 22));
}

#[test]
fn addresses_of_a_link_are_meant_only_by_their_own_name() {
    let metadata = [169, 254, 169, 254].into();
    let allows = |text: &str| fence(text).allows(metadata, Protocol::Tcp, 80);
    assert!(!allows("0.0.0.0/0:80") && !allows("169.0.0.0/8:80"));
    assert!(allows("169.254.169.254:80") && allows("169.254.0.0/16:80"));
    assert!(!fence("0.0.0.0/0:80").covers(metadata));
    assert!(fence("0.0.0.0/0:80").allows([169, 253, 1, 1].into(), Protocol::Tcp, 80));
    let link = "fe80::1".parse().unwrap();
    assert!(!fence("[::/0]:80").allows(link, Protocol::Tcp, 80));
}

#[test]
fn public_addresses_are_known() {
    for public in [
        "1.1.1.1",
        "203.0.113.9",
        "2606:4700::1111",
        "64:ff9b::101:101",
        "172.32.0.1",
        "3fff:1000::1",
        "2001:200::1",
    ] {
        assert!(is_public(public.parse().unwrap()), "{public}");
    }
    for other in [
        "10.0.0.1",
        "172.16.0.1",
        "192.168.0.1",
        "127.0.0.1",
        "169.254.169.254",
        "0.0.0.0",
        "224.0.0.1",
        "255.255.255.255",
        "100.64.0.1",
        "240.0.0.1",
        "::",
        "::1",
        "fe80::1",
        "fd00::1",
        "ff02::1",
        "::ffff:10.0.0.1",
        "::ffff:1.1.1.1",
        "64:ff9b::a00:1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::101:101",
        "64:ff9b:0:1::101:101",
        "3fff::1",
        "3fff:fff::1",
        "2001:2::1",
        "2001:10::1",
        "2001:2f::1",
        "2002:a00:1::",
        "2001::1",
        "fec0::1",
        "198.18.0.1",
        "192.0.0.8",
    ] {
        assert!(!is_public(other.parse().unwrap()), "{other}");
    }
}

proptest! {
    #[test]
    fn any_text_is_survived(text in ".{0,80}") {
        if let Ok(fence) = text.parse::<Fence>() {
            prop_assert_eq!(fence.to_string().parse::<Fence>().unwrap(), fence);
        }
    }
}
