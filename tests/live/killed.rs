//! SIGKILL before each system call of a command that changes a running container.

use tests::{Remains, Trace};

use crate::bed::{Bed, Live, SPOKE};

/// Calls that change something outside of the process.
const CHANGING: &[&str] =
    &["linkat", "pwrite64", "renameat", "renameat2", "sendmsg", "sendto", "unlinkat"];

const ADD: &str = "port add web 8443:80";
const RM: &str = "port rm web 8443";

#[test]
fn killed_at_each_step() {
    let bed = Bed::new(&["web"]);
    bed.spoke("network connect --publish 8080:80 front web");
    bed.serve("web");
    bed.spoke(ADD);
    bed.spoke(RM);
    let without = Remains::of(&bed.world);
    bed.spoke(ADD);
    let with = Remains::of(&bed.world);
    bed.spoke(RM);
    let (mut killed, mut moments) = (0, 0);
    let mut each = |command: &str, prepare: &dyn Fn(), look: &dyn Fn(&str)| {
        prepare();
        let trace = Trace::of_command(&bed.world, &format!("{SPOKE} {command}"));
        for moment in trace.moments().iter().filter(|it| CHANGING.contains(&&*it.name)) {
            prepare();
            let line = format!("{} {SPOKE} {command}", moment.kill().join(" "));
            let answer = bed.world.try_sh(&line);
            moments += 1;
            killed += usize::from(answer.status == 137);
            look(&format!("{command}, killed before {moment}: {answer:?}"));
        }
    };
    // Whatever was left, the same command completes it.
    let none = || drop(bed.try_spoke(RM));
    let one = || drop(bed.spoke(ADD));
    each(ADD, &none, &|at| {
        bed.spoke("gc");
        let is_there = bed.spoke("port ls web").contains("8443/tcp");
        let expected = if is_there { &with } else { &without };
        assert_eq!(Remains::of(&bed.world).changes(expected), Vec::<String>::new(), "{at}");
        bed.spoke(ADD);
        assert_eq!(Remains::of(&bed.world).changes(&with), Vec::<String>::new(), "{at}");
        bed.spoke(RM);
        assert_eq!(Remains::of(&bed.world).changes(&without), Vec::<String>::new(), "{at}");
    });
    each(RM, &one, &|at| {
        bed.spoke("gc");
        // It is there as a whole, or not at all.
        let is_there = bed.spoke("port ls web").contains("8443/tcp");
        let expected = if is_there { &with } else { &without };
        assert_eq!(Remains::of(&bed.world).changes(expected), Vec::<String>::new(), "{at}");
        none();
        assert_eq!(Remains::of(&bed.world).changes(&without), Vec::<String>::new(), "{at}");
    });
    // A killed addition goes with its container, too.
    each(ADD, &none, &|at| {
        bed.spoke("network disconnect front web");
        bed.spoke("network connect --publish 8080:80 front web");
        let is_kept = bed.spoke("port ls web").contains("port add");
        let has = bed.elements().iter().any(|line| line.contains("8443"));
        assert_eq!(is_kept, has, "{at}");
    });
    println!("{killed} kills in {moments} moments");
    assert!(killed * 10 > moments * 8, "{killed} of {moments}");
}
