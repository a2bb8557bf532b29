//! Our own server's plugins, over every kind of socket.

use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use docker::server::{Answered, Limits, Listener, Observe, Pem, Plugin, Server, Stopper, Tls};
use libnetwork::{
    AddressSpaces, Answer, Call, IpamCapabilities, Method, NetworkCapabilities, Profile, Scope,
};
use model::{Error, Kind};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use remote::calls::{Calls, Fate};

use crate::scripted::{Scene, any_address, leave, p};

const TIMEOUT: Duration = Duration::from_secs(20);

struct Echo {
    profile: Profile,
}

impl Echo {
    fn new() -> Self {
        let (scope, connectivity) = (Scope::Local, Scope::Global);
        let network = NetworkCapabilities { scope, connectivity, checks_gateways: true };
        let ipam = IpamCapabilities { requires_mac: true, requires_replay: false };
        let spaces =
            AddressSpaces { local: "here".parse().unwrap(), global: "there".parse().unwrap() };
        let profile = Profile { network: Some(network), ipam: Some(ipam), spaces: Some(spaces) };
        Self { profile }
    }
}

impl Plugin for Echo {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn call(&self, call: Call) -> model::Result<Answer> {
        match call.method() {
            Method::Leave => Ok(Answer::Done {}),
            _ => Err(Error::exhausted("no available IPv4 addresses on this pool")),
        }
    }
}

struct Silent;

impl Observe for Silent {
    fn answered(&self, _: &Answered<'_>) {}
    fn trouble(&self, _: &str) {}
}

struct Served {
    stopper: Stopper,
    running: Option<JoinHandle<model::Result<()>>>,
}

impl Served {
    fn on(listener: Listener) -> Self {
        let plugin = Arc::new(Echo::new());
        let (observe, limits) = (Arc::new(Silent), Limits::default());
        let server = Server { plugin, observe, limits, in_flight: None };
        let (stopper, stop) = Stopper::pair();
        let running = Some(std::thread::spawn(move || server.run(vec![listener], stop)));
        Self { stopper, running }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stopper.stop();
        self.running.take().unwrap().join().unwrap().unwrap();
    }
}

fn is_called(scene: &Scene) {
    let plugins = scene.plugins(TIMEOUT);
    assert_eq!(*plugins.profile(&p()).unwrap(), Echo::new().profile);
    assert_eq!(plugins.call(&p(), &leave()).unwrap(), Answer::Done {});
    let failed = plugins.call(&p(), &any_address()).unwrap_err();
    assert_eq!((failed.kind(), failed.fate), (Kind::Exhausted, Fate::Refused), "{failed}");
}

#[test]
fn over_a_unix_socket() {
    let scene = Scene::new();
    let _served = Served::on(Listener::Unix(UnixListener::bind(scene.socket()).unwrap()));
    is_called(&scene);
}

#[test]
fn over_tcp() {
    let scene = Scene::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("tcp://localhost:{}\n", listener.local_addr().unwrap().port());
    std::fs::write(scene.at("lib/p.spec"), url).unwrap();
    let _served = Served::on(Listener::Tcp(listener));
    is_called(&scene);
}

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Authority {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// A server with a certificate of `authority` for `localhost`, and our own beside it.
fn over_tls(scene: &Scene, authority: &Authority) -> (Served, SocketAddr) {
    let certified = |name: &str| {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        (params.signed_by(&key, authority).unwrap().pem(), key.serialize_pem())
    };
    let (certificate, key) = certified("localhost");
    let pem = Pem {
        certificates: certificate.into_bytes(),
        key: key.into_bytes(),
        client_authorities: authority.pem().into_bytes(),
    };
    let (certificate, key) = certified("engine");
    std::fs::write(scene.at("cert.pem"), certificate).unwrap();
    std::fs::write(scene.at("key.pem"), key).unwrap();
    std::fs::write(scene.at("ca.pem"), authority.pem()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (Served::on(Listener::Tls(listener, Tls::mutual(&pem).unwrap())), address)
}

fn describe(scene: &Scene, address: &str, tls: &serde_json::Value) {
    let description = serde_json::json!({ "Name": "p", "Addr": address, "TLSConfig": tls });
    std::fs::write(scene.at("etc/p.json"), description.to_string()).unwrap();
}

#[test]
fn over_tls_with_certificates_on_both_sides() {
    let scene = Scene::new();
    let (_served, address) = over_tls(&scene, &authority());
    let url = format!("https://localhost:{}", address.port());
    let files = serde_json::json!({
        "CAFile": scene.at("ca.pem"),
        "CertFile": scene.at("cert.pem"),
        "KeyFile": scene.at("key.pem"),
    });
    describe(&scene, &url, &files);
    is_called(&scene);
    assert!(scene.plugins(TIMEOUT).find(&p()).unwrap().warnings.is_empty());
}

#[test]
fn over_tls_with_anybody_where_the_description_says_so() {
    let scene = Scene::new();
    let (_served, address) = over_tls(&scene, &authority());
    for skip in [true, false] {
        let files = serde_json::json!({
            "InsecureSkipVerify": skip,
            "CertFile": scene.at("cert.pem"),
            "KeyFile": scene.at("key.pem"),
        });
        describe(&scene, &format!("https://{address}"), &files);
        is_called(&scene);
        assert_eq!(scene.plugins(TIMEOUT).find(&p()).unwrap().warnings.len(), 1);
    }
}

#[test]
fn the_untrusted_get_no_request() {
    let scene = Scene::new();
    let (_served, address) = over_tls(&scene, &authority());
    let fails = |files: &serde_json::Value, name: &str| {
        describe(&scene, &format!("https://{name}:{}", address.port()), files);
        let failed = scene.plugins(TIMEOUT).call(&p(), &leave()).unwrap_err();
        assert_eq!((failed.kind(), failed.fate), (Kind::Invalid, Fate::Unsent), "{failed}");
        failed.to_string()
    };
    let (certificate, key) = (scene.at("cert.pem"), scene.at("key.pem"));
    let ours = |ca: &str| {
        let ca = scene.at(ca);
        serde_json::json!({ "CAFile": ca, "CertFile": certificate, "KeyFile": key })
    };
    // The server's certificate does not hold for this name, nor is it the other authority's.
    assert!(fails(&ours("ca.pem"), "127.0.0.1").contains("certificate"));
    std::fs::write(scene.at("other.pem"), authority().pem()).unwrap();
    assert!(fails(&ours("other.pem"), "localhost").contains("certificate"));
    // The server does not want to talk to us.
    let refused = serde_json::json!({ "CAFile": scene.at("ca.pem") });
    assert!(fails(&refused, "localhost").contains("does not answer"));
}
