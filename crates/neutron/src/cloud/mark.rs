//! The marks of resources that are made for a runtime's requests.

use std::fs::File;
use std::io::Read;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use model::{AliasId, Error, Kind, ResourceId, Result};
use sha2::{Digest, Sha256};

use crate::contract::{self, HostId, Mark};

/// The prefix of marks of ports that were requested with an address.
const REQUEST: &str = "request-";

/// The prefix of marks of ports that only keep an address from being allocated.
const AUXILIARY: &str = "auxiliary-";

/// In such a mark: for which use of the subnet.
const OF: &str = ".of-";

/// The name of such ports.
pub(crate) const AUXILIARY_NAME: &str = "spoke-auxiliary";

/// The prefix of marks of pools.
const POOL: &str = "pool-";

/// In a pool's mark: the operator's pool that its subnet is taken from.
const FROM: &str = ".from-";

/// The tag of a pool that the runtime has released while its subnet was used.
pub(crate) const RELEASED: &str = "spoke.released";

/// The purpose of a port of Spoke's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PortPurpose {
    /// It was requested with an address.
    Request,
    /// It keeps an address from being allocated.
    Auxiliary,
}

impl PortPurpose {
    /// The mark of a new one.
    pub(crate) fn mark(self, host: &HostId) -> Mark {
        let prefix = match self {
            PortPurpose::Request => REQUEST,
            PortPurpose::Auxiliary => AUXILIARY,
        };
        Mark::new(host, format!("{prefix}{}", nonce()))
    }

    /// The purpose in a mark.
    pub(crate) fn of(mark: &Mark) -> Option<Self> {
        match mark.what.as_str() {
            what if what.starts_with(REQUEST) => Some(PortPurpose::Request),
            what if what.starts_with(AUXILIARY) => Some(PortPurpose::Auxiliary),
            _ => None,
        }
    }
}

/// The mark of a port that keeps an address back, for the use of a subnet that has this tag.
pub(crate) fn auxiliary_mark(host: &HostId, once: Option<&str>) -> Mark {
    let mark = PortPurpose::Auxiliary.mark(host);
    match once.and_then(|tag| tag.rsplit(':').next()) {
        Some(digits) => Mark { what: format!("{}{OF}{digits}", mark.what), ..mark },
        None => mark,
    }
}

/// The tag of the use that such a port is for; `None` where its mark does not say.
pub(crate) fn use_of_auxiliary(host: &HostId, mark: &Mark) -> Option<String> {
    let (_, digits) = mark.what.strip_prefix(AUXILIARY)?.rsplit_once(OF)?;
    let number = u32::from_str_radix(digits, 16).ok()?;
    Some(contract::use_tag(host, number))
}

/// The mark of a new pool.
pub(crate) fn pool_mark(host: &HostId, source: Option<&ResourceId>) -> Mark {
    let source = source.map(|id| format!("{FROM}{id}")).unwrap_or_default();
    Mark::new(host, format!("{POOL}{}{source}", nonce()))
}

/// The mark of a pool: its age, and the pool from which its subnet is taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PoolMark {
    /// Sorts by age.
    pub(crate) nonce: String,
    pub(crate) source: Option<ResourceId>,
}

impl PoolMark {
    /// The mark in a description; `None` where the pool is not Spoke's.
    pub(crate) fn read(description: &str) -> Option<Self> {
        let mark = Mark::read(description)?;
        let what = mark.what.strip_prefix(POOL)?;
        let (nonce, source) = what.split_once(FROM).unwrap_or((what, ""));
        Some(Self { nonce: nonce.to_owned(), source: source.parse().ok() })
    }
}

/// When a pool was made, by its maker's clock; none of a mark that is no pool's.
pub(crate) fn pool_made_at(mark: &Mark) -> Option<SystemTime> {
    let seconds = mark.what.strip_prefix(POOL)?.get(..8)?;
    let seconds = u64::from_str_radix(seconds, 16).ok()?;
    UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

/// The tag by which a network of this host says that it uses something.
pub(crate) fn network_use(host: &HostId, id: &AliasId) -> String {
    let digest = Sha256::digest(id.as_str().as_bytes());
    contract::use_tag(host, u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]]))
}

/// Unique, and greater than one of an earlier second.
pub(crate) fn nonce() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let mut random = [0; 8];
    let read = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut random));
    if read.is_err() {
        let rest = u64::from(now.subsec_nanos()) << 32 | u64::from(std::process::id());
        random = rest.to_be_bytes();
    }
    format!("{:08x}{:016x}", now.as_secs(), u64::from_be_bytes(random))
}

/// A random number, for a unique tag.
pub(crate) fn random() -> u32 {
    let nonce = nonce();
    nonce.get(16..).and_then(|text| u32::from_str_radix(text, 16).ok()).unwrap_or_default()
}

/// Makes a resource; searches for it where it is unknown whether it was made.
pub(crate) fn make<T>(
    post: impl FnOnce() -> Result<T>,
    find: impl FnOnce() -> Result<Vec<T>>,
) -> Result<T> {
    match post() {
        Err(error) if is_unknown(&error) => match find().ok().and_then(|mut found| found.pop()) {
            Some(found) => Ok(found),
            None => Err(error),
        },
        done => done,
    }
}

/// Whether a request may have been carried out that failed so.
fn is_unknown(error: &Error) -> bool {
    match error.status() {
        Some(status) => status >= 500,
        None => error.kind() == Kind::TryAgain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host() -> HostId {
        HostId::try_from("h1".to_owned()).unwrap()
    }

    #[test]
    fn marks_say_what_things_are_for() {
        let source: ResourceId = "0f2c8d5e-6a1b-4c3d-9e8f-7a6b5c4d3e2f".parse().unwrap();
        let description = pool_mark(&host(), Some(&source)).to_string();
        assert_eq!(PoolMark::read(&description).unwrap().source, Some(source));
        assert_eq!(PoolMark::read(&pool_mark(&host(), None).to_string()).unwrap().source, None);
        assert_eq!(PoolMark::read("the operator's"), None);
        for purpose in [PortPurpose::Request, PortPurpose::Auxiliary] {
            assert_eq!(PortPurpose::of(&purpose.mark(&host())), Some(purpose));
        }
        assert_eq!(PortPurpose::of(&Mark::new(&host(), "4f")), None);
        let once = network_use(&host(), &"0".repeat(64).parse().unwrap());
        let auxiliary = auxiliary_mark(&host(), Some(&once));
        assert_eq!(PortPurpose::of(&auxiliary), Some(PortPurpose::Auxiliary));
        assert_eq!(use_of_auxiliary(&host(), &auxiliary), Some(once));
        for other in [auxiliary_mark(&host(), None), PortPurpose::Request.mark(&host())] {
            assert_eq!(use_of_auxiliary(&host(), &other), None);
        }
        assert_ne!(nonce(), nonce());
        assert_eq!(nonce().len(), 24);
    }

    #[test]
    fn what_may_have_been_made_is_looked_for() {
        let lost = || Err(Error::try_again("no answer"));
        assert_eq!(make(lost, || Ok(vec![1])).unwrap(), 1);
        assert_eq!(make(lost, || Ok(Vec::<u8>::new())).unwrap_err().kind(), model::Kind::TryAgain);
        let refused = || Err(Error::conflict("taken").with_status(409));
        assert_eq!(make(refused, || Ok(vec![1])).unwrap_err().kind(), model::Kind::Conflict);
    }
}
