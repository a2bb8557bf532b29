//! `spoke kuryr import-config`: what kuryr.conf comes to here. Who we are in the cloud stays where it
//! is, so that no secret is copied.

use std::fmt::Write;
use std::path::Path;

use model::{Error, Result};
use neutron::config::Sources;

use super::super::Answer;

/// The sections for config.toml, and notes about what is not read.
pub(super) fn import(file: &Path) -> Result<Answer> {
    let file = std::path::absolute(file)
        .map_err(|cause| Error::os(format!("looking for {}", file.display()), cause))?;
    let sources = Sources { kuryr_conf: Some(file.clone()), ..Sources::default() };
    let conf = sources.read(&|name| std::env::var(name).ok())?.conf;
    let path = file.to_str().ok_or_else(|| {
        Error::invalid(format!("{} cannot be written in a configuration", file.display()))
    })?;
    let plugin = &conf.plugin;
    let scope = if plugin.is_global { "global" } else { "local" };
    let mut text = format!(
        "[neutron]\nkuryr_conf = {path:?}\n\n[kuryr]\nenabled = true\n\
         capability_scope = {scope:?}\nlocal_default_address_space = {:?}\n\
         global_default_address_space = {:?}\nprocess_external_connectivity = {}\n",
        plugin.spaces[0], plugin.spaces[1], conf.kuryr.exposes
    );
    let mut notes = conf.notes.clone();
    match plugin.listen.filter(|address| address.ip().is_loopback()) {
        Some(address) => drop(writeln!(text, "listen = \"{address}\"")),
        None => notes.push("kuryr_uri is no address of loopback: set kuryr.listen".to_owned()),
    }
    if plugin.tls.is_some() {
        notes.push("enable_ssl: certificates are those of [kuryr.tcp] here".to_owned());
    }
    Ok(Answer { notes, ..Answer::text(text) })
}
