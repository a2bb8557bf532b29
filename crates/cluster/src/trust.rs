//! Who is who in a cluster that has an etcd of its own: an authority, a certificate for each host, and
//! the list of those that are worth nothing any more.
//!
//! The authority's key is on the hosts that run a server of etcd, and nowhere else. A host asks one of
//! them for its certificates ([`crate::enrollment`]), with a token at first and with its own certificate from then on.

mod abandoned;
mod authority;
mod files;
pub(crate) mod pem;
mod rotation;
mod serial;
mod trusted;

pub use abandoned::Abandoned;
pub use authority::{Authority, Usage, Validity};
pub use files::{Files, OwnCertificate, Pending};
pub use rotation::{AuthorityRecord, Phase, Standing, Successor};
pub use serial::{CertificateRecord, PublicKey, Serial};
pub use trusted::Trusted;

use model::{Error, Result};
use ring::rand::{SecureRandom, SystemRandom};

/// So many random bytes.
fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    let refused = |_| Error::new(model::Kind::Kernel, "the kernel gives no random bytes");
    SystemRandom::new().fill(&mut bytes).map_err(refused)?;
    Ok(bytes)
}

/// SHA-256, in hexadecimal digits.
pub fn digest(bytes: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, bytes);
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}
