use tempfile::TempDir;

use super::*;

const JOIN: Method = Method::Join;

/// Lives of a process on one directory; the test sets the clock of the boot.
struct Lives(TempDir);

impl Lives {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn begin(&self, seconds: u64) -> Arc<InFlight> {
        let directory = self.0.path().join("calls");
        Arc::new(InFlight::open(&directory, Duration::from_secs(seconds)).unwrap())
    }

    fn files(&self) -> usize {
        std::fs::read_dir(self.0.path().join("calls")).unwrap().count()
    }
}

/// Killed with these in flight.
fn killed(life: &Arc<InFlight>, calls: &[(Method, &str)]) {
    for (method, body) in calls {
        std::mem::forget(came(life, *method, body));
    }
}

/// One whose body was read.
fn came(life: &Arc<InFlight>, method: Method, body: &str) -> Flight {
    let mut flight = life.keep(method).unwrap();
    flight.arrived(method, body.as_bytes()).unwrap();
    flight
}

fn repeated(life: &Arc<InFlight>, method: Method) -> Option<(Vec<u8>, Flight)> {
    if !life.may_recall(method) {
        return None;
    }
    match life.recall(method)? {
        Recalled::Body(body, flight) => Some((body, flight)),
        Recalled::Done => panic!("it was not done"),
    }
}

#[test]
fn an_answered_request_is_forgotten() {
    let lives = Lives::new();
    let life = lives.begin(1);
    for _ in 0..1000 {
        drop(came(&life, JOIN, "{}"));
    }
    assert_eq!(lives.files(), 1);
    assert!(repeated(&lives.begin(2), JOIN).is_none());
}

#[test]
fn the_next_life_knows_what_was_in_flight() {
    let lives = Lives::new();
    killed(&lives.begin(1), &[(JOIN, "{\"a\":1}")]);
    let life = lives.begin(2);
    assert!(repeated(&life, Method::Leave).is_none());
    let (body, flight) = repeated(&life, JOIN).unwrap();
    assert_eq!(body, b"{\"a\":1}");
    assert!(repeated(&life, JOIN).is_none(), "it is used once");
    drop(flight);
    drop(came(&life, JOIN, "{}"));
    assert_eq!(lives.files(), 1, "its slot is used again");
    assert!(repeated(&lives.begin(3), JOIN).is_none());
}

#[test]
fn two_in_flight_can_be_confused() {
    for second in [JOIN, Method::Leave] {
        let lives = Lives::new();
        killed(&lives.begin(1), &[(JOIN, "{}"), (second, "{}")]);
        let life = lives.begin(2);
        assert!(repeated(&life, JOIN).is_none() && repeated(&life, second).is_none());
        assert!(repeated(&lives.begin(3), JOIN).is_none());
    }
}

#[test]
fn two_that_are_repeated_can_be_confused() {
    let lives = Lives::new();
    killed(&lives.begin(1), &[(JOIN, "{}")]);
    let life = lives.begin(2);
    assert!(life.may_recall(JOIN) && !life.may_recall(JOIN));
    assert!(life.recall(JOIN).is_none());
    assert!(repeated(&life, JOIN).is_none());
}

#[test]
fn a_life_that_dies_early_loses_nothing() {
    let lives = Lives::new();
    killed(&lives.begin(1), &[(JOIN, "{}")]);
    drop(lives.begin(2));
    let life = lives.begin(3);
    std::mem::forget(repeated(&life, JOIN).unwrap().1);
    let life = lives.begin(4);
    killed(&life, &[(Method::Leave, "{\"b\":2}")]);
    let life = lives.begin(5);
    assert_eq!(repeated(&life, JOIN).unwrap().0, b"{}");
    assert_eq!(repeated(&life, Method::Leave).unwrap().0, b"{\"b\":2}");
}

#[test]
fn the_same_call_in_two_lives_can_be_confused() {
    let lives = Lives::new();
    killed(&lives.begin(1), &[(JOIN, "{}")]);
    killed(&lives.begin(2), &[(JOIN, "{\"c\":3}")]);
    assert!(repeated(&lives.begin(3), JOIN).is_none());
}

/// Three lives, each killed with the same call of another container: which repetition comes first is
/// unknown until all of them have given up.
#[test]
fn what_was_confused_stays_so_until_it_is_not_repeated_any_more() {
    let lives = Lives::new();
    killed(&lives.begin(1), &[(JOIN, "{\"first\":1}"), (JOIN, "{\"second\":2}")]);
    killed(&lives.begin(2), &[(JOIN, "{\"third\":3}")]);
    let life = lives.begin(3);
    assert!(repeated(&life, JOIN).is_none(), "of which it is");
    killed(&life, &[(JOIN, "{\"fourth\":4}"), (Method::Leave, "{}")]);
    let life = lives.begin(4);
    assert!(repeated(&life, JOIN).is_none());
    killed(&life, &[(JOIN, "{\"fifth\":5}")]);
    drop(lives.begin(40));
    killed(&lives.begin(61), &[(JOIN, "{\"sixth\":6}")]);
    assert_eq!(repeated(&lives.begin(62), JOIN).unwrap().0, b"{\"sixth\":6}");
}

/// Two repetitions came for one call: the other's body was lost before anybody read it.
#[test]
fn two_repetitions_of_one_leave_a_mark() {
    let lives = Lives::new();
    killed(&lives.begin(1), &[(JOIN, "{}")]);
    let life = lives.begin(2);
    assert!(life.may_recall(JOIN) && !life.may_recall(JOIN));
    assert!(life.recall(JOIN).is_none());
    killed(&life, &[(JOIN, "{\"new\":1}")]);
    assert!(repeated(&lives.begin(3), JOIN).is_none());
}

/// However far a call has come, it is one: it takes one slot.
#[test]
fn a_body_takes_no_second_place() {
    let lives = Lives::new();
    let life = lives.begin(1);
    let mut flight = life.keep(JOIN).unwrap();
    assert_eq!(lives.files(), 1);
    flight.arrived(JOIN, b"{}").unwrap();
    assert_eq!(lives.files(), 1);
    std::mem::forget(flight);
    assert!(repeated(&lives.begin(2), JOIN).is_some());
}

/// A call whose body was not read is repeated, too.
#[test]
fn one_that_only_arrived_can_be_confused() {
    let lives = Lives::new();
    let life = lives.begin(1);
    std::mem::forget(life.keep(JOIN).unwrap());
    killed(&lives.begin(2), &[(JOIN, "{}")]);
    assert!(repeated(&lives.begin(3), JOIN).is_none());
}

#[test]
fn no_engine_repeats_after_so_long() {
    let lives = Lives::new();
    killed(&lives.begin(1), &[(JOIN, "{}")]);
    drop(lives.begin(100));
    drop(lives.begin(119));
    assert!(repeated(&lives.begin(120), JOIN).is_none());

    killed(&lives.begin(200), &[(JOIN, "{}")]);
    drop(lives.begin(201));
    assert!(repeated(&lives.begin(5), JOIN).is_none(), "the clock began anew");
}

#[test]
fn an_address_is_given_back_at_once() {
    let lives = Lives::new();
    let release = Method::ReleaseAddress;
    killed(&lives.begin(1), &[(release, "{}")]);
    let life = lives.begin(2);
    life.settle(|method, body| method == release && body == b"{}");
    life.settle(|_, _| panic!("it is done"));
    assert!(life.may_recall(release));
    assert!(matches!(life.recall(release), Some(Recalled::Done)));
    assert!(!life.may_recall(release));
    lives.begin(3).settle(|_, _| panic!("it is done"));
}

#[test]
fn what_could_not_be_given_back_is_not_repeated() {
    let lives = Lives::new();
    killed(&lives.begin(1), &[(Method::ReleaseAddress, "{}")]);
    let life = lives.begin(2);
    life.settle(|_, _| false);
    assert!(!life.may_recall(Method::ReleaseAddress));
    killed(&life, &[(Method::ReleasePool, "{}")]);
    assert!(!lives.begin(3).may_recall(Method::ReleasePool));
}

#[test]
fn goes_round_what_others_put_there() {
    let lives = Lives::new();
    drop(lives.begin(1));
    std::os::unix::fs::symlink("/etc/passwd", lives.0.path().join("calls/0")).unwrap();
    let life = lives.begin(2);
    killed(&life, &[(JOIN, "{}")]);
    assert_eq!(lives.files(), 2);
    assert!(repeated(&lives.begin(3), JOIN).is_some());
}

#[test]
fn a_directory_of_others_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let place = TempDir::new().unwrap();
    let directory = place.path().join("calls");
    std::os::unix::fs::symlink(place.path(), &directory).unwrap();
    assert!(InFlight::open(&directory, Duration::ZERO).is_err());
    std::fs::remove_file(&directory).unwrap();
    std::fs::create_dir(&directory).unwrap();
    std::fs::set_permissions(&directory, PermissionsExt::from_mode(0o777)).unwrap();
    let refused = InFlight::open(&directory, Duration::ZERO).err().unwrap();
    assert_eq!(refused.kind(), Kind::Denied);
}
