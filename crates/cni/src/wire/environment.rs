//! The parameters in the environment (CNI 1.1.0 §2, "Parameters").

use model::{ContainerId, IfName, Runtime};

use super::Failure;

/// A runtime's command to a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Attach a container.
    Add,
    /// Detach it.
    Del,
    /// Is it still attached as it was?
    Check,
    /// Detach every attachment that is not listed.
    Gc,
    /// Could a container be attached?
    Status,
    /// Which versions are supported?
    Version,
}

impl Command {
    /// The command of this name.
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "ADD" => Command::Add,
            "DEL" => Command::Del,
            "CHECK" => Command::Check,
            "GC" => Command::Gc,
            "STATUS" => Command::Status,
            "VERSION" => Command::Version,
            _ => return None,
        })
    }

    /// As it is written.
    pub const fn as_str(self) -> &'static str {
        match self {
            Command::Add => "ADD",
            Command::Del => "DEL",
            Command::Check => "CHECK",
            Command::Gc => "GC",
            Command::Status => "STATUS",
            Command::Version => "VERSION",
        }
    }
}

/// The variables of one call, as they are; a missing one is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// `CNI_COMMAND`
    pub command: String,
    /// `CNI_CONTAINERID`
    pub container: String,
    /// `CNI_NETNS`
    pub netns: String,
    /// `CNI_IFNAME`
    pub ifname: String,
    /// `CNI_ARGS`
    pub args: String,
    /// `CNI_PATH`
    pub path: String,
    /// `CNI_NETNS_OVERRIDE`: the plugin's own namespace is meant (`1` or `TRUE`).
    pub netns_override: String,
    /// `SPOKE_CHAIN`: the network of Spoke whose attachment the plugin makes a part of.
    pub chain: String,
    /// The caller, where it is known in this process; no variable has it.
    pub runtime: Option<Runtime>,
}

impl Environment {
    /// The variables as `get` knows them.
    pub fn read(get: impl Fn(&str) -> Option<String>) -> Self {
        let get = |name| get(name).unwrap_or_default();
        Self {
            command: get("CNI_COMMAND"),
            container: get("CNI_CONTAINERID"),
            netns: get("CNI_NETNS"),
            ifname: get("CNI_IFNAME"),
            args: get("CNI_ARGS"),
            path: get("CNI_PATH"),
            netns_override: get("CNI_NETNS_OVERRIDE"),
            chain: get("SPOKE_CHAIN"),
            runtime: None,
        }
    }

    /// The variables as a plugin that is executed gets them.
    pub fn variables(&self) -> [(&'static str, &str); 8] {
        [
            ("CNI_COMMAND", &self.command),
            ("CNI_CONTAINERID", &self.container),
            ("CNI_NETNS", &self.netns),
            ("CNI_IFNAME", &self.ifname),
            ("CNI_ARGS", &self.args),
            ("CNI_PATH", &self.path),
            ("CNI_NETNS_OVERRIDE", &self.netns_override),
            ("SPOKE_CHAIN", &self.chain),
        ]
    }

    /// Whether the plugin's own network namespace may be meant.
    pub fn allows_own_namespace(&self) -> bool {
        self.netns_override == "1" || self.netns_override.eq_ignore_ascii_case("true")
    }

    /// Names every variable that the command needs and that is missing.
    pub fn require(&self) -> Result<(), Failure> {
        let missing: Vec<&str> = self
            .variables()
            .into_iter()
            .filter(|(name, value)| value.is_empty() && self.needs(name))
            .map(|(name, _)| name)
            .collect();
        match missing.is_empty() {
            true => Ok(()),
            false => Err(Failure::new(
                Failure::ENVIRONMENT,
                format!("required env variables [{}] missing", missing.join(",")),
            )),
        }
    }

    fn needs(&self, variable: &str) -> bool {
        let needed: &[&str] = match Command::parse(&self.command) {
            Some(Command::Add | Command::Check) => {
                &["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_PATH"]
            }
            Some(Command::Del) => &["CNI_CONTAINERID", "CNI_IFNAME", "CNI_PATH"],
            Some(Command::Gc | Command::Status) => &["CNI_PATH"],
            Some(Command::Version) | None => &[],
        };
        variable == "CNI_COMMAND" || needed.contains(&variable)
    }

    /// The container and its interface, where they are given and valid.
    pub fn subject(&self) -> Result<Option<(ContainerId, IfName)>, Failure> {
        let container = (!self.container.is_empty()).then(|| self.container()).transpose()?;
        let ifname = (!self.ifname.is_empty()).then(|| self.interface()).transpose()?;
        Ok(container.zip(ifname))
    }

    fn container(&self) -> Result<ContainerId, Failure> {
        self.container.parse().map_err(|_| {
            Failure::new(Failure::ENVIRONMENT, "invalid characters in containerID")
                .details(&self.container)
        })
    }

    fn interface(&self) -> Result<IfName, Failure> {
        let wrong = |msg: &str| Failure::new(Failure::ENVIRONMENT, msg);
        let name = &self.ifname;
        match name.parse() {
            Ok(ifname) => Ok(ifname),
            Err(_) if name.len() > 15 => Err(wrong("interface name is too long")
                .details("interface name should be less than 16 characters")),
            Err(_) if name == "." || name == ".." => Err(wrong("interface name is . or ..")),
            Err(_) => Err(wrong("interface name contains / or : or whitespace characters")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(pairs: &[(&str, &str)]) -> Environment {
        Environment::read(|name| {
            pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn names_all_that_is_missing() {
        let missing = |pairs: &[(&str, &str)]| environment(pairs).require().unwrap_err().msg;
        assert_eq!(
            missing(&[("CNI_COMMAND", "ADD"), ("CNI_PATH", "/x")]),
            "required env variables [CNI_CONTAINERID,CNI_NETNS,CNI_IFNAME] missing"
        );
        assert_eq!(
            missing(&[("CNI_COMMAND", "DEL"), ("CNI_CONTAINERID", "c")]),
            "required env variables [CNI_IFNAME,CNI_PATH] missing"
        );
        assert_eq!(missing(&[]), "required env variables [CNI_COMMAND] missing");
        assert_eq!(missing(&[("CNI_COMMAND", "GC")]), "required env variables [CNI_PATH] missing");
        assert!(environment(&[("CNI_COMMAND", "VERSION")]).require().is_ok());
    }

    #[test]
    fn refuses_names_as_the_reference_does() {
        let of = |container, ifname| {
            environment(&[("CNI_CONTAINERID", container), ("CNI_IFNAME", ifname)]).subject()
        };
        let given = |container, ifname| of(container, ifname).unwrap_err().msg;
        assert_eq!(given("-c", "eth0"), "invalid characters in containerID");
        assert_eq!(given("c", ".."), "interface name is . or ..");
        assert_eq!(given("c", "sixteen-bytes-xx"), "interface name is too long");
        assert_eq!(given("c", "e/0"), "interface name contains / or : or whitespace characters");
        assert!(of("c", "eth0").unwrap().is_some() && of("", "").unwrap().is_none());
    }
}
