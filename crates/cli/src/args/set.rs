//! The arguments of `spoke network set`: settings that change while a network is in use, and those that do
//! not.

use clap::{Arg, ArgMatches, Args, Command, Error, FromArgMatches};
use model::{Label, Mtu, NetworkChange, NetworkName, Reach, Settings, Way};

#[derive(Debug, Args)]
#[command(
    after_help = "The containers on it follow at once, of every runtime. What it does not name stays. \
    Options that cannot change while a network is in use are refused, each with what to do instead.

Examples:
  spoke network set front --mtu 1400
  spoke network set front --publish lan --label tier=web
  spoke network set front --unlabel tier
  spoke network set front --via wg1
  spoke network set front --via none"
)]
pub(crate) struct SetArgs {
    /// The network
    #[arg(value_name = "NETWORK")]
    pub(crate) name: NetworkName,
    /// The MTU of its bridge and of both ends of its containers' links, in bytes
    #[arg(long, value_name = "BYTES", value_parser = mtu)]
    pub(crate) mtu: Option<Mtu>,
    /// From where published ports are reached: anywhere, this host's subnets, or this host
    #[arg(long, value_name = "any|lan|local", value_parser = reach)]
    pub(crate) publish: Option<Reach>,
    /// By what its packets leave this host, and by nothing else: a device, a router, a container (as `network
    /// create --via`), or none for the host's own routes. Connections to elsewhere end
    #[arg(long, value_name = "WAY|none", value_parser = super::connect::quoted::<Way>)]
    pub(crate) via: Option<Way>,
    /// Whether a container that returns gets the same addresses
    #[arg(long, value_name = "true|false")]
    pub(crate) sticky: Option<bool>,
    /// A label, instead of one with the same key
    #[arg(long = "label", value_name = "KEY[=VALUE]", value_parser = super::connect::quoted::<Label>)]
    pub(crate) labels: Vec<Label>,
    /// The key of a label to take away
    #[arg(long, value_name = "KEY")]
    pub(crate) unlabel: Vec<String>,
    #[command(flatten)]
    pub(crate) fixed: Fixed,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Containers on it keep their connections, addresses, ports and names. Its bridge keeps its \
    name, and the old name leads to it until another network is called so; runtimes that say it go on. A \
    network without containers that no engine knows by an id is renamed everywhere: files with the old name have to say \
    the new one. A network that an engine, Podman or a CNI file made keeps the name that it has there.

Examples:
  spoke network rename front web"
)]
pub(crate) struct RenameArgs {
    /// The network
    #[arg(value_name = "NETWORK")]
    pub(crate) old: NetworkName,
    /// What it is called from now on
    #[arg(value_name = "NAME")]
    pub(crate) new: NetworkName,
}

impl SetArgs {
    /// What is asked for.
    pub(crate) fn change(&self) -> NetworkChange {
        NetworkChange {
            settings: Settings { mtu: self.mtu, reach: self.publish, way: self.via.clone() },
            sticky: self.sticky,
            labels: self.labels.clone(),
            unlabel: self.unlabel.clone(),
        }
    }
}

fn mtu(text: &str) -> Result<Mtu, String> {
    let wrong = || "an MTU is a number of bytes from 68 to 65535".to_owned();
    text.parse().ok().and_then(Mtu::new).ok_or_else(wrong)
}

fn reach(text: &str) -> Result<Reach, String> {
    match text {
        "any" => Ok(Reach::Any),
        "lan" => Ok(Reach::Lan),
        "local" => Ok(Reach::Local),
        _ => Err("ports are reached from any, lan or local".to_owned()),
    }
}

const ANEW: &str =
    "its containers have it in their own namespaces: make another network, and connect them to it";

/// Options of `spoke network create` that do not change while the network is in use, and what to do
/// instead.
const FIXED: &[(&str, &str)] = &[
    ("subnet", ANEW),
    ("gateway", ANEW),
    ("ip-range", ANEW),
    ("driver", ANEW),
    ("opt", ANEW),
    ("parent", ANEW),
    ("vlan", ANEW),
    ("mode", ANEW),
    ("bridge", ANEW),
    ("address-space", ANEW),
    ("internal", ANEW),
    ("isolation", ANEW),
    ("masquerade", ANEW),
    (
        "names",
        "containers have learned at their start which server they ask: make another network with --names, \
         and connect them to it",
    ),
    ("egress", "`spoke egress set NETWORK RULES` changes where its containers may go"),
    (
        "dns",
        "a network has no servers of its own: each container's runtime writes them into its resolv.conf \
         at its start (`docker run --dns`, `podman run --dns`, `spoke network connect --dns`)",
    ),
];

/// The first option that was given of those that do not change.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Fixed(pub(crate) Option<(&'static str, &'static str)>);

impl Args for Fixed {
    fn augment_args(command: Command) -> Command {
        let arg = |name: &'static str| {
            let arg = Arg::new(name).long(name).hide(true).value_name("VALUE");
            arg.num_args(0..=1).allow_hyphen_values(false)
        };
        FIXED.iter().fold(command, |command, (name, _)| command.arg(arg(name)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Fixed {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let is_given =
            |name: &str| matches.value_source(name) == Some(clap::parser::ValueSource::CommandLine);
        Ok(Self(FIXED.iter().find(|(name, _)| is_given(name)).copied()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
