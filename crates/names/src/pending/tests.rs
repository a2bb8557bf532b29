use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;

use domain::base::iana::{Rcode, Rtype};
use domain::base::{Message, MessageBuilder, Name};
use netlink::Netns;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::*;
use crate::fenced_answer::FenceHost;
use crate::fixture::{Container, Open};
use crate::opener::Running;
use crate::question::Transport;
use crate::table::{Asker, Table};
use crate::tcp::Shared;
use crate::upstream::Servers;

/// What does not come fails its test, instead of waiting for ever.
const LIMIT: Duration = Duration::from_secs(10);

fn query() -> Vec<u8> {
    query_for("example.com", Rtype::A, 0)
}

fn query_for(name: &str, kind: Rtype, number: u16) -> Vec<u8> {
    let mut builder = MessageBuilder::new_vec();
    builder.header_mut().set_id(number);
    let mut question = builder.question();
    question.push((name.parse::<Name<Vec<u8>>>().unwrap(), kind)).unwrap();
    question.finish()
}

/// A server in a sandbox, and what leads there.
fn server_inside() -> (UdpSocket, Upstream) {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    server.set_read_timeout(Some(LIMIT)).unwrap();
    let upstream = Upstream::Inside(Arc::new(Container(server.local_addr().unwrap())));
    (server, upstream)
}

/// No query has come there that was not read. What is sent on this host's loopback device is there at once.
fn assert_no_other_query(server: &UdpSocket) {
    server.set_nonblocking(true).unwrap();
    assert_eq!(server.recv(&mut [0; 512]).unwrap_err().kind(), ErrorKind::WouldBlock);
    server.set_nonblocking(false).unwrap();
}

fn says(query: &[u8], rcode: Rcode) -> Vec<u8> {
    write::failure(&Message::from_octets(query).unwrap(), rcode).unwrap()
}

fn rcode(message: &[u8]) -> Rcode {
    Message::from_octets(message).unwrap().header().rcode()
}

fn from() -> From {
    let asker = SocketAddr::from(([10, 0, 0, 2], 4000));
    From { asker, listener: 2, container: asker.ip(), holder: None }
}

fn from_container(name: &str, container: &str) -> From {
    let container = container.parse().unwrap();
    From { container, holder: Some(crate::fixture::holder(name)), ..from() }
}

/// However many queries of others have no answer yet, the next container's is asked: each has a question of its own,
/// or all have the same.
#[test]
fn who_asks_most_gives_way_to_the_next_one() {
    for (is_same, exchanges) in [(false, MOST), (true, 1)] {
        gives_way(is_same, exchanges);
    }
}

fn gives_way(is_same: bool, exchanges: usize) {
    // No process reads there.
    let (_server, upstream) = server_inside();
    let (mut number, mut all) = (0, All::default());
    let mut begin = |from| {
        number += 1;
        let name = if is_same { "example.com".to_owned() } else { format!("n{number}.example") };
        let query = query_for(&name, Rtype::A, number);
        all.begin((&query, &query), upstream.clone(), from)
    };
    for _ in 0..MOST_OF_ONE / 2 {
        begin(from_container("c0", "10.0.0.2")).unwrap();
        begin(from_container("c0", "fd00::2")).unwrap();
    }
    for address in ["10.0.0.2", "fd00::2"] {
        let refused = begin(from_container("c0", address)).unwrap_err();
        assert_eq!(rcode(&refused.message), Rcode::SERVFAIL, "{address} is the same container's");
    }
    for number in MOST_OF_ONE..MOST {
        let name = format!("c{}", number / MOST_OF_ONE);
        begin(from_container(&name, "10.0.0.2")).unwrap();
    }
    begin(from_container("db", "10.0.0.3")).unwrap();
    let (ended, again) = all.expire(Instant::now());
    let done = all_done(ended);
    assert_eq!((done.len(), again.len(), all.count), (1, 0, MOST));
    assert_eq!((all.pending.len(), all.by_key.len()), (exchanges, exchanges));
    assert_eq!(rcode(&done[0].message), Rcode::SERVFAIL);
    assert_ne!(done[0].from.client(), from_container("db", "10.0.0.3").client());
}

fn all_done(ended: impl IntoIterator<Item = Ended>) -> Vec<Done> {
    ended.into_iter().flat_map(Ended::done).collect()
}

/// What became of the one query that waits.
fn heard(all: &mut All, number: u64) -> Result<Option<Done>, u64> {
    let heard = all_heard(all, number)?;
    Ok(heard.map(|ended| {
        let mut done = all_done([ended]);
        assert_eq!(done.len(), 1);
        done.remove(0)
    }))
}

/// Waits until something has come for it.
fn all_heard(all: &mut All, number: u64) -> Result<Option<Ended>, u64> {
    let socket = all.socket(number).unwrap();
    let limit = Timespec::try_from(LIMIT).unwrap();
    assert_eq!(poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&limit)).unwrap(), 1);
    all.hear(number)
}

/// A forged answer has one number and one port to guess, however often it is asked (RFC 5452 §5).
#[test]
fn equal_questions_are_asked_once() {
    let (server, upstream) = server_inside();
    let mut all = All::default();
    let queries: Vec<_> = (0..64u16)
        .map(|it| query_for(if it % 2 == 0 { "example.com" } else { "eXample.COM" }, Rtype::A, it))
        .collect();
    let begun = queries.iter().map(|it| all.begin((it, it), upstream.clone(), from()).unwrap());
    let begun: Vec<_> = begun.flatten().collect();
    let [number] = begun[..] else { panic!("{begun:?}") };
    assert!(all.begin((&query(), &query()), upstream, from()).is_err(), "64 of one wait");
    let mut buffer = [0; 512];
    let (length, peer) = server.recv_from(&mut buffer).unwrap();
    assert_no_other_query(&server);
    server.send_to(&says(&buffer[..length], Rcode::NXDOMAIN), peer).unwrap();
    let done = all_done(all_heard(&mut all, number).unwrap());
    assert_eq!(done.len(), queries.len());
    for (done, query) in done.iter().zip(&queries) {
        assert_eq!(&done.query, query);
        assert_eq!((rcode(&done.message), done.has_failed), (Rcode::NXDOMAIN, false));
        assert_eq!((&done.message[..2], &done.message[12..]), (&query[..2], &query[12..]));
    }
    assert!(all.pending.is_empty() && all.by_key.is_empty() && all.of_one.is_empty());
    assert_eq!(all.count, 0);
}

#[test]
fn other_questions_are_apart() {
    let ((server, upstream), (other_server, other_upstream)) = (server_inside(), server_inside());
    let mut all = All::default();
    let mut flagged = query();
    flagged[3] |= 0x10;
    let queries = [query(), query_for("example.com", Rtype::AAAA, 0), flagged];
    for query in &queries {
        let (query, upstream) = ((&query[..], &query[..]), upstream.clone());
        assert!(all.begin(query, upstream.clone(), from()).unwrap().is_some());
        assert!(all.begin(query, upstream, from()).unwrap().is_none());
    }
    let begun = all.begin((&query(), &query()), other_upstream, from()).unwrap();
    let mut buffer = [0; 512];
    for query in &queries {
        let length = server.recv(&mut buffer).unwrap();
        assert_eq!(buffer[2..length], query[2..]);
    }
    assert_no_other_query(&server);
    let (length, peer) = other_server.recv_from(&mut buffer).unwrap();
    other_server.send_to(&says(&buffer[..length], Rcode::NXDOMAIN), peer).unwrap();
    assert_eq!(all_done(all_heard(&mut all, begun.unwrap()).unwrap()).len(), 1);
    assert_eq!((all.count, all.pending.len()), (6, 3));
}

/// Who comes after the first try waits for the second one.
#[test]
fn a_try_is_for_all_who_wait() {
    let (server, upstream) = server_inside();
    let (query, mut all) = (query(), All::default());
    let mut buffer = [0; 512];
    for is_answered in [true, false] {
        let begin = |all: &mut All| all.begin((&query, &query), upstream.clone(), from()).unwrap();
        let number = begin(&mut all).unwrap();
        assert_eq!(begin(&mut all), None);
        server.recv(&mut buffer).unwrap();
        let (ended, again) = all.expire(all.deadline().unwrap());
        assert_eq!((ended.len(), again), (0, vec![number]));
        assert_eq!(begin(&mut all), None);
        let (length, peer) = server.recv_from(&mut buffer).unwrap();
        assert_no_other_query(&server);
        let (done, expected) = if is_answered {
            server.send_to(&says(&buffer[..length], Rcode::NXDOMAIN), peer).unwrap();
            (all_done(all_heard(&mut all, number).unwrap()), Rcode::NXDOMAIN)
        } else {
            (all_done(all.expire(all.deadline().unwrap()).0), Rcode::SERVFAIL)
        };
        assert_eq!(done.len(), 3);
        let is_it = |it: &Done| rcode(&it.message) == expected && it.has_failed != is_answered;
        assert!(done.iter().all(is_it));
    }
    assert!(all.pending.is_empty() && all.by_key.is_empty() && all.of_one.is_empty());
}

/// Who comes at the end of the last try has its own time.
#[test]
fn who_comes_late_is_asked_for_anew() {
    let (server, upstream) = server_inside();
    let (query, mut all) = (query(), All::default());
    let mut buffer = [0; 512];
    let begin = |all: &mut All| all.begin((&query, &query), upstream.clone(), from()).unwrap();
    let number = begin(&mut all).unwrap();
    let (ended, again) = all.expire(all.deadline().unwrap());
    assert_eq!((ended.len(), again), (0, vec![number]));
    assert_eq!(begin(&mut all), None);
    let pending = all.pending.get_mut(&number).unwrap();
    // As if it had come as much later as the first one has waited.
    pending.waiting[1].end += TIMEOUT * 2;
    for (over, tries) in [(1, 3), (0, 4)] {
        let (ended, again) = all.expire(all.deadline().unwrap());
        let done = all_done(ended);
        assert_eq!((done.len(), again), (over, vec![number]), "{tries}");
        assert!(done.iter().all(|it| it.has_failed));
    }
    for _ in 0..3 {
        server.recv(&mut buffer).unwrap();
    }
    let (length, peer) = server.recv_from(&mut buffer).unwrap();
    assert_no_other_query(&server);
    server.send_to(&says(&buffer[..length], Rcode::NXDOMAIN), peer).unwrap();
    let done = heard(&mut all, number).unwrap().unwrap();
    assert_eq!(rcode(&done.message), Rcode::NXDOMAIN);
    assert!(all.pending.is_empty() && all.by_key.is_empty() && all.of_one.is_empty());
    assert_eq!(all.count, 0);
}

/// It holds up no other container, however much it sends.
#[test]
fn who_sends_much_that_is_no_answer_is_heard_no_more() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    server.set_read_timeout(Some(LIMIT)).unwrap();
    let upstream = Upstream::Inside(Arc::new(Container(server.local_addr().unwrap())));
    let (query, mut all) = (query(), All::default());
    let number = all.begin((&query, &query), upstream, from()).unwrap().unwrap();
    let mut buffer = [0; 512];
    let (length, first) = server.recv_from(&mut buffer).unwrap();
    for _ in 0..2 * WRONG {
        server.send_to(b"no answer", first).unwrap();
    }
    server.send_to(&says(&buffer[..length], Rcode::NXDOMAIN), first).unwrap();
    assert_eq!(heard(&mut all, number).unwrap_err(), number, "it is asked anew");
    let (length, second) = server.recv_from(&mut buffer).unwrap();
    assert_ne!(first, second);
    for _ in 1..WRONG {
        server.send_to(b"no answer", second).unwrap();
    }
    server.send_to(&says(&buffer[..length], Rcode::NXDOMAIN), second).unwrap();
    let done = heard(&mut all, number).unwrap().unwrap();
    assert_eq!((rcode(&done.message), done.has_failed), (Rcode::NXDOMAIN, false));
}

/// What a container takes is not what is asked for it behind a fence: the answer is made fit when it is judged.
#[test]
fn an_answer_to_what_was_made_anew_comes_whole() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    server.set_read_timeout(Some(LIMIT)).unwrap();
    let upstream = Upstream::Inside(Arc::new(Container(server.local_addr().unwrap())));
    let (query, mut all) = (query(), All::default());
    let question = crate::question::question(&Message::from_octets(query.as_slice()).unwrap());
    let asked = outside_query::query(&question.unwrap()).unwrap();
    let number = all.begin((&query, &asked), upstream, from()).unwrap().unwrap();
    let mut buffer = [0; 512];
    let (length, peer) = server.recv_from(&mut buffer).unwrap();
    let asked = Message::from_octets(&buffer[..length]).unwrap();
    let addresses: Vec<IpAddr> = (0..40).map(|it| [203, 0, 113, it].into()).collect();
    let answer = write::addresses(&asked, &addresses, 1232).unwrap();
    assert!(answer.len() > 512);
    server.send_to(&answer, peer).unwrap();
    let done = heard(&mut all, number).unwrap().unwrap();
    let message = Message::from_octets(done.message.as_slice()).unwrap();
    assert_eq!((message.header_counts().ancount(), message.header().tc()), (40, false));
    let fitted = write::fitting(done.message.clone(), &query, Transport::Udp);
    assert!(fitted.len() <= 512 && Message::from_octets(fitted).unwrap().header().tc());
}

/// Runs in a network namespace of its own, where no other process has the port of servers.
fn apart(work: impl FnOnce()) {
    let mut keeper = Command::new("unshare")
        .args(["--net", "sh", "-c", "ip link set lo up; echo; exec cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    keeper.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    let path = format!("/proc/{}/ns/net", keeper.id());
    let netns = Netns::open(Path::new(&path)).unwrap();
    drop(keeper.stdin.take());
    keeper.wait().unwrap();
    netns.enter(work).unwrap();
}

const SERVERS: [[u8; 4]; 3] = [[127, 0, 0, 1], [127, 0, 0, 2], [127, 0, 0, 3]];

fn upstream() -> Upstream {
    Upstream::Servers(Servers::new(SERVERS.map(IpAddr::from).to_vec(), None, &Open))
}

fn at(address: [u8; 4]) -> UdpSocket {
    let server = UdpSocket::bind((IpAddr::from(address), 53)).unwrap();
    server.set_read_timeout(Some(LIMIT)).unwrap();
    server
}

const UNABLE: [Rcode; 3] = [Rcode::SERVFAIL, Rcode::REFUSED, Rcode::NOTIMP];

#[test]
fn where_a_server_cannot_answer_the_next_one_is_asked() {
    apart(|| {
        let servers = SERVERS.map(at);
        for (said, expected) in [
            ([UNABLE[0], UNABLE[1], Rcode::NXDOMAIN], Rcode::NXDOMAIN),
            ([UNABLE[2], Rcode::NOERROR, Rcode::NXDOMAIN], Rcode::NOERROR),
            (UNABLE, UNABLE[2]),
        ] {
            let (query, mut all) = (query(), All::default());
            let number = all.begin((&query, &query), upstream(), from()).unwrap().unwrap();
            let mut buffer = [0; 512];
            let mut ends = servers.iter().zip(said).map(|(server, said)| {
                let (length, peer) = server.recv_from(&mut buffer).unwrap();
                server.send_to(&says(&buffer[..length], said), peer).unwrap();
                heard(&mut all, number)
            });
            let done = ends.find_map(|heard| heard.ok().flatten()).unwrap();
            assert_eq!((rcode(&done.message), done.has_failed), (expected, false), "{said:?}");
        }
    });
}

/// A server that is silent afterwards does not take away what another one has said.
#[test]
fn what_a_server_said_is_kept_for_the_end() {
    apart(|| {
        let servers = SERVERS.map(at);
        let (query, mut all) = (query(), All::default());
        let number = all.begin((&query, &query), upstream(), from()).unwrap().unwrap();
        let mut buffer = [0; 512];
        let (length, peer) = servers[0].recv_from(&mut buffer).unwrap();
        servers[0].send_to(&says(&buffer[..length], Rcode::REFUSED), peer).unwrap();
        assert_eq!(heard(&mut all, number).unwrap_err(), number);
        for expected in [1, 0] {
            let (ended, again) = all.expire(all.deadline().unwrap());
            let done = all_done(ended);
            assert_eq!(again.len(), expected);
            assert!(done.iter().all(|done| rcode(&done.message) == Rcode::REFUSED));
            assert_eq!(done.len(), 1 - expected);
        }
    });
}

/// Answers one query over a connection.
fn serve(listener: &TcpListener, said: Rcode) {
    let limit = Timespec::try_from(LIMIT).unwrap();
    assert_eq!(poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&limit)).unwrap(), 1);
    let (mut stream, _) = listener.accept().unwrap();
    let mut length = [0; 2];
    stream.read_exact(&mut length).unwrap();
    let mut query = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut query).unwrap();
    let answer = says(&query, said);
    let length = u16::try_from(answer.len()).unwrap().to_be_bytes();
    stream.write_all(&[length.as_slice(), &answer].concat()).unwrap();
}

#[test]
fn over_connections_the_next_one_is_asked_too() {
    apart(|| {
        let servers =
            SERVERS.map(|address| TcpListener::bind((IpAddr::from(address), 53)).unwrap());
        let opener = Running::start(Arc::new(Open)).unwrap();
        let gate = (Arc::default(), Arc::new(Open) as Arc<dyn FenceHost>, opener.opener());
        let shared = Shared::new(Arc::new(Table::default().into()), gate, PathBuf::new());
        let network = "front".parse().unwrap();
        let asker = Asker { network: &network, address: [10, 0, 0, 2].into() };
        for (said, expected) in [
            (vec![UNABLE[0], UNABLE[1], Rcode::NXDOMAIN], Rcode::NXDOMAIN),
            (vec![UNABLE[2], Rcode::NOERROR], Rcode::NOERROR),
            (UNABLE.to_vec(), UNABLE[2]),
        ] {
            let answer = thread::scope(|scope| {
                for (server, said) in servers.iter().zip(said) {
                    scope.spawn(move || serve(server, said));
                }
                shared.ask((&asker, None), (&query(), query()), &upstream())
            });
            assert_eq!(rcode(&answer), expected);
        }
    });
}
