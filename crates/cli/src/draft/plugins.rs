//! Networks whose containers are connected by third-party CNI plugins.

use cni::chain::plugin_chain;
use cni::runtime::NetworkList;
use model::{Error, Ipam, LinkKind, Network, Result};
use spec::NetworkSpec;

use super::frame;
use crate::args::{CreateArgs, Driver};
use crate::context::CommandContext;

/// The network that is asked for, if plugins make it. Its list is read once: what becomes of the
/// file later does not concern the network.
pub(super) fn network(
    wanted: &CreateArgs,
    spec: &NetworkSpec,
    context: &CommandContext,
) -> Result<Option<Network>> {
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
    let chain = plugin_chain(&NetworkList::read(file)?, wanted.cni_path.clone())?;
    let wiring = spec.wiring(LinkKind::Chain(chain), context.backend);
    Ok(Some(spec.network(frame(wanted, context, Ipam::None), wiring)))
}
