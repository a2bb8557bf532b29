//! The meaning of a plugin's reply for the call: done, refused, unknown.

use model::{DriverName, Error, Kind};

use super::calls::{Failed, Fate};
use super::client::Reply;
use libnetwork::{Answer, Call, Method, Releasable, ReleaseAddress, Unusable};

/// As much of a plain text is repeated in an error, in characters.
const LONGEST_WHY: usize = 300;

/// The answer to a call.
pub(super) fn answer(name: &DriverName, call: &Call, reply: &Reply) -> Result<Answer, Failed> {
    let method = call.method();
    let is_optional = matches!(method, Method::ProgramConnectivity | Method::RevokeConnectivity);
    match reply.status {
        200 => Answer::decode(method, &reply.body)
            .map_err(|why| unusable(name, method, why, Some(call))),
        404 if is_optional => Ok(Answer::Done {}),
        _ => Err(refused(name, method, reply)),
    }
}

/// An answer to a question about the plugin itself.
pub(super) fn reported<T>(
    name: &DriverName,
    method: Method,
    reply: &Reply,
    decode: impl FnOnce(&[u8]) -> Result<T, Unusable>,
) -> Result<T, Failed> {
    match reply.status {
        200 => decode(&reply.body).map_err(|why| unusable(name, method, why, None)),
        _ => Err(refused(name, method, reply)),
    }
}

fn unusable(name: &DriverName, method: Method, why: Unusable, call: Option<&Call>) -> Failed {
    let at = format!("plugin {name}: {}", method.name());
    match why {
        Unusable::Refused(text) => {
            let kind = meaning(method, &text).unwrap_or(Kind::TryAgain);
            Failed::new(Error::new(kind, text).context(at), Fate::Refused)
        }
        Unusable::Unread { error, rest } => {
            let undo = match (rest, call) {
                (Releasable::Pool(key), _) => Some(Call::ReleasePool(key)),
                (Releasable::Address(address), Some(Call::RequestAddress(request))) => {
                    let pool = request.pool.clone();
                    Some(Call::ReleaseAddress(ReleaseAddress { pool, address }))
                }
                _ => None,
            };
            let error = error.context(format!("{at}: the answer cannot be used"));
            Failed { error, fate: Fate::Done, undo: undo.map(Box::new) }
        }
    }
}

/// A status other than 200. Where the plugin itself says why, it has not done it.
fn refused(name: &DriverName, method: Method, reply: &Reply) -> Failed {
    let status = reply.status;
    let sentence = libnetwork::failure(&reply.body);
    let fate = match &sentence {
        None if !(400..500).contains(&status) => Fate::Unknown,
        _ => Fate::Refused,
    };
    let kind = match (&sentence, status) {
        (Some(text), _) => meaning(method, text),
        (None, _) => None,
    };
    let kind = kind.unwrap_or(match status {
        404 | 501 if sentence.is_none() => Kind::Unsupported,
        401 | 403 => Kind::Denied,
        400 | 405..=428 => Kind::Invalid,
        _ => Kind::TryAgain,
    });
    let text = sentence.unwrap_or_else(|| plain(&reply.body));
    let what = format!("plugin {name}: {}: {text} (status {status})", method.name());
    Failed::new(Error::new(kind, what).with_status(status), fate)
}

fn plain(body: &[u8]) -> String {
    match libnetwork::readable(&String::from_utf8_lossy(body), LONGEST_WHY) {
        text if text.is_empty() => "it says nothing".to_owned(),
        text => text,
    }
}

/// libnetwork's own errors (`ipamapi/contract.go`, `types.go`), and how other drivers put them. An
/// error crosses the wire as nothing but its text.
fn meaning(method: Method, text: &str) -> Option<Kind> {
    let text = text.to_ascii_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| text.contains(word));
    let gives = matches!(method, Method::RequestPool | Method::RequestAddress);
    if gives && says(&FULL) {
        return Some(Kind::Exhausted);
    }
    if says(&UNKNOWN) && !says(&TROUBLE) {
        return Some(Kind::NotFound);
    }
    says(&TAKEN).then_some(Kind::Conflict)
}

const FULL: [&str; 14] = [
    "no available",
    "no more address",
    "no more ip",
    "no more free",
    "no free",
    "no address",
    "no ip address",
    "no unused",
    "exhausted",
    "out of address",
    "out of ip",
    "is full",
    "fully subnetted",
    "could not find an available",
];
const UNKNOWN: [&str; 14] = [
    "not found",
    "no such",
    "does not exist",
    "doesn't exist",
    "not exist",
    "unknown network",
    "unknown endpoint",
    "unknown pool",
    "unknown address",
    "already released",
    "already deleted",
    "already removed",
    "not allocated",
    "not in use",
];
/// The driver did not find a server, a device, a process or a file that it works with: what it holds for
/// Spoke is still there.
const TROUBLE: [&str; 10] = [
    "no such host",
    "no such device",
    "no such process",
    "no such file or directory",
    "dial ",
    "connection",
    "unreachable",
    "timed out",
    "timeout",
    "temporary failure",
];
const TAKEN: [&str; 6] = ["already", "in use", "conflict", "overlap", " exists", "duplicate"];

#[cfg(test)]
mod tests {
    use super::*;

    fn leave() -> Call {
        let (network, endpoint) = ("n".parse().unwrap(), "e".parse().unwrap());
        Call::Leave(libnetwork::EndpointRef { network, endpoint })
    }

    fn request() -> Call {
        Call::RequestAddress(libnetwork::RequestAddress {
            pool: "p".parse().unwrap(),
            address: None,
            purpose: libnetwork::Purpose::Endpoint,
            mac: None,
            endpoint: None,
            serial: false,
        })
    }

    fn judged(call: &Call, status: u16, body: &str) -> Result<Answer, Failed> {
        let reply = Reply { status, body: body.as_bytes().to_vec() };
        answer(&"weave".parse().unwrap(), call, &reply)
    }

    #[test]
    fn full_pools_are_recognized_by_their_texts() {
        for text in [
            "no available IPv4 addresses on this pool: p",
            "No available addresses on this pool",
            "The address pool is exhausted",
            "Could not find an available, non-overlapping IPv4 address pool",
            "all predefined address pools have been fully subnetted",
        ] {
            let failed = judged(&request(), 200, &format!(r#"{{"Error":"{text}"}}"#)).unwrap_err();
            assert_eq!((failed.kind(), failed.fate), (Kind::Exhausted, Fate::Refused), "{text}");
            let failed = judged(&request(), 500, &format!(r#"{{"Err":"{text}"}}"#)).unwrap_err();
            assert_eq!((failed.kind(), failed.fate), (Kind::Exhausted, Fate::Refused), "{text}");
        }
        let failed = judged(&leave(), 200, r#"{"Err":"no available x"}"#).unwrap_err();
        assert_eq!(failed.kind(), Kind::TryAgain);
        let failed = judged(&request(), 200, r#"{"Error":"Address already in use"}"#).unwrap_err();
        assert_eq!(failed.kind(), Kind::Conflict);
        let failed = judged(&leave(), 200, r#"{"Err":"endpoint e does not exist"}"#).unwrap_err();
        assert_eq!(failed.kind(), Kind::NotFound);
        assert_eq!(
            failed.to_string(),
            "plugin weave: NetworkDriver.Leave: endpoint e does not exist"
        );
    }

    #[test]
    fn a_driver_in_trouble_has_not_lost_what_it_holds() {
        for text in [
            "dial tcp: lookup etcd on 127.0.0.53:53: no such host",
            "dial unix /run/openvswitch/db.sock: connect: no such file or directory",
            "Connection aborted: FileNotFoundError(2, 'No such file or directory')",
            "network not found: timed out waiting for the leader",
            "failed to delete the host's end: no such device",
            "tc qdisc del: RTNETLINK answers: No such process",
            "open /var/lib/plugin/state.db: no such file or directory",
        ] {
            let failed = judged(&leave(), 200, &format!(r#"{{"Err":"{text}"}}"#)).unwrap_err();
            assert_eq!((failed.kind(), failed.fate), (Kind::TryAgain, Fate::Refused), "{text}");
        }
    }

    #[test]
    fn statuses_say_whether_it_was_done() {
        let cases = [
            (404, "404 page not found\n", Kind::Unsupported, Fate::Refused),
            (400, "bad", Kind::Invalid, Fate::Refused),
            (500, "", Kind::TryAgain, Fate::Unknown),
            (503, r#"{"Err":"busy"}"#, Kind::TryAgain, Fate::Refused),
            (204, "", Kind::TryAgain, Fate::Unknown),
            (403, "", Kind::Denied, Fate::Refused),
        ];
        for (status, body, kind, fate) in cases {
            let failed = judged(&leave(), status, body).unwrap_err();
            assert_eq!((failed.kind(), failed.fate), (kind, fate), "{status}");
            assert_eq!(failed.error.status(), Some(status));
        }
        let libnetwork::EndpointRef { network, endpoint } = match leave() {
            Call::Leave(at) => at,
            _ => unreachable!(),
        };
        let revoke = Call::RevokeConnectivity(libnetwork::EndpointRef { network, endpoint });
        assert_eq!(judged(&revoke, 404, "x").unwrap(), Answer::Done {});
        assert!(judged(&revoke, 500, "x").is_err());
    }

    #[test]
    fn an_unusable_answer_is_undone() {
        let failed = judged(&request(), 200, r#"{"Address":"10.0.0.7"}"#).unwrap_err();
        assert_eq!((failed.kind(), failed.fate), (Kind::Invalid, Fate::Done));
        let address = "10.0.0.7".parse().unwrap();
        let undo = ReleaseAddress { pool: "p".parse().unwrap(), address };
        assert_eq!(failed.undo.as_deref(), Some(&Call::ReleaseAddress(undo)));
        assert!(
            failed.to_string().contains("IpamDriver.RequestAddress: the answer cannot be used")
        );
        let failed = judged(&leave(), 200, "").unwrap_err();
        assert!(failed.may_be_done() && failed.to_string().contains("EOF"), "{failed}");
    }
}
