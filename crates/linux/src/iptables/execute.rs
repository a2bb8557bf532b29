//! Executing the programs, in bounded time.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use model::{Error, Family, Result};
use netlink::{HostLock, HostLocked};

use super::Variant;

/// How long the programs wait for the lock on the old tables, in seconds.
const LOCK_WAIT: &str = "10";
/// How long we wait for a program.
const TIMEOUT: Duration = Duration::from_secs(30);
/// No set of rules is larger, in bytes.
const LARGEST: u64 = 256 << 20;
/// How much of what a program complains about is shown, in bytes.
const LONGEST_COMPLAINT: usize = 1000;
/// Where the programs are where they are not in the path.
const FOLDERS: [&str; 4] = ["", "/usr/sbin/", "/sbin/", "/usr/local/sbin/"];

/// The programs of one family.
#[derive(Clone, Copy, Debug)]
pub(super) struct Program {
    variant: Variant,
    family: Family,
}

impl Program {
    pub(super) fn new(variant: Variant, family: Family) -> Self {
        Self { variant, family }
    }

    /// For example `ip6tables-legacy-restore`.
    pub(super) fn name(&self, what: &str) -> String {
        let family = match self.family {
            Family::V4 => "iptables",
            Family::V6 => "ip6tables",
        };
        match self.variant {
            Variant::Host => format!("{family}-{what}"),
            Variant::Nft => format!("{family}-nft-{what}"),
            Variant::Legacy => format!("{family}-legacy-{what}"),
        }
    }

    /// Every rule of the family. Asks for no table by name: that would make it.
    pub(super) fn save(&self) -> Result<String> {
        self.read("save")
    }

    /// Executes the commands, all or none of each table.
    pub(super) fn restore(&self, commands: &str, rules_lock: &RulesLock) -> Result<()> {
        let name = self.name("restore");
        let arguments = ["--noflush", "--wait", LOCK_WAIT];
        let child = spawn(&name, &arguments, &|| rules_lock.share())?;
        finish(&name, child, commands.to_owned()).map(drop)
    }

    fn read(&self, what: &str) -> Result<String> {
        let name = self.name(what);
        let child = spawn(&name, &[], &|| Ok(Stdio::piped()))?;
        finish(&name, child, String::new())
    }
}

/// The right to change the rules of this network namespace. The program that changes them holds it
/// too, as its standard output, to which it writes nothing: if this process is killed, no other
/// process reads the rules before the program has ended.
pub(super) struct RulesLock(HostLocked);

impl RulesLock {
    /// Waits for it, for at most `limit` ([`HostLock::take`]).
    pub(super) fn take(lock: &HostLock, limit: Duration) -> Result<Self> {
        let locked = lock.take(limit);
        locked.map(Self).map_err(|error| error.context("changing iptables rules"))
    }

    fn share(&self) -> Result<Stdio> {
        let shared = self.0.as_fd().try_clone_to_owned();
        shared.map(Stdio::from).map_err(|cause| Error::os("sharing the lock on iptables", cause))
    }
}

fn finish(name: &str, mut child: Child, input: String) -> Result<String> {
    let results = converse(&mut child, input);
    let mut texts = [String::new(), String::new()];
    for _ in 0..2 {
        let Ok((which, text)) = results.recv_timeout(TIMEOUT) else {
            // Fails only where it has ended, and then it is reaped just the same.
            let _ = child.kill();
            let _ = child.wait();
            return Err(Error::try_again(format!(
                "{name} did not end within {TIMEOUT:?}; see who holds /run/xtables.lock"
            )));
        };
        texts[which] = text;
    }
    let status = child.wait().map_err(|cause| Error::os(format!("waiting for {name}"), cause))?;
    let [output, complaint] = texts;
    if status.success() { Ok(output) } else { Err(refused(name, &complaint)) }
}

fn spawn(name: &str, arguments: &[&str], output: &dyn Fn() -> Result<Stdio>) -> Result<Child> {
    for folder in FOLDERS {
        let mut command = Command::new(format!("{folder}{name}"));
        command.args(arguments).env("LC_ALL", "C");
        command.stdin(Stdio::piped()).stdout(output()?).stderr(Stdio::piped());
        match command.spawn() {
            Err(cause) if cause.kind() == ErrorKind::NotFound => {}
            child => return child.map_err(|cause| Error::os(format!("executing {name}"), cause)),
        }
    }
    Err(Error::unsupported(format!(
        "the iptables back end is asked for, but there is no {name}; install iptables or choose \
         the nftables back end"
    )))
}

/// Writes and reads at once: neither side waits for the other. Sends the text of the standard
/// output (0) and error (1) when the program has closed them.
fn converse(child: &mut Child, input: String) -> mpsc::Receiver<(usize, String)> {
    let (sender, receiver) = mpsc::channel();
    if let Some(mut stdin) = child.stdin.take() {
        // A program that does not read to the end reports the reason.
        std::thread::spawn(move || drop(stdin.write_all(input.as_bytes())));
    }
    let listen = |which: usize, stream: Option<Box<dyn Read + Send>>| {
        let sender = sender.clone();
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            if let Some(stream) = stream {
                // The bytes up to an error count.
                let _ = stream.take(LARGEST).read_to_end(&mut bytes);
            }
            // After the timeout there is no receiver.
            let _ = sender.send((which, String::from_utf8_lossy(&bytes).into_owned()));
        });
    };
    listen(0, child.stdout.take().map(|stream| Box::new(stream) as _));
    listen(1, child.stderr.take().map(|stream| Box::new(stream) as _));
    receiver
}

fn refused(name: &str, complaint: &str) -> Error {
    let complaint = complaint.trim();
    let shown: String = complaint.chars().take(LONGEST_COMPLAINT).collect();
    let sentence = format!("{name} refused: {shown}");
    let denied = complaint.contains("Permission denied") || complaint.contains("must be root");
    let kind = if denied { model::Kind::Denied } else { model::Kind::Kernel };
    Error::new(kind, sentence)
}
