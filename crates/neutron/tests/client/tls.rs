//! Certificates: whose are taken, and what is reported otherwise.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use neutron::config::{Access, Identity};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use tempfile::tempdir;

use super::connect;

/// A server at 127.0.0.1 that lists no ports; its address and its certificate.
fn server() -> (String, String) {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let (config, listener) = (Arc::new(config), TcpListener::bind("127.0.0.1:0").unwrap());
    let url = format!("https://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = StreamOwned::new(connection, stream.unwrap());
            let mut seen = Vec::new();
            let mut some = [0; 4096];
            while let Ok(read @ 1..) = stream.read(&mut some) {
                seen.extend_from_slice(&some[..read]);
                if seen.ends_with(b"\r\n\r\n") {
                    seen.clear();
                    let answer = b"HTTP/1.1 200 X\r\ncontent-length: 13\r\n\r\n{\"ports\": []}";
                    stream.write_all(answer).unwrap_or(());
                    stream.flush().unwrap_or(());
                }
            }
        }
    });
    (url, made.cert.pem())
}

#[test]
fn takes_whom_the_settings_trust() {
    let directory = tempdir().unwrap();
    let (url, pem) = server();
    let cafile = directory.path().join("ca.pem");
    fs::write(&cafile, pem).unwrap();
    let access = Access {
        endpoint: Some(url.clone()),
        timeout: Duration::from_secs(10),
        ..Access::of(Identity::None { project: None })
    };
    let list = |access: Access| connect(access, directory.path()).api().ports(&[]);
    list(Access { authorities: Some(cafile.clone()), ..access.clone() }).unwrap();
    list(Access { insecure: true, ..access.clone() }).unwrap();

    let error = list(access.clone()).unwrap_err().to_string();
    let is_reported = error.contains("cafile") || error.contains("trusts no certificate authority");
    assert!(is_reported, "{error}");
    fs::write(&cafile, "no certificate").unwrap();
    let error = list(Access { authorities: Some(cafile), ..access }).unwrap_err().to_string();
    assert!(error.contains("no certificate in PEM"), "{error}");
}
