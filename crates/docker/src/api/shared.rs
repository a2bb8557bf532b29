//! A network of many hosts as one of an engine's: made by the daemon, without `docker network
//! create` on each host.

use std::collections::BTreeMap;
use std::io::{BufReader, Read};
use std::time::Instant;

use model::{ENGINE_LABEL, Error, IpNet, Kind, NetworkName, Result};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Api, http};
use spec::HOSTS;

/// So much of what an engine says of its failure is shown, in bytes.
const LONGEST_SENTENCE: u64 = 4 << 10;

/// The network as an engine is to have it.
#[derive(Clone, Debug)]
pub struct SharedIn<'a> {
    /// Its name, there and here.
    pub name: &'a NetworkName,
    /// How the engine calls the network driver and the IPAM driver.
    pub driver: &'a str,
    /// One of each family that it has.
    pub subnets: Vec<IpNet>,
    /// Whether nothing passes between it and anything else.
    pub internal: bool,
}

/// An entry of `GET /networks`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Listed {
    id: String,
    name: String,
    driver: Option<String>,
    #[serde(rename = "IPAM")]
    ipam: Option<ListedIpam>,
    labels: Option<BTreeMap<String, String>>,
    options: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct ListedIpam {
    options: Option<BTreeMap<String, String>>,
    config: Option<Vec<ListedConfig>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct ListedConfig {
    subnet: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Failure {
    message: String,
}

/// The networks of an engine, as it listed them.
#[derive(Debug)]
pub struct SharedList(Vec<Listed>);

impl Api {
    /// The networks of the engine (`GET /networks`), for [`Self::ensure_shared`] and [`Self::remove_shared`].
    ///
    /// # Errors
    /// `TryAgain` where it does not answer.
    pub fn list_shared(&self) -> Result<SharedList> {
        self.get("/networks").map(SharedList)
    }

    /// Makes a network of many hosts one of the engine's, where it is not yet `there`; whether `there` is outdated
    /// by that.
    ///
    /// # Errors
    /// `Conflict` where the engine has another one of its name; `TryAgain` where it does not answer.
    pub fn ensure_shared(&self, there: &SharedList, wanted: &SharedIn<'_>) -> Result<bool> {
        for there in there.named(wanted.name) {
            match (there.is_made_for(wanted.name), there.joins(wanted)) {
                (_, true) => return Ok(false),
                // It is of an earlier network of this name.
                (true, false) => self.remove(&there.id)?,
                (false, false) => {
                    return Err(Error::conflict(format!(
                        "Docker has a network {0} of its own: remove it with `docker network rm {0}`, and it \
                         is made there",
                        wanted.name
                    )));
                }
            }
        }
        let body = wanted.body().to_string();
        self.change(("POST", "/networks/create"), Some(body.as_bytes())).map(|()| true)
    }

    /// Removes it from the engine, if the daemon made it there, or `driver` for all hosts (`-o hosts`); whether `there` is outdated by that.
    ///
    /// # Errors
    /// `Conflict` where containers are on it; `TryAgain` where the engine does not answer.
    pub fn remove_shared(
        &self,
        there: &SharedList,
        name: &NetworkName,
        driver: &str,
    ) -> Result<bool> {
        let mut is_changed = false;
        let is_clusters = |there: &&Listed| there.is_made_for(name) || there.is_asked_of(driver);
        for there in there.named(name).filter(is_clusters) {
            self.remove(&there.id)?;
            is_changed = true;
        }
        Ok(is_changed)
    }

    fn remove(&self, id: &str) -> Result<()> {
        let id: model::AliasId = id.parse()?;
        match self.change(("DELETE", &format!("/networks/{id}")), None) {
            Err(error) if error.kind() == Kind::NotFound => Ok(()),
            done => done,
        }
    }

    fn change(&self, what: (&str, &str), body: Option<&[u8]>) -> Result<()> {
        let deadline = Instant::now() + self.timeout;
        let socket = self.socket.display();
        let failed = |why: &dyn std::fmt::Display| {
            Error::try_again(format!(
                "Docker Engine at {socket} does not answer {} {}: {why}",
                what.0, what.1
            ))
        };
        let reply =
            http::ask(&self.socket, what, body, deadline).map_err(|cause| failed(&cause))?;
        let kind = match reply.status {
            200..=299 => return Ok(()),
            404 => Kind::NotFound,
            403 | 409 => Kind::Conflict,
            _ => Kind::TryAgain,
        };
        let read = serde_json::from_reader(BufReader::new(reply.body.take(LONGEST_SENTENCE)));
        // What is no sentence of the engine's is a status only.
        let failure: Failure = read.unwrap_or_default();
        let failure = model::text::shown(&failure.message);
        Err(Error::new(
            kind,
            format!("Docker Engine at {socket}: status {}: {failure}", reply.status),
        ))
    }
}

impl SharedList {
    fn named(&self, name: &NetworkName) -> impl Iterator<Item = &Listed> {
        self.0.iter().filter(move |listed| listed.name == name.as_str())
    }
}

impl SharedIn<'_> {
    /// As `docker network create -d spoke --ipam-driver spoke --ipam-opt network=NAME` asks.
    fn body(&self) -> Value {
        let config: Vec<Value> = self.subnets.iter().map(|net| json!({"Subnet": net})).collect();
        json!({
            "Name": self.name,
            "CheckDuplicate": true,
            "Driver": self.driver,
            // Engines before 28 do not know of it: they ask for an IPv4 subnet, which the network does not have.
            "Internal": self.internal,
            "EnableIPv4": self.subnets.iter().any(|net| matches!(net, IpNet::V4(_))),
            "EnableIPv6": self.subnets.iter().any(|net| matches!(net, IpNet::V6(_))),
            "IPAM": {
                "Driver": self.driver,
                "Options": {"network": self.name},
                "Config": config,
            },
            "Labels": {ENGINE_LABEL: self.name},
        })
    }
}

impl Listed {
    fn is_made_for(&self, name: &NetworkName) -> bool {
        let label = self.labels.as_ref().and_then(|labels| labels.get(ENGINE_LABEL));
        label.is_some_and(|label| label == name.as_str())
    }

    /// Whether it was made for many hosts by a command of the engine's. Docker keeps the options, and takes no label
    /// afterwards.
    fn is_asked_of(&self, driver: &str) -> bool {
        let is_asked = |options: &BTreeMap<String, String>| options.contains_key(HOSTS);
        self.driver.as_deref() == Some(driver) && self.options.as_ref().is_some_and(is_asked)
    }

    /// Whether its containers are on the network of Spoke's, whichever program made it.
    fn joins(&self, wanted: &SharedIn<'_>) -> bool {
        let ipam = self.ipam.as_ref();
        let all = [self.options.as_ref(), ipam.and_then(|ipam| ipam.options.as_ref())];
        let mut named = all.into_iter().flatten().filter_map(|options| options.get("network"));
        let config = ipam.and_then(|ipam| ipam.config.as_ref()).into_iter().flatten();
        let subnets: Vec<IpNet> = config
            .filter_map(|config| config.subnet.as_ref()?.parse::<IpNet>().ok())
            .map(|net| net.trunc())
            .collect();
        let is_named = named.any(|name| name == wanted.name.as_str());
        self.driver.as_deref() == Some(wanted.driver)
            && (is_named || self.is_asked_of(wanted.driver))
            && wanted.subnets.iter().all(|net| subnets.contains(net))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(text: &str) -> Listed {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn a_network_of_the_engines_own_is_distinguished_from_ours() {
        let name = "front".parse().unwrap();
        let subnets = vec!["10.64.0.0/16".parse().unwrap()];
        let wanted = SharedIn { name: &name, driver: "spoke", subnets, internal: false };
        let mut body = wanted.body();
        let made = listed(&body.to_string());
        assert!(made.is_made_for(&name) && made.joins(&wanted));
        body["Labels"] = Value::Null;
        let by_hand = listed(&body.to_string());
        assert!(!by_hand.is_made_for(&name) && by_hand.joins(&wanted));
        body["IPAM"]["Config"][0]["Subnet"] = "10.65.0.0/16".into();
        assert!(!listed(&body.to_string()).joins(&wanted), "another subnet");
        let asked = r#"{"Name":"front","Id":"x","Driver":"spoke","Options":{"hosts":"all"},
            "IPAM":{"Config":[{"Subnet":"10.64.0.0/16"}]}}"#;
        let asked = listed(asked);
        assert!(!asked.is_made_for(&name) && asked.joins(&wanted) && asked.is_asked_of("spoke"));
        let theirs = listed(r#"{"Name":"front","Id":"x","Driver":"bridge","IPAM":null}"#);
        assert!(!theirs.is_made_for(&name) && !theirs.joins(&wanted));
    }
}
