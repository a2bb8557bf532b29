//! The command of the runtime that lets a container be reached.

use std::net::IpAddr;

use model::{PortMap, Protocol, Runtime};

use super::site::{Plug, Site};

/// Connects a container to a network of Spoke's: its runtime has to know of it.
pub(super) fn connect(site: &Site, plug: &Plug) -> Option<String> {
    let (name, network) = (bare(&site.name), plug.in_commands.as_ref()?);
    let known = plug.known_as.iter().find(|(runtime, _)| *runtime == site.runtime);
    Some(match (site.runtime, known) {
        (Runtime::Spoke, _) => format!("spoke network connect {network} {name}"),
        (Runtime::Docker, Some((_, title))) => format!("docker network connect {title} {name}"),
        (Runtime::Docker, None) => format!(
            "docker network create -d spoke --ipam-driver spoke --ipam-opt network={network} {network} && \
             docker network connect {network} {name}"
        ),
        (Runtime::Podman, Some((_, title))) => format!("podman network connect {title} {name}"),
        (Runtime::Podman, None) => format!(
            "podman network create -d spoke -o network={network} {network} && \
             podman network connect {network} {name}"
        ),
        // Their containers are given their networks when they start.
        (Runtime::Cni | Runtime::Reference | Runtime::Kurma, _) => return None,
    })
}

/// Starts a container anew, which makes its interfaces again. A namespace of the command line has options that the
/// one who connects it knows.
pub(super) fn restart(site: &Site) -> Option<String> {
    match site.runtime {
        Runtime::Docker | Runtime::Podman => {
            Some(format!("{} restart {}", site.runtime, bare(&site.name)))
        }
        Runtime::Spoke | Runtime::Cni | Runtime::Reference | Runtime::Kurma => None,
    }
}

/// Publishes a port at another address of this host, under the same number.
pub(super) fn publish_at(site: &Site, own: IpAddr, map: &PortMap) -> String {
    let own = match own {
        IpAddr::V4(own) => own.to_string(),
        IpAddr::V6(own) => format!("[{own}]"),
    };
    let suffix = match map.protocol {
        Protocol::Tcp => String::new(),
        other => format!("/{other}"),
    };
    let inside = map.container_port;
    publish(site, &format!("{own}:{}:{inside}{suffix}", map.host_port))
}

/// Connects two containers to a network that does not exist yet.
pub(super) fn join_anew(one: &Site, other: &Site) -> Option<String> {
    if one.runtime != other.runtime {
        return None;
    }
    let make = match one.runtime {
        Runtime::Docker => "docker network create -d spoke shared",
        Runtime::Podman => "podman network create -d spoke shared",
        Runtime::Spoke => "spoke network create shared",
        Runtime::Cni | Runtime::Reference | Runtime::Kurma => return None,
    };
    let connect = |site: &Site| {
        let program = site.runtime;
        format!("{program} network connect shared {}", bare(&site.name))
    };
    Some(format!("{make} && {} && {}", connect(one), connect(other)))
}

/// Has the host forward again: the next container that starts turns it on, with the guard that keeps strangers from
/// ports that are not published (`inet spoke_transit`). A bare `sysctl` makes no guard.
pub fn forward(runtime: Runtime, name: &str, network: Option<&str>) -> Option<String> {
    let name = bare(name);
    match runtime {
        Runtime::Docker => Some(format!("docker restart {name}")),
        Runtime::Podman => Some(format!("podman restart {name}")),
        // A namespace of its own, so that no other one loses its connections.
        Runtime::Spoke => network.map(|network| {
            format!(
                "ip netns add spoke-forward && spoke network connect {network} spoke-forward && \
                 spoke network disconnect {network} spoke-forward && ip netns del spoke-forward"
            )
        }),
        Runtime::Cni | Runtime::Reference | Runtime::Kurma => None,
    }
}

/// Publishes a port of a container that runs.
pub(super) fn publish(site: &Site, port: &str) -> String {
    format!("spoke port add {} {port}", full(site))
}

/// Lifts the quota of a container that has used it up.
pub(super) fn without_quota(site: &Site) -> String {
    format!("spoke limit {} --quota none", full(site))
}

/// What commands call a container: another runtime may have one of the same name.
pub(super) fn full(site: &Site) -> String {
    format!("{}:{}", site.runtime, bare(&site.name))
}

/// Has everybody reach the published ports of a network, where a command can say so.
pub(super) fn widen(site: &Site, plug: &Plug) -> Option<String> {
    // Two engines may call different networks so: a command is given the name that is one network's.
    let network = plug.in_commands.as_ref()?;
    match site.runtime {
        Runtime::Spoke | Runtime::Docker => {
            Some(format!("spoke network set --publish any {network}"))
        }
        _ => None,
    }
}

/// The port of the host that leads to this one of a container, under the same number.
pub(super) fn same(port: u16, protocol: &str) -> String {
    match protocol {
        "tcp" => format!("{port}:{port}"),
        _ => format!("{port}:{port}/{protocol}"),
    }
}

/// A container's name without its runtime's own part.
fn bare(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::walk::Standing;
    use crate::walk::fake::plug;

    fn site(runtime: Runtime, name: &str) -> Site {
        let (standing, path) = (Standing::Gone("it is a test".to_owned()), String::new());
        Site { name: name.to_owned(), runtime, standing, path, plugs: Vec::new() }
    }

    fn back(known_as: Vec<(Runtime, String)>) -> Plug {
        Plug { known_as, ..plug("back") }
    }

    /// A bare `sysctl` would open ports that are not published: it makes no guard.
    #[test]
    fn forwarding_is_turned_on_by_a_container_that_starts() {
        assert_eq!(forward(Runtime::Docker, "web", Some("front")).unwrap(), "docker restart web");
        let of_spoke = forward(Runtime::Spoke, "ns/web", Some("front")).unwrap();
        assert!(of_spoke.contains("spoke network connect front spoke-forward &&"), "{of_spoke}");
        for runtime in [Runtime::Podman, Runtime::Cni, Runtime::Kurma, Runtime::Spoke] {
            let command = forward(runtime, "web", Some("front")).unwrap_or_default();
            assert!(!command.contains("sysctl"), "{runtime}");
        }
    }

    /// `spoke network connect` would connect another sandbox than the runtime's container, or none.
    #[test]
    fn a_container_is_connected_by_its_runtime() {
        let known = back(vec![(Runtime::Docker, "shop".to_owned())]);
        let connected =
            |runtime, plug: &Plug| connect(&site(runtime, "x/web"), plug).unwrap_or_default();
        assert_eq!(connected(Runtime::Spoke, &known), "spoke network connect back web");
        assert_eq!(connected(Runtime::Docker, &known), "docker network connect shop web");
        assert!(
            connected(Runtime::Docker, &back(Vec::new()))
                .contains("--ipam-opt network=back back &&")
        );
        assert!(
            connected(Runtime::Podman, &known).contains("-o network=back back && podman network")
        );
        assert_eq!(connected(Runtime::Cni, &known), "");
    }

    /// Docker made the bridge to which it maps ports: no command of Spoke's names a network of its.
    #[test]
    fn no_command_names_a_network_that_is_not_spokes() {
        let beside = Plug { in_commands: None, ..plug("docker0") };
        for runtime in [Runtime::Spoke, Runtime::Docker, Runtime::Podman] {
            let site = site(runtime, "web");
            assert_eq!((connect(&site, &beside), widen(&site, &beside)), (None, None), "{runtime}");
        }
        assert_eq!(forward(Runtime::Spoke, "web", None), None);
        assert_eq!(forward(Runtime::Docker, "web", None).unwrap(), "docker restart web");
    }
}
