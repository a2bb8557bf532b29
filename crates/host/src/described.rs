//! The networks that Podman's and CNI's files describe, also before their first container.

use std::ffi::OsString;
use std::path::Path;

use engine::port::Described;
use model::{Backend, Timestamp};
use serde_json::Value;

use crate::podman_networks;

/// The networks that files below `root` describe. Of two files with one name the runtime's own choice counts.
pub fn described(
    root: &Path,
    variable: impl Fn(&str) -> Option<OsString>,
    (backend, now): (Backend, Timestamp),
) -> Vec<Described> {
    let (places, _) = podman_networks::directories(root, variable);
    // The last place is the one that Podman reads.
    let files = |place| cni::list::files(place, &["json"]).unwrap_or_default();
    let podmans = places.iter().rev().flat_map(|place| files(place));
    let mut all: Vec<Described> =
        podmans.filter_map(|file| podmans_network(&file, backend, now)).collect();
    let lists = cni::described::networks(&root.join(podman_networks::LISTS)).into_iter();
    all.extend(lists.map(|(name, file)| Described {
        name,
        by: "CNI",
        file: file.display().to_string(),
        network: None,
    }));
    all
}

/// A file that Podman's driver of Spoke would refuse describes a network by its name alone.
fn podmans_network(file: &Path, backend: Backend, now: Timestamp) -> Option<Described> {
    let document = Value::Object(cni::list::read_object(file)?);
    let network = match podman::described(&document, backend, now) {
        Ok(None) => return None,
        Ok(Some(network)) => Some(Box::new(network)),
        Err(_) => None,
    };
    let name = document["name"].as_str()?.parse().ok()?;
    Some(Described { name, by: "Podman", file: file.display().to_string(), network })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_joined_or_of_others_is_not_described() {
        let root = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| crate::test_file::put(root.path(), path, text);
        let podman = |name: &str, more: &str| {
            let text = format!(
                r#"{{"name":"{name}",{more},"subnets":[{{"subnet":"10.88.1.0/24","gateway":"10.88.1.9"}}]}}"#
            );
            put(&format!("etc/containers/networks/{name}.json"), &text);
        };
        podman("pq1", r#""driver":"spoke","internal":true"#);
        podman("joins", r#""driver":"spoke","options":{"network":"front"}"#);
        podman("own", r#""driver":"bridge""#);
        podman("wrong", r#""driver":"spoke","options":{"colour":"red"}"#);
        let cni = |name: &str, plugin: &str| {
            let text = format!(r#"{{"name":"{name}","plugins":[{plugin}]}}"#);
            put(&format!("etc/cni/net.d/{name}.conflist"), &text);
        };
        cni("c1", r#"{"type":"bridge","ipam":{"subnet":"10.88.2.0/24"}}"#);
        cni("c2", r#"{"type":"spoke","ipam":{"ranges":[[{"subnet":"10.88.3.0/24"}]]}}"#);
        cni("c3", r#"{"type":"spoke","network":"front","capabilities":{"ips":true}}"#);
        cni("c4", r#"{"type":"spoke","capabilities":{"portMappings":true}}"#);
        cni("c5", r#"{"type":"calico"}"#);
        cni("c6", r#"{"type":"spoke","hosts":"all"}"#);
        put("etc/cni/net.d/broken.conf", "{");
        let all = described(root.path(), |_| None, (Backend::Nftables, Timestamp(0)));
        let shown: Vec<String> = all
            .iter()
            .map(|it| format!("{} {} {}", it.by, it.name, it.network.is_some()))
            .collect();
        assert_eq!(
            shown,
            ["Podman pq1 true", "Podman wrong false", "CNI c1 false", "CNI c2 false"]
        );
        assert!(all[0].file.ends_with("etc/containers/networks/pq1.json"));
        let network = all[0].network.as_ref().unwrap();
        let range = &network.ipam.pools()[0].ranges[0];
        assert_eq!(range.subnet.to_string(), "10.88.1.0/24");
        assert_eq!(range.gateway.unwrap().to_string(), "10.88.1.9");
        let firewall = network.wiring.firewall.as_ref().unwrap();
        assert_eq!(firewall.egress, model::EgressPolicy::Internal);
    }
}
