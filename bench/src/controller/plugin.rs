//! A network plugin that answers at once: whatever it is to hand over was made beforehand.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{JoinHandle, spawn};

use model::{Error, Result};
use serde_json::{Value, json};

/// What its endpoints have; the network's only gateway.
pub(super) const GATEWAY: &str = "10.80.0.1";

/// The plugin, until it is dropped; its socket stays where it is, as after a kill.
pub(super) struct Plugin {
    socket: PathBuf,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

/// The interfaces that are in no sandbox, and those that are, by endpoint.
#[derive(Debug, Default)]
struct Interfaces {
    ready: Vec<String>,
    joined: BTreeMap<String, String>,
}

impl Plugin {
    /// Serves below `dir`, with these interfaces of its host.
    pub(super) fn serve(dir: &Path, name: &str, ready: Vec<String>) -> Result<Self> {
        let socket = dir.join(format!("{name}.sock"));
        let listener = UnixListener::bind(&socket)
            .map_err(|error| Error::os(format!("listening on {}", socket.display()), error))?;
        let stop = Arc::new(AtomicBool::new(false));
        let at_once = ready.len();
        let interfaces = Arc::new(Mutex::new(Interfaces { ready, joined: BTreeMap::new() }));
        let listener = Arc::new(listener);
        // No client waits until a thread has started for it.
        let serve = || {
            let (listener, reported) = (Arc::clone(&listener), Arc::clone(&stop));
            let interfaces = Arc::clone(&interfaces);
            spawn(move || {
                for stream in listener.incoming() {
                    if reported.load(Ordering::Acquire) {
                        return;
                    }
                    if let Ok(stream) = stream {
                        converse(&stream, &interfaces);
                    }
                }
            })
        };
        let threads = (0..=at_once).map(|_| serve()).collect();
        Ok(Self { socket, stop, threads })
    }
}

impl Drop for Plugin {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        for _ in &self.threads {
            let _ = UnixStream::connect(&self.socket);
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// One request after the other, until there are no more.
fn converse(stream: &UnixStream, interfaces: &Mutex<Interfaces>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut writer = stream;
    loop {
        let (path, body) = request(&mut reader)?;
        let answer = answer(&path, &body, interfaces).to_string();
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", answer.len());
        writer.write_all((head + &answer).as_bytes()).ok()?;
    }
}

/// The path and the body of the next one.
fn request(reader: &mut impl BufRead) -> Option<(String, Value)> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|length| *length > 0)?;
    let path = line.split_whitespace().nth(1)?.to_owned();
    let mut length = 0;
    loop {
        line.clear();
        reader.read_line(&mut line).ok().filter(|length| *length > 0)?;
        let Some((name, value)) = line.split_once(':') else { break };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((path, serde_json::from_slice(&body).unwrap_or_default()))
}

fn answer(path: &str, body: &Value, interfaces: &Mutex<Interfaces>) -> Value {
    let endpoint = || body["EndpointID"].as_str().unwrap_or_default().to_owned();
    let mut known = interfaces.lock().unwrap_or_else(PoisonError::into_inner);
    match path {
        "/Plugin.Activate" => json!({ "Implements": ["NetworkDriver"] }),
        "/NetworkDriver.GetCapabilities" => json!({ "Scope": "local" }),
        "/NetworkDriver.EndpointOperInfo" => json!({ "Value": {} }),
        "/NetworkDriver.Join" => {
            let endpoint = endpoint();
            let Some(name) = known.joined.get(&endpoint).cloned().or_else(|| known.ready.pop())
            else {
                return json!({ "Err": "no interface is ready" });
            };
            known.joined.insert(endpoint, name.clone());
            let moved = json!({ "SrcName": name, "DstPrefix": "eth" });
            json!({ "InterfaceName": moved, "Gateway": GATEWAY })
        }
        "/NetworkDriver.DeleteEndpoint" => {
            // By now it is back.
            if let Some(name) = known.joined.remove(&endpoint()) {
                known.ready.push(name);
            }
            json!({})
        }
        _ => json!({}),
    }
}
