//! A private host for one test.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command, Stdio};

use crate::Plugins;
use crate::within::within;

const SCRIPT: &str = include_str!("world.sh");
pub(crate) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A host of one's own: processes, network, `/run`, and a copy-on-write view of the real file
/// system with the plugins at [`Plugins::MOUNT`]. Dropping it kills whatever runs in it.
#[derive(Debug)]
pub struct World {
    first: Child,
    pid: u32,
}

/// What a world's file system is made of.
#[derive(Clone, Debug, Default)]
pub struct Base {
    /// The root below every change; none for this host's.
    pub root: Option<PathBuf>,
    /// A folder whose `usr/bin` and `usr/sbin` are added.
    pub programs: Option<PathBuf>,
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// Exit status; 128 + n for signal n.
    pub status: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl World {
    /// A fresh world whose plugin directory is `plugins`.
    pub fn new(plugins: &Plugins) -> Self {
        Self::on(plugins, &Base::default())
    }

    /// A fresh world that is something else than a copy of this host.
    pub fn on(plugins: &Plugins, base: &Base) -> Self {
        let mut first = Command::new("unshare")
            .args(["--mount", "--net", "--pid", "--fork", "--propagation", "private"])
            .args(["busybox", "sh", "-c", SCRIPT, "world"])
            .arg(plugins.dir())
            .arg(base.root.as_deref().unwrap_or(Path::new("/")))
            .args(base.programs.as_deref())
            .env("PATH", PATH)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("unshare starts (scripts/setup test)");
        let mut line = String::new();
        let said = first.stdout.as_mut().expect("piped");
        BufReader::new(said).read_line(&mut line).expect("the world speaks");
        let pid = line.trim().parse().expect("the world is up (root, overlay and tmpfs needed)");
        Self { first, pid }
    }

    /// Puts other plugins in the place of those at [`Plugins::MOUNT`], as an update does; what runs goes on.
    ///
    /// # Panics
    /// When they cannot be copied into this world, which does not see the folder of every build.
    #[track_caller]
    pub fn exchange(&self, plugins: &Plugins) {
        let name = plugins.dir().file_name().expect("a folder has a name").to_string_lossy();
        let copy = format!("/world/plugins-{name}");
        if !self.path(&copy).exists() {
            let mut copies = Command::new("cp");
            let done = output(copies.arg("-a").arg(plugins.dir()).arg(self.path(&copy)), "");
            assert_eq!(done.status, 0, "{done:?}");
        }
        self.sh(&format!("mount --bind -o ro {copy} {}", Plugins::MOUNT));
    }

    /// A command in this world, with a clean environment.
    pub fn command(&self, program: impl AsRef<Path>) -> Command {
        // With its path: a name would have to be looked for by a copy of this process.
        let mut command = Command::new("/usr/bin/nsenter");
        command
            .args(["--target", &self.pid.to_string(), "--mount", "--root", "--net", "--pid"])
            .arg("--")
            .arg(program.as_ref());
        clean(&mut command);
        command
    }

    /// How `program` of this world ends, with a clean environment and what `set` adds, and with `input`: without the
    /// nsenter(1) of [`World::command`]. 127 where it cannot be started.
    pub(crate) fn output(
        &self,
        program: impl AsRef<Path>,
        set: impl FnOnce(&mut Command),
        input: &str,
    ) -> Output {
        let mut command = Command::new(program.as_ref());
        clean(&mut command);
        set(&mut command);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        match within(self, |_| command.spawn()) {
            Ok(child) => ended(child, input),
            Err(error) => Output { status: 127, stdout: String::new(), stderr: error.to_string() },
        }
    }

    /// What a shell script in this world prints.
    ///
    /// # Panics
    /// When it fails, with all that it said, and that the daemons have said.
    #[track_caller]
    pub fn sh(&self, script: &str) -> String {
        let output = self.try_sh(script);
        let Output { status, stdout, stderr } = &output;
        assert_eq!(*status, 0, "{script}\n{stdout}{stderr}\n{}", self.logs());
        output.stdout
    }

    /// How a shell script in this world ends.
    pub fn try_sh(&self, script: &str) -> Output {
        let set = |bash: &mut Command| {
            bash.args(["-euc", script]);
        };
        self.output("/bin/bash", set, "")
    }

    /// A file of this world, as seen from outside.
    pub fn path(&self, inside: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{inside}", self.pid))
    }

    /// The regular files below a folder of this world, by their paths inside.
    pub fn files(&self, folder: &str) -> Vec<String> {
        // Each may go while we look.
        let entries = fs::read_dir(self.path(folder)).into_iter().flatten().flatten();
        let mut files = Vec::new();
        for entry in entries {
            let path = format!("{folder}/{}", entry.file_name().to_string_lossy());
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => files.extend(self.files(&path)),
                Ok(kind) if kind.is_file() => files.push(path),
                _ => {}
            }
        }
        files
    }

    /// What all of its daemons have said, each below its name: a failure may be anybody's.
    pub fn logs(&self) -> String {
        let files = fs::read_dir(self.path("/world")).into_iter().flatten().flatten();
        let logs =
            files.map(|file| file.path()).filter(|path| path.extension() == Some("log".as_ref()));
        let said = |path: PathBuf| {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            format!("== {name}\n{}", fs::read_to_string(path).unwrap_or_default())
        };
        let said: BTreeSet<String> = logs.map(said).collect();
        said.into_iter().collect()
    }

    /// Waits until something listens on a port in the network namespace of a process of this world.
    #[track_caller]
    pub fn until_listens(&self, pid: &str, port: u16) {
        let listens = format!("nsenter -t {pid} -n ss -Hltn sport = :{port} | grep -q .");
        self.sh(&format!("timeout 20 sh -c 'until {listens}; do sleep 0.05; done'"));
    }

    /// Its first process, as seen from outside.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// A new network namespace of this world; returns its path inside.
    #[track_caller]
    pub fn netns(&self, name: &str) -> String {
        self.sh(&format!("ip netns add {name}"));
        format!("/run/netns/{name}")
    }
}

impl Drop for World {
    fn drop(&mut self) {
        drop(self.first.stdin.take());
        let _ = self.first.wait();
    }
}

/// Runs `command` with `input` and waits for it.
pub fn output(command: &mut Command, input: &str) -> Output {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    ended(child, input)
}

/// A clean environment. Programs in Go, which live shortly here or have little, look for what they can free a quarter as
/// often: starting dockerd's own hooks takes a quarter less.
fn clean(command: &mut Command) {
    command
        .env_clear()
        .env("PATH", PATH)
        .env("HOME", "/root")
        .env("LC_ALL", "C.UTF-8")
        .env("GOGC", "400")
        .stdin(Stdio::null());
}

/// How a process ends that is given `input`.
fn ended(mut child: Child, input: &str) -> Output {
    if input.is_empty() {
        drop(child.stdin.take());
        return finished(child.wait_with_output().expect("the command ends"));
    }
    let mut stdin = child.stdin.take().expect("piped");
    let fed = input.to_owned();
    // A program need not read what it is given: a broken pipe is no failure.
    let feeder = std::thread::spawn(move || drop(stdin.write_all(fed.as_bytes())));
    let done = child.wait_with_output().expect("the command ends");
    feeder.join().expect("the feeder ends");
    finished(done)
}

/// What became of a process.
pub(crate) fn finished(done: process::Output) -> Output {
    use std::os::unix::process::ExitStatusExt;

    Output {
        status: done.status.code().unwrap_or_else(|| 128 + done.status.signal().unwrap_or(0)),
        stdout: String::from_utf8_lossy(&done.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&done.stderr).into_owned(),
    }
}
