//! Who is measured: each a process of its own, with the same kuryr.conf.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use model::{Error, Kind, Result};
use nix::time::clock_getcpuclockid;
use nix::unistd::Pid;

use super::super::SUBJECT;
use super::http::StandIn;
use crate::docker::client::{At, Client};
use crate::world::{self, DIR};

/// Who they are.
pub(in crate::docker) const KURYR: &str = "kuryr-libnetwork";
pub(in crate::docker) const OURS: &str = "spoke";
pub(in crate::docker) const STOCK: &str = "spoke, ports in stock";

/// Ports in stock: more than a round of anything takes before there are new ones.
const MINIMUM: usize = 64;

/// No contender takes longer to start, or to fill its stock.
const TIMEOUT: Duration = Duration::from_secs(60);
const GLANCE: Duration = Duration::from_millis(1);

/// Who can be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rival {
    Kuryr,
    Spoke,
    Stock,
}

/// One that answers; killed when dropped.
pub(super) struct Running {
    rival: Rival,
    at: At,
    child: Child,
}

impl Rival {
    /// All of them.
    pub(super) const ALL: [Self; 3] = [Self::Kuryr, Self::Spoke, Self::Stock];

    /// What it is called.
    pub(super) fn who(self) -> &'static str {
        match self {
            Self::Kuryr => KURYR,
            Self::Spoke => OURS,
            Self::Stock => STOCK,
        }
    }

    /// Starts it and waits for its first answer.
    pub(super) fn begin(self, cloud: &StandIn) -> Result<Running> {
        let dir = Path::new(DIR).join(self.who().replace([' ', ','], "-"));
        world::make(&dir)?;
        let conf = configure(&dir, cloud)?;
        let (mut command, at) = match self {
            Self::Kuryr => {
                let mut command = Command::new(kuryr()?);
                command.arg("--config-file").arg(&conf);
                (command, At::Tcp(address()?))
            }
            Self::Spoke | Self::Stock => {
                let socket = dir.join("kuryr.sock");
                let binary = std::env::var(SUBJECT).unwrap_or_default();
                let mut command = Command::new(Path::new(&binary).join("spoke"));
                command.arg("serve").env("SPOKE_CONFIG", self.settings(&dir, &conf, &socket)?);
                (command, At::Unix(socket))
            }
        };
        let log =
            fs::File::create(dir.join("log")).map_err(|error| Error::os("making a log", error))?;
        let again = log.try_clone().map_err(|error| Error::os("making a log", error))?;
        let child = command.stdin(Stdio::null()).stdout(log).stderr(again).spawn();
        let child = child.map_err(|error| Error::os(format!("starting {}", self.who()), error))?;
        let running = Running { rival: self, at, child };
        running.wait(&dir)?;
        Ok(running)
    }

    fn settings(self, dir: &Path, conf: &Path, socket: &Path) -> Result<PathBuf> {
        let stock = match self {
            Self::Stock => format!("stock = {{ minimum = {MINIMUM}, maximum = 1024 }}\n"),
            Self::Kuryr | Self::Spoke => String::new(),
        };
        let text = format!(
            "[store]\nruntime = \"{0}/run\"\nstate = \"{0}/state\"\n\
             [docker]\nenabled = false\n[dhcp]\nenabled = false\n[metrics]\nenabled = false\n\
             [kuryr]\nenabled = true\nsocket = \"{1}\"\n\
             [neutron]\nkuryr_conf = \"{2}\"\n{stock}",
            dir.display(),
            socket.display(),
            conf.display(),
        );
        let path = dir.join("config.toml");
        world::write(&path, &text)?;
        Ok(path)
    }
}

impl Running {
    pub(super) fn who(&self) -> &'static str {
        self.rival.who()
    }

    pub(super) fn at(&self) -> &At {
        &self.at
    }

    /// Until it answers.
    fn wait(&self, dir: &Path) -> Result<()> {
        let until = Instant::now() + TIMEOUT;
        let mut to = Client::at(self.at.clone());
        loop {
            let listens = match &self.at {
                At::Unix(path) => UnixStream::connect(path).is_ok(),
                At::Tcp(address) => TcpStream::connect(address).is_ok(),
            };
            if listens && to.timed("Plugin.Activate", "").is_ok() {
                return Ok(());
            }
            if Instant::now() > until {
                let log = fs::read_to_string(dir.join("log")).unwrap_or_default();
                let said: String = log.lines().rev().take(3).collect::<Vec<_>>().join(" / ");
                let what = format!("{} does not answer; it said: {said}", self.who());
                return Err(Error::new(Kind::TryAgain, what));
            }
            thread::sleep(GLANCE);
        }
    }

    /// Waits until ports are in stock again, where there is one.
    pub(super) fn settle(&self, cloud: &StandIn) {
        let until = Instant::now() + TIMEOUT;
        while self.rival == Rival::Stock && cloud.ports() < MINIMUM && Instant::now() < until {
            thread::sleep(GLANCE);
        }
    }

    /// The processor time that it has used, ever.
    pub(super) fn processor(&self) -> Result<Duration> {
        let failed =
            |errno: nix::errno::Errno| Error::os("asking for processor time", errno.into());
        let clock = clock_getcpuclockid(self.pid()).map_err(failed)?;
        Ok(Duration::from(clock.now().map_err(failed)?))
    }

    /// KiB in memory.
    pub(super) fn resident(&self) -> Result<f64> {
        let path = format!("/proc/{}/status", self.pid());
        let status = fs::read_to_string(&path).map_err(|error| Error::os(path.clone(), error))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let size = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        size.ok_or_else(|| Error::bug(format!("{path} has no VmRSS")))
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).unwrap_or_default())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The reference's program.
fn kuryr() -> Result<PathBuf> {
    let program =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../.cache/peers/kuryr-pypi/bin/kuryr-server");
    match program.exists() {
        true => Ok(program),
        false => Err(Error::not_found(format!(
            "{} is not there: `scripts/peers kuryr-pypi` installs it",
            program.display()
        ))),
    }
}

fn address() -> Result<SocketAddr> {
    "127.0.0.1:23750".parse().map_err(|cause| Error::bug("an address").because(cause))
}

/// What both read, and a program that connects ports by doing nothing.
fn configure(dir: &Path, cloud: &StandIn) -> Result<PathBuf> {
    let programs = dir.join("bindir");
    world::make(&programs)?;
    let tap = programs.join("tap");
    world::write(&tap, "#!/bin/sh\nexit 0\n")?;
    fs::set_permissions(&tap, fs::Permissions::from_mode(0o755))
        .map_err(|error| Error::os("making a program", error))?;
    let conf = dir.join("kuryr.conf");
    let text = format!(
        "[DEFAULT]\nkuryr_uri = http://{}\ncapability_scope = local\nbindir = {}\n\
         process_external_connectivity = true\n\
         [neutron]\nauth_type = password\nauth_url = {}/v3\nusername = u\npassword = p\n\
         project_name = p\nproject_domain_id = default\nuser_domain_id = default\n\
         region_name = RegionOne\nenable_dhcp = false\nvif_plugging_is_fatal = false\n\
         [binding]\ndriver = kuryr.lib.binding.drivers.veth\n",
        address()?,
        programs.display(),
        cloud.url(),
    );
    world::write(&conf, &text)?;
    Ok(conf)
}
