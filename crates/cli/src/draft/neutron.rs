//! Networks of OpenStack Neutron.

use std::collections::BTreeMap;

use model::text::{meant, shown};
use model::{Error, Ipam, LinkKind, NEUTRON_PREFIX, Network, Result};
use spec::{NEUTRON_KEYS, NetworkSpec, NeutronOptions, neutron};

use super::frame;
use crate::args::{CreateArgs, Driver};
use crate::context::CommandContext;

/// How options are given.
const FLAG: &str = "--opt";

/// The network that is asked for, if it is one of Neutron's.
pub(super) fn network(
    wanted: &CreateArgs,
    spec: &NetworkSpec,
    context: &CommandContext,
) -> Result<Option<Network>> {
    if wanted.driver != Driver::Neutron {
        return match wanted.options.first() {
            None => Ok(None),
            Some(_) if matches!(wanted.driver, Driver::Plugin(_)) || wanted.remote.config_only => {
                Ok(None)
            }
            Some((key, _)) => Err(Error::invalid(format!(
                "{FLAG} {key} is an option of driver neutron, of driver ovs, or of a Docker plugin"
            ))),
        };
    }
    let kind =
        LinkKind::Neutron(Box::new(NeutronOptions::read(FLAG, &texts(wanted)?)?.link(FLAG)?));
    let wiring = spec.wiring(kind, context.backend);
    Ok(Some(spec.network(frame(wanted, context, Ipam::None), wiring)))
}

/// The options by their full names; what all of them begin with may be left out here.
fn texts(wanted: &CreateArgs) -> Result<BTreeMap<String, String>> {
    let mut texts: BTreeMap<String, String> = BTreeMap::new();
    for (key, value) in &wanted.options {
        let full = match key.starts_with(NEUTRON_PREFIX) {
            true => key.clone(),
            false => format!("{NEUTRON_PREFIX}{key}"),
        };
        if !NEUTRON_KEYS.contains(&full.as_str()) {
            let known = NEUTRON_KEYS.iter().filter_map(|key| key.strip_prefix(NEUTRON_PREFIX));
            return Err(Error::unsupported(format!(
                "{FLAG} {}: no such option; {}there are {}",
                shown(key),
                meant(key, known.clone()),
                known.collect::<Vec<_>>().join(", ")
            )));
        }
        match texts.get_mut(&full) {
            None => {
                texts.insert(full, value.clone());
            }
            Some(before) if neutron::is_list(&full) => {
                before.push(',');
                before.push_str(value);
            }
            Some(_) => {
                return Err(Error::invalid(format!("{FLAG} {key} is there twice; leave one out")));
            }
        }
    }
    Ok(texts)
}
