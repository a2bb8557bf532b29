//! Each target with the same inputs each time; with new ones for `SPOKE_FUZZ_SECONDS`.
#![allow(clippy::print_stdout)]

use fuzz::Target;

fn run(name: &str, target: Target) {
    println!("{name}: {} inputs", fuzz::run(name, target));
}

#[test]
fn arguments() {
    run("arguments", fuzz::arguments);
}

#[test]
fn backup() {
    run("backup", fuzz::backup);
}

#[test]
fn cached() {
    run("cached", fuzz::cached);
}

#[test]
fn dhcp_call() {
    run("dhcp_call", fuzz::dhcp_call);
}

#[test]
fn dhcp_packet() {
    run("dhcp_packet", fuzz::dhcp_packet);
}

#[test]
fn docker() {
    run("docker", fuzz::docker);
}

#[test]
fn fence() {
    run("fence", fuzz::fence);
}

#[test]
fn names() {
    run("names", fuzz::names);
}

#[test]
fn packet() {
    run("packet", fuzz::packet);
}

#[test]
fn engine_api() {
    run("engine_api", fuzz::engine_api);
}

#[test]
fn journal() {
    run("journal", fuzz::journal);
}

#[test]
fn list() {
    run("list", fuzz::list);
}

#[test]
fn netlink() {
    run("netlink", fuzz::netlink);
}

#[test]
fn plugin() {
    run("plugin", fuzz::plugin);
}

#[test]
fn plugin_answers() {
    run("plugin_answers", fuzz::plugin_answers);
}

#[test]
fn podman() {
    run("podman", fuzz::podman);
}

#[test]
fn record() {
    run("record", fuzz::record);
}

#[test]
fn result() {
    run("result", fuzz::result);
}

#[test]
fn cloud() {
    run("cloud", fuzz::cloud);
}

#[test]
fn cloud_settings() {
    run("cloud_settings", fuzz::cloud_settings);
}

#[test]
fn database() {
    run("database", fuzz::database);
}

#[test]
fn kuryr() {
    run("kuryr", fuzz::kuryr);
}

#[test]
fn image_challenge() {
    run("image_challenge", fuzz::image_challenge);
}

#[test]
fn image_discovery() {
    run("image_discovery", fuzz::image_discovery);
}

#[test]
fn image_document() {
    run("image_document", fuzz::image_document);
}

#[test]
fn image_archive() {
    run("image_archive", fuzz::image_archive);
}

#[test]
fn image_signature() {
    run("image_signature", fuzz::image_signature);
}
