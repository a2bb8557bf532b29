//! Answers of third-party plugins, read as Go's engines read them: the first JSON value of the
//! body, whatever its content type, keys in any case, null and absent alike, unknown keys passed
//! over.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use model::{Error, IfName};
use serde_json::Value;

use super::{Answer, EndpointGiven, Joined, Moved, PoolGiven, Skip, StaticRoute};
use crate::object::{Object, quoted};
use crate::{LONGEST_BODY, Method, PoolKey, Refusal};

/// As much of an error's text is kept, in characters.
const LONGEST_WHY: usize = 1000;
/// More routes are no sandbox's.
const MOST_ROUTES: usize = 4096;
/// The limit of what is kept of a plugin's details about an endpoint.
const MOST_DETAILS: usize = 256;
/// As much of each value, in characters.
const LONGEST_DETAIL: usize = 4096;

/// An answer with status 200 that is none.
#[derive(Debug)]
pub enum Unusable {
    /// The driver says why it did not do what was asked.
    Refused(String),
    /// It did it, and the answer says what cannot be, in the field that the error names.
    Unread {
        /// Why.
        error: Error,
        /// The usable part of the answer.
        rest: Releasable,
    },
}

/// The known part of an unusable answer, which is to be released.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Releasable {
    /// Nothing.
    None,
    /// RequestPool's pool.
    Pool(PoolKey),
    /// RequestAddress's address.
    Address(IpAddr),
}

impl From<Refusal> for Unusable {
    fn from(refusal: Refusal) -> Self {
        let error = match refusal {
            Refusal::Syntax(what) => Error::invalid(what),
            Refusal::Value(error) => error,
        };
        Unusable::Unread { error, rest: Releasable::None }
    }
}

type Read<T> = Result<T, Unusable>;

impl Answer {
    /// Reads the body of an answer with status 200. An empty one is no answer.
    pub fn decode(method: Method, body: &[u8]) -> Read<Self> {
        let value = value(body)?;
        let object = answer(&value)?;
        Ok(match method {
            Method::GwAllocCheck => Answer::Skip(Skip {
                ipv4: object.flag("SkipIPv4")?.unwrap_or(false),
                ipv6: object.flag("SkipIPv6")?.unwrap_or(false),
            }),
            Method::AllocateNetwork => {
                Answer::Allocated { options: object.object("Options")?.all_texts()? }
            }
            Method::CreateEndpoint => Answer::Endpoint { interface: endpoint(&object)? },
            Method::EndpointOperInfo => Answer::Info { value: details(&object)? },
            Method::Join => Answer::Joined(Box::new(joined(&object)?)),
            Method::RequestPool => Answer::Pool(pool(&object)?),
            Method::RequestAddress => address(&object)?,
            Method::Activate
            | Method::NetworkCapabilities
            | Method::IpamCapabilities
            | Method::AddressSpaces
            | Method::CreateNetwork
            | Method::DeleteNetwork
            | Method::FreeNetwork
            | Method::DeleteEndpoint
            | Method::Leave
            | Method::ProgramConnectivity
            | Method::RevokeConnectivity
            | Method::DiscoverNew
            | Method::DiscoverDelete
            | Method::ReleasePool
            | Method::ReleaseAddress => Answer::Done {},
        })
    }
}

/// The text of the error in a body, of any status: libnetwork's `Err` and `Error`.
pub fn failure(body: &[u8]) -> Option<String> {
    let value = value(body).ok()?;
    let object = Object::root(&value).ok()?;
    ["Err", "Error"].into_iter().find_map(|key| match object.get(key)? {
        Value::String(text) if !text.is_empty() => Some(readable(text, LONGEST_WHY)),
        _ => None,
    })
}

/// A foreign text as people are shown it: on one line, and not for ever.
pub fn readable(text: &str, longest: usize) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    let plain: String = text.chars().map(plain).collect();
    let mut shown: String = plain.trim().chars().take(longest).collect();
    if plain.trim().chars().nth(longest).is_some() {
        shown.push('…');
    }
    shown
}

/// A body's first JSON value. Go takes a broken character for U+FFFD.
pub(super) fn value(body: &[u8]) -> Read<Value> {
    let unread = |what: String| Unusable::from(Refusal::Syntax(what));
    if body.len() > LONGEST_BODY {
        return Err(unread(format!("the answer is longer than {LONGEST_BODY} bytes")));
    }
    let text = String::from_utf8_lossy(body);
    let mut values = serde_json::Deserializer::from_str(&text).into_iter();
    match values.next() {
        None => Err(unread("EOF: the answer is empty".to_owned())),
        Some(Ok(value)) => Ok(value),
        Some(Err(error)) => Err(unread(format!("the answer is no JSON: {error}"))),
    }
}

/// An answer's object, unless the answer is an error.
pub(super) fn answer(value: &Value) -> Read<Object<'_>> {
    let object = Object::root(value)?;
    for key in ["Err", "Error"] {
        match object.get(key) {
            None => {}
            Some(Value::String(text)) if text.is_empty() => {}
            Some(Value::String(text)) => {
                return Err(Unusable::Refused(readable(text, LONGEST_WHY)));
            }
            // Its meaning is unknown, but it is no success.
            Some(other) => {
                return Err(Unusable::Refused(readable(&other.to_string(), LONGEST_WHY)));
            }
        }
    }
    Ok(object)
}

fn endpoint(object: &Object<'_>) -> Read<EndpointGiven> {
    let interface = object.object("Interface")?;
    Ok(EndpointGiven {
        ipv4: interface.parsed("Address")?,
        ipv6: interface.parsed("AddressIPv6")?,
        mac: interface.parsed("MacAddress")?,
    })
}

/// Nothing depends on it: what is no text is shown as JSON, and what is too much is left out.
fn details(object: &Object<'_>) -> Read<BTreeMap<String, String>> {
    let details = object.object("Value")?.fields().take(MOST_DETAILS);
    Ok(details
        .map(|(key, value)| match value {
            Value::String(text) => (readable(key, LONGEST_DETAIL), readable(text, LONGEST_DETAIL)),
            other => (readable(key, LONGEST_DETAIL), readable(&other.to_string(), LONGEST_DETAIL)),
        })
        .collect())
}

fn joined(object: &Object<'_>) -> Read<Joined> {
    let gateway = object.parsed::<Ipv4Addr>("Gateway")?;
    let gateway_v6 = object.parsed::<Ipv6Addr>("GatewayIPv6")?;
    router(gateway.map(IpAddr::from), &object.place("Gateway"))?;
    router(gateway_v6.map(IpAddr::from), &object.place("GatewayIPv6"))?;
    let routes = object.objects("StaticRoutes", MOST_ROUTES)?;
    Ok(Joined {
        interface: moved(&object.object("InterfaceName")?)?,
        gateway,
        gateway_v6,
        routes: routes.iter().map(route).collect::<Read<_>>()?,
        no_gateway_service: object.flag("DisableGatewayService")?.unwrap_or(false),
    })
}

/// An address that packets can be sent to.
fn router(address: Option<IpAddr>, place: &str) -> Read<()> {
    let is_router = |a: IpAddr| !a.is_unspecified() && !a.is_multicast() && !a.is_loopback();
    match address {
        Some(address) if !is_router(address) => {
            Err(invalid(format!("{place}: {address} is no router's address")))
        }
        _ => Ok(()),
    }
}

fn moved(names: &Object<'_>) -> Read<Option<Moved>> {
    let Some(from) = names.parsed("SrcName")? else { return Ok(None) };
    let prefix = names.parsed::<IfName>("DstPrefix")?;
    Ok(Some(Moved { from, prefix: prefix.map(|name| name.to_string()).unwrap_or_default() }))
}

fn route(entry: &Object<'_>) -> Read<StaticRoute> {
    let destination = entry.required::<IpNet>("Destination")?.trunc();
    let kind = entry.number::<u64>("RouteType")?;
    match kind {
        // Some drivers name a router here as well; it means nothing.
        1 => return Ok(StaticRoute::Connected(destination)),
        0 => {}
        _ => {
            let place = entry.place("RouteType");
            return Err(invalid(format!("{place}: {kind} is neither 0 nor 1")));
        }
    }
    let place = entry.place("NextHop");
    let next: IpAddr = entry.required("NextHop")?;
    router(Some(next), &place)?;
    if next.is_ipv4() != destination.addr().is_ipv4() {
        return Err(invalid(format!("{place}: {next} leads to no {destination}")));
    }
    Ok(StaticRoute::Via(destination, next))
}

fn pool(object: &Object<'_>) -> Read<PoolGiven> {
    let key: PoolKey = object.required("PoolID")?;
    let rest = || Releasable::Pool(key.clone());
    let pool = object.required::<IpNet>("Pool").map_err(|why| keeping(why, rest()))?;
    let data = object.object("Data").and_then(|data| data.all_texts());
    let data = data.map_err(|why| keeping(why, rest()))?;
    Ok(PoolGiven { key, pool: pool.trunc(), data })
}

fn address(object: &Object<'_>) -> Read<Answer> {
    // Go refuses it without a prefix length, and drops it.
    let bare = object.parsed::<IpAddr>("Address").ok().flatten();
    let rest = |bare: Option<IpAddr>| bare.map_or(Releasable::None, Releasable::Address);
    let address = object.required::<IpNet>("Address").map_err(|why| keeping(why, rest(bare)))?;
    let data = object.object("Data").and_then(|data| data.all_texts());
    let data = data.map_err(|why| keeping(why, rest(Some(address.addr()))))?;
    Ok(Answer::Address { address, data })
}

fn keeping(why: Refusal, rest: Releasable) -> Unusable {
    match Unusable::from(why) {
        Unusable::Unread { error, .. } => Unusable::Unread { error, rest },
        refused @ Unusable::Refused(_) => refused,
    }
}

fn invalid(what: String) -> Unusable {
    Unusable::Unread { error: Error::invalid(what), rest: Releasable::None }
}

/// An unknown word, as an error shows it.
pub(super) fn unknown(place: &str, word: &str, known: &str) -> Unusable {
    invalid(format!("{place}: {} is neither {known}", quoted(word)))
}
