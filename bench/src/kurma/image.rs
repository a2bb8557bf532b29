//! How soon an image is ready, and its plugin.

use model::Result;
use serde_json::json;

use super::call::timed;
use super::{OURS, configure, sh, spoke};
use crate::args::Args;
use crate::docker::line::{remark, say};
use crate::samples::Figure;

/// The case.
pub(super) const IMAGE: &str = "an image of 10 MB, gzip";
/// From the file to what can be run.
pub(super) const READY: &str = "ready to run";
/// From a stopped plugin to one that runs, by the command line.
pub(super) const START: &str = "start of the plugin";

/// Measures.
pub(super) fn run(args: &Args) -> Result<()> {
    remark("kurma: images")?;
    let locator = "file:///images/large.aci";
    configure(&json!([{"name": "large", "aci": locator}]))?;
    let place = |verb| Figure { case: IMAGE, verb, who: OURS, unit: "ms" };
    for round in 0..args.either(5, 15) {
        sh("rm -rf /var/lib/spoke/images")?;
        say(place(READY), round, timed(|| spoke(&["pull", locator]).map(drop)))?;
    }
    for round in 0..args.either(8, 40) {
        say(place(START), round, timed(|| spoke(&["up", "large"]).map(drop)))?;
        spoke(&["down", "large"])?;
    }
    Ok(())
}
