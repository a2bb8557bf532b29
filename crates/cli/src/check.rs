//! The result of one check of `spoke doctor`.

use std::path::Path;

use clap::CommandFactory;
use serde::Serialize;

use crate::args::Cli;

/// The programs that are advised besides this one.
const PROGRAMS: [&str; 21] = [
    "bridge",
    "chmod",
    "docker",
    "ebtables",
    "firewall-cmd",
    "ip",
    "ip6tables",
    "iptables",
    "iptables-legacy",
    "journalctl",
    "modprobe",
    "nft",
    "nsenter",
    "ovs-vsctl",
    "podman",
    "rm",
    "sudo",
    "sysctl",
    "systemctl",
    "tail",
    "ufw",
];

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum Status {
    #[serde(rename = "ok")]
    Ok,
    #[serde(rename = "warn")]
    Warn,
    #[serde(rename = "FAIL")]
    Fail,
}

impl Status {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Status::Ok => "ok",
            Status::Warn => "warn",
            Status::Fail => "FAIL",
        }
    }
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Check {
    pub(crate) status: Status,
    pub(crate) what: String,
    /// The command that mends it, which can be run as it is.
    pub(crate) fix: Option<String>,
    /// What the operator has to do where no command does it.
    pub(crate) note: Option<String>,
}

impl Check {
    pub(crate) fn ok(what: impl Into<String>) -> Self {
        Self { status: Status::Ok, what: what.into(), fix: None, note: None }
    }

    pub(crate) fn warn(what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self::with(Status::Warn, what.into(), fix.into())
    }

    pub(crate) fn fail(what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self::with(Status::Fail, what.into(), fix.into())
    }

    /// With advice that no operator runs as it is: it has a value to fill in, or destroys something where what the check
    /// doubts is not so.
    pub(crate) fn noted(status: Status, what: impl Into<String>, note: impl Into<String>) -> Self {
        Self { status, what: what.into(), fix: None, note: Some(note.into()) }
    }

    fn with(status: Status, what: String, remedy: String) -> Self {
        let (fix, note) = match is_command(&remedy) {
            true => (Some(remedy), None),
            false => (None, Some(remedy)),
        };
        Self { status, what, fix, note }
    }

    /// What mends it, a command or not.
    pub(crate) fn remedy(&self) -> Option<&String> {
        self.fix.as_ref().or(self.note.as_ref())
    }

    pub(crate) fn without_fix(mut self) -> Self {
        (self.fix, self.note) = (None, None);
        self
    }
}

/// Whether a remedy can be run as it is: one command, or several after each other, each of a program that is advised. This
/// program's own are read as the command line reads them: a sentence about one is none, and neither are alternatives.
/// Nothing in a command shows that a value is to be filled in: a network may be called `NEW`. [`Check::noted`] is for those.
pub(crate) fn is_command(remedy: &str) -> bool {
    let command = remedy.split_once(" # ").map_or(remedy, |(command, _)| command);
    let parts = command.split("&&").flat_map(|it| it.split(';'));
    !command.contains('`') && !command.contains(", ") && parts.map(str::trim).all(is_one)
}

fn is_one(command: &str) -> bool {
    let mut words = command.split_whitespace().peekable();
    match words.peek() {
        Some(&"spoke") => Cli::command().try_get_matches_from(words).is_ok(),
        Some(program) => PROGRAMS.contains(program),
        None => false,
    }
}

/// The first word of a kernel parameter, or of another small file of the kernel's.
pub(crate) fn parameter(root: &Path, path: &str) -> Option<String> {
    let text = std::fs::read_to_string(root.join(path)).ok()?;
    Some(text.split_whitespace().next().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_can_be_run_stands_behind_fix() {
        for command in [
            "spoke serve",
            "spoke ipam check --fix",
            "systemctl start spoke  # it frees what Docker removed, and keeps what containers use",
            "spoke network rm PROD",
            "docker network connect NEW CONTAINER",
            "sysctl -w net.ipv4.ip_forward=1 && spoke gc",
            "iptables -P FORWARD DROP",
        ] {
            let check = Check::fail("it is a test", command);
            assert_eq!((check.fix.as_deref(), check.note), (Some(command), None));
        }
        for note in [
            "start `spoke serve`, or enable its plugin",
            "end `spoke serve`, and start it again",
            "spoke host ls says why; the hosts must be reached",
            "spoke network rm docker-1, or docker network rm shop",
            "docker network rm shop, or spoke network rm docker-1",
            "podman network create -d spoke NEW, and podman network connect NEW web",
            "modprobe bridge, or install the kernel's modules",
            "stop one of them: who answers depends on where one asks",
            "",
        ] {
            let check = Check::warn("it is a test", note);
            assert_eq!((check.fix, check.note.as_deref()), (None, Some(note)));
            assert_eq!(Check::warn("", note).without_fix().remedy(), None);
        }
        let noted = Check::noted(Status::Fail, "it is a test", "spoke restore BACKUP");
        assert_eq!((noted.status, noted.fix.as_deref()), (Status::Fail, None));
        assert_eq!(noted.note.as_deref(), Some("spoke restore BACKUP"));
    }
}
