//! Virtual machines: a tap device on the network's bridge.

use std::path::Path;

use engine::{Engine, Request};
use model::{
    ContainerId, Error, Kind, Labels, Layer, LinkKind, Network, NetworkName, Result, Runtime, Tap,
    Wiring,
};

use super::naming::{self, Moved};
use super::{addresses, refuse_apart, shown};
use crate::answer::Answer;
use crate::args::{ConnectArgs, TapArgs};
use crate::context::CommandContext;
use crate::output::Output;

/// Accounts of the host, below its root.
const USERS: &str = "etc/passwd";
const GROUPS: &str = "etc/group";
/// No such file is longer, in bytes.
const LONGEST: u64 = 1 << 22;

pub(super) fn connect(
    wanted: &ConnectArgs,
    output: Output,
    context: &CommandContext,
) -> Result<Answer> {
    let engine = (context.engine)()?;
    let network = Network { runtime: Runtime::Spoke, ..engine.networks.joined(&wanted.network)? };
    let name: ContainerId = wanted.sandbox.parse()?;
    let tap = tap(&wanted.tap, &context.root)?;
    let mut wiring = super::wiring(&wanted.made, &network, context.backend)?;
    put(tap, &mut wiring, &network)?;
    super::refuse_familyless(&wanted.made, &network, &[])?;
    if let Some(first) = wanted.made.link_local.first() {
        return Err(Error::unsupported(format!(
            "--link-local-ip {first}: a virtual machine gives itself such addresses"
        )));
    }
    let how = naming::connecting(&wanted.made, 0, &network)?;
    refuse_apart(&engine, &network.name, &name)?;
    refuse_sandbox(&engine, &network.name, &name)?;
    let request = Request {
        layer: Layer::Link,
        container: name.clone(),
        ifname: engine::GUEST.parse()?,
        names: Vec::new(),
        dns: model::Dns::default(),
        owner: super::lasting_name(&name, &network),
        sandbox: None,
        wiring,
        ipam: network.ipam.clone(),
        wanted: addresses(&wanted.made),
        labels: Labels::of(wanted.made.labels.iter().cloned())?,
        addresses: Vec::new(),
        network,
    };
    let attachment = engine.attachments.connect_guest(&request, &how).map_err(|error| match error.kind() {
        Kind::Conflict if engine.attachments.guests(&request.network.name, &name).is_ok_and(|it| !it.is_empty()) => {
            error.context(format!(
                "virtual machine {name} is on network {0} already; `spoke network disconnect {0} {name}` \
                 removes its device",
                request.network.name
            ))
        }
        _ => error,
    })?;
    let moved = Moved { container: &name, path: None, network: &attachment.id.network };
    let notes = naming::name(&engine, &moved, &context.root);
    Ok(Answer { notes, ..shown(&attachment, output)? })
}

/// Of one name there is one machine or sandbox on a network.
fn refuse_sandbox(engine: &Engine<'_>, network: &NetworkName, name: &ContainerId) -> Result<()> {
    match engine.records.connected(name)?.iter().any(|record| record.id.network == *network) {
        true => Err(Error::conflict(format!(
            "a sandbox {name} is on network {network} already; call the virtual machine otherwise"
        ))),
        false => Ok(()),
    }
}

/// The other way round.
pub(crate) fn refuse_guest(
    engine: &Engine<'_>,
    network: &NetworkName,
    name: &ContainerId,
) -> Result<()> {
    match engine.attachments.guests(network, name)?.is_empty() {
        true => Ok(()),
        false => Err(Error::conflict(format!(
            "virtual machine {name} is on network {network} already; choose another name"
        ))),
    }
}

/// Makes the machine's port of the bridge a tap device.
fn put(tap: Tap, wiring: &mut Wiring, network: &Network) -> Result<()> {
    match wiring.link.as_mut().map(|link| &mut link.kind) {
        Some(LinkKind::Bridge(bridge)) => bridge.port.tap = Some(tap),
        kind => {
            let kind = kind.map_or("none", |kind| kind.traits().name);
            return Err(Error::unsupported(format!(
                "--tap: network {} has links of kind {kind}; a tap device needs a bridge. On a parent device's \
                 segment give the machine a macvtap device",
                network.name
            )));
        }
    }
    if network.wiring.address_space.is_some() {
        return Err(Error::unsupported(format!(
            "--tap: network {} is a tenant's, which this host does not route",
            network.name
        )));
    }
    Ok(())
}

fn tap(wanted: &TapArgs, root: &Path) -> Result<Tap> {
    let find = |name: &Option<String>, file: &str, option: &str| {
        name.as_ref().map(|name| account(&root.join(file), option, name)).transpose()
    };
    Ok(Tap {
        multi_queue: wanted.queues,
        owner: find(&wanted.owner, USERS, "--tap-owner")?,
        group: find(&wanted.group, GROUPS, "--tap-group")?,
        ..Tap::default()
    })
}

/// The number of a user or a group: the third field of its line.
fn account(file: &Path, option: &str, name: &str) -> Result<u32> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    let unread = |cause| Error::os(format!("{option}: reading {}", file.display()), cause);
    let text = file::text(file, LONGEST).map_err(unread)?;
    let line = text
        .lines()
        .map(|line| line.split(':'))
        .find_map(|mut line| (line.next() == Some(name)).then(|| line.nth(1))?);
    line.and_then(|number| number.parse().ok()).ok_or_else(|| {
        let name = model::text::shown(name);
        Error::not_found(format!("{option}: there is no '{name}' in {}", file.display()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_numbers_or_lines() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("passwd");
        std::fs::write(&file, "root:x:0:0::/:\nqemu:x:64055:109::/:\nodd:x\n").unwrap();
        let of = |name: &str| account(&file, "--tap-owner", name);
        assert_eq!(of("qemu").unwrap(), 64055);
        assert_eq!(of("1000").unwrap(), 1000);
        for missing in ["", "odd", "x", "qem", "nobody\n"] {
            assert_eq!(of(missing).unwrap_err().kind(), Kind::NotFound, "{missing:?}");
        }
    }
}
