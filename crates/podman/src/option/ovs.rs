//! Segments of Open vSwitch: `-o driver=ovs`, with the words that every front end has.

use model::{EgressPolicy, Error, Result};
use spec::ovs::OvsTexts;
use spec::{DefaultRoute, Driver, KindSpec, NEUTRON_KEYS, NetworkSpec, OVS_KEYS, Source, Texts};

use super::FRONT;
use crate::wire::NetworkConfig;

/// Whether the options are about such a network.
pub(super) fn is_meant(texts: &Texts<'_>) -> bool {
    let is_named = texts.map.get("driver").is_some_and(|driver| driver == "ovs");
    is_named || texts.there(&[OVS_KEYS]).is_some()
}

/// The network. Its default route is the router on the segment that has the gateway's address: Podman names one
/// for every subnet.
pub(super) fn network(
    config: &NetworkConfig,
    texts: &Texts<'_>,
    given: NetworkSpec,
) -> Result<NetworkSpec> {
    if let Some(driver) = texts.map.get("driver").filter(|driver| *driver != "ovs") {
        let driver = model::text::shown(driver);
        return Err(Error::invalid(format!(
            "-o driver={driver} contradicts the options of driver ovs (-o ovs.…); leave one out"
        )));
    }
    let other = texts.there(&[NEUTRON_KEYS]).or_else(|| texts.foreign(FRONT, Driver::Ovs));
    if let Some(key) = other {
        return Err(Error::invalid(format!(
            "-o {key} is no option of driver ovs, whose packets pass the switch and not this host; \
             leave it out"
        )));
    }
    if config.network_interface.as_deref().is_some_and(|name| !name.is_empty()) {
        return Err(Error::invalid(
            "--interface-name: the bridge of Open vSwitch is named by -o ovs.bridge; leave it out",
        ));
    }
    let ovs = OvsTexts::of_map("-o ovs.", texts.map).segment()?;
    let kind = KindSpec::Ovs(Box::new(ovs));
    let source = super::source(config, None, &kind, false)?;
    super::tenant::check(texts, &given, false, source)?;
    if source == Source::Dhcp {
        return Err(Error::unsupported(
            "addresses by DHCP are for networks on a parent device: -o mode=dhcp -o parent=DEVICE",
        ));
    }
    let no_default_route = given.default_route == Some(false);
    Ok(NetworkSpec {
        kind: Some(kind),
        source,
        egress: if config.internal { EgressPolicy::Internal } else { EgressPolicy::Open },
        route: Some(match config.internal || no_default_route {
            true => DefaultRoute::Nowhere,
            false => DefaultRoute::Bridge,
        }),
        sticky: Some(given.sticky.unwrap_or(true)),
        ..given
    })
}
