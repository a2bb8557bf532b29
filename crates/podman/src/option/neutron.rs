//! Networks of OpenStack Neutron: `-o driver=neutron`, with the words that every front end has.

use model::{Error, Result};
use spec::{Driver, KindSpec, NEUTRON_KEYS, NetworkSpec, NeutronOptions, Source, Texts};

use super::FRONT;
use crate::DRIVER;
use crate::wire::NetworkConfig;

/// Whether the options are about such a network.
pub(super) fn is_meant(texts: &Texts<'_>) -> Result<bool> {
    let words = [("neutron", ())];
    let expected = "neutron or ovs; other networks are described by -o parent and -o mode";
    let given = texts.word_of(&["driver"], expected, &words)?;
    Ok(given.is_some() || texts.there(&[NEUTRON_KEYS]).is_some())
}

/// The network. Its subnets are Neutron's: Podman compares `--ip` with the subnets in `--subnet`.
pub(super) fn network(
    config: &NetworkConfig,
    texts: &Texts<'_>,
    given: NetworkSpec,
) -> Result<NetworkSpec> {
    let decided = |what: &str| {
        Error::invalid(format!("{what}: Neutron decides that for its networks; leave it out"))
    };
    if let Some(key) = texts.foreign(FRONT, Driver::Neutron) {
        return Err(decided(&format!("-o {key}")));
    }
    if config.internal {
        return Err(decided("--internal"));
    }
    if config.network_interface.as_deref().is_some_and(|name| !name.is_empty()) {
        return Err(decided("--interface-name"));
    }
    for of in config.subnets() {
        if of.lease_range.is_some() {
            return Err(decided("--ip-range"));
        }
    }
    let ipam = config.ipam_options.as_ref().and_then(|options| options.get("driver"));
    match ipam.map_or("", String::as_str) {
        "" | "none" | "host-local" | DRIVER => {}
        other => return Err(decided(&format!("--ipam-driver {}", other.escape_debug()))),
    }
    let link = NeutronOptions::read(texts.flag, texts.map)?.link(texts.flag)?;
    Ok(NetworkSpec {
        kind: Some(KindSpec::Neutron(Box::new(link))),
        source: Source::Cloud,
        ..given
    })
}
