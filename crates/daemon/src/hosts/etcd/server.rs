//! The server of the cluster's own etcd that this host runs, with the program of the distribution.
//!
//! systemd's unit `spoke-etcd.service` runs it where there is one. Elsewhere the daemon starts it as a
//! process of its own, which goes on when the daemon ends: the next daemon knows it by its number and
//! when it began. Both are the same program with the same file of variables, so one can follow the other.

mod restarts;

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use cluster::EtcdServer;
use cluster::trust::{Files, Serial};
use config::StoreConfig;
use model::{Error, HostName, Process, Result};
use netlink::process;
use rustix::process::{Pid, Signal, kill_process};

use crate::hosts::member;
use restarts::EtcdRestarts;

/// Where other hosts reach etcd.
pub(in crate::hosts) const CLIENTS: u16 = 23790;
/// Where its servers reach each other.
pub(in crate::hosts) const PEERS: u16 = 23800;
/// Where distributions and operators put the program.
const PROGRAMS: [&str; 2] = ["/usr/bin/etcd", "/usr/local/bin/etcd"];
const UNIT: &str = "spoke-etcd.service";
/// systemd is the host's service manager where this is (sd_booted(3)).
const BOOTED: &str = "/run/systemd/system";
/// Where the unit looks; it serves no other place.
const UNIT_STATE: &str = "/var/lib/spoke";
const VARIABLES: &str = "environment";
/// It is there while etcd has to begin anew.
const RESTART: &str = "restart";
const PROCESS: &str = "etcd.json";
const LOG: &str = "log";
/// How long etcd has to end.
const END: Duration = Duration::from_secs(10);

/// The server of this host, whether it has one or not.
pub(in crate::hosts) struct Server {
    /// With its variables and its data.
    directory: PathBuf,
    runtime: PathBuf,
    by_unit: bool,
    child: Mutex<Option<Child>>,
    ends: Mutex<EtcdRestarts>,
}

impl Server {
    pub(in crate::hosts) fn new(store: &StoreConfig) -> Self {
        let by_unit = Path::new(BOOTED).is_dir()
            && store.state == Path::new(UNIT_STATE)
            && systemctl("cat").is_ok();
        let directory = store.state.join("etcd");
        Self {
            directory,
            runtime: store.runtime.clone(),
            by_unit,
            child: Mutex::default(),
            ends: Mutex::default(),
        }
    }

    /// Fails with `Unsupported` where the program is not installed.
    pub(in crate::hosts) fn program() -> Result<&'static str> {
        let found = PROGRAMS.into_iter().find(|program| Path::new(program).exists());
        found.ok_or_else(|| {
            Error::unsupported(
                "etcd is not installed: install it (Debian: apt install etcd-server), or name one \
                 that is there with --etcd URL",
            )
        })
    }

    /// Whether this host has one, running or not.
    pub(in crate::hosts) fn is_set_up(&self) -> bool {
        self.directory.join(VARIABLES).exists()
    }

    /// Writes down how it runs; with `others` as one more server of theirs.
    pub(in crate::hosts) fn set_up(
        &self,
        (name, address): (&HostName, IpAddr),
        files: &Files,
        others: &[EtcdServer],
    ) -> Result<()> {
        Self::program()?;
        let mut text = String::new();
        for (key, value) in self.variables((name, address), files, others) {
            text.push_str(&format!("ETCD_{key}={value}\n"));
        }
        member::write_text(&self.directory, VARIABLES, text.as_bytes())
    }

    fn variables(
        &self,
        (name, address): (&HostName, IpAddr),
        files: &Files,
        others: &[EtcdServer],
    ) -> Vec<(&'static str, String)> {
        let (own, clients) = (peer(address), client(address));
        let mut servers: BTreeMap<&str, &str> = others
            .iter()
            .filter(|other| !other.name.is_empty())
            .map(|other| (&*other.name, &*other.peer))
            .collect();
        servers.insert(name.as_str(), &own);
        let servers: Vec<String> =
            servers.into_iter().map(|(name, peer)| format!("{name}={peer}")).collect();
        let shown = |path: PathBuf| path.display().to_string();
        let state = if others.is_empty() { "new" } else { "existing" };
        let (server, authority) = (shown(files.server_path()), shown(files.authority_path()));
        let revoked = shown(files.revocations_path());
        vec![
            ("NAME", name.to_string()),
            ("DATA_DIR", shown(self.directory.join("data"))),
            ("LISTEN_CLIENT_URLS", format!("{clients},{}", client(Ipv4Addr::LOCALHOST.into()))),
            ("ADVERTISE_CLIENT_URLS", clients),
            ("LISTEN_PEER_URLS", own.clone()),
            ("INITIAL_ADVERTISE_PEER_URLS", own.clone()),
            ("INITIAL_CLUSTER", servers.join(",")),
            ("INITIAL_CLUSTER_STATE", state.to_owned()),
            ("INITIAL_CLUSTER_TOKEN", "spoke".to_owned()),
            ("CERT_FILE", server.clone()),
            ("KEY_FILE", server.clone()),
            ("TRUSTED_CA_FILE", authority.clone()),
            ("CLIENT_CERT_AUTH", "true".to_owned()),
            ("CLIENT_CRL_FILE", revoked.clone()),
            ("PEER_CERT_FILE", server.clone()),
            ("PEER_KEY_FILE", server),
            ("PEER_TRUSTED_CA_FILE", authority),
            ("PEER_CLIENT_CERT_AUTH", "true".to_owned()),
            ("PEER_CRL_FILE", revoked),
            ("AUTO_COMPACTION_RETENTION", "1h".to_owned()),
            ("LOGGER", "zap".to_owned()),
            ("LOG_LEVEL", "warn".to_owned()),
        ]
    }

    /// Starts it where it is set up and does not run.
    pub(in crate::hosts) fn start(&self) -> Result<()> {
        if !self.is_set_up() {
            return Ok(());
        }
        if self.by_unit {
            return systemctl("start");
        }
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        // Reaped here, where it was this daemon's.
        let own = child.as_mut().map(|child| child.try_wait());
        if matches!(own, Some(Ok(None))) || self.process()?.is_some() {
            return Ok(());
        }
        *child = Some(self.spawn()?);
        self.ends.lock().unwrap_or_else(PoisonError::into_inner).start(Instant::now());
        Ok(())
    }

    fn spawn(&self) -> Result<Child> {
        let program = Self::program()?;
        let failed = |cause| Error::os(format!("starting {program}"), cause);
        let text = fs::read_to_string(self.directory.join(VARIABLES)).map_err(failed)?;
        let variables = text.lines().filter_map(|line| line.split_once('='));
        let log = fs::OpenOptions::new().create(true).append(true).open(self.directory.join(LOG));
        let log = log.map_err(failed)?;
        let errors = log.try_clone().map_err(failed)?;
        let child = Command::new(program)
            .env_clear()
            .envs(variables)
            .current_dir(&self.directory)
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors)
            .spawn()
            .map_err(failed)?;
        if let Some(process) = process::with_id(child.id()) {
            member::write(&self.runtime, PROCESS, &process)?;
        }
        Ok(child)
    }

    /// Starts it again where it has ended, after a while; systemd does so for its unit. Fails once where it has ended,
    /// with what it said last.
    pub(in crate::hosts) fn keep(&self) -> Result<()> {
        if self.by_unit || !self.is_set_up() {
            return Ok(());
        }
        self.shorten_log();
        if self.is_running()? {
            return Ok(());
        }
        let now = Instant::now();
        let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        if ends.end(now) {
            return Err(Error::try_again(format!(
                "etcd has ended, and is started again in {} seconds; its last line: {}",
                ends.pause.as_secs(),
                self.last_line()
            )));
        }
        if !ends.is_due(now) {
            return Ok(());
        }
        drop(ends);
        self.start()
    }

    fn is_running(&self) -> Result<bool> {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        // Reaped here, where it was this daemon's.
        let own = child.as_mut().map(|child| child.try_wait());
        Ok(matches!(own, Some(Ok(None))) || self.process()?.is_some())
    }

    /// The process, where it runs.
    fn process(&self) -> Result<Option<Process>> {
        let known: Option<Process> = member::read(&self.runtime.join(PROCESS))?;
        Ok(known.filter(process::is_running))
    }

    /// Ends it and starts it again: connections that were there are checked anew.
    pub(in crate::hosts) fn restart(&self) -> Result<()> {
        let wanted = self.wanted();
        match self.by_unit {
            true => systemctl("restart")?,
            false => {
                self.stop()?;
                self.start()?;
            }
        }
        // What was wanted meanwhile it may not have seen.
        match self.wanted() == wanted {
            true => member::remove(&self.directory.join(RESTART)),
            false => Ok(()),
        }
    }

    /// Which request to begin anew is there. An earlier version wrote nothing into the file.
    fn wanted(&self) -> Option<Serial> {
        member::read(&self.directory.join(RESTART)).unwrap_or_default()
    }

    /// Writes down that it has to begin anew, also where the daemon ends before that.
    pub(in crate::hosts) fn want_restart(&self) -> Result<()> {
        match self.is_set_up() {
            true => member::write(&self.directory, RESTART, &Serial::new()?),
            false => Ok(()),
        }
    }

    pub(in crate::hosts) fn wants_restart(&self) -> bool {
        self.directory.join(RESTART).exists()
    }

    fn stop(&self) -> Result<()> {
        if self.by_unit {
            return systemctl("stop");
        }
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(running) = self.process()? else { return Ok(()) };
        let number = i32::try_from(running.pid).ok().and_then(Pid::from_raw);
        for signal in [Signal::TERM, Signal::KILL] {
            // It may end in between.
            let _ = number.map(|number| kill_process(number, signal));
            if process::wait_for_end(&running, END) {
                break;
            }
        }
        if let Some(mut child) = child.take() {
            // It has ended; what is left is its number.
            let _ = child.wait();
        }
        Ok(())
    }

    /// Ends it, for good, with what it holds.
    pub(in crate::hosts) fn remove(&self) -> Result<()> {
        let variables = self.directory.join(VARIABLES);
        let failed = |cause| Error::os(format!("removing {}", self.directory.display()), cause);
        match fs::remove_file(&variables) {
            Err(cause) if cause.kind() != ErrorKind::NotFound => return Err(failed(cause)),
            // Without it nothing starts etcd again.
            Ok(()) | Err(_) => self.stop()?,
        }
        match fs::remove_dir_all(&self.directory) {
            Err(cause) if cause.kind() != ErrorKind::NotFound => Err(failed(cause)),
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

/// Where a server is reached by hosts.
pub(in crate::hosts) fn client(address: IpAddr) -> String {
    format!("https://{}", SocketAddr::new(address, CLIENTS))
}

/// Where it is reached by other servers.
pub(in crate::hosts) fn peer(address: IpAddr) -> String {
    format!("https://{}", SocketAddr::new(address, PEERS))
}

/// The host of a server that is there.
pub(in crate::hosts) fn of_peer(url: &str) -> Option<IpAddr> {
    let at: SocketAddr = url.strip_prefix("https://")?.parse().ok()?;
    (at.port() == PEERS).then_some(at.ip())
}

fn systemctl(verb: &str) -> Result<()> {
    let mut command = Command::new("systemctl");
    if verb != "stop" {
        // A server that starts waits for the others.
        command.arg("--no-block");
    }
    command.args(["--quiet", verb, UNIT]).stdin(Stdio::null()).stdout(Stdio::null());
    let done = command.stderr(Stdio::null()).status();
    let done = done.map_err(|cause| Error::os("running systemctl", cause))?;
    match done.success() {
        true => Ok(()),
        false => Err(Error::try_again(format!(
            "systemctl {verb} {UNIT} failed; see journalctl -u {UNIT}"
        ))),
    }
}
