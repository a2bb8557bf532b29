//! What is repeated, what is not, and what is reported.

use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use model::{Error, Kind, ResourceId};
use neutron::Neutron;
use neutron::api::{NewPort, PortChange, Tagged};
use neutron::config::{Access, Identity, Proxies};
use tempfile::tempdir;

use super::server::{Reply, Server, json};
use super::{connect, open};

const PORT: &str =
    r#"{"port": {"id": "1", "network_id": "2", "mac_address": "fa:16:3e:00:00:01"}}"#;

fn id() -> ResourceId {
    "0f2c8d5e-6a1b-4c3d-9e8f-7a6b5c4d3e2f".parse().unwrap()
}

fn with(server: &Server) -> (Neutron, tempfile::TempDir) {
    let directory = tempdir().unwrap();
    (open(&server.url(), directory.path()), directory)
}

fn create(neutron: &Neutron) -> Result<(), Error> {
    neutron.api().create_port(&NewPort::default()).map(|_| ())
}

#[test]
fn carries_each_kind_of_call() {
    let server = Server::new(|call, _| match &call.line[..3] {
        "GET" => json(200, &[], r#"{"ports": []}"#),
        "DEL" => json(204, &[], ""),
        _ if call.line.contains("tags/") => json(201, &[], ""),
        _ => json(201, &[], PORT),
    });
    let (neutron, _directory) = with(&server);
    let api = neutron.api();
    api.ports(&[("name", "a b".to_owned())]).unwrap();
    create(&neutron).unwrap();
    api.change_port(&id(), &PortChange::default(), Some(7)).unwrap();
    api.add_tag(Tagged::Ports, &id(), "a:b").unwrap();
    api.delete_port(&id()).unwrap();
    let calls = server.calls();
    let lines: Vec<_> = calls.iter().map(|call| call.line.as_str()).collect();
    let id = id();
    assert_eq!(
        lines,
        [
            "GET /v2.0/ports?name=a%20b",
            "POST /v2.0/ports",
            &format!("PUT /v2.0/ports/{id}"),
            &format!("PUT /v2.0/ports/{id}/tags/a:b"),
            &format!("DELETE /v2.0/ports/{id}"),
        ]
    );
    assert!(calls.iter().all(|call| call.connection == 0), "one connection is kept");
    assert!(calls.iter().all(|call| call.header("x-project-id") == Some("p")));
    assert_eq!(calls[2].header("if-match"), Some("revision_number=7"));
    assert_eq!(calls[3].header("content-length"), Some("0"));
}

/// By whatever a program without shared libraries has for that.
#[test]
fn names_are_looked_up() {
    let server = Server::new(|_, _| json(200, &[], r#"{"ports": []}"#));
    let directory = tempdir().unwrap();
    let neutron = open(&format!("http://localhost:{}", server.address.port()), directory.path());
    neutron.api().ports(&[]).unwrap();
}

#[test]
fn goes_through_the_proxy_of_the_environment() {
    let server = Server::new(|call, _| match call.line.starts_with("CONNECT ") {
        true => Reply::Raw(b"HTTP/1.1 200 OK\r\n\r\n".to_vec()),
        false => json(200, &[], r#"{"ports": []}"#),
    });
    let directory = tempdir().unwrap();
    let url = server.url();
    let proxies = Proxies::of_environment(|name| (name == "http_proxy").then(|| url.clone()));
    let access = Access {
        endpoint: Some("http://neutron.invalid:9696".to_owned()),
        proxies,
        ..Access::of(Identity::None { project: None })
    };
    connect(access, directory.path()).api().ports(&[]).unwrap();
    assert_eq!(server.lines(), ["CONNECT neutron.invalid:9696", "GET /v2.0/ports"]);
}

#[test]
fn repeats_what_does_no_harm() {
    let server = Server::new(|call, nth| match (nth, &call.line[..3]) {
        (0, _) => Reply::Cut,
        (1, _) => json(503, &["retry-after: 0"], "busy"),
        (2, "GET") => Reply::Half(b"HTTP/1.1 200 OK\r\ncontent-length: 900\r\n\r\n{\"po".to_vec()),
        _ => json(429, &[], ""),
    });
    let (neutron, _directory) = with(&server);
    let error = neutron.api().ports(&[]).unwrap_err();
    assert_eq!((error.kind(), error.status()), (Kind::TryAgain, Some(429)), "{error}");
    assert_eq!(server.lines().len(), 5);
}

#[test]
fn what_was_deleted_before_the_connection_broke_is_deleted() {
    let server = Server::new(|_, nth| match nth {
        0 => Reply::Cut,
        _ => json(404, &[], r#"{"NeutronError": {"type": "PortNotFound", "message": "no"}}"#),
    });
    let (neutron, _directory) = with(&server);
    neutron.api().delete_port(&id()).unwrap();
    assert_eq!(server.lines().len(), 2);
}

#[test]
fn nothing_is_made_twice() {
    for status in [None, Some(502), Some(503), Some(504)] {
        let server = Server::new(move |_, _| match status {
            None => Reply::Cut,
            Some(status) => json(status, &[], ""),
        });
        let (neutron, _directory) = with(&server);
        let error = create(&neutron).unwrap_err();
        assert_eq!((error.kind(), error.status()), (Kind::TryAgain, status), "{error}");
        let says_so = error.to_string().contains("whether it was done is not known");
        assert_eq!(says_so, status.is_none(), "{error}");
        assert_eq!(server.lines().len(), 1, "{status:?}");
    }
}

#[test]
fn what_was_turned_away_is_made_later() {
    for status in [429, 503] {
        let server = Server::new(move |_, nth| match nth {
            0 => json(status, &["retry-after: 1"], ""),
            _ => json(201, &[], PORT),
        });
        let (neutron, _directory) = with(&server);
        let begin = Instant::now();
        create(&neutron).unwrap();
        assert!(begin.elapsed() >= Duration::from_secs(1), "{status}");
        assert_eq!(server.lines().len(), 2, "{status}");
    }
}

#[test]
fn a_server_that_closed_meanwhile_is_called_anew() {
    let server = Server::new(|_, nth| match nth {
        0 => json(200, &["connection: close"], r#"{"ports": []}"#),
        1 => json(200, &[], r#"{"ports": []}"#),
        _ => json(201, &[], PORT),
    });
    let (neutron, _directory) = with(&server);
    neutron.api().ports(&[]).unwrap();
    neutron.api().ports(&[]).unwrap();
    create(&neutron).unwrap();
    let connections: Vec<_> = server.calls().iter().map(|call| call.connection).collect();
    assert_eq!(connections, [0, 1, 1]);
}

#[test]
fn says_who_cannot_be_reached() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let directory = tempdir().unwrap();
    for (endpoint, why) in
        [(format!("http://{closed}"), "refused"), (format!("https://{closed}"), "refused")]
    {
        let access = Access {
            endpoint: Some(endpoint.clone()),
            timeout: Duration::from_secs(2),
            ..Access::of(Identity::None { project: None })
        };
        let neutron = connect(access, directory.path());
        for error in [neutron.api().ports(&[]).unwrap_err(), create(&neutron).unwrap_err()] {
            let start = format!("Neutron at {endpoint} cannot be reached: ");
            assert!(error.to_string().starts_with(&start), "{error}");
            assert!(error.to_string().contains(why), "{error}");
            assert_eq!(error.kind(), Kind::TryAgain);
        }
    }
}

#[test]
fn refuses_what_is_no_answer() {
    let long = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", 17 << 20).into_bytes();
    let long = [long, vec![b' '; 17 << 20]].concat();
    let headers = format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "y".repeat(1 << 20)).into_bytes();
    for (answer, word) in [
        (long, "16 MiB"),
        (headers, "does not answer"),
        (b"\x16\x03\x01\0\0\r\n\r\n".to_vec(), "does not answer"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\n<html>".to_vec(), "endpoint"),
        (
            b"HTTP/1.1 302 X\r\nlocation: https://b/\r\ncontent-length: 0\r\n\r\n".to_vec(),
            "https://b/",
        ),
    ] {
        let server = Server::new(move |_, _| Reply::Raw(answer.clone()));
        let (neutron, _directory) = with(&server);
        let error = create(&neutron).unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    }
}

#[test]
fn does_not_wait_for_ever() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let directory = tempdir().unwrap();
    let access = Access {
        endpoint: Some(format!("http://{}", silent.local_addr().unwrap())),
        timeout: Duration::from_millis(300),
        ..Access::of(Identity::None { project: None })
    };
    let neutron = connect(access, directory.path());
    let begin = Instant::now();
    let error = neutron.api().ports(&[]).unwrap_err();
    assert!(error.to_string().contains("takes too long"), "{error}");
    assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
}

#[test]
fn follows_pages_on_the_same_server_only() {
    let server = Server::new(|call, nth| {
        assert!(call.header("host").unwrap().starts_with("127.0.0.1"));
        let links = match nth {
            0 | 1 => format!(
                r#", "policies_links": [{{"rel": "next", "href": "http://192.0.2.1/v2.0/x?marker={nth}"}}]"#
            ),
            _ => String::new(),
        };
        json(200, &[], &format!(r#"{{"policies": [{{"id": "e{nth}"}}]{links}}}"#))
    });
    let (neutron, _directory) = with(&server);
    let ids = neutron.api().ids("policies", "policies", &[]).unwrap();
    assert_eq!(ids.iter().map(ResourceId::as_str).collect::<Vec<_>>(), ["e0", "e1", "e2"]);
    assert_eq!(
        server.lines(),
        ["GET /v2.0/policies", "GET /v2.0/policies?marker=0", "GET /v2.0/policies?marker=1"]
    );
}

#[test]
fn so_many_at_once_and_no_more() {
    let under_way = Arc::new(AtomicUsize::new(0));
    let most = Arc::new(AtomicUsize::new(0));
    let (counter, highest) = (Arc::clone(&under_way), Arc::clone(&most));
    let both = Barrier::new(2);
    let server = Server::new(move |_, _| {
        highest.fetch_max(counter.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        both.wait();
        counter.fetch_sub(1, Ordering::SeqCst);
        json(200, &[], r#"{"ports": []}"#)
    });
    let directory = tempdir().unwrap();
    let access = Access {
        endpoint: Some(server.url()),
        concurrency: 2,
        ..Access::of(Identity::None { project: None })
    };
    let neutron = connect(access, directory.path());
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| neutron.api().ports(&[]).unwrap());
        }
    });
    assert_eq!(most.load(Ordering::SeqCst), 2);
    assert_eq!(server.lines().len(), 8);
    assert!(server.calls().iter().all(|call| call.connection < 2), "connections are kept");
}
