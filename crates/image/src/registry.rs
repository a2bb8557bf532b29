//! Images of registries (OCI distribution specification 1.1, Docker Registry HTTP API V2).

pub mod challenge;
pub mod credentials;
mod remote;
mod token;

use std::cell::{OnceCell, RefCell};

use model::{Error, Result};

pub use challenge::Challenge;
pub use credentials::{Credential, Credentials};

use crate::Reference;
use crate::image::Pulled;
use crate::layout::{Parts, Pull};
use crate::transport::Transport;
use remote::Remote;

/// The tag that is meant where none is named.
const LATEST: &str = "latest";

/// Fetches an image.
///
/// # Errors
/// When the registry does not answer, does not let us, has no such image or none for this host, or
/// when what it gives is not what its digests say.
pub(crate) fn pull(
    pull: &Pull<'_>,
    transport: &Transport,
    credentials: &Credentials,
    reference: &Reference,
) -> Result<Pulled> {
    let remote = Remote {
        transport,
        credentials,
        reference,
        staging: pull.staging,
        limits: pull.limits,
        is_secure: OnceCell::new(),
        authorization: RefCell::new(None),
    };
    let version = match pull.pin {
        Some(pin) => pin.to_string(),
        None => reference.tag().unwrap_or(LATEST).to_owned(),
    };
    let name = format!("{}/{}", reference.registry(), reference.repository());
    let doing = |error: Error| error.context(format!("image {name}:{version}"));
    let pulled = remote.top(&version).and_then(|top| pull.manifest(&remote, top)).and_then(
        |(id, manifest)| {
            let tag = reference.tag().or(pull.pin.is_none().then_some(LATEST));
            let tag = tag.map(ToOwned::to_owned);
            pull.assemble(&remote, Parts { id, name: name.clone(), tag, manifest })
        },
    );
    pulled.map_err(doing)
}
