//! Real Neutrons for tests: one without a dataplane, that a run of tests shares, and one with OVN,
//! that `make test-neutron` brings up.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{env, thread};

use rustix::fs::{FlockOperation, Timespec, Timestamps, flock, futimens};
use serde_json::{Value, json};

use crate::fault_proxy::Upstream;
use crate::neutron::{self, Asking, Project};
use crate::skipped;

/// It needs four seconds; more than it needs on a machine that does much else.
const TIMEOUT: Duration = Duration::from_secs(180);
const GLANCE: Duration = Duration::from_millis(20);

/// A Neutron's API without Keystone and without a dataplane. The first process that asks brings it
/// up, all of a run share it, and it is gone half a minute after the last one has ended.
///
/// How a port is bound, its host's name says: scripts/neutron-lab/lib/lab_mechanism.py.
#[derive(Debug)]
pub struct ApiLab {
    address: SocketAddr,
    /// Locked for as long as this process may use it.
    _users: File,
}

impl ApiLab {
    /// The lab of this run of tests.
    ///
    /// # Panics
    /// When it does not come up, with what it said.
    pub fn shared() -> &'static Self {
        static LAB: OnceLock<ApiLab> = OnceLock::new();
        LAB.get_or_init(|| {
            let shared = shared();
            let starting = locked(&shared);
            let users = create(&shared.join("users")).expect("a file");
            let address = running(&shared).unwrap_or_else(|| start(&shared));
            flock(&users, FlockOperation::LockShared).expect("a lock");
            touch(&users);
            drop(starting);
            Self { address, _users: users }
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A project of its own.
    pub fn project(&self) -> Project {
        Project { id: unique(), neutron: self.address, asking: Asking::Header }
    }

    /// The way to it for a client that knows no project: it asks for `project`.
    pub fn upstream(&self, project: &Project) -> Upstream {
        Upstream { address: self.address, headers: project.headers() }
    }
}

/// Where the run's processes find each other.
fn shared() -> PathBuf {
    let mut hasher = DefaultHasher::new();
    (env!("CARGO_MANIFEST_DIR"), release()).hash(&mut hasher);
    Path::new("/run").join(format!("spoke-test-neutron-{:08x}", hasher.finish() as u32))
}

fn release() -> String {
    env::var("SPOKE_NEUTRON").unwrap_or_else(|_| "debian".into())
}

/// Holds others off who would start or end it meanwhile.
fn locked(shared: &Path) -> File {
    let path = shared.join("starting");
    loop {
        fs::create_dir_all(shared).expect("/run is writable (root)");
        let Ok(file) = create(&path) else { continue };
        flock(&file, FlockOperation::LockExclusive).expect("a lock");
        // Its guardian removes the folder in the end: then no process has this lock any more.
        let same =
            fs::metadata(&path).is_ok_and(|now| now.ino() == file.metadata().expect("open").ino());
        if same {
            return file;
        }
    }
}

fn create(path: &Path) -> io::Result<File> {
    File::options().read(true).append(true).create(true).open(path)
}

fn running(shared: &Path) -> Option<SocketAddr> {
    let address = fs::read_to_string(shared.join("address")).ok()?.trim().parse().ok()?;
    TcpStream::connect(address).is_ok().then_some(address)
}

fn start(shared: &Path) -> SocketAddr {
    for old in ["address", "failed"] {
        let _ = fs::remove_file(shared.join(old));
    }
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let port = free.expect("a free port").port();
    guardian(shared, port);
    let deadline = Instant::now() + TIMEOUT;
    loop {
        if let Some(address) = running(shared) {
            return address;
        }
        let log = || fs::read_to_string(shared.join("log")).unwrap_or_default();
        assert!(
            !shared.join("failed").exists(),
            "Neutron does not start (scripts/setup test):\n{}",
            log()
        );
        assert!(Instant::now() < deadline, "Neutron is never ready:\n{}", log());
        thread::sleep(GLANCE);
    }
}

/// Starts what outlives this process: in a session of its own, and with none of its files.
fn guardian(shared: &Path, port: u16) {
    let log = File::create(shared.join("log")).expect("a log");
    let up = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/neutron-lab/up");
    let mut command = Command::new("setsid");
    command
        .args(["--fork", "unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child"])
        .args(["--propagation", "private", "bash", "-c", include_str!("neutron_lab/guardian.sh")])
        .arg("guardian")
        .args([shared, &up])
        .args([port.to_string(), release()])
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(log.try_clone().expect("a log"))
        .stderr(log);
    assert!(command.status().is_ok_and(|status| status.success()), "setsid starts");
}

/// The guardian sees by it that a user came and went.
fn touch(users: &File) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    let now = Timespec { tv_sec: now.as_secs() as i64, tv_nsec: i64::from(now.subsec_nanos()) };
    futimens(users, &Timestamps { last_access: now, last_modification: now }).expect("ours");
}

/// 32 hexadecimal digits, as Keystone's ids.
fn unique() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos() as u64;
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    // What differs comes first: hosts are named after the beginning.
    let mut hasher = DefaultHasher::new();
    (now, process::id(), count).hash(&mut hasher);
    format!("{:016x}{:08x}{count:08x}", hasher.finish(), process::id())
}

/// A whole Neutron, with Keystone and OVN, that was brought up for the tests by
/// scripts/neutron-tests.
#[derive(Clone, Debug)]
pub struct FullLab {
    settings: BTreeMap<String, String>,
}

/// An account of a [`FullLab`]'s: its name is also its project's.
#[derive(Clone, Debug)]
pub struct Account {
    /// The project, asked with a token of this account's.
    pub project: Project,
    /// Where tokens are: with the path `/v3`.
    pub auth_url: String,
    /// User and project, both in the domain `default`.
    pub name: String,
    /// The user's.
    pub password: String,
}

impl FullLab {
    /// The lab, if there is one; says aloud that what needs it is not tested, if there is none.
    pub fn running() -> Option<Self> {
        let Some(folder) = env::var_os("SPOKE_NEUTRON_LAB") else {
            skipped("OVN", "there is no lab (make test-neutron)");
            return None;
        };
        let script = format!(". {}/env && env -0", folder.display());
        let said = Command::new("bash").args(["-c", &script]).output().expect("bash starts");
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        let settings = said.split('\0').filter_map(|line| line.split_once('='));
        let settings = settings.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let lab = Self { settings: settings.collect() };
        assert_eq!(lab.setting("NEUTRON_LAB_MODE"), "full", "{}", folder.display());
        Some(lab)
    }

    /// A setting of the lab's, as its env.sh exports it.
    #[track_caller]
    pub fn setting(&self, name: &str) -> &str {
        self.settings.get(name).unwrap_or_else(|| panic!("the lab has no {name}"))
    }

    /// Where Neutron listens.
    pub fn neutron(&self) -> SocketAddr {
        address(self.setting("NEUTRON_URL"))
    }

    /// Where Keystone listens.
    pub fn keystone(&self) -> SocketAddr {
        address(self.setting("OS_AUTH_URL"))
    }

    /// A project of its own, and an administrator of it.
    #[track_caller]
    pub fn account(&self) -> Account {
        let name = format!("test-{}", unique());
        let password = self.setting("OS_PASSWORD").to_owned();
        let create = |kind: &str, with: Value| {
            let target = format!("/v3/{kind}s");
            neutron::id(&self.ask("POST", &target, &json!({ kind: with }))[kind])
        };
        let domain = "default";
        let id = create("project", json!({"name": name, "domain_id": domain}));
        let user = create("user", json!({"name": name, "domain_id": domain, "password": password}));
        let roles = self.ask("GET", "/v3/roles?name=admin", &Value::Null);
        let role = neutron::id(&roles["roles"][0]);
        let grant = format!("/v3/projects/{id}/users/{user}/roles/{role}");
        self.ask("PUT", &grant, &Value::Null);
        let asking = Asking::Token(self.clone(), name.clone());
        let project = Project { id, neutron: self.neutron(), asking };
        Account { project, auth_url: self.setting("OS_AUTH_URL").to_owned(), name, password }
    }

    /// A new token of the user `name` in the project of the same name.
    #[track_caller]
    pub(crate) fn token(&self, name: &str) -> String {
        let password = self.setting("OS_PASSWORD");
        let domain = json!({"id": "default"});
        let user = json!({"name": name, "domain": domain, "password": password});
        let scope = json!({"project": {"name": name, "domain": domain}});
        let identity = json!({"methods": ["password"], "password": {"user": user}});
        let body = json!({"auth": {"identity": identity, "scope": scope}});
        let mut headers = Vec::new();
        let reply = neutron::in_time(|| {
            let (reply, reported) =
                neutron::call(self.keystone(), "POST", "/v3/auth/tokens", &[], &body);
            headers = reported;
            reply
        });
        reply.ok();
        let token = headers.into_iter().find(|(name, _)| name == "x-subject-token");
        token.expect("a token").1
    }

    /// What Keystone answers its administrator.
    #[track_caller]
    fn ask(&self, method: &str, target: &str, body: &Value) -> Value {
        let reply = neutron::in_time(|| {
            let headers = [("X-Auth-Token".to_owned(), self.token("admin"))];
            neutron::call(self.keystone(), method, target, &headers, body).0
        });
        reply.ok()
    }
}

#[track_caller]
fn address(url: &str) -> SocketAddr {
    let rest = url.strip_prefix("http://").unwrap_or(url);
    let host = rest.split('/').next().unwrap_or_default();
    host.parse().unwrap_or_else(|error| panic!("{url}: {error}"))
}
