//! The table of options. A new option of an existing kind of value is a row here, a field of
//! [`NetworkSpec`](crate::NetworkSpec) and a line of [`NetworkSpec::wiring`](crate::NetworkSpec::wiring).

mod bridge;
mod cni;
mod lan;
mod network;

use crate::{Driver, FrontEnd, NetworkOption};

/// Every option, in the order in which the manual and errors list them.
pub static OPTIONS: &[&[NetworkOption]] =
    &[bridge::OPTIONS, network::OPTIONS, lan::OPTIONS, cni::OPTIONS];

use Driver::{Bridge, Chain, Device, Dummy, Ipvlan, Macvlan, Neutron, Ovs, Ptp, Tap, Vlan};

const PAIRS: &[Driver] = &[Bridge, Ptp];
const PARENTS: &[Driver] = &[Macvlan, Ipvlan, Vlan];
/// The drivers whose MTU and addresses are options here, and not a cloud's or a plugin's.
const SIZED: &[Driver] = &[Bridge, Ptp, Macvlan, Ipvlan, Vlan, Device, Dummy, Tap, Ovs];
const ROUTED: &[Driver] = &[Bridge, Ptp, Macvlan, Ipvlan, Vlan, Device, Neutron];
const OWN_ROUTES: &[Driver] = &[Bridge, Ptp, Macvlan, Ipvlan, Vlan, Device, Ovs];
const PUBLISHING: &[Driver] = &[Bridge, Ptp, Neutron, Chain];

/// The options of a front end, in the order of the table.
pub fn options(front: FrontEnd) -> impl Iterator<Item = &'static NetworkOption> {
    OPTIONS.iter().copied().flatten().filter(move |option| !option.names(front).is_empty())
}

/// The option that a front end calls so.
pub fn find(front: FrontEnd, name: &str) -> Option<&'static NetworkOption> {
    options(front).find(|option| option.names(front).contains(&name))
}

/// The names of what only networks have that this host routes, in the order of the table.
pub fn of_routed(front: FrontEnd) -> impl Iterator<Item = &'static str> {
    let names = move |option: &'static NetworkOption| option.names(front).iter().copied();
    options(front).filter(|option| option.is_of_routed).flat_map(names)
}

/// The names of what a driver does not have, in the order of the table.
pub fn foreign(front: FrontEnd, driver: Driver) -> impl Iterator<Item = &'static str> {
    let names = move |option: &'static NetworkOption| option.names(front).iter().copied();
    options(front).filter(move |option| !option.is_of(driver)).flat_map(names)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::{FrontEnd, NetworkSpec, Value, options};

    const FRONTS: [FrontEnd; 4] =
        [FrontEnd::Docker, FrontEnd::Podman, FrontEnd::Cni, FrontEnd::CommandLine];

    #[test]
    fn no_name_stands_twice() {
        for front in FRONTS {
            let mut names = BTreeSet::new();
            for name in options(front).flat_map(|option| option.names(front)) {
                assert!(names.insert(name.to_ascii_lowercase()), "{front:?} {name}");
            }
        }
    }

    #[test]
    fn each_flag_is_explained() {
        for option in options(FrontEnd::CommandLine) {
            let is_switch = matches!(option.value, Value::Flag(_) | Value::Not(_));
            assert!(!option.help.is_empty(), "{:?}", option.cli);
            assert_eq!(option.metavar.is_empty(), is_switch, "{:?}", option.cli);
            let names = options(FrontEnd::CommandLine).flat_map(|option| option.cli);
            let is_known =
                option.excludes.is_empty() || names.copied().any(|it| it == option.excludes);
            assert!(is_known, "{:?} excludes {}", option.cli, option.excludes);
        }
    }

    #[test]
    fn what_is_said_twice_must_agree() {
        for option in FRONTS.into_iter().flat_map(options) {
            let words: Vec<&str> = option.value.words();
            let mut spec = NetworkSpec::default();
            if let (Some(one), Some(other)) = (words.first(), words.get(1)) {
                assert_eq!(option.value.put(&mut spec, one), Ok(true));
                assert_eq!(option.value.put(&mut spec, one), Ok(true));
                assert_eq!(option.value.put(&mut spec, other), Ok(false), "{one} {other}");
                assert!(option.value.put(&mut spec, "neither").is_err());
            }
        }
    }
}
