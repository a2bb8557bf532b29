//! Clients that break off, dawdle, flood and babble. None of them may hurt another.

use std::time::Duration;

use docker::server::{Limits, Outcome};
use libnetwork::LONGEST_BODY;

use crate::plugin::{LEAVE, Stand, endpoint, request};

/// Long enough for a client on a busy machine to send what it has to send at once.
const SOON: Duration = Duration::from_millis(500);

/// The server is as well as ever.
fn is_well(stand: &Stand) {
    assert_eq!(stand.connect().post(LEAVE, &endpoint("well")).status, 200);
}

#[test]
fn a_call_outlives_its_connection() {
    let stand = Stand::held(Limits::default());
    let mut client = stand.connect();
    client.send(request(LEAVE, &endpoint("a"))).unwrap();
    stand.recorder.wait(|seen| seen.begun == 1);
    drop(client);
    stand.recorder.release();
    stand.recorder.wait(|seen| seen.ended == 1 && !seen.outcomes.is_empty());
    assert_eq!(stand.outcomes(), [(Some(LEAVE), Outcome::Done)]);
    is_well(&stand);
}

#[test]
fn a_request_that_came_whole_is_carried_out() {
    let stand = Stand::start();
    for _ in 0..20 {
        stand.connect().send(request(LEAVE, &endpoint("a"))).unwrap();
    }
    stand.recorder.wait(|seen| seen.ended == 20);
}

#[test]
fn a_lost_body_is_refused_at_once() {
    // Every thread is taken: the refusal needs none.
    let stand = Stand::held(Limits { calls: 1, ..Limits::default() });
    let mut busy = stand.connect();
    busy.send(request(LEAVE, &endpoint("a"))).unwrap();
    stand.recorder.wait(|seen| seen.begun == 1);
    let mut retry = stand.connect();
    let refused = retry.post(LEAVE, "");
    assert_eq!(refused.status, 400);
    let text = "NetworkDriver.Leave: try again: spoke serve was restarted while it worked on this call, \
                and the engine repeated it without saying what it is for";
    assert_eq!(refused.body, format!(r#"{{"Err":"{text}","Error":"{text}"}}"#));
    assert_eq!(retry.post("Plugin.Activate", "").status, 200);
    assert_eq!(retry.post(LEAVE, "{\"NetworkID\":").status, 400);
    stand.recorder.release();
    assert_eq!(busy.receive().status, 200);
}

#[test]
fn what_comes_next_waits_at_the_socket() {
    let stand = Stand::one_request();
    for (method, body) in [("Plugin.Activate", ""), (LEAVE, &endpoint("a")), (LEAVE, "")] {
        let mut client = stand.connect();
        assert!(client.post(method, body).head.contains("connection: close"));
        assert!(client.is_closed());
    }
}

#[test]
fn a_call_outlives_the_process() {
    let stand = Stand::held(Limits::default());
    let mut busy = stand.connect();
    busy.send(request(LEAVE, &endpoint("conflict"))).unwrap();
    stand.recorder.wait(|seen| seen.begun == 1);
    let next = stand.killed();
    let mut retry = next.connect();
    assert_eq!(retry.post("NetworkDriver.Join", "").status, 400, "another call");
    let repeated = retry.post(LEAVE, "");
    assert!(repeated.status == 200 && repeated.body.contains("is taken by web"), "{repeated:?}");
    assert_eq!(retry.post(LEAVE, "").status, 400, "it was repeated");
    stand.recorder.release();
    assert_eq!(busy.receive().status, 200);
    assert_eq!(busy.post("Plugin.Activate", "").status, 200);
    assert_eq!(stand.killed().connect().post(LEAVE, "").status, 400, "it was answered");
}

#[test]
fn a_call_that_waits_for_its_turn_is_in_flight() {
    let stand = Stand::held(Limits { calls: 1, ..Limits::default() });
    let mut busy = [stand.connect(), stand.connect()];
    for (client, method) in busy.iter_mut().zip([LEAVE, "NetworkDriver.DeleteEndpoint"]) {
        client.send(request(method, &endpoint("a"))).unwrap();
    }
    while stand.in_flight() < 2 {
        std::thread::yield_now();
    }
    let next = stand.killed();
    assert_eq!(next.connect().post(LEAVE, "").status, 400);
    assert_eq!(next.connect().post("NetworkDriver.DeleteEndpoint", "").status, 400);
    next.recorder.change(|seen| assert_eq!(seen.begun, 0));
    stand.recorder.release();
    busy.iter_mut().for_each(|client| assert_eq!(client.receive().status, 200));
}

#[test]
fn an_address_is_given_back_before_it_can_be_anothers() {
    const RELEASE: &str = "IpamDriver.ReleaseAddress";
    let stand = Stand::held(Limits::default());
    let mut busy = stand.connect();
    busy.send(request(RELEASE, r#"{"PoolID":"local/10.1.0.0/16","Address":"10.1.0.2"}"#)).unwrap();
    stand.recorder.wait(|seen| seen.begun == 1);
    let next = stand.killed();
    next.recorder.wait(|seen| seen.ended == 1);
    assert_eq!(next.connect().post(RELEASE, "").status, 200);
    next.recorder.change(|seen| assert_eq!(seen.ended, 1, "not once more"));
    stand.recorder.release();
    assert_eq!(busy.receive().status, 200);
}

/// A plugin hangs whose address was being released: every other network is served at once.
#[test]
fn a_lost_release_of_a_third_party_holds_up_no_one() {
    const RELEASE: &str = "IpamDriver.ReleaseAddress";
    let stand = Stand::held(Limits::default());
    let mut busy = stand.connect();
    busy.send(request(RELEASE, r#"{"PoolID":"local/10.1.0.0/16","Address":"10.1.0.2"}"#)).unwrap();
    stand.recorder.wait(|seen| seen.begun == 1);
    let next = stand.killed_beside(Some("local/"));
    is_well(&next);
    next.recorder.change(|seen| {
        assert_eq!(seen.begun, 1, "the release was not begun");
        let left = seen.troubles.iter().any(|what| what.contains("left to the reconciler"));
        assert!(left, "{:?}", seen.troubles);
    });
    assert_eq!(next.connect().post(RELEASE, "").status, 400);
    stand.recorder.release();
    assert_eq!(busy.receive().status, 200);
}

#[test]
fn two_that_were_lost_are_not_confused() {
    let stand = Stand::held(Limits::default());
    stand.connect().send(request(LEAVE, &endpoint("a"))).unwrap();
    stand.recorder.wait(|seen| seen.begun == 1);
    // The other one did not come so far as to be kept.
    let next = stand.killed();
    let mut both = [next.connect(), next.connect()];
    for client in &mut both {
        client.send(request(LEAVE, "")).unwrap();
    }
    both.iter_mut().for_each(|client| assert_eq!(client.receive().status, 400));
    next.recorder.change(|seen| assert_eq!(seen.begun, 0));
}

#[test]
fn sixty_four_calls_share_the_threads() {
    let stand = Stand::held(Limits { calls: 8, ..Limits::default() });
    let mut clients: Vec<_> = (0..64).map(|_| stand.connect()).collect();
    for (n, client) in clients.iter_mut().enumerate() {
        client.send(request(LEAVE, &endpoint(&format!("e{n}")))).unwrap();
    }
    stand.recorder.wait(|seen| seen.begun == 8);
    stand.recorder.release();
    for client in &mut clients {
        assert_eq!(client.receive().status, 200);
    }
    stand.recorder.change(|seen| assert!((seen.ended, seen.most) == (64, 8)));
}

#[test]
fn calls_that_wait_too_long_are_refused() {
    let stand = Stand::held(Limits { calls: 1, timeout: SOON, ..Limits::default() });
    let mut busy = stand.connect();
    busy.send(request(LEAVE, &endpoint("a"))).unwrap();
    stand.recorder.wait(|seen| seen.begun == 1);
    let refused = stand.connect().post(LEAVE, &endpoint("b"));
    assert_eq!(refused.status, 503);
    assert!(refused.body.contains("too many calls"));
    stand.recorder.release();
    assert_eq!(busy.receive().status, 200);
    assert_eq!(stand.recorder.change(|seen| seen.begun), 1);
}

/// A server of the LAN that is down, while containers on a network with its addresses are started again and
/// again.
#[test]
fn who_waits_for_a_third_party_holds_up_no_one_else() {
    let limits = Limits { calls: 4, asking: 4, timeout: SOON, ..Limits::default() };
    let stand = Stand::held(limits);
    stand.recorder.release();
    stand.recorder.silence(Some("lan"));
    let mut waiting: Vec<_> = (0..4).map(|_| stand.connect()).collect();
    for client in &mut waiting {
        client.send(request(LEAVE, &endpoint("lan"))).unwrap();
    }
    stand.recorder.wait(|seen| seen.begun == 4);
    for _ in 0..8 {
        is_well(&stand);
    }
    // Only those like them are refused, when it takes too long.
    assert_eq!(stand.connect().post(LEAVE, &endpoint("lan")).status, 503);
    is_well(&stand);
    stand.recorder.silence(None);
    for client in &mut waiting {
        assert_eq!(client.receive().status, 200);
    }
}

#[test]
fn too_many_connections_wait_and_then_are_refused() {
    let stand = Stand::limited(Limits { connections: 2, timeout: SOON, ..Limits::default() });
    let mut first = stand.connect();
    let mut second = stand.connect();
    assert_eq!(first.post("Plugin.Activate", "").status, 200);
    assert_eq!(second.post("Plugin.Activate", "").status, 200);
    let refused = stand.connect().receive();
    assert_eq!(refused.status, 503);
    assert!(refused.body.contains("Err"));
    assert!(!stand.recorder.change(|seen| seen.troubles.clone()).is_empty());
    drop(first);
    // The server learns of that when it may.
    while !matches!(stand.connect().try_post("Plugin.Activate"), Ok(200)) {}
    assert_eq!(second.post("Plugin.Activate", "").status, 200);
}

/// Clients that connect and say nothing, or not enough, keep no other one from being answered, however many they
/// are; and who was answered and says nothing now keeps its place.
#[test]
fn silent_connections_give_way_to_who_speaks() {
    let stand = Stand::start();
    let mut kept = stand.connect();
    assert_eq!(kept.post("Plugin.Activate", "").status, 200);
    let mut silent = Vec::new();
    for crowd in [255, 1000] {
        silent.extend((silent.len()..crowd).map(|_| stand.connect()));
        let begun = std::time::Instant::now();
        assert_eq!(stand.connect().post("Plugin.Activate", "").status, 200);
        let took = begun.elapsed();
        assert!(took < Limits::default().timeout / 2, "{took:?} among {crowd}");
    }
    assert!(silent[0].is_closed(), "the oldest one");
    let mut youngest = silent.pop().unwrap();
    assert_eq!(youngest.post("Plugin.Activate", "").status, 200, "the youngest one");
    silent.clear();
    let mut slow: Vec<_> = (0..300).map(|_| stand.connect()).collect();
    for one in &mut slow {
        let _ = one.send("POST /Plugin.Act");
    }
    assert_eq!(stand.connect().post("Plugin.Activate", "").status, 200);
    assert_eq!(kept.post("Plugin.Activate", "").status, 200);
    let troubles = stand.recorder.change(|seen| seen.troubles.clone());
    assert!(troubles.iter().all(|what| what.contains("a silent one was closed")), "{troubles:?}");
}

#[test]
fn slow_heads_are_cut_off_and_idle_connections_are_not() {
    let stand = Stand::limited(Limits { reading: SOON, ..Limits::default() });
    let mut idle = stand.connect();
    assert_eq!(idle.post("Plugin.Activate", "").status, 200);
    let mut slow = stand.connect();
    slow.send("POST /Plugin.Act").unwrap();
    assert!(slow.is_closed());
    // That took as long as a head may take: connections that were idle before are no worse for it.
    let mut second = stand.connect();
    assert_eq!(second.post("Plugin.Activate", "").status, 200);
    second.send("POST /Plugin.Activate HTTP/1.1\r\nHost: ").unwrap();
    assert!(second.is_closed());
    assert_eq!(idle.post("Plugin.Activate", "").status, 200);
}

#[test]
fn a_trickle_of_bytes_does_not_stop_the_clock() {
    let stand = Stand::limited(Limits { reading: SOON, ..Limits::default() });
    let mut slow = stand.connect();
    slow.send("POST /Plugin.Activate HTTP/1.1\r\nX: ").unwrap();
    // It ends because the server cuts it off, long before that many bytes make a head too long.
    while slow.send("x").is_ok() {
        std::thread::yield_now();
    }
    is_well(&stand);
}

#[test]
fn slow_bodies_are_refused() {
    let stand = Stand::limited(Limits { reading: SOON, ..Limits::default() });
    let mut slow = stand.connect();
    let whole = request(LEAVE, &endpoint("a"));
    slow.send(&whole[..whole.len() - 3]).unwrap();
    let refused = slow.receive();
    assert_eq!(refused.status, 408);
    assert!(refused.body.contains("too slowly") && slow.is_closed());
    is_well(&stand);
}

#[test]
fn slow_large_bodies_do_not_hold_up_small_ones() {
    let stand = Stand::limited(Limits { large_bodies: 1, ..Limits::default() });
    let mut slow = stand.connect();
    slow.send(format!("POST /{LEAVE} HTTP/1.1\r\nHost:\r\nContent-Length: 900000\r\n\r\n{{"))
        .unwrap();
    is_well(&stand);
    drop(slow);
    stand.recorder.wait(|seen| seen.outcomes.contains(&(Some(LEAVE), Outcome::Refused(400))));
}

#[test]
fn a_body_may_be_just_so_long() {
    let stand = Stand::start();
    let mut client = stand.connect();
    let body = endpoint("a");
    let padded = |length: usize| body.clone() + &" ".repeat(length - body.len());
    assert_eq!(client.post(LEAVE, &padded(LONGEST_BODY)).status, 200);
    let refused = client.post(LEAVE, &padded(LONGEST_BODY + 1));
    assert_eq!(refused.status, 413);
    assert!(refused.body.contains("Err") && client.is_closed());
    let mut chunked = stand.connect();
    let head = format!("POST /{LEAVE} HTTP/1.1\r\nHost:\r\nTransfer-Encoding: chunked\r\n\r\n");
    chunked.send(head).unwrap();
    let chunk = format!("10000\r\n{}\r\n", " ".repeat(0x10000));
    for _ in 0..20 {
        chunked.send(&chunk).unwrap();
    }
    chunked.send("0\r\n\r\n").unwrap();
    assert_eq!(chunked.receive().status, 413);
    is_well(&stand);
}

#[test]
fn endless_bodies_end() {
    let stand = Stand::start();
    let mut client = stand.connect();
    let head = format!("POST /{LEAVE} HTTP/1.1\r\nHost:\r\nContent-Length: 99999999999\r\n\r\n");
    client.send(head).unwrap();
    let block = vec![b' '; 1 << 16];
    while client.send(&block).is_ok() {}
    is_well(&stand);
}

#[test]
fn garbage_is_refused() {
    let stand = Stand::start();
    let head = "POST / HTTP/1.1\r\n".to_owned();
    for garbage in [
        "\0\0\0\0\r\n\r\n".to_owned(),
        "\u{16}\u{3}\u{1}\u{2}\0\u{1}\0\u{1}\u{fc}\u{3}\u{3}\r\n\r\n".to_owned(),
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(),
        head.clone() + "Content-Length: x\r\n\r\n",
        head.clone() + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        head.clone() + &format!("X: {}\r\n\r\n", "x".repeat(100_000)),
        head.clone() + &"X: y\r\n".repeat(1000) + "\r\n",
        head + "Transfer-Encoding: chunked\r\n\r\nnonsense\r\n\r\n",
    ] {
        let mut client = stand.connect();
        // The server may close before all of it is sent.
        let _ = client.send(&garbage);
        if let Ok(response) = client.try_receive() {
            assert!((400..500).contains(&response.status), "{garbage:?}: {response:?}");
        }
        is_well(&stand);
    }
}

#[test]
fn breaking_off_anywhere_hurts_no_other_call() {
    let stand = Stand::start();
    let mut neighbour = stand.connect();
    let whole = request(LEAVE, &endpoint("a"));
    for end in 0..whole.len() {
        stand.connect().send(&whole[..end]).unwrap();
        assert_eq!(neighbour.post(LEAVE, &endpoint("b")).status, 200);
    }
    assert_eq!(stand.recorder.change(|seen| seen.ended), whole.len());
}
