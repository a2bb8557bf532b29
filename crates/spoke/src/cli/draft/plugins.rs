//! Networks whose containers are connected by third-party CNI plugins.

use cni::chain::plugin_chain;
use cni::runtime::NetworkList;
use model::{Dns, Error, Ipam, Link, LinkKind, Network, Result, Runtime, Wiring};

use crate::cli::HostContext;
use crate::cli::args::{CreateArgs, Driver};

/// The network that is asked for, if plugins make it. Its list is read once: what becomes of the
/// file later does not concern the network.
pub(super) fn network(wanted: &CreateArgs, host_context: &HostContext) -> Result<Option<Network>> {
    let file = match (&wanted.driver, &wanted.conflist) {
        (Driver::Cni, Some(file)) => file,
        (Driver::Cni, None) => {
            return Err(Error::invalid(
                "driver cni needs --conflist, a CNI network configuration list",
            ));
        }
        (_, Some(file)) => {
            let file = file.display();
            return Err(Error::invalid(format!("--conflist {file} is an option of driver cni")));
        }
        (_, None) => return Ok(None),
    };
    if let Some(option) = senseless(wanted) {
        return Err(Error::invalid(format!(
            "{option} is no option of driver cni: the list says how containers are connected"
        )));
    }
    let chain = plugin_chain(&NetworkList::read(file)?, wanted.cni_path.clone())?;
    let link = Link { kind: LinkKind::Chain(chain), name: None, mac: None, mtu: None };
    Ok(Some(Network {
        name: wanted.name.clone(),
        runtime: Runtime::Spoke,
        since: host_context.now,
        wiring: Wiring {
            link: Some(link),
            publish: wanted.reach(host_context.backend),
            ..Wiring::default()
        },
        ipam: Ipam::None,
        routes: Vec::new(),
        dns: Dns::default(),
        sticky: false,
        labels: model::Labels::of(wanted.labels.iter().cloned())?,
        stage: model::Stage::Made,
    }))
}

fn senseless(wanted: &CreateArgs) -> Option<&'static str> {
    let given = [
        ("--subnet", !wanted.subnets.is_empty()),
        ("--bridge", wanted.bridge.is_some()),
        ("--mtu", wanted.mtu.is_some()),
        ("--internal", wanted.internal),
        ("--sticky", wanted.sticky),
    ];
    let mut given = given.into_iter().chain(wanted.passages());
    given.find(|(_, given)| *given).map(|(option, _)| option)
}
