//! Real Docker Engines, and the daemon that serves them.
//!
//! Each part is a process of its own: what it stands on ends with a panic where something is
//! missing, and a benchmark goes on without it. What a part measures it says line by line.

mod client;
mod daemon;
mod engines;
pub(crate) mod line;
mod memory;
mod neutron;
mod protocol;
mod targets;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use model::{Error, Kind, Result};
use tests::Release;

use crate::args::Args;
use crate::stats::Book;

pub(crate) use targets::targets;

/// Where the fixtures look for the binary under test.
const SUBJECT: &str = "SPOKE_TEST_PLUGINS";

/// What is measured in a process of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Networks and containers of Docker 20.10.
    Docker20,
    /// Networks and containers of Docker 28.5.
    Docker28,
    /// The plugin protocol's calls, without an engine.
    Protocol,
    /// How large the daemon is and becomes.
    Memory,
    /// Neutron's ports, beside kuryr-libnetwork.
    Neutron,
    /// Network plugins out of images.
    Kurma,
    /// Networks of many hosts.
    Hosts,
    /// Two hundred hosts.
    Scale,
}

impl Part {
    /// All of them, in the order in which they are measured.
    pub(crate) const ALL: [Self; 8] = [
        Self::Docker20,
        Self::Docker28,
        Self::Protocol,
        Self::Memory,
        Self::Neutron,
        Self::Kurma,
        Self::Hosts,
        Self::Scale,
    ];

    /// Its name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Docker20 => "docker20",
            Self::Docker28 => "docker28",
            Self::Protocol => "protocol",
            Self::Memory => "memory",
            Self::Neutron => "neutron",
            Self::Kurma => "kurma",
            Self::Hosts => "hosts",
            Self::Scale => "scale",
        }
    }

    /// The part of that name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|part| part.name() == name)
    }

    /// Measures it, in this process.
    pub(crate) fn work(self, args: &Args) -> Result<()> {
        let done = match self {
            Self::Docker20 => engines::run(Release::V20_10, args),
            Self::Docker28 => engines::run(Release::V28_5, args),
            Self::Protocol => protocol::run(args),
            Self::Memory => memory::run(args),
            Self::Neutron => neutron::run(args),
            Self::Kurma => crate::kurma::run(args),
            Self::Hosts => crate::hosts::run(args),
            Self::Scale => crate::hosts::scale::run(args),
        };
        done.or_else(|error| line::fault(&error.context(self.name())))
    }

    /// Measures what of it happens in a world that it made, as a process there.
    pub(crate) fn work_inside(self, args: &Args) -> Result<()> {
        let done = match self {
            Self::Kurma => crate::kurma::inside(args),
            other => Err(Error::bug(format!("{} has no part in a world", other.name()))),
        };
        done.or_else(|error| line::fault(&error.context(self.name())))
    }

    /// Starts a process that measures it, and notes what it says.
    pub(crate) fn measure(self, args: &Args, book: &mut Book) -> Result<()> {
        let bench =
            std::env::current_exe().map_err(|error| Error::os("finding this program", error))?;
        let subject = Subject::new(args, &bench)?;
        let mut command = Command::new(&bench);
        command.args(["part", self.name()]).args(args.passed_on());
        command.env(SUBJECT, &subject.0).stdin(Stdio::null()).stdout(Stdio::piped());
        let failed = |error| Error::os(format!("measuring {}", self.name()), error);
        let mut child = command.spawn().map_err(failed)?;
        let said = child.stdout.take().map(BufReader::new);
        for said in said.into_iter().flat_map(BufRead::lines) {
            line::note(&said.map_err(failed)?, book);
        }
        match child.wait().map_err(failed)? {
            status if status.success() => Ok(()),
            status => Err(Error::new(Kind::Kernel, format!("it ended early, with {status}"))),
        }
    }
}

/// A directory with a copy of the binary under test, which no build changes during a run.
struct Subject(PathBuf);

impl Subject {
    fn new(args: &Args, bench: &Path) -> Result<Self> {
        let binary = match &args.ours {
            Some(path) if path.is_dir() => path.join("spoke"),
            Some(path) => path.clone(),
            None => bench.with_file_name("spoke"),
        };
        let dir = std::env::temp_dir().join(format!("spoke-bench-{}", std::process::id()));
        crate::world::make(&dir)?;
        let subject = Self(dir);
        fs::copy(&binary, subject.0.join("spoke"))
            .map_err(|error| Error::os(format!("copying {}", binary.display()), error))?;
        Ok(subject)
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
