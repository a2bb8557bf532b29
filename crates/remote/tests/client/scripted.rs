//! A plugin that does what the test says, also what no plugin should do.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use libnetwork::{Call, EndpointRef, Purpose, RequestAddress};
use model::DriverName;
use remote::discover::PluginDirectories;
use remote::plugins::Plugins;
use tempfile::TempDir;

/// What happens to a request.
#[derive(Clone)]
pub(crate) enum Act {
    /// Status and body, as they should be.
    Say(u16, &'static str),
    /// These bytes, and the end of the connection.
    Raw(Vec<u8>),
    /// One byte of these at a time.
    Slow(&'static [u8], Duration),
    /// The end of the connection.
    Close,
    /// The end of the connection, before anything was read.
    Hang,
}

type Script = dyn Fn(&str, usize) -> Act + Send + Sync;

/// What came: the method and the body.
pub(crate) type Heard = Arc<Mutex<Vec<(String, String)>>>;

/// Directories for plugins.
pub(crate) struct Scene {
    pub(crate) folder: TempDir,
    pub(crate) heard: Heard,
}

pub(crate) const MANIFEST: &str = r#"{"Implements":["NetworkDriver","IpamDriver"]}"#;

/// What a plugin says when it is activated.
pub(crate) fn usual(method: &str) -> Option<Act> {
    Some(Act::Say(
        200,
        match method {
            "Plugin.Activate" => MANIFEST,
            "NetworkDriver.GetCapabilities" => r#"{"Scope":"local"}"#,
            "IpamDriver.GetCapabilities" => r#"{"RequiresMACAddress":true}"#,
            "IpamDriver.GetDefaultAddressSpaces" => r#"{"LocalDefaultAddressSpace":"here"}"#,
            _ => return None,
        },
    ))
}

impl Scene {
    pub(crate) fn new() -> Self {
        let folder = TempDir::new().unwrap();
        for name in ["run", "etc", "lib"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        Self { folder, heard: Heard::default() }
    }

    /// A plugin `p` on a socket; `script` gets the method and how often it came before.
    pub(crate) fn with(script: impl Fn(&str, usize) -> Act + Send + Sync + 'static) -> Self {
        let scene = Self::new();
        scene.serve(script);
        scene
    }

    /// The script is asked only about what is not usual.
    pub(crate) fn serve(&self, script: impl Fn(&str, usize) -> Act + Send + Sync + 'static) {
        self.serve_all(move |method, before| {
            usual(method).unwrap_or_else(|| script(method, before))
        });
    }

    pub(crate) fn serve_all(&self, script: impl Fn(&str, usize) -> Act + Send + Sync + 'static) {
        let socket = self.socket();
        let _ = std::fs::remove_file(&socket);
        let listener = UnixListener::bind(socket).unwrap();
        let (heard, script) = (Arc::clone(&self.heard), Arc::new(script));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (heard, script) = (Arc::clone(&heard), Arc::clone(&script));
                thread::spawn(move || answer(stream.unwrap(), &heard, &*script));
            }
        });
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.at("run/p.sock")
    }

    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    pub(crate) fn places(&self) -> PluginDirectories {
        PluginDirectories {
            sockets: vec![self.at("run")],
            descriptions: vec![self.at("etc"), self.at("lib")],
        }
    }

    pub(crate) fn plugins(&self, timeout: Duration) -> Plugins {
        Plugins::new(self.places(), timeout)
    }

    /// The same of another process, as far as this one can show it.
    pub(crate) fn process(&self) -> Plugins {
        self.plugins(Duration::from_secs(20)).noting(self.at("notes"))
    }

    /// How often a method came.
    pub(crate) fn count(&self, method: &str) -> usize {
        self.heard.lock().unwrap().iter().filter(|(heard, _)| heard == method).count()
    }

    /// The bodies that came with a method.
    pub(crate) fn bodies(&self, method: &str) -> Vec<String> {
        let heard = self.heard.lock().unwrap();
        heard.iter().filter(|(heard, _)| heard == method).map(|(_, body)| body.clone()).collect()
    }
}

fn answer(mut stream: UnixStream, heard: &Heard, script: &Script) {
    let mut from = BufReader::new(stream.try_clone().unwrap());
    let Some((method, body)) = request(&mut from) else { return };
    let before = {
        let mut heard = heard.lock().unwrap();
        heard.push((method.clone(), body));
        heard.iter().filter(|(other, _)| *other == method).count() - 1
    };
    let bytes = match script(&method, before) {
        Act::Say(status, body) => said(status, body),
        Act::Raw(bytes) => bytes,
        Act::Close => return,
        Act::Hang => {
            // Until the other end is gone.
            let _ = from.read(&mut [0]);
            return;
        }
        Act::Slow(bytes, pause) => {
            for byte in bytes {
                thread::sleep(pause);
                if stream.write_all(&[*byte]).is_err() {
                    return;
                }
            }
            return;
        }
    };
    let _ = stream.write_all(&bytes);
}

pub(crate) fn said(status: u16, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

pub(crate) fn request(from: &mut impl BufRead) -> Option<(String, String)> {
    let (head, body) = head_and_body(from)?;
    Some((method_of(&head).to_owned(), body))
}

pub(crate) fn head_and_body(from: &mut impl BufRead) -> Option<(String, String)> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if from.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
    let mut body = vec![0; length.unwrap().parse().unwrap()];
    from.read_exact(&mut body).ok()?;
    Some((head, String::from_utf8(body).unwrap()))
}

pub(crate) fn method_of(head: &str) -> &str {
    head.strip_prefix("POST /").unwrap().split(' ').next().unwrap()
}

pub(crate) fn p() -> DriverName {
    "p".parse().unwrap()
}

pub(crate) fn leave() -> Call {
    Call::Leave(at())
}

pub(crate) fn at() -> EndpointRef {
    EndpointRef { network: "n".parse().unwrap(), endpoint: "e".parse().unwrap() }
}

pub(crate) fn any_address() -> Call {
    Call::RequestAddress(RequestAddress {
        pool: "pool".parse().unwrap(),
        address: None,
        purpose: Purpose::Endpoint,
        mac: None,
        endpoint: None,
        serial: false,
    })
}

/// A socket's file on which no process listens any more.
pub(crate) fn dead_socket(path: &Path) {
    let _ = std::fs::remove_file(path);
    drop(UnixListener::bind(path).unwrap());
}
