//! A CNI plugin as what is tested. It works in a host of the kit's own, so that whatever it makes
//! goes with that: this host is not touched.

mod config;
mod list;
mod result;

use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use cni::process;
use cni::wire::LONGEST;
use model::{Error, IfName, Ipv4Net, Result};
use netlink::wire::Batch;
use netlink::{At, Change, Netns, Peer, Socket, Veth};
use serde_json::{Map, Value};

use super::exchange::Exchange;
use super::report::{self, Report};
use super::run::{Run, Step, Stop, Subject, Undo, Vars, fail};
use super::sandbox;
use super::script::Script;

/// The cases, in their order.
const CASES: [&str; 1] = [include_str!("cases/cni.kit")];

/// The names of all cases for CNI's plugins, with what each checks.
pub fn list_cni() -> Vec<(&'static str, &'static str)> {
    Script::read(&CASES).names()
}

/// A plugin that takes longer hangs.
const TIMEOUT: Duration = Duration::from_secs(60);

/// So many names of a work directory may be taken.
const OTHERS: u32 = 1000;

/// Where main plugins find those of others that they delegate to, besides beside them.
const ELSEWHERE: &str = "/opt/cni/bin:/usr/lib/cni";

/// The plugin to test, and how.
#[derive(Clone, Debug)]
pub struct CniTestSpec {
    /// The program.
    pub plugin: PathBuf,
    /// Only the cases whose names contain one of these; all if there is none.
    pub only: Vec<String>,
    /// Where the subnets of the cases are taken from.
    pub subnet: Ipv4Net,
    /// A network configuration, instead of one that fits the type.
    pub config: Option<PathBuf>,
}

/// A plugin, in a host of its own.
struct Plugin<'w> {
    spec: &'w CniTestSpec,
    host: PathBuf,
    data: PathBuf,
    vars: Vars,
    /// Those that a runtime calls before.
    before: Vec<Map<String, Value>>,
}

/// Tests a CNI plugin.
///
/// # Errors
/// Where it cannot be executed, or the kernel makes no namespaces for us.
pub fn test_cni(spec: &CniTestSpec) -> Result<Report> {
    let plugin = Plugin::new(spec)?;
    let script = Script::read(&CASES);
    let mut report = Report::of(spec.plugin.display().to_string());
    for version in plugin.versions()? {
        let mut part = Report::of(String::new());
        let named = |case: &str| report::is_wanted(&spec.only, &format!("{version}/{case}"));
        for case in script.cases.iter().filter(|case| named(case.name)) {
            let mut vars = plugin.vars.clone();
            vars.extend(config::facts(&version));
            part.add(case, Run::new(&plugin, &script, vars));
        }
        report.take(part, &format!("{version}/"));
    }
    Ok(report)
}

impl<'w> Plugin<'w> {
    fn new(spec: &'w CniTestSpec) -> Result<Self> {
        let data = work_directory(&std::env::temp_dir())?;
        let host = sandbox::make(&format!("host{:08x}", std::process::id()))?;
        let mut plugin = Self { spec, host, data, vars: Vars::new(), before: Vec::new() };
        plugin.parent()?;
        plugin.before = config::before(spec, &plugin.data)?;
        plugin.vars = config::vars(spec, &plugin.data)?;
        Ok(plugin)
    }

    /// The parent device of macvlan and similar links.
    fn parent(&self) -> Result<()> {
        let (name, peer): (IfName, IfName) = ("kitm0".parse()?, "kitm1".parse()?);
        let peer = Peer { name: &peer, index: None, mac: None, netns: None };
        Netns::open(&self.host)?.enter(|| make_pair(&name, peer))?
    }

    fn versions(&self) -> Result<Vec<String>> {
        let asked = self.call("VERSION", r#"{"cniVersion":"1.0.0"}"#, &Vars::new());
        let texts: Vec<String> =
            serde_json::from_str(&asked.text("supportedVersions")).unwrap_or_default();
        if texts.is_empty() {
            let why = asked.fault.unwrap_or_else(|| "it names no versions".to_owned());
            let plugin = self.spec.plugin.display();
            return Err(Error::invalid(format!("{plugin} is no CNI plugin: {why}")));
        }
        Ok(texts)
    }

    /// The plugin, or another one whose path stands behind the command.
    fn spawn(&self, command: &str, body: &str, vars: &Vars) -> std::io::Result<Output> {
        let other = command.split_once(' ');
        let command = other.map_or(command, |(command, _)| command);
        let program = other.map_or(self.spec.plugin.as_path(), |(_, program)| Path::new(program));
        let directory = self.spec.plugin.parent().unwrap_or(Path::new("/"));
        let path = format!("{}:{ELSEWHERE}", directory.display());
        let mut program = Command::new(program);
        program.env("CNI_COMMAND", command).env("CNI_PATH", path);
        let texts =
            [("CNI_CONTAINERID", "container"), ("CNI_NETNS", "netns"), ("CNI_IFNAME", "ifname")];
        for (name, var) in texts {
            match vars.get(var).filter(|value| !value.is_empty()) {
                Some(value) => program.env(name, value),
                None => program.env_remove(name),
            };
        }
        process::prepare(&mut program, Stdio::piped());
        let host = Netns::open(&self.host).map_err(std::io::Error::other)?;
        let child = host.enter(|| program.spawn()).map_err(std::io::Error::other)??;
        process::finish(child, body.to_owned(), TIMEOUT)
    }

    /// A link that a plugin made before, for those that only change one.
    fn base(&self, run: &mut Run<'_>) -> Result<()> {
        let var = |name: &str| run.vars.get(name).cloned().unwrap_or_default();
        if !self.before.is_empty() {
            return self.call_before(run);
        }
        if var("ischained").is_empty() {
            return Ok(());
        }
        let (netns, id) = (var("netns"), var("container"));
        let host: IfName = base_name(&id).parse()?;
        let (name, inside) = ("eth0".parse::<IfName>()?, Netns::open(netns.as_ref())?);
        Netns::open(&self.host)?.enter(|| {
            use std::os::fd::AsFd;
            let peer = Peer { name: &name, index: None, mac: None, netns: Some(inside.as_fd()) };
            make_pair(&host, peer)
        })??;
        let address = config::address(self.spec);
        inside.enter(|| -> Result<()> {
            let mut socket = Socket::route()?;
            let index = socket.link(At::Name(&name))?.map_or(0, |link| link.index);
            let mut batch = Batch::new();
            batch.change_link(At::Index(index), &[Change::Up(true)]);
            if let Ok(net) = address.parse() {
                batch.add_address(&netlink::NewAddress::new(index, net));
            }
            socket.send(&mut batch)?.into_result()
        })??;
        let prev = config::previous(&var("version"), host.as_str(), &netns, &address);
        run.vars.insert("prev".to_owned(), format!(",\"prevResult\":{prev}"));
        Ok(())
    }

    /// The things on the host that a plugin may have made.
    fn traces(&self) -> Vec<String> {
        const RULES: [(&str, &[&str]); 3] =
            [("nft", &["-s", "list", "ruleset"]), ("iptables-save", &[]), ("ip6tables-save", &[])];
        let mut traces = files(&self.data);
        let inspect = || {
            let mut found = sandbox::links().unwrap_or_default();
            found.retain(|name| !is_base(name));
            for (program, args) in RULES {
                let texts = Command::new(program).args(args).stderr(Stdio::null()).output();
                let text = texts.map(|texts| texts.stdout).unwrap_or_default();
                let text = String::from_utf8_lossy(&text).into_owned();
                let is_rule = |line: &&str| !line.starts_with(['#', ':']);
                found.extend(text.lines().filter(is_rule).map(|line| line.trim().to_owned()));
            }
            found
        };
        traces.extend(
            Netns::open(&self.host).and_then(|host| host.enter(inspect)).unwrap_or_default(),
        );
        traces.sort();
        traces
    }
}

impl Drop for Plugin<'_> {
    fn drop(&mut self) {
        // The test is over; what stays is reported by the next one.
        let _ = Netns::unmake(&self.host);
        sandbox::leave_place();
        // The test is over; a later one has its own directory.
        let _ = fs::remove_dir_all(&self.data);
    }
}

/// A new directory in `place`, where others may have made what they like.
fn work_directory(place: &Path) -> Result<PathBuf> {
    for number in 0..OTHERS {
        let path = place.join(format!("spoke-kit-{}-{number}", std::process::id()));
        match DirBuilder::new().mode(0o700).create(&path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            made => {
                let failed = |error| Error::os(format!("making {}", path.display()), error);
                return made.map(|()| path.clone()).map_err(failed);
            }
        }
    }
    let what = format!("{} is full of directories of the kit: remove them", place.display());
    Err(Error::new(model::Kind::Conflict, what))
}

/// The name of the host's end of the kit's own links.
fn base_name(id: &str) -> String {
    format!("kit{}", id.get(..10).unwrap_or_default())
}

fn is_base(name: &str) -> bool {
    name.starts_with("kit") && name.len() == base_name("0123456789").len()
}

/// The files of an address plugin, without those that hold the last address.
fn files(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        // Not where a link of a plugin leads.
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(files(&path));
        } else if name != "lock" && !name.starts_with("last_reserved_ip") {
            found.push(path.display().to_string());
        }
    }
    found
}

impl Subject for Plugin<'_> {
    fn call(&self, method: &str, body: &str, vars: &Vars) -> Exchange {
        let started = Instant::now();
        let done = self.spawn(method, body, vars);
        let asked = Exchange::asked(method, body, started);
        match done {
            Ok(output) => judged(asked, &output),
            Err(error) => Exchange { fault: Some(format!("not executed: {error}")), ..asked },
        }
    }

    fn word(&self, run: &mut Run<'_>, word: &str, args: &[String]) -> Option<Step> {
        let arg = |index: usize| args.get(index).map_or("", String::as_str);
        let skip = |error: Error| Stop::Skip(error.to_string());
        Some(match word {
            "sandbox" => sandbox::make(run.vars.get("container").map_or("", String::as_str))
                .map_err(skip)
                .map(|path| {
                    let path = path.display().to_string();
                    run.undo.push(Undo::Sandbox(path.clone()));
                    run.vars.insert(arg(0).to_owned(), path);
                }),
            "base" => self.base(run).map_err(skip),
            "unbase" => self.undo_before(run),
            "lose" => Netns::unmake(arg(0).as_ref()).map_err(skip),
            "schema" => result::schema(run),
            "inside" | "outside" => inside(arg(0), arg(1), word == "inside"),
            "addressed" => result::addressed(run, arg(0), arg(1)),
            "vanish" => vanish(arg(0), arg(1)).map_err(skip),
            "traces-before" => {
                run.vars.insert("traces".to_owned(), self.traces().join("\n"));
                Ok(())
            }
            "traces-after" => {
                let before = run.vars.get("traces").cloned().unwrap_or_default();
                let mut strays = Vec::new();
                let is_clean = sandbox::soon(|| {
                    strays = self.traces();
                    strays.retain(|trace| !before.lines().any(|known| known == trace));
                    Ok(strays.is_empty())
                });
                match is_clean {
                    Ok(true) => Ok(()),
                    _ => fail(format!("left over: {}", strays.join("; "))),
                }
            }
            _ => return None,
        })
    }
}

/// A veth pair whose first end is in the calling thread's namespace.
fn make_pair(name: &IfName, peer: Peer<'_>) -> Result<()> {
    let end =
        Veth { name, index: None, mac: None, mtu: None, master: None, group: None, up: true, peer };
    let mut batch = Batch::new();
    batch.new_veth(&end);
    Socket::route()?.send(&mut batch)?.into_result()
}

/// As a runtime reads what a plugin printed.
fn judged(asked: Exchange, output: &Output) -> Exchange {
    let answer = String::from_utf8_lossy(&output.stdout).into_owned();
    let texts = String::from_utf8_lossy(&output.stderr);
    let mut exchange = Exchange { answer, ..asked };
    exchange.value = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    let code = exchange.value.get("code").and_then(Value::as_i64);
    let code = code.and_then(|code| i32::try_from(code).ok());
    exchange.status = code.or(output.status.code());
    let command = exchange.method.split(' ').next();
    let prints = matches!(command, Some("ADD" | "VERSION"));
    exchange.fault = if output.stdout.len() as u64 > LONGEST {
        // Neither success nor refusal.
        exchange.status = None;
        Some(format!("it prints more than {} bytes", LONGEST))
    } else if let Some(signal) = output.status.signal() {
        Some(format!("it ended by signal {signal}"))
    } else if !output.status.success() {
        let text = [exchange.text("msg"), exchange.text("details")].join(" ");
        let shown = if code.is_some() { text.trim().to_owned() } else { texts.trim().to_owned() };
        Some(format!("code {}: {shown}", exchange.status.unwrap_or_default()))
    } else if prints && !exchange.value.is_object() {
        // Neither success nor refusal.
        exchange.status = None;
        Some("it prints no JSON object".to_owned())
    } else {
        None
    };
    exchange
}

fn inside(netns: &str, name: &str, wanted: bool) -> Step {
    let inspect = || Netns::open(netns.as_ref())?.enter(|| sandbox::link(name))?;
    match (inspect(), wanted) {
        (Ok(Some(_)), true) | (Ok(None), false) => Ok(()),
        (Ok(None), true) => fail(format!("{name} is not in the container")),
        (Ok(Some(_)), false) => fail(format!("{name} is still in the container")),
        (Err(error), _) => Err(Stop::Skip(error.to_string())),
    }
}

/// Takes the interface away behind the plugin's back.
fn vanish(netns: &str, name: &str) -> Result<()> {
    let name: IfName = name.parse()?;
    Netns::open(netns.as_ref())?.enter(|| {
        let mut batch = Batch::new();
        batch.delete_link(At::Name(&name));
        Socket::route()?.send(&mut batch)?.into_result()
    })?
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, symlink};

    #[test]
    fn a_work_directory_is_new_and_its_owners_alone() {
        let place = tempfile::tempdir().unwrap();
        let other = tempfile::tempdir().unwrap();
        let taken = format!("spoke-kit-{}-0", std::process::id());
        symlink(other.path(), place.path().join(taken)).unwrap();
        let made = work_directory(place.path()).unwrap();
        let there = fs::symlink_metadata(&made).unwrap();
        assert!(there.is_dir() && there.mode() & 0o7777 == 0o700, "{there:?}");
        // A link of a plugin leads nowhere.
        fs::write(other.path().join("file"), "").unwrap();
        symlink(other.path(), made.join("link")).unwrap();
        assert_eq!(files(&made), [made.join("link").display().to_string()]);
    }
}
