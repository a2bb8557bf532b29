//! SIGKILL before each system call of a connect and of a disconnect.

use tests::{Remains, Trace};

use crate::bed::{Bed, SPOKE};

const CONNECT: &str =
    "network connect --ip 10.71.1.9 --alias www --link-local-ip 169.254.7.1 front web";
const DISCONNECT: &str = "network disconnect --force front web";

#[test]
fn connect() {
    each(CONNECT, |_| {});
}

#[test]
fn disconnect() {
    each(DISCONNECT, |bed| drop(bed.spoke(CONNECT)));
}

/// Whether the book is all there is, after the next look at it.
fn each(command: &str, before: fn(&Bed)) {
    let bed = Bed::new(&["web", "db"]);
    bed.spoke("network connect --ip 10.71.1.7 front db");
    bed.spoke(CONNECT);
    bed.spoke(DISCONNECT);
    let base = Remains::of(&bed.world);
    before(&bed);
    let trace = Trace::of_command(&bed.world, &format!("{SPOKE} {command}"));
    bed.spoke(DISCONNECT);
    let mut killed = 0;
    let moments = trace.moments();
    for moment in &moments {
        before(&bed);
        let line = format!("{} {SPOKE} {command}", moment.kill().join(" "));
        let answer = bed.world.try_sh(&line);
        killed += usize::from(answer.status == 137);
        bed.spoke("gc");
        let at = format!("{command}, killed before {moment}: {answer:?}");
        is_as_recorded(&bed, &at);
        bed.spoke(DISCONNECT);
        is_as_recorded(&bed, &at);
        let changes = Remains::of(&bed.world).changes(&base);
        assert!(changes.is_empty(), "{at}: {changes:#?}");
    }
    println!("{killed} kills in {} moments", moments.len());
    assert!(killed * 10 > moments.len() * 8, "{killed} of {moments:?}");
    bed.spoke("network disconnect front db");
    assert_eq!(bed.files(), "");
}

#[track_caller]
fn is_as_recorded(bed: &Bed, at: &str) {
    let shown = bed.json("ps front -o json");
    let is_on = shown.as_array().unwrap().iter().any(|it| it["container"] == "web");
    let (web, db) = ("10.71.1.9 web www".to_owned(), "10.71.1.7 db".to_owned());
    let mut files =
        "/etc/netns\n/etc/netns/db\n/etc/netns/db/hosts\n/etc/netns/db/resolv.conf\n".to_owned();
    match is_on {
        true => {
            files += "/etc/netns/web\n/etc/netns/web/hosts\n/etc/netns/web/resolv.conf\n";
            assert_eq!(bed.hosts("web"), [web.clone(), db.clone()], "{at}");
            assert_eq!(bed.hosts("db"), [db, web], "{at}");
        }
        false => assert_eq!(bed.hosts("db"), [db], "{at}"),
    }
    assert_eq!(bed.files(), files, "{at}");
}
