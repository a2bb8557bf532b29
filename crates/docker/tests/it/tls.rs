//! TCP with certificates on both sides.

use std::io::BufReader;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use docker::server::{Limits, Listener, Pem, Tls};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion,
};

use crate::plugin::{Client, LEAVE, Stand, endpoint};

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Authority {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

fn certified(authority: &Authority) -> (rcgen::Certificate, KeyPair) {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["spoke.test".to_owned()]).unwrap();
    (params.signed_by(&key, authority).unwrap(), key)
}

fn serve(authority: &Authority) -> (Stand, SocketAddr) {
    let (certificate, key) = certified(authority);
    let pem = Pem {
        certificates: certificate.pem().into_bytes(),
        key: key.serialize_pem().into_bytes(),
        client_authorities: authority.pem().into_bytes(),
    };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let tls = Listener::Tls(listener, Tls::mutual(&pem).unwrap());
    (Stand::with(Limits::default(), false, vec![tls]), address)
}

fn connect(
    address: SocketAddr,
    trusted: &Authority,
    own: Option<(rcgen::Certificate, KeyPair)>,
    version: &'static SupportedProtocolVersion,
) -> Client<StreamOwned<ClientConnection, TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(trusted.der().to_vec())).unwrap();
    let builder =
        ClientConfig::builder_with_provider(rustls::crypto::ring::default_provider().into())
            .with_protocol_versions(&[version])
            .unwrap()
            .with_root_certificates(roots);
    let config = match own {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
            builder.with_client_auth_cert(vec![certificate.der().clone()], key).unwrap()
        }
    };
    let name = ServerName::try_from("spoke.test").unwrap();
    let connection = ClientConnection::new(Arc::new(config), name).unwrap();
    let stream = TcpStream::connect(address).unwrap();
    Client(BufReader::new(StreamOwned::new(connection, stream)))
}

#[test]
fn engines_with_our_certificate_are_served() {
    let authority = authority();
    let (stand, address) = serve(&authority);
    for version in [&rustls::version::TLS13, &rustls::version::TLS12] {
        let mut client = connect(address, &authority, Some(certified(&authority)), version);
        assert_eq!(client.post("Plugin.Activate", "").status, 200);
        assert_eq!(client.post(LEAVE, &endpoint("a")).status, 200);
    }
    assert_eq!(stand.recorder.change(|seen| seen.ended), 2);
}

#[test]
fn all_others_are_not() {
    let ours = authority();
    let theirs = authority();
    let (stand, address) = serve(&ours);
    let mut refused = 0;
    for version in [&rustls::version::TLS13, &rustls::version::TLS12] {
        for own in [None, Some(certified(&theirs))] {
            let mut client = connect(address, &ours, own, version);
            let sent = client.send(crate::plugin::request(LEAVE, &endpoint("a")));
            assert!(sent.is_err() || client.try_receive().is_err());
            refused += 1;
            stand.recorder.wait(|seen| seen.troubles.len() == refused);
        }
    }
    let mut plain = Client(BufReader::new(TcpStream::connect(address).unwrap()));
    plain.send(crate::plugin::request(LEAVE, &endpoint("a"))).unwrap();
    stand.recorder.wait(|seen| seen.troubles.len() == refused + 1);
    stand.recorder.change(|seen| {
        assert_eq!(seen.begun, 0);
        assert!(seen.troubles.iter().all(|what| what.starts_with("a TLS handshake failed")));
    });
    assert_eq!(stand.connect().post(LEAVE, &endpoint("b")).status, 200);
}

#[test]
fn unusable_certificates_are_named() {
    let authority = authority();
    let (certificate, key) = certified(&authority);
    let good = Pem {
        certificates: certificate.pem().into_bytes(),
        key: key.serialize_pem().into_bytes(),
        client_authorities: authority.pem().into_bytes(),
    };
    let error = |pem: Pem| Tls::mutual(&pem).unwrap_err().to_string();
    let nothing = Vec::new;
    assert_eq!(
        error(Pem { certificates: nothing(), ..good.clone() }),
        "the TLS certificate holds no certificate"
    );
    assert!(
        error(Pem { key: nothing(), ..good.clone() }).starts_with("the TLS key cannot be read")
    );
    assert_eq!(
        error(Pem { client_authorities: nothing(), ..good.clone() }),
        "the TLS authority for clients holds no certificate"
    );
    let other = KeyPair::generate().unwrap().serialize_pem().into_bytes();
    assert!(
        error(Pem { key: other, ..good }).starts_with("the TLS certificate and key do not fit")
    );
}
