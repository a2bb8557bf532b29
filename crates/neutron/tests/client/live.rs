//! The client against a real Keystone and Neutron: those of the lab whose directory
//! `SPOKE_NEUTRON_LAB` names (scripts/neutron-lab).

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use model::Kind;
use neutron::Neutron;
use neutron::api::{FixedIp, NewNetwork, NewPort, NewSubnet, Tagged};
use neutron::config::{Access, Credential, Identity, Sources};
use serde_json::{Value, json};
use tempfile::{TempDir, tempdir};

use super::connect;

/// The lab's environment; none, said loudly, where there is no lab.
fn lab() -> Option<BTreeMap<String, String>> {
    let Some(directory) = std::env::var_os("SPOKE_NEUTRON_LAB") else {
        tests::skipped("Neutron's client", "there is no lab (make test-neutron)");
        return None;
    };
    let script = format!(". {}/env && env -0", Path::new(&directory).display());
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let pairs = text.split('\0').filter_map(|pair| pair.split_once('='));
    let lab = pairs.map(|(key, value)| (key.to_owned(), value.to_owned()));
    Some(lab.collect())
}

/// Who we are in the lab, as the environment says.
fn access(lab: &BTreeMap<String, String>) -> Access {
    Sources::default().read(&|name| lab.get(name).cloned()).unwrap().access
}

fn open(access: Access) -> (Neutron, TempDir) {
    let directory = tempdir().unwrap();
    (connect(access, directory.path()), directory)
}

/// The token that processes share, and where it is kept.
fn kept(directory: &TempDir) -> (std::path::PathBuf, Value) {
    let mut files =
        fs::read_dir(directory.path().join("cache")).unwrap().map(|it| it.unwrap().path());
    let path = files.find(|path| path.display().to_string().contains("/token-")).unwrap();
    let token = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    (path, token)
}

#[test]
fn makes_lists_and_removes() {
    let Some(lab) = lab() else { return };
    let (neutron, _directory) = open(access(&lab));
    let api = neutron.api();
    let name = format!("spoke-client-{}", std::process::id());
    let new = NewNetwork { name: name.clone(), admin_state_up: true, ..NewNetwork::default() };
    let network = api.create_network(&new).unwrap();
    let subnet = api
        .create_subnet(&NewSubnet {
            name: name.clone(),
            network_id: network.id.clone(),
            ip_version: 4,
            cidr: "10.213.7.0/29".parse().unwrap(),
            gateway_ip: None,
            subnetpool_id: None,
            enable_dhcp: false,
            allocation_pools: Vec::new(),
            description: "a client's test".to_owned(),
        })
        .unwrap();
    let fixed = |address: Option<&str>| NewPort {
        name: name.clone(),
        network_id: Some(network.id.clone()),
        fixed_ips: Some(vec![FixedIp {
            subnet_id: Some(subnet.id.clone()),
            ip_address: address.map(|address| address.parse().unwrap()),
        }]),
        admin_state_up: true,
        ..NewPort::default()
    };
    let mut ports: Vec<_> = (0..4).map(|_| api.create_port(&fixed(None)).unwrap()).collect();
    api.set_tags(Tagged::Ports, &ports[0].id, &["a:b".to_owned()]).unwrap();

    let filter = [("network_id", network.id.to_string()), ("limit", "1".to_owned())];
    assert_eq!(api.ports(&filter).unwrap().len(), 4, "pages are put together");
    let tagged = [("network_id", network.id.to_string()), ("tags", "a:b".to_owned())];
    assert_eq!(api.ports(&tagged).unwrap()[0].id, ports[0].id);

    let taken = ports[0].fixed_ips[0].ip_address.unwrap().to_string();
    let error = api.create_port(&fixed(Some(&taken))).unwrap_err();
    assert_eq!((error.kind(), error.status()), (Kind::Conflict, Some(409)), "{error}");
    assert!(error.to_string().contains("IpAddressAlreadyAllocated"), "{error}");
    assert!(error.to_string().contains("(req-"), "{error}");
    let error = api.create_port(&fixed(Some("10.9.9.9"))).unwrap_err();
    assert_eq!((error.kind(), error.status()), (Kind::Invalid, Some(400)), "{error}");
    ports.push(api.create_port(&fixed(None)).unwrap());
    let error = api.create_port(&fixed(None)).unwrap_err();
    assert_eq!((error.kind(), error.status()), (Kind::Exhausted, Some(409)), "{error}");
    let error = api.delete_network(&network.id).unwrap_err();
    assert_eq!(error.kind(), Kind::Conflict, "{error}");

    ports.iter().for_each(|port| api.delete_port(&port.id).unwrap());
    api.delete_port(&ports[0].id).unwrap();
    assert!(api.port(&ports[0].id).unwrap().is_none());
    api.delete_subnet(&subnet.id).unwrap();
    api.delete_network(&network.id).unwrap();
}

#[test]
fn a_token_that_neutron_does_not_take_is_renewed() {
    let Some(lab) = lab() else { return };
    let (neutron, directory) = open(access(&lab));
    neutron.api().networks(&[]).unwrap();
    let (path, mut token) = kept(&directory);
    token["token"] = json!("gAAAAABstale");
    fs::write(&path, token.to_string()).unwrap();
    let next = connect(access(&lab), directory.path());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| next.api().networks(&[]).unwrap());
        }
    });
    assert_ne!(kept(&directory).1["token"], token["token"]);
}

#[test]
fn signs_on_with_a_token_or_an_application_credential() {
    let Some(lab) = lab() else { return };
    let (neutron, directory) = open(access(&lab));
    neutron.api().networks(&[]).unwrap();
    let token = kept(&directory).1["token"].as_str().unwrap().to_owned();
    let url = lab["OS_AUTH_URL"].clone();
    let as_token = |project| {
        let identity = Identity::Token { url: url.clone(), token: token.clone(), project };
        open(Access { identity, ..access(&lab) })
    };
    as_token(None).0.api().networks(&[]).unwrap();

    let shown = keystone("GET", &format!("{url}/auth/tokens"), &token, None);
    let user = shown["token"]["user"]["id"].as_str().unwrap().to_owned();
    let name = format!("spoke-client-{}", std::process::id());
    let credentials = format!("{url}/users/{user}/application_credentials");
    let wanted = json!({"application_credential": {"name": name, "secret": "tested"}});
    let made = keystone("POST", &credentials, &token, Some(wanted));
    let id = made["application_credential"]["id"].as_str().unwrap().to_owned();
    let outcome = {
        let credential = Credential::Id(id.clone());
        let identity =
            Identity::Application { url: url.clone(), credential, secret: "tested".to_owned() };
        open(Access { identity, ..access(&lab) }).0.api().networks(&[])
    };
    keystone("DELETE", &format!("{credentials}/{id}"), &token, None);
    outcome.unwrap();
}

#[test]
fn says_what_is_wrong_with_the_settings() {
    let Some(lab) = lab() else { return };
    let region = Access { region: Some("Nowhere".to_owned()), ..access(&lab) };
    let error = open(region).0.api().networks(&[]).unwrap_err();
    assert!(error.kind() == Kind::Invalid && error.to_string().contains("RegionOne"), "{error}");
    let mut other = lab.clone();
    other.insert("OS_PASSWORD".to_owned(), "wrong horse".to_owned());
    let error = open(access(&other)).0.api().networks(&[]).unwrap_err();
    assert_eq!((error.kind(), error.status()), (Kind::Denied, Some(401)), "{error}");
    assert!(!error.to_string().contains("horse"), "{error}");
}

fn keystone(method: &str, url: &str, token: &str, body: Option<Value>) -> Value {
    let request = ureq::http::Request::builder()
        .method(method)
        .uri(url)
        .header("x-auth-token", token)
        .header("x-subject-token", token)
        .header("content-type", "application/json");
    let mut answer = match body {
        Some(body) => ureq::run(request.body(body.to_string()).unwrap()),
        None => ureq::run(request.body(()).unwrap()),
    }
    .unwrap();
    let text = answer.body_mut().read_to_string().unwrap();
    serde_json::from_str(&text).unwrap_or_default()
}
