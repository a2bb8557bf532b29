//! The page of a host with 500 containers: how long it takes over loopback, how large it is, and when a browser
//! shows it.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use model::{Error, Kind, Result};
use nix::unistd::Pid;
use serde_json::Value;

use super::{fill, spoke};
use crate::args::Args;
use crate::chain::Runtime;
use crate::execute::{bury, processor, program, succeed};
use crate::peers::Peers;
use crate::samples::Figure;
use crate::stats::{Book, Summary};
use crate::targets::{Verdict, at_most};
use crate::world::{Host, write};

const CONTAINERS: usize = 500;
const CASE: &str = "the page, 500 containers";
const FIRST: &str = "first byte";
const WHOLE: &str = "whole document";
const SPENT: &str = "the daemon's processor";
const SIZE: &str = "all that is loaded";
const SENT: &str = "the same, compressed";
const PAINT: &str = "first paint";
/// The view that is opened first, and the longest list.
const VIEWS: [(&str, &str); 2] = [("overview", "/"), ("containers", "/containers")];
/// What the documents load.
const PARTS: [&str; 3] = ["/style.css", "/page.js", "/icon.svg"];
const ADDRESS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 9180);
/// After this long the daemon describes its host anew: each turn finds what a new visitor finds.
const STALE: Duration = Duration::from_millis(5_200);
/// What does not answer after this long never does.
const TIMEOUT: Duration = Duration::from_secs(30);
const GLANCE: Duration = Duration::from_millis(20);
const CHROMIUM: &str = "/usr/bin/chromium";
const PAINTED: &str =
    concat!(include_str!("../../../tests/page/browser.py"), "\n\n", include_str!("paint.py"));

/// Measures.
pub(super) fn measure(peers: &Peers, args: &Args, book: &mut Book) -> Result<()> {
    let host = Host::new("live-page")?;
    let runtime = Runtime { host: &host, plugins: &peers.ours };
    fill(runtime, CONTAINERS)?;
    let daemon = Daemon::start(runtime)?;
    let done = fetched(&daemon, args, book).and_then(|()| painted(&daemon, args, book));
    drop(daemon);
    bury().and(done)
}

/// What it should not cost.
pub(super) fn targets(book: &Book) -> Vec<Verdict> {
    let overview = VIEWS[0].0;
    let of = |verb| book.sampled(CASE, verb, overview)?.summary();
    let what = |verb, unit| format!("{CASE}: {overview}, {verb}, {unit}");
    vec![
        at_most(what(PAINT, "ms"), 200.0, of(PAINT)),
        at_most(what(WHOLE, "ms"), 200.0, of(WHOLE)),
        at_most(what(SIZE, "kB"), 150.0, largest(book)),
    ]
}

/// Of all views.
fn largest(book: &Book) -> Option<Summary> {
    let sizes = VIEWS.iter().filter_map(|(who, _)| book.sampled(CASE, SIZE, who)?.summary());
    sizes.max_by(|one, other| one.median.total_cmp(&other.median))
}

/// By HTTP, each view after a pause.
fn fetched(daemon: &Daemon<'_>, args: &Args, book: &mut Book) -> Result<()> {
    let sizes = |gzip| -> Result<usize> {
        PARTS.iter().map(|part| Ok(daemon.fetch(part, gzip)?.size)).sum()
    };
    let parts = [sizes(false)?, sizes(true)?];
    for turn in 0..args.either(2, 5) {
        for (who, path) in VIEWS {
            sleep(STALE);
            let before = daemon.processor()?;
            let plain = daemon.fetch(path, false)?;
            let spent = daemon.processor()?.saturating_sub(before);
            let small = daemon.fetch(path, true)?;
            let ms = |time: Duration| time.as_secs_f64() * 1e3;
            let kb = |size: usize| size as f64 / 1e3;
            for (verb, unit, value) in [
                (FIRST, "ms", ms(plain.first)),
                (WHOLE, "ms", ms(plain.whole)),
                (SPENT, "ms", ms(spent)),
                (SIZE, "kB", kb(plain.size + parts[0])),
                (SENT, "kB", kb(small.size + parts[1])),
            ] {
                book.samples(Figure { case: CASE, verb, who, unit }).values.insert(turn, value);
            }
        }
    }
    Ok(())
}

/// By a browser, where there is one.
fn painted(daemon: &Daemon<'_>, args: &Args, book: &mut Book) -> Result<()> {
    if !Path::new(CHROMIUM).exists() {
        return Ok(());
    }
    let turns = args.either(2, 5).to_string();
    for (who, path) in VIEWS {
        let mut python = program("/usr/bin/python3");
        python.args(["-c", PAINTED, &format!("http://{ADDRESS}{path}"), &turns]);
        python.arg(STALE.as_secs_f64().to_string());
        let said = daemon.runtime.host.within(|| succeed(&mut python, ""))?.stdout;
        let times: Vec<f64> = serde_json::from_str::<Value>(&said)
            .ok()
            .and_then(|said| said.as_array()?.iter().map(Value::as_f64).collect())
            .ok_or_else(|| Error::bug(format!("the browser says {said:?}")))?;
        let place = Figure { case: CASE, verb: PAINT, who, unit: "ms" };
        book.samples(place).values.extend(times.into_iter().enumerate());
    }
    Ok(())
}

/// What one request brought.
struct Fetched {
    first: Duration,
    whole: Duration,
    /// Of the body, as it was sent.
    size: usize,
}

/// `spoke serve` with the page at a loopback address. It ends with this.
struct Daemon<'a> {
    runtime: Runtime<'a>,
    child: Child,
}

impl<'a> Daemon<'a> {
    fn start(runtime: Runtime<'a>) -> Result<Self> {
        let dir = &runtime.host.dir;
        let text = format!(
            "[store]\nruntime = {:?}\nstate = {:?}\n[docker]\nenabled = false\napi = []\n\
             [dhcp]\nenabled = false\n[metrics]\nenabled = false\n[events]\npath = {:?}\n\
             [web]\nlisten = \"{ADDRESS}\"\n",
            dir.join("runtime"),
            dir.join("state"),
            dir.join("events")
        );
        write(&dir.join("config.toml"), &text)?;
        let mut command = spoke(runtime);
        command.arg("serve").stdin(Stdio::null()).stdout(Stdio::null());
        let child = runtime.host.within(|| Ok(command.spawn()))?;
        let child = child.map_err(|error| Error::os("starting spoke serve", error))?;
        let daemon = Self { runtime, child };
        let deadline = Instant::now() + TIMEOUT;
        while let Err(error) = daemon.fetch(VIEWS[0].1, false) {
            if Instant::now() > deadline {
                return Err(error.context("the page"));
            }
            sleep(GLANCE);
        }
        Ok(daemon)
    }

    fn processor(&self) -> Result<Duration> {
        processor(Pid::from_raw(self.child.id().cast_signed()))
    }

    fn fetch(&self, path: &str, gzip: bool) -> Result<Fetched> {
        let failed = |error| Error::os(format!("fetching {path}"), error);
        let coding = if gzip { "Accept-Encoding: gzip\r\n" } else { "" };
        let request = format!("GET {path} HTTP/1.1\r\nHost: {ADDRESS}\r\n{coding}\r\n");
        let began = Instant::now();
        let stream = self.runtime.host.within(|| Ok(TcpStream::connect(ADDRESS)))?;
        let mut stream = stream.map_err(failed)?;
        stream.set_read_timeout(Some(TIMEOUT)).map_err(failed)?;
        stream.write_all(request.as_bytes()).map_err(failed)?;
        let mut answer = vec![0];
        stream.read_exact(&mut answer).map_err(failed)?;
        let first = began.elapsed();
        stream.read_to_end(&mut answer).map_err(failed)?;
        let whole = began.elapsed();
        let end = answer.windows(4).position(|end| end == b"\r\n\r\n");
        let body = end.filter(|_| answer.starts_with(b"HTTP/1.1 200 "));
        let Some(end) = body else {
            let said =
                String::from_utf8_lossy(&answer).lines().next().unwrap_or_default().to_owned();
            return Err(Error::new(Kind::Kernel, format!("{path}: {said}")));
        };
        Ok(Fetched { first, whole, size: answer.len() - end - 4 })
    }
}

impl Drop for Daemon<'_> {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
