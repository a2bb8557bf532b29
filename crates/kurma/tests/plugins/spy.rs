//! A networking pod whose plugins write down how they were called.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use container::Engine;
use image::{Algorithm, App, Digest, Image, ImageId, Locator};
use kurma::config::NetworkConfig;
use kurma::plugin::{Images, Limits, Standing, Status};
use kurma::{Directories, NetworkingPod, PodNetworks};
use netlink::monitor::Stop;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The host's programs that the image is made of.
const BUSYBOX: &str = "/bin/busybox";

/// How long a test waits for an event at most.
const LIMIT: Duration = Duration::from_secs(40);

/// What every executable of the plugin begins with: it writes down how it was called, and does what
/// the test says.
const BEGIN: &str = r#"#!/bin/sh
verb=${0##*/}
input=$(cat)
name=$(echo "$input" | sed 's/.*"name":"\([^"]*\)".*/\1/')
"#;

const CALL: &str = r#"
inode=$(stat -L -c %i "$1" 2>/dev/null)
printf '%s' "$input" >/spy/input
env | grep -v -e ^PWD= -e ^SHLVL= -e ^OLDPWD= | sort >/spy/environment
echo "$verb $name $1 $2 $3 $# $inode" >>/spy/calls
if [ -e /spy/tell.$verb ]; then . /spy/tell.$verb; fi
"#;

/// Plugins, networks, and a directory that both sides see.
pub(crate) struct Spy {
    pub(crate) pod: Arc<NetworkingPod>,
    pub(crate) networks: Arc<PodNetworks>,
    /// Whether the registry that never answers was asked.
    pub(crate) is_asked: Arc<AtomicBool>,
    directory: TempDir,
}

/// The image as it lies in a directory.
struct Unpacked {
    layer: PathBuf,
    exec: Vec<String>,
    is_asked: Arc<AtomicBool>,
}

/// An image whose registry never answers.
pub(crate) const HANGS: &str = "file:///hangs.aci";

impl Images for Unpacked {
    fn get(&self, locator: &Locator, _: &[PathBuf]) -> model::Result<Image> {
        if locator.to_string() == HANGS {
            self.is_asked.store(true, Ordering::SeqCst);
            loop {
                thread::park();
            }
        }
        if withdrawn(&self.layer).exists() {
            return Err(model::Error::not_found("the image was withdrawn"));
        }
        Ok(Image {
            id: id(locator),
            name: "krm.test/spy".into(),
            labels: Default::default(),
            app: Some(App { exec: self.exec.clone(), ..App::default() }),
            layers: vec![self.layer.clone()],
        })
    }

    fn cached(&self, locator: &Locator, _: &[PathBuf]) -> model::Result<Option<ImageId>> {
        let is_there = locator.to_string() != HANGS && !withdrawn(&self.layer).exists();
        Ok(is_there.then(|| id(locator)))
    }

    fn directory(&self) -> Option<&std::path::Path> {
        None
    }
}

/// While this is there, there are no images.
fn withdrawn(layer: &Path) -> PathBuf {
    layer.with_extension("withdrawn")
}

fn id(locator: &Locator) -> ImageId {
    ImageId::new(Digest::of(Algorithm::Sha256, locator.to_string().as_bytes()))
}

/// Does `work` with mounts of its own, so that the host's stay as they are.
pub(crate) fn in_a_world(work: impl FnOnce() + Send) {
    thread::scope(|scope| {
        let done = scope.spawn(|| {
            unshare(CloneFlags::CLONE_NEWNS).expect("root");
            let flags = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
            mount(None::<&str>, "/", None::<&str>, flags, None::<&str>).unwrap();
            work();
        });
        done.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

/// Waits, and says so where that is in vain.
#[track_caller]
pub(crate) fn until(mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !is_so() {
        assert!(Instant::now() < deadline, "it is not so after {LIMIT:?}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Stops a supervisor, and its threads also where the test panics.
pub(crate) struct Stopping(pub(crate) Stop);

impl Drop for Stopping {
    fn drop(&mut self) {
        self.0.stop();
    }
}

impl Spy {
    #[track_caller]
    pub(crate) fn new(networks: &Value) -> Self {
        Self::with(networks, &["/main"])
    }

    #[track_caller]
    pub(crate) fn without_main(networks: &Value) -> Self {
        Self::with(networks, &[])
    }

    #[track_caller]
    fn with(networks: &Value, exec: &[&str]) -> Self {
        let directory = tempfile::Builder::new().prefix("spoke-kurma-").tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::create_dir(at("spy")).unwrap();
        let exec = exec.iter().map(|word| (*word).to_owned()).collect();
        let is_asked = Arc::new(AtomicBool::new(false));
        let images = Unpacked { layer: layer(&at("layer")), exec, is_asked: Arc::clone(&is_asked) };
        let pod = Arc::new(NetworkingPod {
            directories: Directories { runtime: at("run"), netns: at("netns") },
            images: Arc::new(images),
            engine: Engine::Native,
            book: None,
            limits: Limits::default(),
        });
        let mut spy = Self { pod, networks: Arc::default(), is_asked, directory };
        spy.configure(networks);
        spy
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Makes these the networks; each is the spy's.
    #[track_caller]
    pub(crate) fn configure(&mut self, networks: &Value) {
        self.networks = Arc::new(self.read(networks));
    }

    /// The same, for one who has these as networks.
    #[track_caller]
    pub(crate) fn read(&self, networks: &Value) -> PodNetworks {
        let mut networks = networks.clone();
        for network in networks.as_array_mut().unwrap() {
            if network.get("aci").is_none() {
                network["aci"] = json!("file:///spy.aci");
            }
            let spy = json!({"host": self.directory().join("spy"), "container": "/spy"});
            let given = network["mounts"].as_array().cloned().unwrap_or_default();
            network["mounts"] = [given, vec![spy]].concat().into();
        }
        let text = json!({"pod_networks": networks}).to_string();
        let networks = PodNetworks::read(&text, "networks").unwrap();
        assert_eq!(networks.refused().count(), 0, "{networks:?}");
        networks
    }

    pub(crate) fn directories(&mut self) -> &mut Directories {
        &mut Arc::get_mut(&mut self.pod).unwrap().directories
    }

    pub(crate) fn limits(&mut self) -> &mut Limits {
        &mut Arc::get_mut(&mut self.pod).unwrap().limits
    }

    #[track_caller]
    pub(crate) fn network(&self, name: &str) -> &NetworkConfig {
        self.networks.network(&name.parse().unwrap()).unwrap()
    }

    /// No image can be had, or all can again.
    #[track_caller]
    pub(crate) fn withdraw_images(&self, are_gone: bool) {
        let mark = withdrawn(&self.directory().join("layer"));
        match are_gone {
            true => fs::write(mark, "").unwrap(),
            false => fs::remove_file(mark).unwrap(),
        }
    }

    /// Has `add`, `del`, `setup` or `main` do this in a shell.
    pub(crate) fn instruct(&self, verb: &str, script: &str) {
        fs::write(self.directory().join(format!("spy/tell.{verb}")), script).unwrap();
    }

    pub(crate) fn forget(&self, verb: &str) {
        fs::remove_file(self.directory().join(format!("spy/tell.{verb}"))).unwrap();
    }

    /// A file that the plugin wrote.
    #[track_caller]
    pub(crate) fn kept(&self, name: &str) -> String {
        fs::read_to_string(self.directory().join("spy").join(name)).unwrap()
    }

    /// `VERB NETWORK ARGUMENTS COUNT INODE` of every call so far.
    pub(crate) fn calls(&self) -> Vec<String> {
        let path = self.directory().join("spy/calls");
        let calls = fs::read_to_string(path).unwrap_or_default();
        calls.lines().map(str::to_owned).collect()
    }

    /// `VERB NETWORK` of every call so far.
    pub(crate) fn order(&self) -> Vec<String> {
        let short = |call: &String| {
            call.split(' ').take(2).collect::<Vec<_>>().join(" ").trim_end().to_owned()
        };
        self.calls().iter().map(short).collect()
    }

    #[track_caller]
    pub(crate) fn status(&self, name: &str) -> Status {
        let all = self.pod.status(&self.networks).unwrap();
        all.into_iter().find(|status| status.name == name).unwrap()
    }

    pub(crate) fn pid(&self, name: &str) -> Option<u32> {
        let all = self.pod.status(&self.networks).unwrap();
        match all.into_iter().find(|status| status.name == name)?.standing {
            Standing::Running { pid } => Some(pid),
            _ => None,
        }
    }

    /// Kills the plugin of a network, and waits until it has ended.
    #[track_caller]
    pub(crate) fn kill(&self, name: &str) {
        let pid = self.pid(name).unwrap();
        assert!(Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap().success());
        until(|| self.pid(name) != Some(pid));
    }
}

impl Drop for Spy {
    fn drop(&mut self) {
        // A call that hangs, in a test that failed, is not waited for.
        let limits = Limits { call: Duration::ZERO, ..Limits::default() };
        let pod = NetworkingPod {
            directories: self.pod.directories.clone(),
            images: Arc::clone(&self.pod.images),
            engine: Engine::Native,
            book: None,
            limits,
        };
        let _ = pod.down_all();
        for pod in fs::read_dir(self.pod.directories.netns.clone()).into_iter().flatten().flatten()
        {
            let _ = netlink::Netns::unmake(&pod.path());
        }
        let _ = nix::mount::umount(&self.pod.directories.netns);
    }
}

/// Makes the files of the image.
#[track_caller]
fn layer(root: &Path) -> PathBuf {
    for directory in ["bin", "opt/network", "opt/cni/bin"] {
        fs::create_dir_all(root.join(directory)).unwrap();
    }
    fs::copy(BUSYBOX, root.join("bin/busybox")).expect("busybox-static is installed");
    for applet in ["sh", "cat", "sed", "env", "grep", "sort", "stat", "sleep"] {
        symlink("busybox", root.join("bin").join(applet)).unwrap();
    }
    let program = |path: &str, text: &str| {
        let path = root.join(path);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    program("opt/network/add", &format!("{BEGIN}{CALL}\n[ -e /spy/tell.add ] || echo '{{}}'\n"));
    program("opt/network/del", &format!("{BEGIN}{CALL}\n"));
    program("opt/network/setup", &format!("{BEGIN}{CALL}\n"));
    let main = "verb=main\nprintf '%s' \"$input\" >/spy/main\nif [ -e /spy/tell.main ]; then . /spy/tell.main; fi\nexec sleep 100000\n";
    program("main", &format!("{BEGIN}{main}"));
    let echoes =
        "#!/bin/sh\necho -n \"$CNI_COMMAND $CNI_NETNS $(stat -L -c %i \"$CNI_NETNS\") $(cat)\"\n";
    program("opt/cni/bin/echoes", echoes);
    root.to_owned()
}
