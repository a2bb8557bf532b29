//! What Docker Engines say to the plugin of kuryr-libnetwork's contract, over a cloud that agrees to
//! everything.

use std::net::IpAddr;
use std::num::NonZeroU16;
use std::path::Path;

use docker::driver::{self, Sandboxes, Within};
use docker::kuryr::{Backstage, Kuryr, Settings};
use docker::server::Plugin;
use doubles::Memory;
use engine::Engine;
use engine::port::{
    AddressSpec, Cloud, CloudNetwork, CloudPool, ExposedPort, PoolSpec, PortStatus, Records,
};
use libnetwork::{AddressSpaces, Method, Refusal, Request, Scope};
use model::{AliasId, Attachment, Backend, IpNet, Kind, Network, ResourceId, Result, Timestamp};
use serde_json::Value;

use crate::nothing::Nothing;

/// Each line is a method and a body. Whatever it is, an answer is one JSON object, and an error is
/// short and not our bug.
pub fn kuryr(bytes: &[u8]) {
    let plugin = Kuryr::new(Stage(Memory::new()), settings());
    for line in bytes.split(|byte| *byte == b'\n') {
        said(&plugin, line);
    }
}

/// Whether the line was a call that was carried out.
fn said(plugin: &Kuryr<Stage>, line: &[u8]) -> Option<bool> {
    let at = line.iter().position(|byte| *byte == b' ').unwrap_or(line.len());
    let (method, body) = line.split_at(at);
    let method = Method::from_path(&format!("/{}", String::from_utf8_lossy(method)))?;
    let answered = match libnetwork::decode(method, body) {
        Ok(Request::Do(call)) => plugin.call(*call),
        Ok(Request::Ask(_)) => return Some(true),
        Err(Refusal::Syntax(what)) => {
            assert!(!what.is_empty());
            return Some(false);
        }
        Err(Refusal::Value(error)) => Err(error),
    };
    Some(match answered {
        Ok(answer) => {
            let answer: Value = serde_json::to_value(answer).expect("an answer is JSON");
            assert!(answer.is_object(), "{}: {answer}", method.name());
            true
        }
        Err(error) => {
            assert!(error.kind() != Kind::Bug, "{}: {error}", method.name());
            assert!(error.to_string().len() < 8192, "{}: a long story", method.name());
            false
        }
    })
}

fn settings() -> Settings {
    let port = |port: u16| NonZeroU16::new(port).expect("a port");
    let space = || "no_address_space".parse().expect("a name");
    Settings {
        scope: Scope::Local,
        requires_mac: true,
        spaces: AddressSpaces { local: space(), global: space() },
        prefix: None,
        exposes: true,
        publishes: false,
        backend: Backend::Nftables,
        ephemeral: port(32_768)..=port(60_999),
    }
}

/// What stands behind the plugin.
struct Stage(Memory);

impl Sandboxes for Stage {
    fn inspect(&self, path: &Path) -> Result<Option<Within>> {
        Nothing.inspect(path)
    }
}

impl driver::Backstage for Stage {
    fn with_engine<T>(&self, work: impl FnOnce(&Engine<'_>) -> Result<T>) -> Result<T> {
        work(&Engine::new(&self.0, &Nothing, &Nothing, &Nothing))
    }

    fn now(&self) -> Timestamp {
        Timestamp(0)
    }
}

impl Backstage for Stage {
    fn with_cloud<T>(&self, work: impl FnOnce(&dyn Cloud) -> Result<T>) -> Result<T> {
        work(&Nothing)
    }
}

impl Cloud for Nothing {
    fn request_pool(&self, spec: &PoolSpec) -> Result<CloudPool> {
        let net = spec.net.unwrap_or("10.7.0.0/24".parse().expect("a subnet"));
        Ok(CloudPool { id: "pool".parse().expect("an id"), net })
    }

    fn release_pool(&self, _: &ResourceId, _: &Records<'_>) -> Result<()> {
        Ok(())
    }

    fn request_address(&self, spec: &AddressSpec) -> Result<IpNet> {
        Ok(model::host_net(spec.address.unwrap_or([10, 7, 0, 9].into())))
    }

    fn release_address(&self, _: &ResourceId, _: IpAddr, _: &Records<'_>) -> Result<()> {
        Ok(())
    }

    fn create_network(&self, network: &CloudNetwork) -> Result<Network> {
        Err(model::Error::conflict(format!("network {} is not to be", network.id)))
    }

    fn settle_network(&self, _: &AliasId) {}

    fn delete_network(&self, _: &AliasId, _: &Records<'_>) -> Result<()> {
        Ok(())
    }

    fn given_up(&self) -> Result<Vec<AliasId>> {
        Ok(Vec::new())
    }

    fn network(&self, _: &AliasId) -> Result<Option<Network>> {
        Ok(None)
    }

    fn port_status(&self, _: &Attachment) -> Result<PortStatus> {
        Ok(PortStatus("ACTIVE".to_owned()))
    }

    fn expose(&self, _: &Attachment, _: &[ExposedPort]) -> Result<()> {
        Ok(())
    }

    fn conceal(&self, _: &Attachment) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Otherwise what is made from them gets no further either.
    #[test]
    fn real_calls_are_understood() {
        for input in crate::corpus("kuryr") {
            let plugin = Kuryr::new(Stage(Memory::new()), settings());
            let lines = input.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
            let done = lines.filter(|line| said(&plugin, line).expect("a method")).count();
            assert!(done > 5, "{done}");
        }
    }
}
