//! The arguments of `spoke plugin`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use model::Ipv4Net;

#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum PluginCommand {
    /// Drive a network or IPAM plugin through its protocol and say what it violates
    #[command(after_help = "Exits with 1 when a case fails. Run it where the plugin makes its \
        interfaces: in its network namespace, as root. The networks of the cases get parts of \
        --subnet and are removed again.\n\nExamples:
  spoke plugin test weave
  spoke plugin test /run/docker/plugins/weave.sock --only ipam -o json
  spoke plugin test ./driver.sock --restart 'systemctl restart driver'
  spoke plugin test --cni /opt/cni/bin/bridge
  spoke plugin test --cni /opt/cni/bin/mine --config net.conflist
  spoke plugin test --list")]
    Test(TestArgs),
    /// Stand between an engine and a plugin, and write down what they say
    #[command(after_help = "Writes a JSON object for each call: request, answer, times. The \
        engine calls the recorder by the name of its socket. Ends on SIGINT or SIGTERM.\n\nExamples:
  spoke plugin record --plugin weave --socket /run/docker/plugins/tap.sock --out weave.jsonl
  docker network create -d tap front")]
    Record(RecordArgs),
    /// Answer an engine as a recorded plugin did, or call a plugin as the recorded engine did
    #[command(after_help = "With --plugin, exits with 1 when a call succeeds that failed, or \
        fails that succeeded.\n\nExamples:
  spoke plugin replay weave.jsonl --socket /run/docker/plugins/fake.sock
  spoke plugin replay weave.jsonl --plugin weave")]
    Replay(ReplayArgs),
}

#[derive(Debug, Args)]
pub(crate) struct TestArgs {
    /// A socket, a .spec, a URL (unix://, tcp://), or the name of an installed plugin
    #[arg(value_name = "PLUGIN")]
    pub(crate) target: Option<String>,
    /// Test a CNI plugin instead: DIRECTORY/TYPE, or DIRECTORY and TYPE
    #[arg(long, num_args = 0..=2, value_name = "PATH", conflicts_with = "target")]
    pub(crate) cni: Vec<PathBuf>,
    /// Only cases whose names contain this
    #[arg(long, value_name = "TEXT")]
    pub(crate) only: Vec<String>,
    /// List the cases and what each checks
    #[arg(long)]
    pub(crate) list: bool,
    /// Show the exchange of each case, not only of those that fail
    #[arg(short, long)]
    pub(crate) verbose: bool,
    /// Where the subnets of the cases are taken from
    #[arg(long, default_value = "10.213.0.0/16", value_name = "SUBNET")]
    pub(crate) subnet: Ipv4Net,
    /// An option of the networks, as of `docker network create -o`
    #[arg(long = "opt", value_name = "KEY=VALUE", value_parser = pair)]
    pub(crate) options: Vec<(String, String)>,
    /// An option of their IPAM driver, as of `docker network create --ipam-opt`
    #[arg(long = "ipam-opt", value_name = "KEY=VALUE", value_parser = pair)]
    pub(crate) ipam_options: Vec<(String, String)>,
    /// Take addresses from --subnet also where the plugin is an IPAM driver
    #[arg(long)]
    pub(crate) no_ipam: bool,
    /// Neither check interfaces nor move one: the plugin's are elsewhere
    #[arg(long)]
    pub(crate) no_interfaces: bool,
    /// A shell command that restarts the plugin
    #[arg(long, value_name = "COMMAND")]
    pub(crate) restart: Option<String>,
    /// The CNI plugin's network configuration, instead of one that fits its type; or a list with it: the
    /// plugins before it are called first, for what it chains to
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct RecordArgs {
    /// The plugin: a socket, a .spec, a URL, or the name of an installed one
    #[arg(long, value_name = "PLUGIN")]
    pub(crate) plugin: String,
    /// Where to listen
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: PathBuf,
    /// Where to write; standard output without it
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// The output of `spoke plugin record`
    #[arg(value_name = "FILE")]
    pub(crate) trace: PathBuf,
    /// Be the plugin, at this socket
    #[arg(long, value_name = "PATH", required_unless_present = "plugin")]
    pub(crate) socket: Option<PathBuf>,
    /// Be the engine, of this plugin
    #[arg(long, value_name = "PLUGIN", conflicts_with = "socket")]
    pub(crate) plugin: Option<String>,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').ok_or("expected KEY=VALUE")?;
    Ok((pair.0.to_owned(), pair.1.to_owned()))
}
