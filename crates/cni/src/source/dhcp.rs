//! Addresses of a DHCP server, configured as for the reference plugin `dhcp`.

use std::path::PathBuf;

use model::{Dhcp, DhcpOption, Error, Result};

use crate::call::Call;
use crate::wire::{Node, Object};

/// Where the reference's daemon listens.
const SOCKET: &str = "/run/cni/dhcp.sock";

/// Requested by default: the subnet's mask and its routers (RFC 2132 §3.3, §3.5).
pub(crate) const USUAL: [u8; 2] = [1, 3];

/// The options that have names (dhcp-options(5)).
const NAMES: [(&str, u8); 6] = [
    ("dhcp-client-identifier", 61),
    ("host-name", 12),
    ("routers", 3),
    ("subnet-mask", 1),
    ("user-class", 77),
    ("vendor-class-identifier", 60),
];

/// A value is no longer than its length can say, in bytes (RFC 2132 §2).
const LONGEST: usize = 255;

/// The request that the object `ipam` describes.
pub(super) fn of(call: &Call<'_>, ipam: &Object<'_>) -> Result<Dhcp> {
    asked(&call.environment.args, ipam)
}

/// The request that the object `ipam` describes with `CNI_ARGS` `args`.
pub(crate) fn asked(args: &str, ipam: &Object<'_>) -> Result<Dhcp> {
    let requests = ipam.list("request")?.iter().map(request).collect::<Result<Vec<_>>>()?;
    let mut asked: Vec<u8> = Vec::new();
    for (code, _) in &requests {
        if !asked.contains(code) {
            asked.push(*code);
        }
    }
    let skips = requests.iter().any(|(_, skips)| *skips);
    let skip = USUAL.into_iter().filter(|code| skips && !asked.contains(code)).collect();
    Ok(Dhcp {
        socket: socket(ipam)?,
        request: asked,
        skip,
        provide: provide(args, ipam)?,
        priority: priority(ipam)?,
    })
}

/// What is readable where the rest is not understood.
pub(super) fn remnant(ipam: Option<&Object<'_>>) -> Dhcp {
    let socket = ipam.and_then(|ipam| socket(ipam).ok());
    Dhcp {
        socket: socket.unwrap_or_else(|| PathBuf::from(SOCKET)),
        request: Vec::new(),
        skip: Vec::new(),
        provide: Vec::new(),
        priority: None,
    }
}

fn socket(ipam: &Object<'_>) -> Result<PathBuf> {
    let socket = PathBuf::from(ipam.text("daemonSocketPath")?.unwrap_or(SOCKET));
    match socket.is_absolute() {
        true => Ok(socket),
        false => Err(Error::invalid(format!(
            "\"ipam.daemonSocketPath\" is {socket:?}, which is not an absolute path"
        ))),
    }
}

/// An option that is asked for, and whether only those that are named are.
fn request(node: &Node<'_>) -> Result<(u8, bool)> {
    let object = node.object()?;
    Ok((option(&object)?, object.flag("skipDefault")?))
}

/// The options to send. A value in `CNI_ARGS` has precedence over `value`; an option without either
/// is not sent.
fn provide(args: &str, ipam: &Object<'_>) -> Result<Vec<DhcpOption>> {
    let mut provided: Vec<DhcpOption> = Vec::new();
    for node in ipam.list("provide")? {
        let object = node.object()?;
        let code = option(&object)?;
        let by_runtime = match object.text("fromArg")? {
            Some(key) => argument(args, key),
            None => None,
        };
        let Some(value) = by_runtime.or(object.text("value")?) else { continue };
        if value.len() > LONGEST {
            return Err(Error::invalid(format!(
                "value too long for option {code}: it has {} bytes, {LONGEST} are the most",
                value.len()
            )));
        }
        provided.retain(|earlier| earlier.code != code);
        provided.push(DhcpOption { code, value: value.as_bytes().to_vec() });
    }
    Ok(provided)
}

/// The value of a key of `CNI_ARGS`, whichever; the last one counts.
fn argument<'a>(args: &'a str, key: &str) -> Option<&'a str> {
    let pairs = args.split(';').filter_map(|pair| pair.split_once('='));
    pairs.filter(|(name, _)| *name == key).map(|(_, value)| value).next_back()
}

/// An option by its name or number.
fn option(object: &Object<'_>) -> Result<u8> {
    let text = object.text("option")?.unwrap_or_default();
    let named = NAMES.iter().find(|(name, _)| *name == text).map(|(_, code)| *code);
    let names: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
    // 0 and 255 are no options but fill and end the list of them.
    let code = named.or_else(|| text.parse().ok()).filter(|code| (1..255).contains(code));
    code.ok_or_else(|| {
        Error::invalid(format!(
            "Can not parse option {text:?}: it is neither a number between 1 and 254 nor one of {}",
            names.join(", ")
        ))
    })
}

/// `priority`; 0 leaves it to the kernel.
fn priority(ipam: &Object<'_>) -> Result<Option<u32>> {
    match ipam.integer("priority")? {
        None | Some(0) => Ok(None),
        Some(metric) => u32::try_from(metric).map(Some).map_err(|_| {
            Error::invalid(format!("\"ipam.priority\" is {metric}, which is not a metric"))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_of_the_runtime() {
        let args = "IgnoreUnknown=1;K8S_POD_NAME=web=0;K8S_POD_NAME=web;x";
        assert_eq!(argument(args, "K8S_POD_NAME"), Some("web"));
        assert_eq!(argument("A=b=c", "A"), Some("b=c"));
        assert_eq!(argument(args, "x"), None);
    }
}
