//! What stands between an engine and a plugin, and what says it again.

use std::fs;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tests::{Plugins, Serve, World};

use crate::{ended, names, plugin, test};

/// A `spoke plugin` that serves until it is stopped.
struct Serving(Child);

impl Serving {
    #[track_caller]
    fn start(world: &World, arguments: &[&str], socket: &str) -> Self {
        let mut command: Command = world.command(format!("{}/spoke", Plugins::MOUNT));
        let child = command.arg("plugin").args(arguments).spawn().expect("it starts");
        let deadline = Instant::now() + Duration::from_secs(30);
        while !world.path(socket).exists() {
            assert!(Instant::now() < deadline, "no process listens at {socket}");
            std::thread::sleep(Duration::from_millis(10));
        }
        Self(child)
    }

    /// Ends it as an administrator does.
    #[track_caller]
    fn end(mut self) {
        let children = format!("/proc/{0}/task/{0}/children", self.0.id());
        let below = fs::read_to_string(children).expect("it runs");
        let pid = below.split_whitespace().next().and_then(|pid| pid.parse().ok());
        let pid = pid.unwrap_or_else(|| self.0.id().cast_signed());
        kill_process(Pid::from_raw(pid).expect("a process"), Signal::TERM).expect("ours");
        assert!(self.0.wait().expect("our child").success());
    }
}

#[test]
fn what_was_said_is_written_down_and_can_be_said_again() {
    let world = World::new(&Plugins::subject());
    let serve = Serve::start(&world, &[]);
    let tap = Serving::start(
        &world,
        &["record", "--plugin", "spoke", "--socket", "/run/tap.sock", "--out", "/run/trace.jsonl"],
        "/run/tap.sock",
    );
    // What is between them changes nothing.
    let cases = "--only life --only repeated --only exhaustion --only address";
    let beside = test(&world, &format!("/run/tap.sock {cases}"));
    assert_eq!(ended(&beside, "fail"), Default::default());
    tap.end();
    assert!(!world.path("/run/tap.sock").exists(), "its socket is gone");

    let trace = fs::read_to_string(world.path("/run/trace.jsonl")).expect("a trace");
    let calls: Vec<Value> =
        trace.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(calls.len() > 100, "{}", calls.len());
    let join = calls.iter().find(|call| call["req"] == "POST /NetworkDriver.Join HTTP/1.1");
    let join = join.expect("a Join");
    assert!(join["body"]["SandboxKey"].as_str().is_some_and(|key| key.starts_with('/')));
    assert!(join["resp"]["InterfaceName"]["SrcName"].is_string(), "{join:#}");
    assert!(join["ms"].as_f64().is_some_and(|ms| ms > 0.0) && join["code"] == 200);

    // As the plugin: whatever needs no interfaces and no memory is as it was.
    let fake = Serving::start(
        &world,
        &["replay", "/run/trace.jsonl", "--socket", "/run/fake.sock"],
        "/run/fake.sock",
    );
    let again =
        test(&world, "/run/fake.sock --no-interfaces --only address-spaces --only network-life");
    assert_eq!(names(&again, "fail"), Vec::<&str>::new(), "{again:#?}");
    fake.end();

    // As the engine: the driver does the same again.
    let said = plugin(&world, "replay /run/trace.jsonl --plugin spoke");
    assert_eq!(said.status, 0, "{}{}", said.stdout, said.stderr);
    assert!(said.stdout.contains(&format!("of {} answers differ", calls.len())));
    drop(serve);

    // A plugin that is dead behind the recorder is an error of the plugin's.
    let tap = Serving::start(
        &world,
        &[
            "record",
            "--plugin",
            "/run/absent.sock",
            "--socket",
            "/run/tap2.sock",
            "--out",
            "/run/t2",
        ],
        "/run/tap2.sock",
    );
    let dead = tests::http::call(&world.path("/run/tap2.sock"), "POST", "/Plugin.Activate", b"");
    assert_eq!(dead.expect("an answer").status, 502);
    tap.end();
}
