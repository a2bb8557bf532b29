//! The registry's answers.

use super::book::Book;
use super::{Login, Seen};
use crate::http::Request;

/// The token that is given.
const TOKEN: &str = "a-token-of-the-test";

#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: Vec<u8>,
}

impl Reply {
    pub(super) fn new(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: Vec::new() }
    }

    pub(super) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub(super) fn body(mut self, body: &[u8]) -> Self {
        self.body = body.to_vec();
        self
    }

    /// As it goes over the wire; `is_head` without its body.
    pub(super) fn bytes(&self, is_head: bool) -> Vec<u8> {
        let mut head =
            format!("HTTP/1.1 {} Test\r\nContent-Length: {}\r\n", self.status, self.body.len());
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        let body: &[u8] = if is_head { &[] } else { &self.body };
        [head.as_bytes(), body].concat()
    }
}

pub(super) fn seen(request: &Request) -> Seen {
    Seen {
        method: request.method.clone(),
        target: request.target.clone(),
        authorization: header(request, "authorization").map(ToOwned::to_owned),
        body: String::from_utf8_lossy(&request.body).into_owned(),
    }
}

pub(super) fn answer(book: &mut Book, request: &Request) -> Reply {
    let path = request.target.split('?').next().unwrap_or_default();
    if path == "/token" {
        return token(book, request);
    }
    let Some(rest) = path.strip_prefix("/v2/") else {
        return match book.pages.get(path) {
            Some(page) => Reply::new(200).body(page),
            None => Reply::new(404).body(b"no such page"),
        };
    };
    if let Some(refusal) = refused(book, request) {
        return refusal;
    }
    if rest.is_empty() {
        return Reply::new(200).body(b"{}");
    }
    for (kind, act) in [
        ("/manifests/", manifest as fn(&mut Book, &Request, &str, &str) -> Reply),
        ("/blobs/uploads/", upload),
        ("/blobs/", blob),
    ] {
        if let Some((repository, name)) = rest.split_once(kind) {
            return act(book, request, repository, name);
        }
    }
    Reply::new(404)
}

fn refused(book: &Book, request: &Request) -> Option<Reply> {
    let reported = header(request, "authorization");
    match &book.login {
        Login::Anybody => None,
        Login::Basic(name, password) => {
            let is_right = reported.is_some_and(|reported| reported == basic(name, password));
            (!is_right).then(|| Reply::new(401).with("WWW-Authenticate", "Basic realm=\"test\""))
        }
        Login::Bearer(_) => {
            let is_right = reported.is_some_and(|reported| reported == format!("Bearer {TOKEN}"));
            let realm = format!(
                "Bearer realm=\"{}/token\",service=\"test\",scope=\"repository:x:pull,push\"",
                book.origin
            );
            (!is_right).then(|| Reply::new(401).with("WWW-Authenticate", realm))
        }
    }
}

fn token(book: &Book, request: &Request) -> Reply {
    let reported = header(request, "authorization");
    let is_right = match &book.login {
        Login::Bearer(Some((name, password))) => {
            reported.is_some_and(|reported| reported == basic(name, password))
                || String::from_utf8_lossy(&request.body)
                    .contains(&format!("refresh_token={password}"))
        }
        _ => true,
    };
    match is_right {
        true => Reply::new(200).body(format!("{{\"token\":\"{TOKEN}\"}}").as_bytes()),
        false => Reply::new(401).body(b"wrong password"),
    }
}

fn manifest(book: &mut Book, request: &Request, repository: &str, name: &str) -> Reply {
    if request.method == "PUT" {
        let kind = header(request, "content-type").unwrap_or_default();
        let digest = book.add_manifest(repository, name, kind, &request.body);
        let location = format!("/v2/{repository}/manifests/{digest}");
        return Reply::new(201).with("Docker-Content-Digest", digest).with("Location", location);
    }
    match book.manifest(repository, name) {
        Some((kind, bytes)) => Reply::new(200).with("Content-Type", kind).body(bytes),
        None => Reply::new(404).body(b"{\"errors\":[{\"code\":\"MANIFEST_UNKNOWN\"}]}"),
    }
}

fn blob(book: &mut Book, _: &Request, _: &str, digest: &str) -> Reply {
    match book.blob(digest) {
        Some(bytes) => Reply::new(200)
            .with("Content-Type", "application/octet-stream")
            .with("Docker-Content-Digest", digest)
            .body(bytes),
        None => Reply::new(404).body(b"{\"errors\":[{\"code\":\"BLOB_UNKNOWN\"}]}"),
    }
}

/// POST begins, PATCH adds, PUT ends with a digest.
fn upload(book: &mut Book, request: &Request, repository: &str, id: &str) -> Reply {
    if request.method == "POST" {
        let id = book.uploads.len().to_string();
        book.uploads.insert(id.clone(), Vec::new());
        return under_way(repository, &id, 0);
    }
    let Some(bytes) = book.uploads.get_mut(id) else { return Reply::new(404) };
    bytes.extend(&request.body);
    if request.method == "PATCH" {
        return under_way(repository, id, bytes.len());
    }
    let bytes = std::mem::take(bytes);
    let digest = book.add_blob(&bytes);
    let wanted = digest.replace(':', "%3A");
    match [&digest, &wanted].iter().any(|digest| request.target.contains(digest.as_str())) {
        true => Reply::new(201)
            .with("Location", format!("/v2/{repository}/blobs/{digest}"))
            .with("Docker-Content-Digest", digest),
        false => Reply::new(400).body(b"{\"errors\":[{\"code\":\"DIGEST_INVALID\"}]}"),
    }
}

fn under_way(repository: &str, id: &str, length: usize) -> Reply {
    Reply::new(202)
        .with("Location", format!("/v2/{repository}/blobs/uploads/{id}"))
        .with("Docker-Upload-UUID", id)
        .with("Range", format!("0-{}", length.saturating_sub(1)))
}

fn header<'a>(request: &'a Request, name: &str) -> Option<&'a str> {
    let found = request.headers.iter().find(|(key, _)| key == name);
    found.map(|(_, value)| value.as_str())
}

/// What an authorization of this name and password looks like (RFC 7617). Base64 by hand, so that the
/// product's is not tested with itself.
pub(crate) fn basic(name: &str, password: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = "Basic ".to_owned();
    for part in format!("{name}:{password}").as_bytes().chunks(3) {
        let bits = (0..3).fold(0_u32, |bits, at| {
            bits << 8 | u32::from(part.get(at).copied().unwrap_or_default())
        });
        for at in 0..4 {
            let digit = usize::try_from(bits >> (18 - 6 * at) & 63).unwrap();
            text.push(if at <= part.len() { char::from(DIGITS[digit]) } else { '=' });
        }
    }
    text
}
