//! What well-behaved engines see.

use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};

use docker::server::{Limits, Listener, Outcome};
use model::Kind;

use std::io::BufReader;

use crate::plugin::{Client, LEAVE, Stand, TIMEOUT, endpoint, request};
use crate::traces::{self, ENGINES};

#[test]
fn recorded_engines_are_served() {
    let stand = Stand::start();
    for engine in ENGINES {
        let mut client = stand.connect();
        for recorded in traces::recorded(engine) {
            let mut text = format!("POST /{} HTTP/1.1\r\n", recorded.method.name());
            for (name, value) in &recorded.headers {
                text += &format!("{name}: {value}\r\n");
            }
            text += &format!("Content-Length: {}\r\n\r\n{}", recorded.body.len(), recorded.body);
            client.send(text).unwrap();
            let response = client.receive();
            let lost = recorded.method.name() == "NetworkDriver.Join" && recorded.body.is_empty();
            assert_eq!(response.status, if lost { 400 } else { 200 }, "{}", response.body);
        }
    }
}

#[test]
fn questions_are_answered_from_the_profile() {
    let stand = Stand::start();
    let mut client = stand.connect();
    for (method, answer) in [
        ("Plugin.Activate", r#"{"Implements":["NetworkDriver","IpamDriver"]}"#),
        (
            "NetworkDriver.GetCapabilities",
            r#"{"Scope":"local","ConnectivityScope":"local","GwAllocChecker":false}"#,
        ),
        (
            "IpamDriver.GetCapabilities",
            r#"{"RequiresMACAddress":true,"RequiresRequestReplay":false}"#,
        ),
        (
            "IpamDriver.GetDefaultAddressSpaces",
            r#"{"LocalDefaultAddressSpace":"here","GlobalDefaultAddressSpace":"everywhere"}"#,
        ),
    ] {
        let response = client.post(method, "");
        assert_eq!((response.status, response.body.as_str()), (200, answer));
    }
    assert_eq!(stand.recorder.change(|seen| seen.begun), 0);
}

#[test]
fn errors_stand_under_both_keys() {
    let stand = Stand::start();
    let mut client = stand.connect();
    let response = client.post(LEAVE, &endpoint("conflict"));
    let text = r#""\"conflict\" is taken by web""#;
    assert_eq!(response.status, 200);
    assert_eq!(response.body, format!(r#"{{"Err":{text},"Error":{text}}}"#));
    assert_eq!(client.post(LEAVE, &endpoint("bug")).status, 500);
    let panicked = client.post(LEAVE, &endpoint("panic"));
    assert_eq!(panicked.status, 500);
    assert!(panicked.body.starts_with(r#"{"Err":"NetworkDriver.Leave"#), "{}", panicked.body);
    let invalid = client.post(LEAVE, "{}");
    assert_eq!(invalid.status, 200);
    assert!(invalid.body.contains("NetworkID is missing"));
    let leave = Some(LEAVE);
    assert_eq!(
        stand.outcomes(),
        [
            (leave, Outcome::Failed(Kind::Conflict)),
            (leave, Outcome::Failed(Kind::Bug)),
            (leave, Outcome::Refused(500)),
            (leave, Outcome::Failed(Kind::Invalid)),
        ]
    );
}

#[test]
fn unknown_urls_and_verbs_are_distinguished() {
    let stand = Stand::start();
    let mut client = stand.connect();
    let unknown = client.post("NetworkDriver.Fly", "{}");
    assert_eq!(unknown.status, 404);
    assert!(unknown.body.contains(r#""Err":"there is no /NetworkDriver.Fly""#));
    client.send("GET /Plugin.Activate HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let wrong = client.receive();
    assert_eq!(wrong.status, 405);
    assert!(wrong.head.contains("allow: post") && wrong.body.contains("Err"));
    assert_eq!(client.post("Plugin.Activate", "").status, 200);
}

#[test]
fn old_and_chunked_and_pipelined_requests_are_read() {
    let stand = Stand::start();
    let mut client = stand.connect();
    let both = request(LEAVE, &endpoint("a")) + &request(LEAVE, &endpoint("b"));
    client.send(both).unwrap();
    assert_eq!((client.receive().status, client.receive().status), (200, 200));
    let body = endpoint("chunked");
    let (first, second) = body.split_at(7);
    let chunk = |part: &str| format!("{:x}\r\n{part}\r\n", part.len());
    client
        .send(format!(
            "POST /{LEAVE} HTTP/1.1\r\nHost:\r\nTransfer-Encoding: chunked\r\n\r\n{}{}0\r\n\r\n",
            chunk(first),
            chunk(second)
        ))
        .unwrap();
    assert_eq!(client.receive().status, 200);
    let old = "POST /Plugin.Activate HTTP/1.0\r\n\r\n";
    client.send(old).unwrap();
    assert_eq!(client.receive().status, 200);
    assert!(client.is_closed());
    assert_eq!(stand.recorder.change(|seen| seen.ended), 3);
}

#[test]
fn several_sockets_are_served() {
    let dir = tempfile::TempDir::new().unwrap();
    let unix = UnixListener::bind(dir.path().join("second")).unwrap();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = tcp.local_addr().unwrap();
    let listeners = vec![Listener::Unix(unix), Listener::Tcp(tcp)];
    let stand = Stand::with(Limits::default(), false, listeners);
    let mut second =
        Client(BufReader::new(UnixStream::connect(dir.path().join("second")).unwrap()));
    let mut third = Client(BufReader::new(TcpStream::connect(address).unwrap()));
    assert_eq!(stand.connect().post(LEAVE, &endpoint("a")).status, 200);
    assert_eq!(second.post(LEAVE, &endpoint("b")).status, 200);
    assert_eq!(third.post(LEAVE, &endpoint("c")).status, 200);
}

#[test]
fn stopping_finishes_what_is_at_work() {
    let mut stand = Stand::held(Limits::default());
    let mut client = stand.connect();
    let mut idle = stand.connect();
    assert_eq!(idle.post("Plugin.Activate", "").status, 200);
    client.send(request(LEAVE, &endpoint("a"))).unwrap();
    stand.recorder.wait(|seen| seen.begun == 1);
    stand.stop();
    assert!(idle.is_closed());
    stand.recorder.release();
    assert_eq!(client.receive().status, 200);
    assert!(client.is_closed());
    stand.finish().unwrap();
}

/// A call that is written into a connection while the daemon stops is not lost.
#[test]
fn stopping_hears_who_is_connected() {
    let limits = Limits { first_request: TIMEOUT, ..Limits::default() };
    let mut stand = Stand::with(limits, false, Vec::new());
    let mut connected = stand.connect();
    // Connections are accepted in their order.
    assert_eq!(stand.connect().post("Plugin.Activate", "").status, 200);
    stand.stop();
    assert_eq!(connected.post(LEAVE, &endpoint("a")).status, 200);
    drop(connected);
    stand.finish().unwrap();
}

#[test]
fn stopping_does_not_wait_for_ever() {
    let limits = Limits { stopping: std::time::Duration::from_millis(10), ..Limits::default() };
    let mut stand = Stand::held(limits);
    let mut client = stand.connect();
    client.send(request(LEAVE, &endpoint("a"))).unwrap();
    stand.recorder.wait(|seen| seen.begun == 1);
    assert_eq!(stand.finish().unwrap_err().kind(), Kind::TryAgain);
    assert!(client.is_closed());
}
