//! Options of segments of Open vSwitch. Every front end uses the same words.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::net::IpAddr;
use std::str::FromStr;

use model::text::{meant, shown};
use model::{Error, Ovs, Result, Tunnel, VlanId, Vni};

/// What the keys of all of them begin with.
pub const OVS_PREFIX: &str = "ovs.";

/// The keys of [`OPTIONS`], in the same order.
pub const OVS_KEYS: &[&str] = &["ovs.bridge", "ovs.vlan", "ovs.vni", "ovs.remote", "ovs.database"];

/// Where Open vSwitch's packages have the database.
const USUAL: &str = "unix:/run/openvswitch/db.sock";

/// More hosts than this have one segment by no mesh of tunnels.
const MOST_REMOTES: usize = 256;

/// An option of a segment.
#[derive(Clone, Copy, Debug)]
pub struct OvsOption {
    /// Its name, without [`OVS_PREFIX`]; in CNI the field of object `ovs`, where a list has its items.
    pub name: &'static str,
    /// Its effect, in Markdown.
    pub meaning: &'static str,
    /// The default, in Markdown.
    pub default: &'static str,
}

const fn option(name: &'static str, meaning: &'static str, default: &'static str) -> OvsOption {
    OvsOption { name, meaning, default }
}

const BRIDGE: &str = "bridge";
const VLAN: &str = "vlan";
const VNI: &str = "vni";
const REMOTE: &str = "remote";
const DATABASE: &str = "database";

/// Every option, in the order in which the manual and errors list them.
pub const OPTIONS: &[OvsOption] = &[
    option(BRIDGE, "the bridge; it must be there", "needed"),
    option(
        VLAN,
        "containers are in this VLAN (1 to 4094), as access ports: tagged frames of theirs are dropped",
        "what has no tag",
    ),
    option(
        VNI,
        "the VXLAN id (1 to 16777215) of the tunnels to the other hosts; needs `vlan`",
        "no tunnels",
    ),
    option(
        REMOTE,
        "the address of another host that has the segment; at most 256, between commas (CLI: also once \
         for each; CNI: a list)",
        "",
    ),
    option(
        DATABASE,
        "the switch's database: `unix:PATH` or `tcp:HOST:PORT`",
        "`unix:/run/openvswitch/db.sock`",
    ),
];

/// The names of all options.
pub fn names() -> Vec<&'static str> {
    OPTIONS.iter().map(|option| option.name).collect()
}

/// What is given of a segment's options.
pub struct OvsTexts<'a> {
    /// What comes before an option's name where it is given, such as `-o ovs.`.
    pub before: &'a str,
    /// What comes after it.
    pub after: &'a str,
    /// The values of options, by their names. A remote is one address of it.
    pub given: Vec<(&'a str, String)>,
}

impl OvsTexts<'_> {
    /// Those among a map's keys, which are [`OVS_KEYS`]; an empty text counts as absent. `before` is how they
    /// are given, with [`OVS_PREFIX`].
    pub fn of_map<'a>(before: &'a str, map: &'a BTreeMap<String, String>) -> OvsTexts<'a> {
        let own = map.iter().filter_map(|(key, text)| Some((key.strip_prefix(OVS_PREFIX)?, text)));
        let mut given = Vec::new();
        for (name, text) in own.filter(|(_, text)| !text.is_empty()) {
            match name {
                REMOTE => {
                    given.extend(text.split(',').map(|one| (name, one.trim().to_owned())));
                }
                _ => given.push((name, text.clone())),
            }
        }
        OvsTexts { before, after: "", given }
    }

    /// The segment. Whether containers may leave checksums to their interface is known when they are attached.
    ///
    /// # Errors
    /// [`model::Kind::Invalid`] on the first value that cannot be, or that contradicts another;
    /// [`model::Kind::Unsupported`] where there is no such option.
    pub fn segment(&self) -> Result<Ovs> {
        if let Some((name, _)) = self.given.iter().find(|(name, _)| !names().contains(name)) {
            let meant = meant(name, names());
            let (name, there) = (self.named(&shown(name)), names().join(", "));
            let why = format!("{name}: no such option; {meant}there are {there}");
            return Err(Error::unsupported(why));
        }
        let bridge = self.one(BRIDGE, "the name of an interface")?;
        let bridge = bridge.ok_or_else(|| {
            let bridge = self.named(BRIDGE);
            Error::invalid(format!("driver ovs needs {bridge}: one of Open vSwitch's"))
        })?;
        let vlan: Option<Number> = self.one(VLAN, "a VLAN is a number from 1 to 4094")?;
        let vlan = vlan.map(|Number(id)| id);
        let tunnel = self.tunnel()?;
        if tunnel.is_some() && vlan.is_none() {
            return Err(Error::invalid(format!(
                "{} needs {}: the VLAN of the bridge that the tunnels carry, and no other",
                self.named(VNI),
                self.named(VLAN)
            )));
        }
        let database: Option<String> = self.one(DATABASE, "unix:PATH or tcp:HOST:PORT")?;
        let database = database.unwrap_or_else(|| USUAL.to_owned());
        Ok(Ovs { bridge, vlan, tunnel, database, offload: true })
    }

    fn tunnel(&self) -> Result<Option<Tunnel>> {
        let vni: Option<Vni> = self.one(VNI, "a VXLAN id is a number from 1 to 16777215")?;
        let mut remotes: Vec<IpAddr> = Vec::new();
        for text in self.all(REMOTE) {
            let remote =
                text.parse().map_err(|_| self.wrong(REMOTE, text, "it is an IP address"))?;
            if remotes.contains(&remote) {
                return Err(self.wrong(REMOTE, text, "it is there twice"));
            }
            remotes.push(remote);
        }
        let (of_vni, of_remote) = (self.named(VNI), self.named(REMOTE));
        match (vni, remotes.len()) {
            (None, 0) => Ok(None),
            (Some(vni), 1..=MOST_REMOTES) => Ok(Some(Tunnel { vni, remotes })),
            (Some(_), 0) => Err(Error::invalid(format!(
                "{of_vni} needs {of_remote}: the address of each of the other hosts"
            ))),
            (Some(_), _) => Err(Error::unsupported(format!("{of_remote}: at most {MOST_REMOTES}"))),
            (None, _) => Err(Error::invalid(format!("{of_remote} needs {of_vni}: the VXLAN id"))),
        }
    }

    fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.given.iter().filter(move |(it, _)| *it == name).map(|(_, text)| text.as_str())
    }

    fn one<T: FromStr>(&self, name: &str, what: &str) -> Result<Option<T>> {
        let mut given = self.all(name);
        match (given.next(), given.next()) {
            (None, _) => Ok(None),
            (Some(text), None) => text.parse().map(Some).map_err(|_| self.wrong(name, text, what)),
            (_, Some(_)) => {
                Err(Error::invalid(format!("{} is there twice; leave one out", self.named(name))))
            }
        }
    }

    fn named(&self, name: &str) -> String {
        format!("{}{name}{}", self.before, self.after)
    }

    fn wrong(&self, name: &str, text: &str, why: impl Display) -> Error {
        Error::invalid(format!("{} is {}: {why}", self.named(name), shown(text)))
    }
}

/// A VLAN in decimal.
struct Number(VlanId);

impl FromStr for Number {
    type Err = ();

    fn from_str(text: &str) -> std::result::Result<Self, ()> {
        text.parse().ok().and_then(VlanId::new).map(Number).ok_or(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(given: &[(&str, &str)]) -> Result<Ovs> {
        let map = given.iter().map(|(key, text)| ((*key).to_owned(), (*text).to_owned())).collect();
        OvsTexts::of_map("-o ovs.", &map).segment()
    }

    #[test]
    fn each_option_is_understood() {
        let ovs = read(&[
            ("ovs.bridge", "br0"),
            ("ovs.vlan", "10"),
            ("ovs.vni", "5000"),
            ("ovs.remote", "192.0.2.2, 2001:db8::2"),
            ("ovs.database", "tcp:127.0.0.1:6640"),
            ("parent", "eth0"),
        ])
        .unwrap();
        let tunnel = ovs.tunnel.unwrap();
        assert_eq!((ovs.bridge.as_str(), ovs.vlan), ("br0", VlanId::new(10)));
        assert_eq!((tunnel.vni.to_string().as_str(), tunnel.remotes.len()), ("5000", 2));
        assert_eq!(ovs.database, "tcp:127.0.0.1:6640");
        assert_eq!(read(&[("ovs.bridge", "br0"), ("ovs.vlan", "")]).unwrap().database, USUAL);
    }

    #[test]
    fn the_table_has_every_key() {
        let keys: Vec<String> = names().iter().map(|name| format!("{OVS_PREFIX}{name}")).collect();
        assert_eq!(keys, OVS_KEYS);
    }

    #[test]
    fn what_cannot_be_is_named() {
        let bridge = ("ovs.bridge", "br0");
        for (given, words) in [
            (&[][..], "needs -o ovs.bridge"),
            (&[("ovs.bridge", "a/b")], "-o ovs.bridge is a/b"),
            (&[bridge, ("ovs.vlan", "4095")], "4094"),
            (&[bridge, ("ovs.vni", "7"), ("ovs.vlan", "1")], "needs -o ovs.remote"),
            (&[bridge, ("ovs.vni", "7"), ("ovs.remote", "::1")], "needs -o ovs.vlan"),
            (&[bridge, ("ovs.remote", "192.0.2.1")], "needs -o ovs.vni"),
            (&[bridge, ("ovs.remote", "host")], "-o ovs.remote is host: it is an IP address"),
            (&[bridge, ("ovs.remote", "::1,::1")], "twice"),
            (&[bridge, ("ovs.typo", "1")], "there are bridge, vlan"),
        ] {
            let error = read(given).unwrap_err().to_string();
            assert!(error.contains(words), "{given:?}: {error}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(key in 0..OVS_KEYS.len(), value in ".*") {
            if let Err(error) = read(&[("ovs.bridge", "br0"), (OVS_KEYS[key], &value)]) {
                prop_assert!(error.to_string().len() < 2000);
            }
        }
    }
}
