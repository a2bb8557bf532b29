//! A server of a few lines that answers as the test says.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// What came.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    /// `GET /v2.0/ports?name=x`
    pub(crate) line: String,
    /// In small letters: `x-auth-token: t`.
    pub(crate) headers: Vec<String>,
    pub(crate) body: String,
    /// Which connection, from 0 on.
    pub(crate) connection: usize,
}

impl Call {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let start = format!("{name}: ");
        self.headers.iter().find_map(|line| line.strip_prefix(&start))
    }
}

/// What is sent back: as it is, or nothing but the end of the connection.
pub(crate) enum Reply {
    Raw(Vec<u8>),
    /// That, and then the end of the connection.
    Half(Vec<u8>),
    Cut,
}

pub(crate) fn json(status: u16, headers: &[&str], body: &str) -> Reply {
    let mut text = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n", body.len());
    for header in headers {
        text.push_str(header);
        text.push_str("\r\n");
    }
    Reply::Raw(format!("{text}\r\n{body}").into_bytes())
}

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    calls: Arc<Mutex<Vec<Call>>>,
}

impl Server {
    /// Answers each call with what `answer` makes of it and its number, from 0 on.
    pub(crate) fn new(answer: impl Fn(&Call, usize) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let calls = Arc::new(Mutex::new(Vec::new()));
        let (seen, answer, count) = (Arc::clone(&calls), Arc::new(answer), AtomicUsize::new(0));
        let count = Arc::new(count);
        std::thread::spawn(move || {
            for (number, stream) in listener.incoming().enumerate() {
                let (seen, answer, count) =
                    (Arc::clone(&seen), Arc::clone(&answer), Arc::clone(&count));
                std::thread::spawn(move || {
                    let mut stream = BufReader::new(stream.unwrap());
                    while let Some(call) = read(&mut stream, number) {
                        let nth = count.fetch_add(1, Ordering::SeqCst);
                        seen.lock().unwrap().push(call.clone());
                        match answer(&call, nth) {
                            Reply::Raw(bytes) => stream.get_mut().write_all(&bytes).unwrap_or(()),
                            Reply::Half(bytes) => {
                                return stream.get_mut().write_all(&bytes).unwrap_or(());
                            }
                            Reply::Cut => return,
                        }
                    }
                });
            }
        });
        Self { address, calls }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn calls(&self) -> Vec<Call> {
        self.calls.lock().unwrap().clone()
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.calls().into_iter().map(|call| call.line).collect()
    }
}

fn read(stream: &mut BufReader<TcpStream>, connection: usize) -> Option<Call> {
    let mut line = String::new();
    stream.read_line(&mut line).ok().filter(|read| *read > 0)?;
    let mut headers = Vec::new();
    loop {
        let mut header = String::new();
        stream.read_line(&mut header).ok()?;
        match header.trim() {
            "" => break,
            header => {
                let (name, value) = header.split_once(':').unwrap();
                headers.push(format!("{}: {}", name.to_ascii_lowercase(), value.trim()));
            }
        }
    }
    let line = line.trim().trim_end_matches(" HTTP/1.1").to_owned();
    let mut call = Call { line, headers, body: String::new(), connection };
    let length = call.header("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    call.body = String::from_utf8(body).unwrap();
    Some(call)
}
