//! A container of runc's with the host's network, as a plugin container is.

use std::path::{Path, PathBuf};

use model::{Error, Result};
use serde_json::{Value, json};

use super::{sh, succeed};
use crate::execute::program;

/// A running container; killed when dropped.
pub(super) struct Runc {
    name: &'static str,
    bundle: PathBuf,
}

impl Runc {
    /// Starts one on this file system that does nothing. `/run/netns` is in it.
    pub(super) fn start(name: &'static str, rootfs: &Path) -> Result<Self> {
        let bundle = Path::new("/run").join(name).join("bundle");
        crate::world::make(&bundle)?;
        // What is mounted there later is to be seen in the container.
        sh("mkdir -p /run/netns; mountpoint -q /run/netns || mount --bind /run/netns /run/netns
            mount --make-shared /run/netns")?;
        let mut spec = standard(&bundle)?;
        spec["root"] = json!({"path": rootfs, "readonly": false});
        spec["process"]["args"] = json!(["/bin/sleep", "2147483647"]);
        // That needs a namespace of its own.
        if let Some(spec) = spec.as_object_mut() {
            spec.remove("hostname");
        }
        spec["process"]["terminal"] = json!(false);
        for kind in ["bounding", "effective", "permitted", "inheritable", "ambient"] {
            spec["process"]["capabilities"][kind] = json!([
                "CAP_NET_ADMIN",
                "CAP_NET_RAW",
                "CAP_SYS_ADMIN",
                "CAP_DAC_OVERRIDE",
                "CAP_KILL"
            ]);
        }
        spec["linux"]["namespaces"] = json!([{"type": "mount"}, {"type": "pid"}]);
        for masked in ["maskedPaths", "readonlyPaths"] {
            spec["linux"][masked] = json!([]);
        }
        if let Some(mounts) = spec["mounts"].as_array_mut() {
            mounts
                .retain(|mount| mount["destination"] == "/proc" || mount["destination"] == "/dev");
            mounts
                .push(json!({"destination": "/run/netns", "type": "bind", "source": "/run/netns",
                "options": ["rbind", "rslave"]}));
        }
        crate::world::write(&bundle.join("config.json"), &spec.to_string())?;
        let runc = Self { name, bundle };
        // What stays must hold no pipe of ours.
        let mut command = program("runc");
        command.args(["run", "--detach", "--bundle"]).arg(&runc.bundle).arg(name);
        let log = runc.bundle.join("log");
        let said = |error| Error::os("starting runc", error);
        let file = std::fs::File::create(&log).map_err(said)?;
        let errors = file.try_clone().map_err(said)?;
        let status =
            command.stdin(std::process::Stdio::null()).stdout(file).stderr(errors).status();
        match status.map_err(said)?.success() {
            true => Ok(runc),
            false => {
                let text = std::fs::read_to_string(&log).unwrap_or_default();
                Err(Error::new(model::Kind::Kernel, format!("runc run: {}", text.trim())))
            }
        }
    }

    /// What a program in it prints.
    pub(super) fn exec(&self, words: &[&str], environment: &str) -> Result<String> {
        let mut command = program("runc");
        command.arg("exec");
        for pair in environment.split_whitespace() {
            command.args(["--env", pair]);
        }
        succeed(command.arg(self.name).args(words))
    }
}

impl Drop for Runc {
    fn drop(&mut self) {
        let _ = program("runc").args(["delete", "--force", self.name]).status();
    }
}

/// What runc itself proposes.
fn standard(bundle: &Path) -> Result<Value> {
    let file = bundle.join("config.json");
    let _ = std::fs::remove_file(&file);
    succeed(program("runc").arg("spec").arg("--bundle").arg(bundle))?;
    let text =
        std::fs::read_to_string(&file).map_err(|error| Error::os("reading a spec", error))?;
    serde_json::from_str(&text).map_err(|error| Error::bug("runc's own spec").because(error))
}
