//! Spoke is killed while a call waits for the store, whose locks the test holds: what a repetition without a body
//! gets is then no matter of chance.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::thread;

use rustix::fs::{FlockOperation, flock};
use serde_json::{Value, json};
use tests::http::Reply;
use tests::{Held, Plugins, World};

/// What a user of Docker's reads where a call may have been either.
const UNDECIDED: &str = "try again: spoke serve was restarted while it worked on this call, and the engine \
                         repeated it without saying what it is for";

struct Lab {
    world: World,
    held: Held,
}

impl Lab {
    #[track_caller]
    fn new() -> Self {
        let world = World::new(&Plugins::subject());
        let held = Held::start(&world, &[]);
        Self { world, held }
    }

    /// The answer of a call that succeeds.
    #[track_caller]
    fn call(&self, method: &str, body: &Value) -> Value {
        read(method, &self.held.call(method, &body.to_string()))
    }

    /// A repetition, which has no body any more.
    fn repeated(&self, method: &str) -> io::Result<Reply> {
        self.held.call(method, "")
    }

    /// The daemon is killed while this call waits for the store.
    fn lost(&self, method: &str, body: &Value) {
        // It runs, and has done what it does when it starts.
        assert_eq!(self.held.call("Plugin.Activate", "").expect("an answer").status, 200);
        // The locks of the store's halves: what survives a reboot, and what is of this boot.
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("Linux");
        let halves = ["/var/lib/spoke/lock".to_owned(), format!("/run/spoke/{}/lock", boot.trim())];
        let locks = halves.map(|path| File::open(self.world.path(&path)).expect("the store's"));
        for lock in &locks {
            flock(lock, FlockOperation::LockExclusive).expect("a lock");
        }
        let body = body.to_string();
        thread::scope(|scope| {
            let call = scope.spawn(|| self.held.call(method, &body));
            while !self.is_kept(&body) {
                if call.is_finished() {
                    let reply = call.join().expect("no panic").map(|reply| reply.text());
                    panic!("{method} did not wait for the store: {reply:?}");
                }
                thread::yield_now();
            }
            assert!(self.held.kill(), "{}", self.held.log());
            assert!(call.join().expect("no panic").is_err(), "{method} was answered");
        });
    }

    /// Whether the daemon has noted a call with this body.
    fn is_kept(&self, body: &str) -> bool {
        let slots = (0..64)
            .map_while(|n| File::open(self.world.path(&format!("/run/spoke/calls/{n}"))).ok());
        slots.into_iter().any(|slot| {
            let mut bytes = vec![0; 4096];
            let read = slot.read_at(&mut bytes, 0).unwrap_or_default();
            let is_used = bytes[0] != 0;
            is_used && bytes[..read].windows(body.len()).any(|part| part == body.as_bytes())
        })
    }

    /// One call that was lost is carried out when it is repeated. Of two of one method, lost in two lives, neither
    /// gets the other's answer, whichever comes first. What the first of `bodies` is answered.
    #[track_caller]
    fn decides(&self, method: &str, bodies: [Value; 3]) -> Value {
        let [alone, one, other] = bodies;
        self.lost(method, &alone);
        let answer = read(method, &self.repeated(method));
        self.lost(method, &one);
        self.lost(method, &other);
        for _ in 0..2 {
            let refused = self.repeated(method).expect("an answer");
            assert_eq!(refused.status, 400, "{method}: {}", refused.text());
            assert!(refused.text().contains(UNDECIDED), "{method}: {}", refused.text());
        }
        // The engine does all of it again.
        for body in [one, other] {
            self.call(method, &body);
        }
        answer
    }
}

#[track_caller]
fn read(method: &str, reply: &io::Result<Reply>) -> Value {
    let reply = reply.as_ref().expect("an answer");
    assert_eq!(reply.status, 200, "{method}: {}", reply.text());
    let answer: Value = serde_json::from_str(&reply.text()).expect("JSON");
    assert_eq!(answer["Err"], Value::Null, "{method}: {answer}");
    answer
}

fn network(number: u32) -> Value {
    let pool = format!("10.{number}.0.0/16");
    json!({
        "NetworkID": format!("{number:064x}"),
        "Options": {"com.docker.network.enable_ipv6": false, "com.docker.network.generic": {}},
        "IPv4Data": [{"AddressSpace": "spoke-local", "Gateway": format!("10.{number}.0.1/16"), "Pool": pool}],
        "IPv6Data": [],
    })
}

fn address(last: u8) -> Value {
    json!({"PoolID": "local/10.81.0.0/16", "Address": format!("10.81.0.{last}"), "Options": {}})
}

fn endpoint(number: u8) -> Value {
    json!({
        "NetworkID": format!("{:064x}", 81), "EndpointID": format!("{number:064x}"), "Options": {},
        "Interface": {"Address": format!("10.81.0.{number}/16"), "AddressIPv6": "", "MacAddress": ""},
    })
}

fn join(number: u8) -> Value {
    json!({
        "NetworkID": format!("{:064x}", 81), "EndpointID": format!("{number:064x}"), "Options": {},
        "SandboxKey": format!("/var/run/docker/netns/{number}"),
    })
}

#[test]
fn no_repetition_gets_the_answer_of_another_call() {
    let lab = Lab::new();
    for number in 81..84 {
        let pool = json!({
            "AddressSpace": "spoke-local", "Pool": format!("10.{number}.0.0/16"), "SubPool": "",
            "Options": {}, "V6": false,
        });
        lab.call("IpamDriver.RequestPool", &pool);
    }
    // From now on both halves of the store are there.
    lab.call("IpamDriver.RequestAddress", &address(5));
    lab.call("IpamDriver.ReleaseAddress", &address(5));
    lab.decides("NetworkDriver.CreateNetwork", [81, 82, 83].map(network));
    let given = lab.decides("IpamDriver.RequestAddress", [7, 8, 9].map(address));
    assert_eq!(given["Address"], "10.81.0.7/16");
    lab.decides("NetworkDriver.CreateEndpoint", [7, 8, 9].map(endpoint));
    let joined = lab.decides("NetworkDriver.Join", [7, 8, 9].map(join));
    // The interface is the one of the endpoint that was joined.
    let name = joined["InterfaceName"]["SrcName"].as_str().expect("a name");
    let again = lab.call("NetworkDriver.Join", &join(7));
    assert_eq!(again["InterfaceName"]["SrcName"], name, "{again}");
    for number in [8, 9] {
        let other = lab.call("NetworkDriver.Join", &join(number));
        assert_ne!(other["InterfaceName"]["SrcName"], name, "{other}");
    }
}
