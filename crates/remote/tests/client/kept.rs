//! One connection for several calls.

use std::io::{BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use libnetwork::Answer;
use remote::calls::Calls;
use remote::plugins::Plugins;

use crate::scripted::{Act, Scene, head_and_body, leave, method_of, p, request, said, usual};

/// How many calls each connection brought, in the order in which they began.
type Brought = Arc<Vec<AtomicUsize>>;

/// Serves one request after the other on each connection; `say` gets the connection and what is to be
/// answered.
fn serve(
    scene: &Scene,
    say: impl Fn(&UnixStream, Vec<u8>) -> bool + Send + Sync + 'static,
) -> Brought {
    let _ = std::fs::remove_file(scene.socket());
    let listener = UnixListener::bind(scene.socket()).unwrap();
    let brought: Brought = Arc::new((0..16).map(|_| AtomicUsize::new(0)).collect());
    let (counted, say) = (Arc::clone(&brought), Arc::new(say));
    thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let (counted, say) = (Arc::clone(&counted), Arc::clone(&say));
            let stream = stream.unwrap();
            thread::spawn(move || {
                let mut from = BufReader::new(stream.try_clone().unwrap());
                while let Some((method, _)) = request(&mut from) {
                    counted[number].fetch_add(1, Ordering::SeqCst);
                    if !say(&stream, answered(&method)) {
                        return;
                    }
                }
            });
        }
    });
    brought
}

fn answered(method: &str) -> Vec<u8> {
    match usual(method) {
        Some(Act::Say(status, body)) => said(status, body),
        _ => said(200, "{}"),
    }
}

fn counts(brought: &Brought) -> Vec<usize> {
    let all = brought.iter().map(|count| count.load(Ordering::SeqCst));
    all.take_while(|count| *count > 0).collect()
}

fn keeping(scene: &Scene) -> Plugins {
    scene.plugins(Duration::from_secs(20)).keeping_connections()
}

fn write(mut stream: &UnixStream, answer: &[u8]) -> bool {
    stream.write_all(answer).is_ok()
}

fn call(plugins: &Plugins) {
    assert_eq!(plugins.call(&p(), &leave()).unwrap(), Answer::Done {});
}

/// How many calls each connection brought, of three that a short process made.
fn three(say: impl Fn(&UnixStream, Vec<u8>) -> bool + Send + Sync + 'static) -> Vec<usize> {
    let scene = Scene::new();
    let brought = serve(&scene, say);
    let plugins = keeping(&scene);
    (0..3).for_each(|_| call(&plugins));
    counts(&brought)
}

/// What was asked before the first call: what the plugin is.
const QUESTIONS: usize = 4;

#[test]
fn a_short_process_needs_one() {
    assert_eq!(three(|stream, answer| write(stream, &answer)), [QUESTIONS + 3]);
}

#[test]
fn a_process_that_waits_for_another_keeps_none() {
    let scene = Scene::new();
    let brought = serve(&scene, |stream, answer| write(stream, &answer));
    let plugins = keeping(&scene);
    call(&plugins);
    plugins.pause();
    call(&plugins);
    assert_eq!(counts(&brought), [QUESTIONS + 1, 1]);
}

#[test]
fn a_long_process_leaves_none_open() {
    let scene = Scene::new();
    let (report, reported) = mpsc::channel();
    serve(&scene, move |mut stream, answer| {
        let is_written = write(stream, &answer);
        report.send(stream.read(&mut [0]).unwrap()).unwrap();
        is_written
    });
    let plugins = scene.plugins(Duration::from_secs(20));
    call(&plugins);
    for _ in 0..=QUESTIONS {
        assert_eq!(reported.recv().unwrap(), 0, "the connection ended");
    }
}

#[test]
fn who_ends_it_without_a_word_gets_another() {
    assert_eq!(three(|stream, answer| !write(stream, &answer)), [1; QUESTIONS + 3]);
}

#[test]
fn who_ends_it_with_the_request_unread_gets_it_anew() {
    let brought = three(|stream, answer| {
        // The next request comes before the end.
        let is_written = write(stream, &answer);
        stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        let _ = rustix::net::recv(stream, &mut [0], rustix::net::RecvFlags::PEEK);
        !is_written
    });
    assert_eq!(brought, [1; QUESTIONS + 3]);
}

#[test]
fn who_says_so_or_speaks_unasked_is_not_asked_again_on_it() {
    let closing = |answer: Vec<u8>| {
        let text = String::from_utf8(answer).unwrap();
        text.replace("Content-Length", "Connection: close\r\nContent-Length").into_bytes()
    };
    let unasked = |answer: Vec<u8>| [answer, said(200, r#"{"Err":"no call"}"#)].concat();
    let old = |answer: Vec<u8>| [&b"HTTP/1.0"[..], &answer[8..]].concat();
    for change in [closing as fn(Vec<u8>) -> Vec<u8>, unasked, old] {
        let brought = three(move |stream, answer| write(stream, &change(answer)));
        assert_eq!(brought, [1; QUESTIONS + 3]);
    }
}

#[test]
fn over_tcp_each_request_says_that_it_is_the_last() {
    let scene = Scene::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("tcp://{}", listener.local_addr().unwrap());
    std::fs::write(scene.at("etc/p.spec"), url).unwrap();
    let heads = thread::spawn(move || {
        let asked = (0..=QUESTIONS).map(|_| {
            let mut from = BufReader::new(listener.accept().unwrap().0);
            let (head, _) = head_and_body(&mut from).unwrap();
            from.get_mut().write_all(&answered(method_of(&head))).unwrap();
            head
        });
        asked.collect::<Vec<_>>()
    });
    call(&keeping(&scene));
    for head in heads.join().unwrap() {
        assert!(head.contains("\r\nConnection: close\r\n"), "{head}");
    }
}

#[test]
fn another_life_gets_another() {
    let scene = Scene::new();
    let old = serve(&scene, |stream, answer| write(stream, &answer));
    let plugins = keeping(&scene);
    call(&plugins);
    let new = serve(&scene, |stream, answer| write(stream, &answer));
    call(&plugins);
    assert_eq!((counts(&old), counts(&new)), (vec![QUESTIONS + 1], vec![QUESTIONS + 1]));
}
