//! The common part of plugins that make an interface.

use model::{
    Backend, Error, Fact, Gateway, Ipam, Link, LinkKind, Mac, Masquerade, Mtu, Ptp, Result, Space,
    Wiring,
};

use crate::call::Call;
use crate::capability;
use crate::source::Source;
use crate::wire::Object;
use crate::words::reported;

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
            let words = format!("unknown ipmasq backend {other:?}");
            return Err(reported(words, "; \"ipMasqBackend\" is nftables or iptables"));
        }
    };
    Ok(Some(Masquerade::new(backend)))
}

/// The hardware address that this container wants: `CNI_ARGS`, overridden by `args.cni`,
/// overridden by `runtimeConfig`.
pub(super) fn mac(call: &Call<'_>) -> Result<Option<Mac>> {
    let wrong = |_: &str| "failed to make veth pair".to_owned();
    wanted_mac(call)?.map(|text| address(&text, wrong)).transpose()
}

/// The same, or else the one in the configuration's own field `mac`.
pub(super) fn own_mac(call: &Call<'_>) -> Result<Option<Mac>> {
    let configured = call.config.root().text("mac")?.map(str::to_owned);
    let wrong = |text: &str| format!("invalid args {text} for MAC addr");
    wanted_mac(call)?.or(configured).map(|text| address(&text, wrong)).transpose()
}

fn wanted_mac(call: &Call<'_>) -> Result<Option<String>> {
    let of = |object: Option<Object<'_>>| match object {
        Some(object) => object.text(capability::MAC).map(|mac| mac.map(str::to_owned)),
        None => Ok(None),
    };
    let by_environment = call.args()?.mac;
    let by_args = of(call.config.args()?)?;
    Ok(of(call.config.runtime()?)?.or(by_args).or(by_environment))
}

fn address(text: &str, wrong: impl Fn(&str) -> String) -> Result<Mac> {
    text.parse().map_err(|error: Error| {
        let words = format!("{}: address {text}: invalid MAC address", wrong(text));
        error.context(format!("\"mac\" {text:?} is invalid")).about(Fact::Words(words))
    })
}

/// The wiring that is a link and nothing else.
pub(super) fn alone(kind: LinkKind, mtu: Option<Mtu>) -> Wiring {
    Wiring { link: Some(Link { kind, name: None, mac: None, mtu }), ..Wiring::default() }
}

/// The template with the hardware address that a container wants.
pub(super) fn with_mac(template: &Wiring, mac: Option<Mac>) -> Wiring {
    let mut wiring = template.clone();
    if let Some(link) = &mut wiring.link {
        link.mac = mac;
    }
    wiring
}

/// Where the addresses of a bridge's containers are unique: this host routes them if the bridge
/// has the gateway's address.
pub(super) fn space(call: &Call<'_>, gateway: Gateway) -> Space {
    match gateway {
        Gateway::None => Space::Network(call.config.name().clone()),
        Gateway::Address | Gateway::Default => Space::Host,
    }
}

/// Refuses a source that has no addresses; `sentence` is the reference's.
pub(super) fn require_addresses(call: &Call<'_>, source: &Source, sentence: &str) -> Result<()> {
    match source.ipam {
        Ipam::None => {
            let name = call.plugin.name();
            Err(reported(
                sentence,
                &format!(": \"ipam.type\" is empty, but {name} needs an address"),
            ))
        }
        _ => Ok(()),
    }
}

/// An interface of whatever kind, and masquerading if it may have been asked for.
pub(super) fn remnant(call: &Call<'_>) -> Wiring {
    let masquerade = masquerade(call, &call.config.root(), false).ok().flatten();
    Wiring { masquerade, ..alone(LinkKind::Ptp(Ptp::default()), None) }
}
