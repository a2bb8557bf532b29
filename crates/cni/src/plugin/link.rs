//! What the plugins that make an interface have in common.

use model::{
    Backend, Error, Gateway, Link, LinkKind, Mac, Masquerade, Mtu, Ptp, Result, Space, Wiring,
};

use super::Call;
use crate::wire::Object;

/// The MTU in the field `mtu`; zero and below mean the kernel's default, as they always did.
pub(super) fn mtu(root: &Object<'_>) -> Result<Option<Mtu>> {
    match root.integer("mtu")? {
        None | Some(i64::MIN..=0) => Ok(None),
        Some(bytes) => u32::try_from(bytes).ok().and_then(Mtu::new).map(Some).ok_or_else(|| {
            Error::invalid(format!("\"mtu\" is {bytes}, which is not between 68 and 65535"))
        }),
    }
}

/// Masquerading, where `ipMasq` (or else `default`) asks for it. `ipMasqBackend` names the rules'
/// home.
pub(super) fn masquerade(
    call: &Call<'_>,
    root: &Object<'_>,
    default: bool,
) -> Result<Option<Masquerade>> {
    if !root.maybe("ipMasq")?.unwrap_or(default) {
        return Ok(None);
    }
    let backend = match root.text("ipMasqBackend")? {
        None => call.context.backend,
        Some("nftables") => Backend::Nftables,
        Some("iptables") => Backend::Iptables,
        Some(other) => {
            return Err(Error::invalid(format!(
                "unknown ipmasq backend {other:?}; \"ipMasqBackend\" is nftables or iptables"
            )));
        }
    };
    Ok(Some(Masquerade { backend }))
}

/// The hardware address that this container wants: `CNI_ARGS`, overridden by `args.cni`,
/// overridden by `runtimeConfig`.
pub(super) fn mac(call: &Call<'_>) -> Result<Option<Mac>> {
    let args = call.args()?;
    let config = call.config;
    let runtime = match config.runtime()? {
        Some(runtime) => runtime.text("mac")?,
        None => None,
    };
    let by_args = match config.args()? {
        Some(args) => args.text("mac")?,
        None => None,
    };
    match runtime.or(by_args).or(args.mac.as_deref()) {
        None => Ok(None),
        Some(text) => text
            .parse()
            .map(Some)
            .map_err(|error: Error| error.context(format!("\"mac\" {text:?} is invalid"))),
    }
}

/// Where the addresses of a bridge's containers are unique: this host routes them if the bridge
/// has the gateway's address.
pub(super) fn space(call: &Call<'_>, gateway: Gateway) -> Space {
    match gateway {
        Gateway::None => Space::Network(call.config.name().clone()),
        Gateway::Address | Gateway::Default => Space::Host,
    }
}

/// An interface of whatever kind, and masquerading if it may have been asked for.
pub(super) fn remnant(call: &Call<'_>) -> Wiring {
    let link = Link { kind: LinkKind::Ptp(Ptp {}), name: None, mac: None, mtu: None };
    let masquerade = masquerade(call, &call.config.root(), false).ok().flatten();
    Wiring { link: Some(link), masquerade, ..Wiring::default() }
}
