//! Networks with their subnets, and the ids of names: asked once for many attachments.

use std::path::PathBuf;

use model::{Error, ResourceId, ResourceRef, Result};
use serde::{Deserialize, Serialize};

use crate::Neutron;
use crate::api::{Filter, NetworkResource, SubnetResource};

/// The directory of the files.
const DIRECTORY: &str = "known";

/// A network with its subnets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KnownNetwork {
    pub(crate) network: NetworkResource,
    pub(crate) subnets: Vec<SubnetResource>,
}

impl Neutron {
    /// The network with its subnets.
    ///
    /// # Errors
    /// [`model::Kind::NotFound`] where there is none; [`model::Kind::Invalid`] where several have
    /// the name.
    pub(crate) fn known_network(&self, which: &ResourceRef) -> Result<KnownNetwork> {
        self.known.get(&self.known_directory(), &network_key(which), || self.ask_network(which))
    }

    /// The same, asked now: something was there that was not known.
    pub(crate) fn fresh_network(&self, which: &ResourceRef) -> Result<KnownNetwork> {
        self.known.forget(&self.known_directory(), &network_key(which));
        self.known_network(which)
    }

    fn ask_network(&self, which: &ResourceRef) -> Result<KnownNetwork> {
        let found = self.own_first(which, |filter| self.api().networks(filter))?;
        let network = only(found, "network", which)?;
        let filter = [("network_id", network.id.to_string())];
        let mut subnets = self.api().subnets(&filter)?;
        subnets.sort_by(|one, other| one.id.cmp(&other.id));
        Ok(KnownNetwork { network, subnets })
    }

    /// The id of a resource of the kind that `path` and `key` name ([`crate::api::Api::ids`]).
    ///
    /// # Errors
    /// As [`Neutron::known_network`].
    pub(crate) fn id_of(&self, which: &ResourceRef, path: &str, key: &str) -> Result<ResourceId> {
        match which {
            ResourceRef::Id(id) => Ok(id.clone()),
            ResourceRef::Name(_) => {
                let name = format!("{path} {which}");
                self.known.get(&self.known_directory(), &name, || {
                    let found = self.own_first(which, |filter| self.api().ids(path, key, filter));
                    only(found?, what(path), which)
                })
            }
        }
    }

    /// The resource of this name or id. A name is first searched in this project: other projects
    /// may have shared resources of the same name, and an administrator sees all projects.
    ///
    /// # Errors
    /// Neutron's refusal.
    pub(crate) fn own_first<T>(
        &self,
        which: &ResourceRef,
        list: impl Fn(Filter<'_>) -> Result<Vec<T>>,
    ) -> Result<Vec<T>> {
        let filter = filter_of(which);
        if let (ResourceRef::Name(_), Some(project)) = (which, self.transport.project()?) {
            let own = list(&[filter.clone(), ("project_id", project)])?;
            if !own.is_empty() {
                return Ok(own);
            }
        }
        list(&[filter])
    }

    fn known_directory(&self) -> PathBuf {
        self.directory.join(DIRECTORY)
    }
}

impl KnownNetwork {
    /// The subnet of this id or name.
    pub(crate) fn subnet(&self, which: &ResourceRef) -> Result<&SubnetResource> {
        let is_it = |subnet: &&SubnetResource| match which {
            ResourceRef::Id(id) => subnet.id == *id,
            ResourceRef::Name(name) => subnet.name == name.as_str(),
        };
        only(self.subnets.iter().filter(is_it).collect(), "subnet of the network", which)
    }
}

/// The one that there must be.
fn only<T>(mut found: Vec<T>, what: &str, which: &ResourceRef) -> Result<T> {
    match (found.pop(), found.len()) {
        (Some(one), 0) => Ok(one),
        (None, _) => Err(Error::not_found(format!("Neutron knows no {what} {which}"))),
        (Some(_), more) => Err(Error::invalid(format!(
            "{} of Neutron's resources are a {what} {which}; name it by its id",
            more + 1
        ))),
    }
}

fn what(path: &str) -> &'static str {
    match path {
        "security-groups" => "security group",
        "qos/policies" => "QoS policy",
        "trunks" => "trunk",
        _ => "network",
    }
}

fn filter_of(which: &ResourceRef) -> (&'static str, String) {
    match which {
        ResourceRef::Id(id) => ("id", id.to_string()),
        ResourceRef::Name(name) => ("name", name.as_str().to_owned()),
    }
}

fn network_key(which: &ResourceRef) -> String {
    let (by, text) = filter_of(which);
    format!("network {by} {text}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_must_be_of_one() {
        let which: ResourceRef = "front".parse().unwrap();
        assert_eq!(only(vec![1], "network", &which).unwrap(), 1);
        let none = only(Vec::<u8>::new(), "network", &which).unwrap_err();
        assert_eq!(none.kind(), model::Kind::NotFound);
        let many = only(vec![1, 2], "network", &which).unwrap_err();
        assert!(many.to_string().starts_with("2 of"), "{many}");
    }
}
