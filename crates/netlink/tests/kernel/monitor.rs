//! Hearing of changes.

use std::collections::BTreeSet;
use std::process::Command;
use std::thread;
use std::time::Duration;

use netlink::nft::{Family, News, Object, Table, Transaction};
use netlink::{Event, Monitor, Socket, Stop, Wake};

use crate::{isolated, make_pair};

/// Longer than anything takes that does happen.
const TIMEOUT: Duration = Duration::from_secs(20);

fn run(program: &str, arguments: &[&str]) {
    assert!(Command::new(program).args(arguments).status().unwrap().success());
}

/// What has changed by now.
fn news(monitor: &mut Monitor) -> BTreeSet<Event> {
    let stop = Stop::new().unwrap();
    match monitor.wait(&stop, Duration::ZERO).unwrap() {
        Wake::News(events) => events,
        Wake::Quiet => BTreeSet::new(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn addresses_and_routes_are_heard_and_links_are_not() {
    isolated(|| {
        let mut monitor = Monitor::network().unwrap();
        assert!(news(&mut monitor).is_empty());
        make_pair(&mut Socket::route().unwrap(), "v0", "v1");
        assert!(news(&mut monitor).is_empty());
        run("ip", &["address", "add", "10.0.0.1/24", "dev", "v0"]);
        assert!(news(&mut monitor).contains(&Event::Address));
        run("ip", &["link", "set", "v1", "up"]);
        run("ip", &["route", "add", "10.1.0.0/24", "via", "10.0.0.2"]);
        assert!(news(&mut monitor).contains(&Event::Route));
        news(&mut monitor);
        run("ip", &["link", "delete", "v1"]);
        assert!(news(&mut monitor).contains(&Event::Route), "it went with its link");
    });
}

#[test]
fn what_others_do_to_the_ruleset_is_heard_and_what_we_do_is_not() {
    isolated(|| {
        let mut monitor = Monitor::ruleset().unwrap();
        let mut socket = Socket::netfilter().unwrap();
        let table = Table { family: Family::Inet, name: "ours" };
        let mut transaction = Transaction::new();
        transaction.add_table(table, None);
        transaction.add_chain(table, "c", None, true);
        transaction.apply(&mut socket).unwrap();
        assert!(news(&mut monitor).is_empty(), "ours");

        run("nft", &["add rule inet ours c drop"]);
        let of = |object, gone, chain: &str| {
            let (table, chain, set) = ("ours".to_owned(), chain.to_owned(), String::new());
            Event::Ruleset(News { object, gone, family: Family::Inet, table, chain, set })
        };
        assert_eq!(news(&mut monitor), [of(Object::Rule, false, "c")].into());
        run("nft", &["flush", "ruleset"]);
        let gone = news(&mut monitor);
        assert!(gone.contains(&of(Object::Table, true, "")), "{gone:?}");
    });
}

#[test]
fn a_wait_is_ended_by_news_by_time_and_by_hand() {
    isolated(|| {
        let (mut monitor, stop) = (Monitor::network().unwrap(), Stop::new().unwrap());
        assert_eq!(monitor.wait(&stop, Duration::from_millis(1)).unwrap(), Wake::Quiet);
        thread::scope(|scope| {
            let waiting = scope.spawn(|| monitor.wait(&stop, TIMEOUT).unwrap());
            run("ip", &["address", "add", "10.0.0.1/32", "dev", "lo"]);
            assert!(matches!(waiting.join().unwrap(), Wake::News(_)));
        });
        let (mut monitor, mut other) = (Monitor::network().unwrap(), Monitor::ruleset().unwrap());
        thread::scope(|scope| {
            let one = scope.spawn(|| monitor.wait(&stop, TIMEOUT).unwrap());
            let two = scope.spawn(|| other.wait(&stop, TIMEOUT).unwrap());
            stop.stop();
            assert_eq!((one.join().unwrap(), two.join().unwrap()), (Wake::Stopped, Wake::Stopped));
        });
    });
}

#[test]
fn what_could_not_be_kept_is_reported_as_lost() {
    isolated(|| {
        let (mut monitor, stop) = (Monitor::network().unwrap(), Stop::new().unwrap());
        let script = std::env::temp_dir().join(format!("spoke-flood-{}", std::process::id()));
        let address = |n: u16| format!("10.0.{}.{}/32", n >> 8, n & 0xff);
        let lines: String =
            (0..6000).map(|n| format!("address add {} dev lo\n", address(n))).collect();
        std::fs::write(&script, lines).unwrap();
        run("ip", &["-batch", script.to_str().unwrap()]);
        std::fs::remove_file(&script).unwrap();
        assert_eq!(monitor.wait(&stop, Duration::ZERO).unwrap(), Wake::Lost);
        assert_eq!(monitor.wait(&stop, Duration::ZERO).unwrap(), Wake::Quiet);
    });
}
