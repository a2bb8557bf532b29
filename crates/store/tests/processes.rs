//! Several processes on one store, and processes that are killed: this test binary runs itself.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use common::*;
use engine::port::{Expect, Key, Outcome, Outline, Prefix, Record, Store, Txn};

const DIRECTORY: &str = "STORE_TEST_DIRECTORY";
const TASK: &str = "STORE_TEST_TASK";
const PROCESSES: usize = 8;
const ROUNDS: u32 = 100;

/// Not a test: what the processes of the other tests do.
#[test]
#[ignore = "run by the other tests"]
fn child() {
    let Ok(task) = std::env::var(TASK) else { return };
    let directory = std::env::var(DIRECTORY).unwrap();
    let store = embedded(Path::new(&directory), BOOT);
    match task.as_str() {
        "count" => count(&store),
        "change" => assert_done(&store, change()),
        "mixed" => assert_done(&store, mixed()),
        "later" => assert_done(&store, later()),
        "single" => assert_done(&store, single()),
        "declare" => assert_done(&store, declare(MANY)),
        "many" => declare_many(&store),
        other => panic!("no task {other}"),
    }
}

fn command(directory: &Path, task: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child", "--ignored", "--test-threads=1", "-q"]);
    command.env(DIRECTORY, directory).env(TASK, task).stdout(Stdio::null());
    command
}

fn assert_done(store: &dyn Store, txn: Txn) {
    let _ = done(store, txn);
}

/// Adds one to two cursors that must stay equal.
fn count(store: &dyn Store) {
    for _ in 0..ROUNDS {
        loop {
            let (one, other) = (get(store, &cursor_key(0)), get(store, &cursor_key(1)));
            let value = one.as_ref().map_or(0, |held| number(&held.record)) + 1;
            let expect = |held: &Option<engine::port::Versioned>| {
                held.as_ref().map_or(Expect::Absent, |held| Expect::At(held.revision))
            };
            let txn = Txn::new()
                .require(cursor_key(0), expect(&one))
                .require(cursor_key(1), expect(&other))
                .put(cursor_key(0), cursor(value))
                .put(cursor_key(1), cursor(value));
            if matches!(store.commit(&txn).unwrap(), Outcome::Done(_)) {
                break;
            }
        }
    }
}

fn number(record: &Record) -> u32 {
    match record {
        Record::Cursor(cursor) => match cursor.at {
            std::net::IpAddr::V4(at) => at.into(),
            std::net::IpAddr::V6(_) => panic!("not ours"),
        },
        other => panic!("{other:?}"),
    }
}

#[test]
fn no_update_is_lost_and_no_half_is_seen() {
    let directory = tempfile::tempdir().unwrap();
    let start = |_| command(directory.path(), "count").spawn().unwrap();
    let mut children: Vec<Child> = (0..PROCESSES).map(start).collect();
    let store = embedded(directory.path(), BOOT);
    while children.iter_mut().any(|child| child.try_wait().unwrap().is_none()) {
        see_no_half(&store);
    }
    assert!(children.iter_mut().all(|child| child.wait().unwrap().success()));
    let total = PROCESSES as u32 * ROUNDS;
    assert_eq!(get(&store, &cursor_key(0)).unwrap().record, cursor(total));
    assert_eq!(get(&store, &cursor_key(1)).unwrap().record, cursor(total));
}

/// The second cursor is moved into its place last: a reader that saw the first's new value must not see
/// the second's old one.
fn see_no_half(store: &dyn Store) {
    let first = get(store, &cursor_key(0)).map(|held| number(&held.record));
    let second = get(store, &cursor_key(1)).map(|held| number(&held.record));
    assert!(second >= first, "{first:?} then {second:?}");
}

#[test]
fn threads_of_one_process_take_turns() {
    let directory = tempfile::tempdir().unwrap();
    let store = embedded(directory.path(), BOOT);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| count(&store));
        }
    });
    assert_eq!(get(&store, &cursor_key(1)).unwrap().record, cursor(4 * ROUNDS));
}

#[test]
fn a_listing_shows_one_moment() {
    let directory = tempfile::tempdir().unwrap();
    let store = embedded(directory.path(), BOOT);
    let all = |text: &str| {
        (1..20u8).fold(Txn::new(), |txn, at| {
            let address = format!("10.0.0.{at}");
            txn.put(lease_key(&address), lease(&address, text))
        })
    };
    done(&store, all("c0"));
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let own = embedded(directory.path(), BOOT);
            (0..200).for_each(|round| assert_done(&own, all(&format!("c{round}"))));
        });
        let reader = embedded(directory.path(), BOOT);
        while !writer.is_finished() {
            let list = reader.list(&Prefix::AllLeases).unwrap();
            let revisions: std::collections::HashSet<_> =
                list.iter().map(|(_, held)| held.revision).collect();
            assert_eq!((list.len(), revisions.len()), (19, 1));
        }
    });
}

type Contents = BTreeMap<Key, Record>;

fn before() -> Txn {
    Txn::new()
        .put(lease_key("10.0.0.1"), lease("10.0.0.1", "old"))
        .put(attachment_key("n", "old"), attachment("n", "old"))
        .put(sticky_key("gone"), sticky(&["10.0.0.1"]))
}

/// Several changes of this boot.
fn change() -> Txn {
    Txn::new()
        .require(lease_key("10.0.0.2"), Expect::Absent)
        .put(lease_key("10.0.0.1"), lease("10.0.0.1", "new"))
        .put(lease_key("10.0.0.2"), lease("10.0.0.2", "new"))
        .put(attachment_key("m", "new"), attachment("m", "new"))
        .delete(attachment_key("n", "old"))
        .put(cursor_key(0), cursor(2))
        .put(port_key(80), port("new"))
}

/// Changes of both halves.
fn mixed() -> Txn {
    change().put(sticky_key("new"), sticky(&["10.0.0.2"])).delete(sticky_key("gone"))
}

/// One change.
fn single() -> Txn {
    Txn::new().put(sticky_key("gone"), sticky(&["10.0.0.9"]))
}

/// What another process does next.
fn later() -> Txn {
    Txn::new().put(cursor_key(9), cursor(1))
}

fn contents(store: &dyn Store) -> Contents {
    let prefixes = [
        Prefix::AllLeases,
        Prefix::Attachments,
        Prefix::Ports,
        Prefix::StickyOf("podman".parse().unwrap()),
    ];
    let lists = prefixes.into_iter().flat_map(|prefix| store.list(&prefix).unwrap());
    let mut contents: Contents = lists.map(|(key, held)| (key, held.record)).collect();
    contents.extend(get(store, &cursor_key(0)).map(|held| (cursor_key(0), held.record)));
    contents
}

/// Kills the task before each of its system calls in turn, and looks at what is left.
fn killed_anywhere(task: &str, txn: impl Fn() -> Txn) {
    let old = {
        let memory = doubles::Memory::new();
        done(&memory, before());
        contents(&memory)
    };
    let new = {
        let memory = doubles::Memory::new();
        done(&memory, before());
        done(&memory, txn());
        contents(&memory)
    };
    assert_ne!(old, new);
    let start = |directory: &Path| assert_done(&embedded(directory, BOOT), before());
    let calls = system_calls(task, start);
    let (mut undone, mut complete) = (0, 0);
    for (name, count) in calls {
        for nth in 1..=count {
            let directory = tempfile::tempdir().unwrap();
            done(&embedded(directory.path(), BOOT), before());
            let inject = format!("inject={name}:signal=SIGKILL:when={nth}");
            run_traced(directory.path(), task, &["-e", &inject], "/dev/null");
            let found = contents(&embedded(directory.path(), BOOT));
            match (found == old, found == new) {
                (true, false) => undone += 1,
                (false, true) => complete += 1,
                _ => panic!("{task} killed at {name} {nth}: {found:?}"),
            }
            let store = embedded(directory.path(), BOOT);
            assert_done(&store, Txn::new().put(cursor_key(9), cursor(1)));
            assert_eq!(contents(&store), found, "{task} killed at {name} {nth}, then a commit");
            if found == old {
                done(&store, txn());
            }
            assert_eq!(contents(&store), new, "{task} killed at {name} {nth}, then repeated");
        }
    }
    println!("{task}: killed {} times, {undone} undone, {complete} complete", undone + complete);
    assert!(undone > 10 && complete > 1, "{task}: {undone} undone, {complete} complete");
}

/// How often the task makes each system call, from one run that is not disturbed.
fn system_calls(task: &str, start: impl Fn(&Path)) -> BTreeMap<String, usize> {
    let directory = tempfile::tempdir().unwrap();
    start(directory.path());
    let log = directory.path().join("log");
    run_traced(directory.path(), task, &["-e", "signal=none"], log.to_str().unwrap());
    let text = std::fs::read_to_string(log).unwrap();
    let relevant = |name: &&str| {
        let names = "openat open mkdir mkdirat pwrite64 pread64 write read close renameat renameat2 \
                     unlinkat flock fsync fdatasync fstat newfstatat getdents64 exit_group";
        names.split_whitespace().any(|known| known == *name)
    };
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let threads = text.lines().filter_map(|line| Some((line.split_once(' ')?.0, line)));
    let mut each: BTreeMap<(String, String), usize> = BTreeMap::new();
    for (thread, line) in threads {
        let call = line[thread.len()..].trim_start().split('(').next().unwrap_or_default();
        if relevant(&call) {
            *each.entry((thread.to_owned(), call.to_owned())).or_default() += 1;
        }
    }
    for ((_, call), count) in each {
        let most = counts.entry(call).or_default();
        *most = count.max(*most);
    }
    assert!(counts.contains_key("flock"), "the trace shows no commit: {counts:?}");
    counts
}

fn run_traced(directory: &Path, task: &str, arguments: &[&str], log: &str) {
    let traced = command(directory, task);
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-o", log]).args(arguments).arg(traced.get_program());
    strace.args(traced.get_args());
    strace.env(DIRECTORY, directory).env(TASK, task).stdout(Stdio::null()).stderr(Stdio::null());
    strace.status().expect("this test needs strace: apt-get install strace");
}

#[test]
fn killed_in_a_transaction_of_this_boot() {
    killed_anywhere("change", change);
}

#[test]
fn killed_in_a_transaction_of_both_halves() {
    killed_anywhere("mixed", mixed);
}

#[test]
fn killed_in_a_single_durable_change() {
    killed_anywhere("single", single);
}

/// The note of a dead process is there; the process that finishes its work is killed too, anywhere.
#[test]
fn killed_while_finishing_for_another() {
    let memory = doubles::Memory::new();
    let _ = (done(&memory, before()), done(&memory, mixed()));
    let (new, mut unfinished) = (contents(&memory), 0);
    let inject = |call: &str, nth| format!("inject={call}:signal=SIGKILL:when={nth}");
    let start = |directory: &Path| {
        assert_done(&embedded(directory, BOOT), before());
        run_traced(directory, "mixed", &["-e", &inject("renameat", 3)], "/dev/null");
    };
    for (name, count) in system_calls("later", start) {
        for nth in 1..=count {
            let directory = tempfile::tempdir().unwrap();
            start(directory.path());
            run_traced(directory.path(), "later", &["-e", &inject(&name, nth)], "/dev/null");
            let lock = std::fs::read(directory.path().join("state/lock")).unwrap();
            unfinished += usize::from(lock[8] != 0);
            let found = contents(&embedded(directory.path(), BOOT));
            assert_eq!(found, new, "killed at {name} {nth}");
        }
    }
    assert!(unfinished > 5, "only {unfinished} times there was something left to finish");
}

/// So many networks that their outlines are kept.
const MANY: u32 = 40;

fn declare(number: u32) -> Txn {
    let [_, _, high, low] = number.to_be_bytes();
    let id = subnet_id(model::Space::Host, &format!("10.{high}.{low}.0/24"), None);
    let name = format!("n{number}");
    Txn::new()
        .put(Key::Network(name.parse().unwrap()), network(&name))
        .put(Key::Subnet(id.clone()), subnet(&id, 1))
}

fn outlines(store: &dyn Store) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    let mut report = |outline: &Outline<'_>| all.extend([format!("{outline:?}")]);
    store.outline(&mut report).unwrap();
    all
}

/// As the records say it.
fn derived(store: &dyn Store) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for (key, held) in store.list(&Prefix::Subnets).unwrap() {
        let mut report = |outline: &Outline<'_>| all.extend([format!("{outline:?}")]);
        Outline::each_of(&key, &held.record, &mut report);
    }
    all
}

/// A process that is killed leaves outlines that are true, or known not to be.
#[test]
fn killed_while_the_outlines_follow() {
    let first = tempfile::tempdir().unwrap();
    let store = embedded(first.path(), BOOT);
    (0..MANY).for_each(|number| assert_done(&store, declare(number)));
    let start = |directory: &Path| {
        let halves = ["run", "state"].map(|half| first.path().join(half));
        assert!(
            Command::new("cp").arg("-a").args(halves).arg(directory).status().unwrap().success()
        );
        assert_eq!(outlines(&embedded(directory, BOOT)).len(), MANY as usize);
        assert!(directory.join("run").join(BOOT).join("outlines").exists());
    };
    let mut declared = 0;
    for (name, count) in system_calls("declare", start) {
        for nth in 1..=count {
            let directory = tempfile::tempdir().unwrap();
            start(directory.path());
            let inject = format!("inject={name}:signal=SIGKILL:when={nth}");
            run_traced(directory.path(), "declare", &["-e", &inject], "/dev/null");
            let store = embedded(directory.path(), BOOT);
            let found = outlines(&store);
            assert_eq!(found, derived(&store), "killed at {name} {nth}");
            declared += usize::from(found.len() > MANY as usize);
            assert_done(&store, declare(MANY + 1));
            assert_eq!(outlines(&store), derived(&store), "killed at {name} {nth}, then a commit");
        }
    }
    assert!(declared > 1, "never complete");
}

/// Each finds what it declared, and all that it has found before.
fn declare_many(store: &dyn Store) {
    let first = std::process::id() % 200 * 256;
    let mut known = BTreeSet::new();
    for number in first..first + 30 {
        assert_done(store, declare(number));
        let now = outlines(store);
        let [_, _, high, low] = number.to_be_bytes();
        let own = format!("10.{high}.{low}.0/24");
        assert!(now.iter().any(|outline| outline.contains(&own)), "{own} is missing");
        assert!(known.is_subset(&now), "one was forgotten");
        known = now;
    }
}

#[test]
fn no_outline_is_missed() {
    let directory = tempfile::tempdir().unwrap();
    let start = |_| command(directory.path(), "many").spawn().unwrap();
    let children: Vec<Child> = (0..PROCESSES).map(start).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let store = embedded(directory.path(), BOOT);
    assert_eq!(outlines(&store), derived(&store));
}
