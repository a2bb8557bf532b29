//! The options by which a network is made on many hosts. They are the same words in every front end, and no other
//! option goes with them but those by which it has rules.

use std::collections::{BTreeMap, BTreeSet};

use model::text::{meant, shown, truth};
use model::{
    EgressPolicy, EngineKind, Error, IngressPolicy, IpNet, NetworkName, Placement, Result,
    SharedRules, TransportChoice,
};

use crate::words::{ENGINES, HOSTS, TRANSPORT, unknown};
use crate::{FrontEnd, NEUTRON_KEYS, NetworkSpec, OVS_KEYS, Texts, find};

/// Whether it has names.
const NAMES: &str = "names";
/// Whether names keep their addresses.
const STICKY: &str = "sticky";
/// All of them.
const KEYS: [&str; 5] = [HOSTS, ENGINES, TRANSPORT, NAMES, STICKY];

/// A network of many hosts that a caller asks for by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManyHosts {
    /// Its name.
    pub name: NetworkName,
    /// Its subnets, where some are named.
    pub subnets: Vec<IpNet>,
    /// Whether it has IPv6 also where no subnet of it is named.
    pub ipv6: bool,
    /// Where and how it is to be, in the caller's engine among others.
    pub spec: ManyHostsSpec,
}

/// Where and how a network of many hosts is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManyHostsSpec {
    /// On which hosts.
    pub hosts: Placement,
    /// In which engines of each.
    pub engines: BTreeSet<EngineKind>,
    /// How its packets go from host to host.
    pub transport: TransportChoice,
    /// Whether each host answers queries for the names of its containers.
    pub names: bool,
    /// Whether a name keeps its addresses, on whichever host its container is.
    pub sticky: bool,
    /// Who reaches its containers, and where these may go. Each front end has words of its own for that.
    pub rules: SharedRules,
}

impl ManyHostsSpec {
    /// Takes these options out of a map, for a caller of the engine `own`; `None` where it is a network of this host.
    ///
    /// # Errors
    /// `Invalid` where a value is none.
    pub fn take(options: &mut BTreeMap<String, String>, own: EngineKind) -> Result<Option<Self>> {
        let Some(hosts) = options.remove(HOSTS) else { return Ok(None) };
        let engines = options.remove(ENGINES).unwrap_or_default();
        let transport = options.remove(TRANSPORT).map(|text| text.parse()).transpose()?;
        let mut flag = |key: &str| match options.remove(key) {
            Some(text) => truth(&text).ok_or_else(|| {
                Error::invalid(format!("{key} {:?} is not true or false", shown(&text)))
            }),
            None => Ok(false),
        };
        let (names, sticky) = (flag(NAMES), flag(STICKY));
        Ok(Some(Self {
            hosts: hosts.parse()?,
            engines: EngineKind::with_own(&engines, own)?,
            transport: transport.unwrap_or_default(),
            names: names?,
            sticky: sticky?,
            rules: SharedRules::OPEN,
        }))
    }
}

/// Takes the options out of a map by which a caller of this front end says who reaches the containers of a network of
/// many hosts.
///
/// # Errors
/// As [`Texts::network`].
pub fn take_rules(options: &mut BTreeMap<String, String>, front: FrontEnd) -> Result<NetworkSpec> {
    let map = rules(front).filter_map(|key| options.remove_entry(key)).collect();
    Texts { flag: "-o", map: &map }.network(front)
}

/// What a front end calls the options by which a network of many hosts has rules.
fn rules(front: FrontEnd) -> impl Iterator<Item = &'static str> {
    let has = crate::options(front).filter(|option| option.is_of_many_hosts);
    has.flat_map(move |option| option.names(front)).copied()
}

/// Whether a network of many hosts has this option of the command line, by which it has rules.
pub fn is_rule(flag: &str) -> bool {
    rules(FrontEnd::CommandLine).any(|rule| rule == flag)
}

/// Whether a network of many hosts has this option in a front end, whose keys have no case.
pub fn is_of_many_hosts(front: FrontEnd, key: &str) -> bool {
    KEYS.into_iter().chain(rules(front)).any(|known| known.eq_ignore_ascii_case(key))
}

/// Refuses what [`ManyHostsSpec::take`] and [`take_rules`] left of the options (`-o`) of a network of many hosts.
///
/// # Errors
/// `Unsupported`, with the first one; where there is none of that name, with those that there are.
pub fn refuse_others(options: &BTreeMap<String, String>, front: FrontEnd) -> Result<()> {
    let is_known = |key: &str| {
        find(front, key).is_some() || NEUTRON_KEYS.contains(&key) || OVS_KEYS.contains(&key)
    };
    match options.iter().next() {
        None => Ok(()),
        Some((other, value)) if !is_known(other) => {
            let there: Vec<&str> = KEYS.into_iter().chain(rules(front)).collect();
            let (meant, shown) = (meant(other, there.iter().copied()), unknown(other, value));
            Err(Error::unsupported(format!(
                "-o {shown}: no such option; {meant}a network of many hosts has {}",
                there.join(", ")
            )))
        }
        Some((other, _)) => {
            let why = lacks(&format!("-o {HOSTS}"));
            Err(Error::unsupported(format!("-o {}: {why}", other.escape_debug())))
        }
    }
}

/// Why an option is refused, for a caller that writes the option [`HOSTS`] so.
pub fn lacks(hosts: &str) -> String {
    format!("a network of many hosts ({hosts}) does not have that yet")
}

impl NetworkSpec {
    /// The rules of a network of many hosts.
    pub fn shared_rules(&self) -> SharedRules {
        SharedRules {
            ingress: self.ingress.unwrap_or(IngressPolicy::Open),
            internal: self.egress == EgressPolicy::Internal,
            egress: self.fence(),
            ..SharedRules::OPEN
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(all: &[(&str, &str)]) -> (Result<Option<ManyHostsSpec>>, Vec<String>) {
        let all = all.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let mut all: BTreeMap<String, String> = all.collect();
        (ManyHostsSpec::take(&mut all, EngineKind::Docker), all.into_keys().collect())
    }

    #[test]
    fn options_say_where_in_what_and_how() {
        assert_eq!(take(&[("in", "cni")]).0.unwrap(), None);
        let (spec, rest) = take(&[("hosts", "a,b"), ("in", "cni"), ("mtu", "1400")]);
        let spec = spec.unwrap().unwrap();
        assert_eq!(rest, ["mtu"]);
        assert!(matches!(spec.hosts, Placement::Hosts(hosts) if hosts.len() == 2));
        assert_eq!(spec.engines, [EngineKind::Docker, EngineKind::Cni].into());
        assert_eq!((spec.transport, spec.names), (TransportChoice::Vxlan, false));
        assert!(!spec.sticky);
        let all = [("hosts", "all"), ("transport", "route"), ("names", "1"), ("sticky", "true")];
        let spec = take(&all).0.unwrap().unwrap();
        assert_eq!((spec.transport, spec.names), (TransportChoice::Route, true));
        assert!(spec.sticky);
    }

    #[test]
    fn what_is_no_value_is_refused() {
        for (key, value, why) in [
            ("in", "rkt", "docker, podman or cni"),
            ("transport", "quic", "is not auto, vxlan or route"),
            ("names", "maybe", "is not true or false"),
            ("sticky", "name", "sticky \"name\" is not true or false"),
            ("hosts", "a b", "a b"),
        ] {
            let error = take(&[("hosts", "all"), (key, value)]).0.unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn options_beside_them_are_refused_but_rules() {
        let fronts = [
            (FrontEnd::Docker, "isolation"),
            (FrontEnd::Podman, "isolate"),
            (FrontEnd::Cni, "INGRESSPOLICY"),
            (FrontEnd::CommandLine, "ingress"),
        ];
        for (front, ingress) in fronts {
            for key in [ingress, "egress", "hosts", "sticky"] {
                assert!(is_of_many_hosts(front, key), "{front:?} {key}");
            }
            assert!(!is_of_many_hosts(front, "mtu"));
        }
        let of = |key: &str| BTreeMap::from([(key.to_owned(), String::new())]);
        let refuse = |options: &BTreeMap<String, String>| refuse_others(options, FrontEnd::Docker);
        assert!(refuse(&BTreeMap::new()).is_ok());
        let error = refuse(&of("isolatoin")).unwrap_err().to_string();
        assert!(
            error.starts_with("-o isolatoin: no such option; did you mean isolation? "),
            "{error}"
        );
        let error = refuse(&of("mtu")).unwrap_err().to_string();
        assert_eq!(error, "-o mtu: a network of many hosts (-o hosts) does not have that yet");
    }
}
