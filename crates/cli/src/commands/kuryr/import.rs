//! `spoke kuryr import-config`: what kuryr.conf comes to here. The account in the cloud stays where
//! it is, so that no secret is copied.

use std::fmt::Write;
use std::path::Path;

use model::{Error, Result};
use neutron::config::Sources;

use crate::answer::Answer;

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
    if let Some(prefix) = &plugin.prefix {
        let _ = writeln!(text, "veth_dst_prefix = \"{prefix}\"");
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    const CONF: &str = "
[DEFAULT]
kuryr_uri = http://127.0.0.1:23751
capability_scope = global
local_default_address_space = here
global_default_address_space = everywhere
process_external_connectivity = False
enable_ssl = True
ssl_cert_file = /etc/kuryr/cert.pem
ssl_key_file = /etc/kuryr/key.pem
bindir = /usr/local/libexec/kuryr
debug = True
[neutron]
auth_url = http://127.0.0.1:5000/v3
auth_type = password
username = kuryr
password = secret
project_name = service
user_domain_name = Default
project_domain_name = Default
vif_plugging_is_fatal = True
[binding]
veth_dst_prefix = net
";

    #[test]
    fn what_is_printed_is_a_configuration_and_no_secret() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("kuryr.conf");
        std::fs::write(&file, CONF).unwrap();
        let answer = import(&file).unwrap();
        let config: toml::Table = answer.text.parse().unwrap();
        assert_eq!(config["neutron"]["kuryr_conf"].as_str(), file.to_str());
        let kuryr = &config["kuryr"];
        for (key, value) in [
            ("capability_scope", "global"),
            ("local_default_address_space", "here"),
            ("global_default_address_space", "everywhere"),
            ("listen", "127.0.0.1:23751"),
            ("veth_dst_prefix", "net"),
        ] {
            assert_eq!(kuryr[key].as_str(), Some(value), "{key}");
        }
        assert_eq!(kuryr["enabled"].as_bool(), Some(true));
        assert_eq!(kuryr["process_external_connectivity"].as_bool(), Some(false));
        assert!(!answer.text.contains("secret"), "{}", answer.text);
        let notes = answer.notes.join("\n");
        assert!(notes.contains("debug") && notes.contains("enable_ssl"), "{notes}");
    }
}
