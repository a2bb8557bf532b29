//! Spoke dies, is replaced, or has a crowd before it: no caller notices.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::thread;

use serde_json::{Value, json};
use tests::{Held, Release, Serve, World};

use crate::bed::Bed;
use crate::watch::NEIGHBOUR;

const RUNS: usize = 30;
const KILLS: usize = 12;

/// When in a container's life the daemon is killed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Death {
    Never,
    /// Docker asks for everything while it starts again.
    Before,
    /// Docker gives everything back while it starts again.
    During,
}

/// Twelve deaths among thirty runs, half of them before a container and half during its life.
fn death(run: usize) -> Death {
    match run * KILLS / RUNS != (run + 1) * KILLS / RUNS {
        false => Death::Never,
        true if run.is_multiple_of(2) => Death::Before,
        true => Death::During,
    }
}

#[test]
fn killed_twelve_times_in_thirty_runs() {
    let Some(mut bed) = Bed::new(Release::V20_10) else { return };
    bed.network("--subnet 10.81.0.0/28 front");
    bed.run("--name stays --network front");
    bed.serve.stop();
    let held = Held::start(bed.engine.world(), &[]);
    let mut killed = 0;
    for run in 0..RUNS {
        let death = death(run);
        if death == Death::Before {
            killed += usize::from(held.kill());
        }
        let mut container = Foreground::run(bed.engine.world(), "--network front");
        if death == Death::During {
            killed += usize::from(held.kill());
        }
        container.end();
    }
    assert_eq!(killed, KILLS, "{}", held.log());
    drop(held);
    bed.serve = Serve::start(bed.engine.world(), &[]);
    let endpoints = bed.engine.get("/networks/front")["Containers"].clone();
    assert_eq!(endpoints.as_object().map(serde_json::Map::len), Some(1), "{endpoints}");
    bed.engine.ping("stays", "10.81.0.1");
    bed.remove("stays");
    bed.docker("network rm front");
    bed.is_clean();
}

/// `docker run --rm` of a container that says its address and goes on until it is stopped.
struct Foreground {
    child: Child,
    input: Option<ChildStdin>,
}

impl Foreground {
    #[track_caller]
    fn run(world: &World, options: &str) -> Self {
        let script =
            "ip -4 -o address show dev eth0; ping -c 1 -W 3 10.81.0.1 >/dev/null; echo up; cat";
        let mut command = world.command("docker");
        command.args(["run", "--rm", "-i"]).args(options.split(' '));
        command.args(["busybox", "sh", "-ec", script]);
        let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = pipes.spawn().expect("docker starts");
        let input = child.stdin.take();
        let said = BufReader::new(child.stdout.as_mut().expect("piped"));
        let up = said.lines().map_while(Result::ok).any(|line| line == "up");
        let mut container = Self { child, input };
        if !up {
            container.fail();
        }
        container
    }

    #[track_caller]
    fn end(&mut self) {
        drop(self.input.take());
        if !self.child.wait().expect("our child").success() {
            self.fail();
        }
    }

    #[track_caller]
    fn fail(&mut self) {
        drop(self.input.take());
        let mut said = String::new();
        let stderr = self.child.stderr.as_mut().expect("piped");
        stderr.read_to_string(&mut said).expect("text");
        panic!("docker run: {said}");
    }
}

/// Another file with the same program in the place of the one that runs.
const REPLACE: &str = "
cp /opt/cni/bin/spoke /world/spoke.new
mount --bind /world/spoke.new /opt/cni/bin/spoke";

/// Who talks with a server behind a published port.
struct Talk {
    child: Child,
    say: ChildStdin,
    hear: BufReader<ChildStdout>,
    count: usize,
}

impl Talk {
    #[track_caller]
    fn begin(world: &World) -> Self {
        let mut command = world.command("ip");
        command.args(["netns", "exec", "client", "busybox", "nc", "192.0.2.1", "8081"]);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("nc starts");
        let say = child.stdin.take().expect("piped");
        let hear = BufReader::new(child.stdout.take().expect("piped"));
        Self { child, say, hear, count: 0 }
    }

    /// Says a line and hears it back.
    #[track_caller]
    fn line(&mut self) {
        self.count += 1;
        let mut heard = String::new();
        writeln!(self.say, "line {}", self.count).expect("it is connected");
        self.hear.read_line(&mut heard).expect("it answers");
        assert_eq!(heard, format!("line {}\n", self.count));
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn an_upgrade_loses_no_packet_of_a_connection() {
    let Some(mut bed) = Bed::new(Release::V20_10) else { return };
    bed.world().sh(NEIGHBOUR);
    bed.network("--subnet 10.81.1.0/24 front");
    bed.docker("run -d --name web --network front -p 8081:80 busybox nc -ll -p 80 -e cat");
    bed.until("ip netns exec client bash -c \": >/dev/tcp/192.0.2.1/8081\" 2>/dev/null");
    let mut talk = Talk::begin(bed.world());
    (0..100).for_each(|_| talk.line());
    bed.serve.kill();
    (0..100).for_each(|_| talk.line());
    bed.engine.world().sh(REPLACE);
    let other = bed
        .engine
        .world()
        .sh("stat -Lc %d:%i /opt/cni/bin/spoke /opt/cni/bin/bridge | uniq | wc -l");
    assert_eq!(other.trim(), "1", "all names are the new one's");
    bed.serve = Serve::start(bed.engine.world(), &[]);
    (0..100).for_each(|_| talk.line());
    bed.serve.stop();
    bed.serve = Serve::start(bed.engine.world(), &[]);
    (0..100).for_each(|_| talk.line());
    let sockets = bed.world().sh("ip netns exec client ss -Htin dport = :8081");
    assert!(sockets.contains("bytes_acked") && !sockets.contains("retrans"), "{sockets}");
    drop(talk);
    Talk::begin(bed.world()).line();
    bed.remove("web");
    bed.world().sh("ip link del up0; ip netns del client");
    bed.docker("network rm front");
    bed.is_clean();
}

#[test]
fn sixty_four_start_at_once() {
    let Some(mut bed) = Bed::new(Release::V20_10) else { return };
    bed.network("--subnet 10.81.2.0/24 front");
    let names: Vec<String> = (0..64).map(|number| format!("c{number}")).collect();
    for name in &names {
        bed.engine.create(name, "front", json!({"HostConfig": {"Init": false}}));
    }
    let engine = &bed.engine;
    thread::scope(|scope| {
        for name in &names {
            scope.spawn(move || engine.post(&format!("/containers/{name}/start"), &Value::Null));
        }
    });
    let network = bed.engine.get("/networks/front");
    let ends = network["Containers"].as_object().expect("containers");
    let addresses: BTreeSet<&str> =
        ends.values().filter_map(|end| end["IPv4Address"].as_str()).collect();
    assert_eq!(addresses.len(), names.len(), "{addresses:?}");
    let reported = bed.spoke("ps");
    assert!(addresses.iter().all(|address| reported.contains(*address)), "{reported}");
    for (from, to) in [("c0", "c63"), ("c63", "c17"), ("c31", "c32")] {
        bed.engine.ping(from, to);
    }
    thread::scope(|scope| {
        for name in &names {
            scope.spawn(move || engine.remove(name));
        }
    });
    bed.remove_left_at_once("front");
    bed.is_clean();
}
