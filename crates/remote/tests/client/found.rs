//! Where plugins are found, and what they say about themselves.

use std::os::unix::net::UnixListener;
use std::time::Duration;

use libnetwork::Scope;
use model::{DriverName, Kind};
use remote::address::Address;
use remote::calls::{Calls, Fate};

use crate::scripted::{Act, Scene, any_address, leave, p};

const TIMEOUT: Duration = Duration::from_secs(20);

#[test]
fn sockets_count_more_than_descriptions_and_files_more_than_folders() {
    let scene = Scene::new();
    let find = || scene.places().find(&p(), None).map(|found| found.place);
    let mut expected = Vec::new();
    for file in ["lib/p/p.json", "lib/p.spec", "etc/p/p.json", "etc/p.json", "etc/p/p.spec"] {
        let path = scene.at(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let text = if file.ends_with("json") { r#"{"addr":"tcp://x:1"}"# } else { "tcp://x:1" };
        std::fs::write(&path, text).unwrap();
        assert_eq!(find().unwrap(), path);
        expected.push(path);
    }
    let folder = scene.at("run/p");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(scene.at("run/p.sock"), "no socket").unwrap();
    let _inner = UnixListener::bind(folder.join("p.sock")).unwrap();
    assert_eq!(find().unwrap(), folder.join("p.sock"));
    std::fs::remove_file(scene.at("run/p.sock")).unwrap();
    let _outer = UnixListener::bind(scene.at("run/p.sock")).unwrap();
    assert_eq!(find().unwrap(), scene.at("run/p.sock"));
}

#[test]
fn all_that_are_installed_are_listed() {
    let scene = Scene::new();
    for name in ["a.spec", "b.json", "c.txt", ".spec", "-d.spec"] {
        std::fs::write(scene.at("etc").join(name), "tcp://x:1").unwrap();
    }
    std::fs::create_dir(scene.at("lib/e")).unwrap();
    std::fs::write(scene.at("lib/e/e.json"), "{}").unwrap();
    std::fs::create_dir(scene.at("lib/f")).unwrap();
    let _socket = UnixListener::bind(scene.socket()).unwrap();
    let names = scene.plugins(TIMEOUT).installed();
    assert_eq!(names.iter().map(DriverName::as_str).collect::<Vec<_>>(), ["a", "b", "e", "p"]);
}

#[test]
fn unusable_descriptions_are_named() {
    let scene = Scene::new();
    let cases = [
        ("etc/p.json", "{", "the description is no JSON"),
        ("etc/p.json", "[]", "is a list"),
        ("etc/p.json", "{}", "Addr is missing"),
        ("etc/p.json", r#"{"Addr":"https://x:1","TLSConfig":{"CAFile":"/nowhere"}}"#, "/nowhere"),
        ("etc/p.json", r#"{"Addr":"https://x:1","TLSConfig":{"KeyFile":"/k"}}"#, "both"),
        ("etc/p.spec", "/run/x.sock", "no plugin's address"),
    ];
    for (file, text, expected) in cases {
        std::fs::write(scene.at(file), text).unwrap();
        let error = scene.places().find(&p(), None).unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains(file), "{error}");
    }
}

#[test]
fn a_description_without_an_authority_trusts_all_and_is_reported() {
    let scene = Scene::new();
    let found = |text: &str| {
        std::fs::write(scene.at("etc/p.json"), text).unwrap();
        scene.places().find(&p(), None).unwrap()
    };
    let https = found(r#"{"Name":"p","Addr":"https://x:1","TLSConfig":{}}"#);
    assert!(matches!(https.address, Address::Tls(..)));
    assert!(https.warnings[0].contains("CAFile"), "{:?}", https.warnings);
    let http = found(r#"{"Addr":"tcp://x:1","TLSConfig":{"InsecureSkipVerify":true}}"#);
    assert!(matches!(http.address, Address::Tcp(_)) && http.warnings.len() == 1);
    assert!(found(r#"{"Addr":"tcp://x:1","TLSConfig":null}"#).warnings.is_empty());
}

#[test]
fn drivers_are_called_only_as_what_they_are() {
    let scene = Scene::with(|_, _| Act::Say(200, "{}"));
    let plugins = scene.plugins(TIMEOUT);
    let profile = plugins.profile(&p()).unwrap();
    assert_eq!(profile.network.unwrap().connectivity, Scope::Local);
    assert!(profile.ipam.unwrap().requires_mac);
    assert_eq!(profile.spaces.as_ref().unwrap().global.as_str(), "here");
    let heard: Vec<_> = scene.heard.lock().unwrap().iter().map(|(m, _)| m.clone()).collect();
    let order = [
        "Plugin.Activate",
        "NetworkDriver.GetCapabilities",
        "IpamDriver.GetCapabilities",
        "IpamDriver.GetDefaultAddressSpaces",
    ];
    assert_eq!(heard, order);
}

#[test]
fn one_interface_is_enough_and_ipam_drivers_need_not_know_capabilities() {
    let scene = Scene::new();
    scene.serve_all(|method, _| match method {
        "Plugin.Activate" => Act::Say(200, r#"{"Implements":["IpamDriver","volume"]}"#),
        _ => Act::Say(404, "404 page not found"),
    });
    let plugins = scene.plugins(TIMEOUT);
    let profile = plugins.profile(&p()).unwrap();
    assert_eq!((profile.network, profile.spaces.as_ref()), (None, None));
    assert!(!profile.ipam.unwrap().requires_mac);
    let failed = plugins.call(&p(), &leave()).unwrap_err();
    assert_eq!((failed.kind(), failed.fate), (Kind::Unsupported, Fate::Unsent));
    assert!(failed.to_string().contains("is no network driver"), "{failed}");
    assert_eq!(plugins.call(&p(), &any_address()).unwrap_err().kind(), Kind::Unsupported);
}
