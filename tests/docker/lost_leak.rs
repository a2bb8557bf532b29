//! What Docker forgets is found by comparing, and freed.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use serde_json::json;
use tests::{Release, Serve};

use crate::bed::Bed;

const SOCKET: &str = "/run/docker/plugins/spoke.sock";
/// Seconds are enough where nothing else happens.
const CONFIG: &str = "[docker]\ngrace_seconds = 1";

/// Serves `socket` as a driver that fails every call, while `test` runs; how many there were.
fn failing(socket: &Path, test: impl FnOnce()) -> usize {
    let _ = std::fs::remove_file(socket);
    let listener = UnixListener::bind(socket).expect("a socket");
    let calls = AtomicUsize::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            while let Ok((stream, _)) = listener.accept() {
                match fail(&stream) {
                    Ok(true) => calls.fetch_add(1, Ordering::Relaxed),
                    Ok(false) | Err(_) => break,
                };
            }
        });
        test();
        // A connection without a request ends it.
        drop(UnixStream::connect(socket).expect("it listens"));
    });
    std::fs::remove_file(socket).expect("ours");
    calls.into_inner()
}

/// Reads one request and refuses it; whether there was one.
fn fail(mut stream: &UnixStream) -> std::io::Result<bool> {
    let mut reader = BufReader::new(stream);
    let (mut length, mut lines) = (0, 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line.trim().is_empty() {
            break;
        }
        lines += 1;
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    reader.read_exact(&mut vec![0; length])?;
    let body = r#"{"Err":"not today"}"#;
    let head = "HTTP/1.1 500 Internal Server Error\r\nConnection: close\r\nContent-Length";
    write!(stream, "{head}: {}\r\n\r\n{body}", body.len())?;
    Ok(lines > 0)
}

/// Docker says that all went well, and forgets; the driver got no call.
#[track_caller]
fn deletions_that_failed(release: Release) {
    let Some(mut bed) = Bed::with(release, CONFIG, &[]) else { return };
    bed.network("--subnet 10.83.0.0/24 front");
    bed.network("--subnet 10.83.1.0/24 --gateway 10.83.1.1 --aux-address a=10.83.1.9 gone");
    bed.run("--name one --network front --ip 10.83.0.20 -p 8083:80");
    bed.run("--name two --network gone");
    bed.run("--name three --network front");
    for name in ["front", "gone"] {
        bed.until(&format!("/opt/cni/bin/spoke network inspect {name} >/dev/null 2>&1"));
    }
    bed.serve.stop();
    let calls = failing(&bed.engine.world().path(SOCKET), || {
        bed.engine.remove("one");
        bed.engine.remove("two");
        bed.engine.remove_network("gone");
    });
    assert!(calls >= 9, "{calls}: Leave, DeleteEndpoint, ReleaseAddress, …");
    bed.serve = Serve::start(bed.engine.world(), &[]);
    let reported = bed.spoke("ipam show");
    assert!(reported.contains("10.83.1.0/24"), "it got no call: {reported}");
    bed.until("! /opt/cni/bin/spoke ipam show | grep -q 10.83.1.0/24");
    bed.until("! /opt/cni/bin/spoke ports | grep -q 8083");
    bed.until(&freed("10.83.0.20"));
    let events = bed.spoke("events");
    let reported: Vec<&str> = events.lines().filter(|line| line.contains(" freed ")).collect();
    for word in ["network", "subnet 10.83.1.0/24", "lease 10.83.1.2", "lease 10.83.0.20"] {
        assert!(reported.iter().any(|line| line.contains(word)), "{word}: {events}");
    }
    let figures = bed.figures();
    let freed = "spoke_findings_total{kind=\"subnet\",remedy=\"free\"} 1";
    assert!(figures.contains(freed), "{figures}");
    bed.run("--name four --network front --ip 10.83.0.20");
    bed.engine.ping("four", "three");
    bed.network("--subnet 10.83.1.0/24 again");
    bed.remove("three four");
    bed.docker("network rm front again");
    bed.is_clean();
}

#[test]
fn deletions_that_failed_20_10() {
    deletions_that_failed(Release::V20_10);
}

#[test]
fn deletions_that_failed_28_5() {
    deletions_that_failed(Release::V28_5);
}

/// That it was reported that the reconciler freed something.
fn freed(what: &str) -> String {
    format!("/opt/cni/bin/spoke events | grep -q \" freed .*{what}\"")
}

/// A failed CreateEndpoint is followed by no DeleteEndpoint, and an engine that dies by nothing.
#[test]
fn what_was_begun_and_never_ended() {
    let Some(bed) = Bed::with(Release::V20_10, CONFIG, &[]) else { return };
    bed.network("--subnet 10.83.2.0/24 front");
    bed.run("--name one --network front");
    bed.until("/opt/cni/bin/spoke network inspect front >/dev/null 2>&1");
    let network = bed.engine.get("/networks/front")["Id"].clone();
    let call = |method: &str, body: serde_json::Value| {
        let reply = bed.serve.call(method, &body.to_string()).expect("an answer");
        assert_eq!(reply.status, 200, "{method}: {}", reply.text());
        reply.json()
    };
    let pool = "local/10.83.2.0/24";
    for address in ["10.83.2.30", "10.83.2.31"] {
        let body = json!({"PoolID": pool, "Address": address, "Options": {}});
        call("IpamDriver.RequestAddress", body);
    }
    let interface = json!({"Address": "10.83.2.31/24", "AddressIPv6": "", "MacAddress": ""});
    let endpoint = "e".repeat(64);
    call(
        "NetworkDriver.CreateEndpoint",
        json!({"NetworkID": network, "EndpointID": endpoint, "Interface": interface, "Options": {}}),
    );
    let spare = json!({"AddressSpace": "spoke-local", "Pool": "10.83.3.0/24", "SubPool": "",
        "Options": {}, "V6": false});
    let spare = call("IpamDriver.RequestPool", spare)["PoolID"].clone();
    assert_eq!(spare, "local/10.83.3.0/24");
    // It looks again when something happens.
    bed.run("--name two --network front");
    for what in ["10.83.2.30", "10.83.2.31"] {
        bed.until(&freed(what));
    }
    // It may be that of an engine that is not asked: it is reported, and stays.
    assert!(bed.serve.log().contains("lists a network with subnet 10.83.3.0/24"));
    call("IpamDriver.ReleasePool", json!({"PoolID": spare}));
    let events = bed.spoke("events");
    for name in ["one", "two"] {
        let lives = bed.address(name, "front");
        assert!(!events.contains(&format!("lease {lives}/24")), "it lives: {events}");
        bed.engine.ping(name, "10.83.2.1");
    }
    bed.remove("one two");
    bed.docker("network rm front");
    bed.is_clean();
}
