use model::Dhcp;
use proptest::prelude::*;

use super::*;

const MAC: Mac = Mac::new([2, 0, 0, 0, 0, 1]);
const OTHER: Mac = Mac::new([2, 0, 0, 0, 0, 9]);

fn subject() -> Subject {
    Subject {
        id: doubles::attachment_id("lan", "c1"),
        netns: "/nowhere".into(),
        mac: None,
        client: b"\0c1/lan/eth0".to_vec(),
        dhcp: Dhcp {
            socket: "/s".into(),
            request: vec![42],
            skip: Vec::new(),
            provide: Vec::new(),
            priority: None,
        },
    }
}

fn client() -> Client {
    Client::new(subject(), MAC, Pace::default(), Time(0), 5)
}

fn sent(steps: &[Step]) -> (&Message, Heading) {
    match steps {
        [Step::Send(message, heading), ..] => (message, *heading),
        other => panic!("{other:?}"),
    }
}

/// The server's answer to `question`.
fn answer(question: &Message, kind: Kind, lease: u32) -> Message {
    let mut message = Message { reply: true, ..Message::of(MAC, question.exchange) };
    message.yours = Ipv4Addr::new(192, 0, 2, 7);
    message.options.insert(code::MESSAGE_TYPE, vec![kind as u8]);
    message.options.insert(code::SERVER, vec![192, 0, 2, 1]);
    message.options.insert(code::SUBNET_MASK, vec![255, 255, 255, 0]);
    message.options.insert(code::LEASE_TIME, lease.to_be_bytes().to_vec());
    message
}

/// One with a lease of so many seconds since `now`.
fn bound(lease: u32, now: Time) -> Client {
    let mut client = client();
    client.deadline = now;
    client.started = now;
    let steps = client.wake(now);
    let offer = answer(sent(&steps).0, Kind::Offer, lease);
    assert_eq!(sent(&steps).0.kind(), Some(Kind::Discover));
    let steps = client.hear(&offer, Some(OTHER), now);
    let (request, heading) = sent(&steps);
    assert_eq!((request.kind(), heading), (Some(Kind::Request), Heading::Everybody));
    assert_eq!(request.address(code::REQUESTED_ADDRESS), Some(offer.yours));
    let ack = answer(request, Kind::Ack, lease);
    assert_eq!(client.hear(&ack, Some(OTHER), now), [Step::Probe(offer.yours)]);
    assert!(matches!(client.probed(None, now)[..], [Step::Keep(_)]));
    client
}

#[test]
fn asks_for_what_is_set_and_classless_routes_first() {
    let steps = client().wake(Time(0));
    let asked = &sent(&steps).0.options[&code::PARAMETERS];
    assert_eq!(asked[..], [121, 1, 3, 6, 15, 26, 33, 42, 119]);
    let mut skips = subject();
    skips.dhcp.skip = vec![1, 3];
    assert_eq!(skips.parameters(), [42]);
}

#[test]
fn asks_again_ever_later_and_gives_up() {
    let mut client = client();
    let (mut now, mut delays) = (Time(0), Vec::new());
    loop {
        let steps = client.wake(now);
        if matches!(&steps[..], [Step::Fail(_)]) {
            break;
        }
        assert_eq!(sent(&steps).0.kind(), Some(Kind::Discover));
        delays.push(client.deadline().since(now).as_secs_f64());
        now = client.deadline();
    }
    assert_eq!(now, Time(60_000));
    for (delay, expected) in delays.iter().zip([1.0, 2.0, 4.0, 8.0, 16.0]) {
        assert!((0.9 * expected..=1.1 * expected).contains(delay), "{delays:?}");
    }
    assert!(client.is_over());
}

#[test]
fn renews_with_one_then_rebinds_with_all_then_loses() {
    let mut client = bound(1000, Time(0));
    assert_eq!(client.deadline(), Time(500_000));
    let mut renewals = 0;
    while client.deadline() < Time(875_000) {
        let steps = client.wake(client.deadline());
        let (request, heading) = sent(&steps);
        assert_eq!(heading, Heading::Server(Ipv4Addr::new(192, 0, 2, 1), Some(OTHER)));
        assert_eq!(request.client, Ipv4Addr::new(192, 0, 2, 7));
        assert_eq!(request.address(code::SERVER), None);
        renewals += 1;
    }
    assert!((2..10).contains(&renewals), "{renewals}");
    while client.deadline() < Time(1_000_000) {
        let steps = client.wake(client.deadline());
        assert_eq!(sent(&steps).1, Heading::Everybody);
    }
    assert!(matches!(client.wake(Time(1_000_000))[..], [Step::Lose(..)]));
}

#[test]
fn what_is_lost_is_asked_for_until_a_server_gives_it() {
    let mut client = bound(1000, Time(0));
    let mut now = Time(1_000_000);
    assert!(matches!(client.wake(now)[..], [Step::Lose(..)]));
    assert_eq!((client.terms(), client.deadline()), (None, now));
    let mut longest = Duration::ZERO;
    while now < Time(2_000_000) {
        let steps = client.wake(now);
        assert_eq!(sent(&steps).0.kind(), Some(Kind::Discover));
        longest = longest.max(client.deadline().since(now));
        now = client.deadline();
    }
    assert!((55..70).contains(&longest.as_secs()), "{longest:?}");
    for _ in 0..DECLINES + 1 {
        let steps = client.wake(now);
        let steps = client.hear(&answer(sent(&steps).0, Kind::Offer, 60), None, now);
        client.hear(&answer(sent(&steps).0, Kind::Ack, 60), None, now);
        assert_eq!(client.probed(Some(OTHER), now).len(), 1, "it is declined, and not given up");
        now = client.deadline();
    }
    let steps = client.wake(now);
    let steps = client.hear(&answer(sent(&steps).0, Kind::Offer, 60), None, now);
    client.hear(&answer(sent(&steps).0, Kind::Ack, 60), None, now);
    assert!(matches!(client.probed(None, now)[..], [Step::Keep(_)]));
}

#[test]
fn goes_on_when_renewed() {
    let mut client = bound(1000, Time(0));
    let steps = client.wake(Time(500_000));
    let ack = answer(sent(&steps).0, Kind::Ack, 2000);
    assert!(matches!(client.hear(&ack, Some(OTHER), Time(500_001))[..], [Step::Keep(_)]));
    assert_eq!(client.deadline(), Time(1_500_001));
    let mut other = answer(sent(&steps).0, Kind::Ack, 2000);
    other.yours = Ipv4Addr::new(192, 0, 2, 8);
    client.wake(Time(1_500_001));
    other.exchange = client.exchange;
    assert_eq!(client.hear(&other, None, Time(1_500_002)), [], "that is not its address");
}

#[test]
fn a_refusal_takes_the_address() {
    let mut client = bound(1000, Time(0));
    let steps = client.wake(Time(500_000));
    let nak = answer(sent(&steps).0, Kind::Nak, 0);
    assert!(matches!(client.hear(&nak, None, Time(500_001))[..], [Step::Lose(..)]));
}

#[test]
fn an_address_that_is_in_use_is_declined_thrice_at_most() {
    let mut client = client();
    let mut now = Time(0);
    for round in 1..=3 {
        let steps = client.wake(now);
        let offer = answer(sent(&steps).0, Kind::Offer, 60);
        let steps = client.hear(&offer, None, now);
        let ack = answer(sent(&steps).0, Kind::Ack, 60);
        client.hear(&ack, None, now);
        let steps = client.probed(Some(OTHER), now);
        let (decline, heading) = sent(&steps);
        assert_eq!((decline.kind(), heading), (Some(Kind::Decline), Heading::Everybody));
        assert_eq!(decline.client, Ipv4Addr::UNSPECIFIED);
        match &steps[1..] {
            [Step::Fail(why)] if round == 3 => assert!(why.contains(&OTHER.to_string()), "{why}"),
            [] if round < 3 => {}
            other => panic!("{round}: {other:?}"),
        }
        now = client.deadline();
    }
}

#[test]
fn asks_to_keep_what_it_had_before_a_restart() {
    let held = bound(1000, Time(0));
    let terms = held.terms().unwrap().clone();
    let begin = || resumed(&terms, false);
    let mut client = begin();
    let steps = client.wake(Time(100_000));
    let (request, heading) = sent(&steps);
    assert_eq!((request.kind(), heading), (Some(Kind::Request), Heading::Everybody));
    assert_eq!(request.address(code::REQUESTED_ADDRESS), Some(terms.address.addr()));
    assert_eq!((request.address(code::SERVER), request.client.is_unspecified()), (None, true));
    let ack = answer(request, Kind::Ack, 1000);
    assert!(matches!(client.hear(&ack, None, Time(100_001))[..], [Step::Keep(_)]));
    let mut alone = begin();
    for _ in 0..4 {
        alone.wake(alone.deadline());
    }
    assert_eq!(alone.deadline(), Time(500_000), "it stands for as long as it was given");
    let mut late = begin();
    assert!(matches!(late.wake(Time(1_000_000))[..], [Step::Lose(..)]));
}

/// As after a restart at 100 s with a lease that began at 0.
fn resumed(terms: &Terms, lost: bool) -> Client {
    let lease = Lease {
        subject: subject(),
        mac: MAC,
        terms: terms.clone(),
        since: Time(0),
        first: terms.address,
        lost,
    };
    Client::new(subject(), MAC, Pace::default(), Time(100_000), 9).resume(&lease)
}

#[test]
fn what_was_refused_before_a_restart_is_not_used_after_it() {
    let terms = bound(1000, Time(0)).terms().unwrap().clone();
    let mut client = resumed(&terms, true);
    assert_eq!(client.terms(), None);
    for _ in 0..20 {
        let steps = client.wake(client.deadline());
        assert_eq!(sent(&steps).0.kind(), Some(Kind::Discover), "it seeks until it finds");
    }
    assert!(client.deadline() > Time(500_000), "longer than a new client would");
}

#[test]
fn gives_back_what_it_has() {
    let mut client = bound(1000, Time(0));
    let steps = client.release();
    let (message, heading) = sent(&steps);
    assert_eq!(message.kind(), Some(Kind::Release));
    assert_eq!(heading, Heading::Server(Ipv4Addr::new(192, 0, 2, 1), Some(OTHER)));
    assert!(client.is_over() && client.release().is_empty());
}

proptest! {
    /// Whatever a server says, the client goes on asking or ends, and its time goes on.
    #[test]
    fn any_server_is_survived(
        kinds in proptest::collection::vec((1u8..8, 0u32..100, any::<bool>(), 0u64..40_000), 1..60),
    ) {
        let mut client = client();
        let mut now = Time(0);
        for (kind, lease, holder, delay) in kinds {
            now = Time(now.0 + delay);
            client.wake(now);
            let mut message = Message { reply: true, ..Message::of(MAC, client.exchange) };
            message = answer(&message, Kind::Ack, lease);
            message.options.insert(code::MESSAGE_TYPE, vec![kind]);
            for step in client.hear(&message, None, now) {
                if let Step::Probe(_) = step {
                    client.probed(holder.then_some(OTHER), now);
                }
            }
            client.wake(now);
            prop_assert!(client.is_over() || client.deadline() > now);
        }
    }
}
