//! The plugin over TCP: its certificates, and the file by which a Docker Engine finds it.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use config::{SpecConfig, TcpConfig};
use docker::server::{Pem, Tls};
use model::{Error, Result};
use serde::Serialize;

/// A larger file holds no certificates.
const LARGEST: u64 = 1 << 20;

/// The file; removed when dropped, because an engine waits fifteen seconds for a plugin that is
/// announced and does not answer.
#[derive(Debug)]
pub(super) struct Spec {
    path: PathBuf,
}

/// Docker's plugin discovery, `.json`.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Announcement<'a> {
    name: &'a str,
    addr: String,
    #[serde(rename = "TLSConfig")]
    tls: TlsFiles<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct TlsFiles<'a> {
    insecure_skip_verify: bool,
    #[serde(rename = "CAFile")]
    ca: &'a Path,
    #[serde(rename = "CertFile")]
    certificate: &'a Path,
    #[serde(rename = "KeyFile")]
    key: &'a Path,
}

/// Our side of TLS, as the configuration's files say.
pub(super) fn tls(tcp: &TcpConfig) -> Result<Tls> {
    Tls::mutual(&Pem {
        certificates: read(&tcp.certificate)?,
        key: read(&tcp.key)?,
        client_authorities: read(&tcp.client_ca)?,
    })
}

fn read(path: &Path) -> Result<Vec<u8>> {
    file::read(path, LARGEST)
        .map_err(|cause| file::failed(format!("reading {}", path.display()), cause))
}

impl Spec {
    /// Announces the plugin with its certificates.
    pub(super) fn write(spec: &SpecConfig, tcp: &TcpConfig) -> Result<Self> {
        let text = serde_json::to_vec_pretty(&announcement(spec, tcp));
        Self::put(&spec.path, text)
    }

    /// Announces a plugin that listens without protection: its address alone (`.spec`), or with its
    /// name (`.json`).
    pub(super) fn plain(path: &Path, address: SocketAddr) -> Result<Self> {
        let addr = format!("http://{address}");
        if path.extension().is_some_and(|end| end == "spec") {
            return Self::put(path, Ok(addr.into_bytes()));
        }
        #[derive(Serialize)]
        #[serde(rename_all = "PascalCase")]
        struct Plain<'a> {
            name: &'a str,
            addr: String,
        }
        Self::put(path, serde_json::to_vec_pretty(&Plain { name: name(path), addr }))
    }

    fn put(path: &Path, text: serde_json::Result<Vec<u8>>) -> Result<Self> {
        let doing = || format!("writing {}", path.display());
        let text = text.map_err(|cause| Error::bug(doing()).because(cause))?;
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(|cause| Error::os(doing(), cause))?;
        }
        let new = path.with_extension("new");
        let written = file::replace_with_mode(path, &new, &text, 0o644);
        written.map_err(|cause| Error::os(doing(), cause))?;
        Ok(Self { path: path.to_owned() })
    }
}

/// Docker's name of a plugin with this file.
fn name(path: &Path) -> &str {
    path.file_stem().and_then(|stem| stem.to_str()).unwrap_or("spoke")
}

impl Drop for Spec {
    fn drop(&mut self) {
        // The next daemon replaces it.
        let _ = fs::remove_file(&self.path);
    }
}

fn announcement<'a>(spec: &'a SpecConfig, tcp: &TcpConfig) -> Announcement<'a> {
    let host = match &spec.host {
        Some(host) => format!("{host}:{}", tcp.listen.port()),
        None => tcp.listen.to_string(),
    };
    Announcement {
        name: name(&spec.path),
        addr: format!("https://{host}"),
        tls: TlsFiles {
            insecure_skip_verify: false,
            ca: &spec.ca,
            certificate: &spec.certificate,
            key: &spec.key,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn docker_reads_this() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("plugins/net.json");
        let spec = SpecConfig {
            path: path.clone(),
            ca: "/ca.pem".into(),
            certificate: "/c.pem".into(),
            key: "/k.pem".into(),
            host: Some("node1".to_owned()),
        };
        let tcp = TcpConfig {
            listen: "10.0.0.1:7000".parse().unwrap(),
            certificate: "/x".into(),
            key: "/y".into(),
            client_ca: "/z".into(),
            spec: None,
        };
        let written = Spec::write(&spec, &tcp).unwrap();
        let json: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        assert_eq!(
            json,
            serde_json::json!({
                "Name": "net", "Addr": "https://node1:7000",
                "TLSConfig": {"InsecureSkipVerify": false, "CAFile": "/ca.pem",
                              "CertFile": "/c.pem", "KeyFile": "/k.pem"}
            })
        );
        drop(written);
        assert!(!path.exists());
    }
    #[test]
    fn docker_finds_what_listens_without_protection() {
        let directory = tempfile::tempdir().unwrap();
        let address = "127.0.0.1:23750".parse().unwrap();
        let reported = |file: &str| {
            let path = directory.path().join(file);
            let _spec = Spec::plain(&path, address).unwrap();
            fs::read_to_string(&path).unwrap()
        };
        assert_eq!(reported("kuryr/kuryr.spec"), "http://127.0.0.1:23750");
        let json: serde_json::Value = serde_json::from_str(&reported("kuryr.json")).unwrap();
        let expected = serde_json::json!({"Name": "kuryr", "Addr": "http://127.0.0.1:23750"});
        assert_eq!(json, expected);
    }
}
