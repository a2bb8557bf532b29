//! kuryr-libnetwork 18 beside us: on the same host, in front of the same Neutron, plugging into the
//! same switch.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tests::neutron_lab::{Account, FullLab};

use crate::bed::Bed;

/// What Docker calls it, and where it listens.
pub(crate) const DRIVER: &str = "upstream";
const PORT: u16 = 23750;

/// Python takes its time.
const TIMEOUT: Duration = Duration::from_secs(120);

/// One that answers; killed when dropped.
#[derive(Debug)]
pub(crate) struct Rival {
    child: Child,
    log: PathBuf,
}

impl Rival {
    /// Starts it; none where it is not installed.
    #[track_caller]
    pub(crate) fn start(bed: &Bed, lab: &FullLab, account: &Account) -> Option<Self> {
        let home = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.cache/peers/kuryr-pypi");
        if !home.join("bin/kuryr-server").exists() {
            return None;
        }
        let switch =
            Path::new(&lab.setting("NEUTRON_LAB_DIR")).join("chassis").join(&bed.host.name);
        let conf = switch.join("kuryr.conf");
        fs::write(&conf, configured(&home, account)).unwrap();
        let log = switch.join("kuryr.log");
        let out = fs::File::create(&log).unwrap();
        let err = out.try_clone().unwrap();
        let world = bed.world().pid().to_string();
        // Neutron binds ports to the name that it finds its host to have.
        let child = Command::new("nsenter")
            .args(["--target", &world, "--net", "unshare", "--uts", "--kill-child", "--fork", "sh"])
            .args([
                "-euc",
                "hostname \"$1\"; exec \"$2/bin/kuryr-server\" --config-file \"$3\"",
                "sh",
            ])
            .args([Path::new(&bed.host.name), &home, &conf])
            .env("OVS_RUNDIR", switch.join("run"))
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err)
            .spawn()
            .unwrap();
        let rival = Self { child, log };
        bed.world().sh(&format!(
            "mkdir -p /etc/docker/plugins; echo http://127.0.0.1:{PORT} >/etc/docker/plugins/{DRIVER}.spec"
        ));
        rival.wait(bed);
        Some(rival)
    }

    #[track_caller]
    fn wait(&self, bed: &Bed) {
        let ask = format!("true </dev/tcp/127.0.0.1/{PORT}");
        let deadline = Instant::now() + TIMEOUT;
        while bed.world().try_sh(&ask).status != 0 {
            assert!(Instant::now() < deadline, "{}", fs::read_to_string(&self.log).unwrap());
            tests::glance();
        }
    }
}

impl Drop for Rival {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn configured(home: &Path, account: &Account) -> String {
    let Account { auth_url, name, password, .. } = account;
    format!(
        "[DEFAULT]\nkuryr_uri = http://127.0.0.1:{PORT}\ncapability_scope = local\n\
         bindir = {}\nuse_stderr = true\nprocess_external_connectivity = false\n\
         [neutron]\nauth_type = password\nauth_url = {auth_url}\nusername = {name}\n\
         password = {password}\nproject_name = {name}\nproject_domain_id = default\n\
         user_domain_id = default\nregion_name = RegionOne\nenable_dhcp = false\n\
         vif_plugging_is_fatal = true\nvif_plugging_timeout = 20\n\
         [binding]\ndriver = kuryr.lib.binding.drivers.veth\n",
        home.join("libexec/kuryr").display()
    )
}
