//! The whole ruleset, of every family and program, for following a packet through it.

use model::Result;

use super::abi::{self, HEADER, header, kind};
use super::comment::Comment;
use super::step::{Datum, Step};
use crate::wire::{Attribute, Attributes, Batch, DUMP, Message};
use crate::{Errno, Socket};

/// `NFT_MSG_GETSET`.
const GETSET: u16 = 10;
/// `NFTA_HOOK_DEV`.
const HOOK_DEVICE: u16 = 3;
/// `NFTA_HOOK_DEVS`: each is a name, or the beginning of names (`NFTA_DEVICE_NAME`, `NFTA_DEVICE_PREFIX`).
const HOOK_DEVICES: u16 = 4;
const DEVICE_PREFIX: u16 = 2;
/// `NFTA_SET_ELEM_FLAGS` with `NFT_SET_ELEM_CATCHALL`.
const CATCH_ALL: u32 = 2;

/// The hook of a base chain of any family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnyHook {
    /// Its kind: `filter`, `nat`, `route`.
    pub kind: String,
    /// Where, by `NF_INET_*`; of the family of devices, `NF_NETDEV_*`.
    pub number: u32,
    /// Lower is called earlier.
    pub priority: i32,
    /// Whether it drops what it does not decide.
    pub drops: bool,
    /// The devices, of chains that hook into some; one that ends with `*` stands for all that begin so.
    pub devices: Vec<String>,
}

impl AnyHook {
    /// Whether a chain of devices hooks into this one.
    pub fn is_on(&self, device: &str) -> bool {
        self.devices.iter().any(|of| match of.strip_suffix('*') {
            Some(beginning) => device.starts_with(beginning),
            None => of == device,
        })
    }
}

/// A chain of any program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnyChain {
    /// `NFPROTO_*` of its table.
    pub family: u8,
    /// Its table.
    pub table: String,
    /// Its name.
    pub name: String,
    /// Its hook, if it is a base chain.
    pub hook: Option<AnyHook>,
}

/// A rule of any program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnyRule {
    /// `NFPROTO_*` of its table.
    pub family: u8,
    /// Its table.
    pub table: String,
    /// Its chain.
    pub chain: String,
    /// Its number in its table.
    pub handle: u64,
    /// What it does.
    pub steps: Vec<Step>,
    /// The comment.
    pub comment: Option<String>,
}

/// A set or map of any program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnySet {
    /// `NFPROTO_*` of its table.
    pub family: u8,
    /// Its table.
    pub table: String,
    /// Its name.
    pub name: String,
    /// The length of its key in bytes.
    pub key_length: usize,
    /// Whether its elements are intervals.
    pub is_interval: bool,
    /// Whether its elements may end by themselves.
    pub has_timeouts: bool,
    /// Whether it leads to proxies, which take the packet.
    pub leads_to_proxies: bool,
}

/// Every chain.
///
/// # Errors
/// As [`Socket::dump`].
pub fn all_chains(socket: &mut Socket) -> Result<Vec<AnyChain>> {
    all(socket, abi::GETCHAIN, "listing the nftables chains", read_chain)
}

/// Every rule, in the order of its chain.
///
/// # Errors
/// As [`Socket::dump`].
pub fn all_rules(socket: &mut Socket) -> Result<Vec<AnyRule>> {
    all(socket, abi::GETRULE, "listing the nftables rules", read_rule)
}

/// Every set, without its elements.
///
/// # Errors
/// As [`Socket::dump`].
pub fn all_sets(socket: &mut Socket) -> Result<Vec<AnySet>> {
    all(socket, GETSET, "listing the nftables sets", read_set)
}

fn all<T>(
    socket: &mut Socket,
    message: u16,
    about: &'static str,
    read: impl FnMut(&Message<'_>) -> Option<T>,
) -> Result<Vec<T>> {
    let mut batch = Batch::new();
    // `NFPROTO_UNSPEC`: every family.
    batch.request(kind(message), DUMP, about).bytes(&header(0, 0));
    socket.dump(&mut batch, &[Errno::NOENT], read)
}

/// Keys of a set: the first and the last of each interval, which are the same for one key.
pub type Keys = Vec<(Vec<u8>, Vec<u8>)>;

/// The keys of a set or map, without what they lead to: the first and the last of each interval. `None`
/// where an element is of no form that is known here.
///
/// # Errors
/// As [`Socket::dump`].
pub fn keys(socket: &mut Socket, set: &AnySet) -> Result<Option<Keys>> {
    let mut batch = Batch::new();
    let about = format!("listing the elements of set {} of table {}", set.name, set.table);
    let mut request = batch.request(kind(abi::GETSETELEM), DUMP, about);
    request.bytes(&header(set.family, 0));
    request.text(abi::ELEMENTS_TABLE, &set.table).text(abi::ELEMENTS_SET, &set.name);
    let mut bounds: Vec<Bound> =
        socket.dump(&mut batch, &[Errno::NOENT], read_bounds)?.into_iter().flatten().collect();
    bounds.sort_by(|one, other| (&one.key, !one.is_end).cmp(&(&other.key, !other.is_end)));
    Ok(paired(&bounds, set.is_interval))
}

/// An element of a set: where something begins, or what is behind its end.
struct Bound {
    key: Vec<u8>,
    last: Option<Vec<u8>>,
    is_end: bool,
}

fn read_bounds(message: &Message<'_>) -> Option<Vec<Bound>> {
    let list = message.attributes(HEADER).find_kind(abi::ELEMENTS_LIST)?.nested();
    let bound = |element: crate::wire::Attribute<'_>| {
        let element = element.nested();
        let value = |kind| {
            let nested = element.find_kind(kind)?.nested();
            nested.find_kind(abi::DATA_VALUE).map(|value| value.value.to_vec())
        };
        let flags = element.find_kind(abi::ELEMENT_FLAGS).and_then(|flags| flags.be32());
        let is_end = flags.unwrap_or(0) & abi::ELEMENT_IS_END != 0;
        // What holds for every other key has none.
        let key = value(abi::ELEMENT_KEY).unwrap_or_default();
        Bound { key, last: value(abi::ELEMENT_KEY_END), is_end }
    };
    Some(list.map(bound).collect())
}

fn paired(bounds: &[Bound], is_interval: bool) -> Option<Keys> {
    let mut all = Vec::new();
    let mut rest = bounds.iter().peekable();
    while let Some(bound) = rest.next() {
        if bound.key.is_empty() {
            return None;
        }
        if bound.is_end {
            continue;
        }
        let last = match (&bound.last, is_interval) {
            (Some(last), _) => last.clone(),
            (None, false) => bound.key.clone(),
            (None, true) => match rest.peek() {
                Some(next) => before(&next.key),
                None => vec![0xff; bound.key.len()],
            },
        };
        all.push((bound.key.clone(), last));
    }
    Some(all)
}

/// The number before this one, in the order of the network.
fn before(key: &[u8]) -> Vec<u8> {
    let mut bytes = key.to_vec();
    for byte in bytes.iter_mut().rev() {
        let (less, is_borrowed) = byte.overflowing_sub(1);
        *byte = less;
        if !is_borrowed {
            break;
        }
    }
    bytes
}

/// What `key` leads to in a set or map, as the kernel itself finds it, intervals included: `None` if
/// nothing; `Some(None)` in a set.
///
/// # Errors
/// As [`Socket::get`].
pub fn seek(socket: &mut Socket, set: &AnySet, key: &[u8]) -> Result<Option<Option<Datum>>> {
    match ask(socket, set, Some(key))? {
        Some(found) => Ok(Some(found)),
        None => ask(socket, set, None),
    }
}

/// Asks for a key, or for what holds for every other one.
fn ask(socket: &mut Socket, set: &AnySet, key: Option<&[u8]>) -> Result<Option<Option<Datum>>> {
    let mut batch = Batch::new();
    let about = format!("looking for an element in set {} of table {}", set.name, set.table);
    let mut request = batch.request(kind(abi::GETSETELEM), 0, about);
    request.bytes(&header(set.family, 0));
    request.text(abi::ELEMENTS_TABLE, &set.table).text(abi::ELEMENTS_SET, &set.name);
    request.nest(abi::ELEMENTS_LIST, |list| {
        list.nest(abi::LIST_ELEMENT, |element| {
            match key {
                Some(bytes) => element.nest(abi::ELEMENT_KEY, |key| {
                    key.attribute(abi::DATA_VALUE, bytes);
                }),
                None => element.be32(abi::ELEMENT_FLAGS, CATCH_ALL),
            };
        });
    });
    // Of a kernel that knows no catch-all elements, there are none.
    let none = match key {
        Some(_) => &[Errno::NOENT][..],
        None => &[Errno::NOENT, Errno::INVAL, Errno::OPNOTSUPP][..],
    };
    Ok(socket.get(&mut batch, none, read_element)?.flatten())
}

/// The first element of an answer, with what it leads to; the outer option is there for an answer
/// without any, which is none.
fn read_element(message: &Message<'_>) -> Option<Option<Option<Datum>>> {
    let list = message.attributes(HEADER).find_kind(abi::ELEMENTS_LIST)?.nested();
    let mut found = None;
    for element in list {
        let element = element.nested();
        let flags = element.find_kind(abi::ELEMENT_FLAGS).and_then(|flags| flags.be32());
        if flags.unwrap_or(0) & abi::ELEMENT_IS_END == 0 {
            let data = element.find_kind(abi::ELEMENT_DATA);
            let object = || {
                let name = element.find_kind(abi::ELEMENT_OBJECT)?.text()?;
                Some(Datum::Object(name.to_owned()))
            };
            found = Some(data.and_then(|data| Datum::read(&data.nested())).or_else(object));
        }
    }
    Some(found)
}

fn read_chain(message: &Message<'_>) -> Option<AnyChain> {
    let chain = message.attributes(HEADER);
    Some(AnyChain {
        family: *message.payload.first()?,
        table: chain.find_kind(abi::CHAIN_TABLE)?.text()?.to_owned(),
        name: chain.find_kind(abi::CHAIN_NAME)?.text()?.to_owned(),
        hook: read_hook(&chain),
    })
}

fn read_hook(chain: &Attributes<'_>) -> Option<AnyHook> {
    let hook = chain.find_kind(abi::CHAIN_HOOK)?.nested();
    let policy = chain.find_kind(abi::CHAIN_POLICY).and_then(|policy| policy.be32());
    let one = hook.find_kind(HOOK_DEVICE).and_then(|device| device.text()).map(str::to_owned);
    let several = hook.find_kind(HOOK_DEVICES).map(|list| list.nested());
    let name = |device: Attribute<'_>| {
        let beginning = if device.kind == DEVICE_PREFIX { "*" } else { "" };
        device.text().map(|name| format!("{name}{beginning}"))
    };
    let mut devices: Vec<String> = several.into_iter().flatten().filter_map(name).collect();
    devices.extend(one.filter(|one| !devices.contains(one)));
    Some(AnyHook {
        kind: chain.find_kind(abi::CHAIN_TYPE)?.text()?.to_owned(),
        number: hook.find_kind(abi::HOOK_NUMBER)?.be32()?,
        priority: hook.find_kind(abi::HOOK_PRIORITY)?.be32()?.cast_signed(),
        drops: policy == Some(0),
        devices,
    })
}

fn read_rule(message: &Message<'_>) -> Option<AnyRule> {
    let rule = message.attributes(HEADER);
    let list = rule.find_kind(abi::RULE_EXPRESSIONS).map(|list| list.nested());
    let comment = rule.find_kind(abi::RULE_USERDATA).and_then(|data| Comment::read(data.value));
    Some(AnyRule {
        family: *message.payload.first()?,
        table: rule.find_kind(abi::RULE_TABLE)?.text()?.to_owned(),
        chain: rule.find_kind(abi::RULE_CHAIN)?.text()?.to_owned(),
        handle: rule.find_kind(abi::RULE_HANDLE)?.be64()?,
        steps: list.into_iter().flatten().map(|one| Step::read(&one.nested())).collect(),
        comment: comment.map(|comment| comment.as_str().to_owned()),
    })
}

fn read_set(message: &Message<'_>) -> Option<AnySet> {
    let set = message.attributes(HEADER);
    let flags = set.find_kind(abi::SET_FLAGS).and_then(|flags| flags.be32()).unwrap_or(0);
    Some(AnySet {
        family: *message.payload.first()?,
        table: set.find_kind(abi::SET_TABLE)?.text()?.to_owned(),
        name: set.find_kind(abi::SET_NAME)?.text()?.to_owned(),
        key_length: set.find_kind(abi::SET_KEY_LEN)?.be32()? as usize,
        is_interval: flags & abi::SET_IS_INTERVAL != 0,
        has_timeouts: flags & abi::SET_HAS_TIMEOUTS != 0,
        leads_to_proxies: set.find_kind(abi::SET_OBJECT_TYPE).and_then(|of| of.be32())
            == Some(super::step::SYNPROXY),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_answer_is_survived(payload in proptest::collection::vec(any::<u8>(), 0..400)) {
            let message = Message { kind: 0, flags: 0, sequence: 0, payload: &payload };
            let _ = (read_chain(&message), read_rule(&message), read_set(&message));
            let _ = (read_element(&message), read_bounds(&message));
        }
    }
}
