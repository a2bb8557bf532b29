//! Network plugins out of images: what a call into one costs beside `runc exec`, a whole pod beside
//! runc with the reference plugin, many pods at once, and how soon an image is ready.
//!
//! All of it happens in a private world; what is measured there is started there, by this program
//! within, so that no figure has the way into the world in it.

mod call;
mod image;
mod pods;
mod runc;
mod targets;

use std::path::Path;
use std::process::{Command, Stdio};

use model::{Error, Kind, Result};
use tests::{PluginImage, Plugins, World};

pub(crate) use targets::targets;

use crate::args::Args;
use crate::execute::program;

/// Ours.
const OURS: &str = "ours";
/// What an OCI runtime does for the same.
const RUNC: &str = "runc";

/// The program under test, where the world has it.
const SPOKE: &str = "/opt/cni/bin/spoke";

/// Makes the world and has this program measure in it.
pub(crate) fn run(args: &Args) -> Result<()> {
    let world = World::new(&Plugins::subject());
    PluginImage::cni().write(&world, "/images/cni.aci");
    PluginImage::busybox("bench.test/large")
        .with(
            "app",
            serde_json::json!({"exec": ["/bin/sleep", "2147483647"], "user": "0", "group": "0"}),
        )
        .and("head -c 10000000 /dev/urandom >rootfs/large")
        .write(&world, "/images/large.aci");
    let bench =
        std::env::current_exe().map_err(|error| Error::os("finding this program", error))?;
    let mut command = world.command(bench);
    command.args(["inside", "kurma"]).args(args.passed_on()).stdout(Stdio::inherit());
    let status = command.status().map_err(|error| Error::os("measuring in a world", error))?;
    match status.success() {
        true => Ok(()),
        false => Err(Error::new(Kind::Kernel, format!("it ended early, with {status}"))),
    }
}

/// Measures, in the world.
pub(crate) fn inside(args: &Args) -> Result<()> {
    call::run(args)?;
    pods::run(args)?;
    image::run(args)
}

/// What our program prints, when it succeeds.
fn spoke(words: &[&str]) -> Result<String> {
    succeed(program(SPOKE).arg("kurma").args(words))
}

/// What a program prints, when it succeeds; what it says, when it fails.
fn succeed(command: &mut Command) -> Result<String> {
    let about = format!("{command:?}");
    let output = command.stdin(Stdio::null()).stderr(Stdio::piped()).output();
    let output = output.map_err(|error| Error::os(format!("executing {about}"), error))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let printed = String::from_utf8_lossy(&output.stdout).into_owned();
            Err(Error::new(Kind::Kernel, format!("{about}: {}{}", printed.trim(), said.trim())))
        }
    }
}

/// What a shell script prints.
fn sh(script: &str) -> Result<String> {
    succeed(program("bash").args(["-euc", script]))
}

/// Makes the configuration of Kurma's networks.
fn configure(networks: &serde_json::Value) -> Result<()> {
    crate::world::make(Path::new("/etc/kurma"))?;
    let text = serde_json::json!({"pod_networks": networks}).to_string();
    crate::world::write(Path::new("/etc/kurma/kurma.json"), &text)
}

/// A pod's name.
fn uuid(number: usize) -> String {
    format!("{number:08x}-fbf6-41da-a2f8-eba218597f9c")
}
