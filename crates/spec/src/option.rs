//! One option of a network.

use crate::{Driver, Value};

/// The front ends that read options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrontEnd {
    /// `docker network create -o`.
    Docker,
    /// `podman network create -o`.
    Podman,
    /// The fields of CNI's type `spoke`.
    Cni,
    /// The flags of `spoke network create`.
    CommandLine,
}

/// An option: its names, its value and its text in the manual.
#[derive(Clone, Copy, Debug)]
pub struct NetworkOption {
    /// The names of Docker's option: Spoke's name, then those of Docker's bridge driver.
    pub docker: &'static [&'static str],
    /// The names of Podman's option.
    pub podman: &'static [&'static str],
    /// The names of CNI's field; the first is Spoke's name.
    pub cni: &'static [&'static str],
    /// The names of the command line's flag.
    pub cli: &'static [&'static str],
    /// The drivers that have it. For any other it is an error.
    pub of: &'static [Driver],
    /// Whether it is about packets that this host routes: networks of a tenant's address space, which it
    /// does not route, do not have it.
    pub is_of_routed: bool,
    /// Whether networks of many hosts have it: it is one of the rules that the hosts share ([`crate::NetworkSpec::shared_rules`]).
    pub is_of_many_hosts: bool,
    /// How a value is read, and where it goes.
    pub value: Value,
    /// The default, in Markdown.
    pub default: &'static str,
    /// Its effect, in Markdown. Empty where it is explained beside the table.
    pub meaning: &'static str,
    /// Where a front end differs: its meaning and default.
    pub differs: &'static [(FrontEnd, &'static str, &'static str)],
    /// Its text in `--help`.
    pub help: &'static str,
    /// The name of the value in `--help`.
    pub metavar: &'static str,
    /// The flag that contradicts it.
    pub excludes: &'static str,
}

impl NetworkOption {
    /// No option: what the rows of the table begin with.
    pub(crate) const NONE: Self = Self {
        docker: &[],
        podman: &[],
        cni: &[],
        cli: &[],
        of: Driver::ANY,
        is_of_routed: false,
        is_of_many_hosts: false,
        value: Value::Own,
        default: "",
        meaning: "",
        differs: &[],
        help: "",
        metavar: "",
        excludes: "",
    };

    /// Its names in a front end; empty where the front end does not have it.
    pub fn names(&self, front: FrontEnd) -> &'static [&'static str] {
        match front {
            FrontEnd::Docker => self.docker,
            FrontEnd::Podman => self.podman,
            FrontEnd::Cni => self.cni,
            FrontEnd::CommandLine => self.cli,
        }
    }

    /// What a network without it could be open to. An empty value is a variable that was not set: it must not open the
    /// network.
    pub fn keeps_from(&self) -> Option<&'static str> {
        let is_strict = self.cli.contains(&"egress-strict");
        match self.value {
            Value::Fence(_) | Value::Via(_) => Some("packets could go everywhere"),
            _ if is_strict => Some("packets could go everywhere"),
            Value::Ingress(..) => Some("containers could be reached from everywhere"),
            _ => None,
        }
    }

    /// Whether networks of this driver have it.
    pub fn is_of(&self, driver: Driver) -> bool {
        self.of.contains(&driver)
    }
}
