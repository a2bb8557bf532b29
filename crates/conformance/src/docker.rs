//! A plugin of Docker's as what is tested.

mod faults;
mod links;

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use model::{Error, Ipv4Net, Result};
use remote::address::Address;
use serde_json::Value;

use super::exchange::Exchange;
use super::http::{Message, connect};
use super::report::Report;
use super::run::{Run, Step, Stop, Subject, Vars, fail};
use super::script::Script;
use super::{report, sandbox};

/// How long a plugin may be silent. Engines wait for ever.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The text of an IPAM driver that has no address left: engines show it to users.
const EXHAUSTED: [&str; 6] =
    ["no available", "exhausted", "no free", "no more", "no address", "no unused"];

/// The cases, in their order.
const CASES: [&str; 2] = [include_str!("cases/plugin.kit"), include_str!("cases/ipam.kit")];

/// The names of all cases for Docker's plugins, with what each checks.
pub fn list_plugin() -> Vec<(&'static str, &'static str)> {
    Script::read(&CASES).names()
}

/// The plugin to test, and how.
#[derive(Clone, Debug)]
pub struct PluginTestSpec {
    /// Where the plugin is.
    pub address: Address,
    /// Only the cases whose names contain one of these; all if there is none.
    pub only: Vec<String>,
    /// The subnet whose parts the networks of the cases get; a /16.
    pub subnet: Ipv4Net,
    /// `-o` of the networks.
    pub options: Vec<(String, String)>,
    /// `--ipam-opt` of the networks.
    pub ipam_options: Vec<(String, String)>,
    /// The command that restarts the plugin.
    pub restart: Option<String>,
    /// Whether interfaces are checked and moved.
    pub sandboxes: bool,
    /// Whether networks get their addresses from the plugin's own IPAM driver, if it is one.
    pub own_ipam: bool,
}

/// A plugin, and the subnets that its cases have used up.
struct Plugin<'w> {
    spec: &'w PluginTestSpec,
    next: AtomicU32,
    host: AtomicU32,
}

/// Tests a plugin.
///
/// # Errors
/// Where the plugin does not answer at all.
pub fn test_plugin(spec: &PluginTestSpec) -> Result<Report> {
    let plugin = Plugin { spec, next: AtomicU32::new(0), host: AtomicU32::new(0) };
    let facts = plugin.facts()?;
    let script = Script::read(&CASES);
    let wanted = |name: &str| report::is_wanted(&spec.only, name);
    let cases = script.cases.iter().filter(|case| wanted(case.name));
    let mut report = Report::of(spec.address.to_string());
    for case in cases {
        let vars = plugin.vars(&facts);
        report.add(case, Run::new(&plugin, &script, vars));
    }
    sandbox::leave_place();
    Ok(report)
}

impl Plugin<'_> {
    /// The plugin's profile, as variables.
    fn facts(&self) -> Result<Vars> {
        let none = Vars::new();
        let manifest = self.call("Plugin.Activate", "", &none);
        if manifest.status.is_none() {
            let why = manifest.fault.unwrap_or_default();
            return Err(Error::try_again(format!(
                "no process answers at the plugin's address: {why}"
            )));
        }
        let implements = manifest.text("Implements");
        let mut facts = Vars::new();
        let mut set = |name: &str, holds: bool| {
            facts.insert(name.to_owned(), if holds { "yes".into() } else { String::new() });
        };
        let (network, ipam) = (implements.contains("NetworkDriver"), implements.contains("Ipam"));
        set("network", network);
        set("ipam", ipam && (self.spec.own_ipam || !network));
        set("sandboxes", self.spec.sandboxes);
        set("restart", self.spec.restart.is_some());
        if network {
            let capable = self.call("NetworkDriver.GetCapabilities", "", &none);
            set("global", capable.text("Scope") == "global");
            set("gwalloc", capable.text("GwAllocChecker") == "true");
        }
        if ipam {
            let capable = self.call("IpamDriver.GetCapabilities", "", &none);
            set("needsmac", capable.text("RequiresMACAddress") == "true");
        }
        Ok(facts)
    }

    /// The variables that a case begins with: a /24 of its own, and what is in it.
    fn vars(&self, facts: &Vars) -> Vars {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let mut vars = facts.clone();
        let at = |host: u32, length: u8| format!("{}/{length}", self.address(number, host));
        let mut set = |name: &str, value: String| vars.insert(name.to_owned(), value);
        set("subnet", at(0, 24));
        set("subnetgw", at(1, 24));
        set("subrange", at(64, 27));
        set("small", at(0, 29));
        set("wide", at(0, 24));
        set("narrow", at(128, 25));
        set("exact", at(77, 24));
        set("subnet6", format!("fd00:213:{number:x}::/64"));
        set("port", (20_000 + number % 10_000).to_string());
        set("opts", options(&self.spec.options));
        set("ipamopts", options(&self.spec.ipam_options));
        vars
    }

    fn address(&self, subnet: u32, host: u32) -> std::net::Ipv4Addr {
        let part = (subnet << 8) & !u32::from(self.spec.subnet.netmask());
        std::net::Ipv4Addr::from(u32::from(self.spec.subnet.network()) | part | host)
    }

    fn post(&self, method: &str, headers: &str, body: &str) -> Exchange {
        let started = Instant::now();
        let heard = connect(&self.spec.address, TIMEOUT).and_then(|mut connection| {
            connection.post(method, headers, body.as_bytes())?;
            connection.receive(true)
        });
        let asked = Exchange::asked(method, body, started);
        match heard {
            Ok(message) => judged(asked, &message),
            Err(error) => Exchange { fault: Some(format!("no answer: {error}")), ..asked },
        }
    }

    fn restart(&self) -> Step {
        let Some(command) = &self.spec.restart else {
            return Err(Stop::Skip("no --restart".to_owned()));
        };
        let done = Command::new("sh").args(["-c", command]).status();
        if !done.as_ref().is_ok_and(std::process::ExitStatus::success) {
            return Err(Stop::Skip(format!("{command:?} failed: {done:?}")));
        }
        let answers = || Ok(self.call("Plugin.Activate", "", &Vars::new()).fault.is_none());
        let deadline = Instant::now() + TIMEOUT;
        while Instant::now() < deadline {
            if sandbox::soon(answers).unwrap_or(false) {
                return Ok(());
            }
        }
        fail("the plugin does not answer after its restart")
    }

    fn latency(&self, run: &mut Run<'_>, most: f64) -> Step {
        let method = match run.vars.get("network").is_some_and(|is| !is.is_empty()) {
            true => "NetworkDriver.GetCapabilities",
            false => "IpamDriver.GetDefaultAddressSpaces",
        };
        let mut times: Vec<f64> = (0..100).map(|_| run.call(method, "").ms).collect();
        times.sort_by(f64::total_cmp);
        let (median, longest) = (times[times.len() / 2], times[times.len() - 1]);
        if median > most {
            return fail(format!("{method} takes {median:.1} ms, at worst {longest:.1} ms"));
        }
        Ok(())
    }
}

/// As an engine reads an answer.
fn judged(asked: Exchange, message: &Message) -> Exchange {
    let answer = String::from_utf8_lossy(&message.body).into_owned();
    let parsed = serde_json::from_slice(&message.body);
    let mut exchange = Exchange { status: message.status().map(i32::from), answer, ..asked };
    let is_json = parsed.is_ok();
    exchange.value = parsed.unwrap_or(Value::Null);
    let texts = [exchange.text("Err"), exchange.text("Error")];
    let texts = texts.iter().find(|text| !text.is_empty());
    exchange.fault = match (exchange.status, texts) {
        (_, Some(texts)) => Some(format!("error {texts:?}")),
        (Some(200), None) if is_json => None,
        (Some(200), None) if exchange.answer.is_empty() => Some("an empty body (EOF)".to_owned()),
        (Some(200), None) => Some("the body is no JSON".to_owned()),
        (status, None) => Some(format!("HTTP status {}", status.unwrap_or_default())),
    };
    exchange
}

fn options(options: &[(String, String)]) -> String {
    let map: BTreeMap<&str, &str> = options.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    serde_json::to_string(&map).unwrap_or_else(|_| "{}".to_owned())
}

impl Subject for Plugin<'_> {
    fn call(&self, method: &str, body: &str, _: &Vars) -> Exchange {
        let accept = "Accept: application/vnd.docker.plugins.v1.2+json\r\n";
        self.post(method, accept, body)
    }

    fn word(&self, run: &mut Run<'_>, word: &str, args: &[String]) -> Option<Step> {
        let arg = |index: usize| args.get(index).map_or("", String::as_str);
        Some(match word {
            "typed" => {
                let exchange = self.post(arg(0), &format!("Content-Type: {}\r\n", arg(1)), "{}");
                run.exchanges.push(exchange);
                Ok(())
            }
            "own-address" => {
                let pool = run.vars.get("subnet").cloned().unwrap_or_default();
                let number = self.host.fetch_add(1, Ordering::Relaxed);
                let net = pool.parse::<Ipv4Net>().unwrap_or_default();
                let ip = std::net::Ipv4Addr::from(u32::from(net.network()) + 2 + number % 250);
                run.vars.insert(arg(0).to_owned(), format!("{ip}/{}", net.prefix_len()));
                Ok(())
            }
            "next-subnet" => {
                let number = self.next.fetch_add(1, Ordering::Relaxed);
                let net = format!("{}/24", self.address(number, 0));
                run.vars.insert(arg(0).to_owned(), net);
                Ok(())
            }
            "exhausted" => {
                let texts = run.last().fault.clone().unwrap_or_default().to_lowercase();
                if !EXHAUSTED.iter().any(|text| texts.contains(text)) {
                    run.warnings.push(format!("{texts} does not say that no address is available"));
                }
                Ok(())
            }
            "restart" => self.restart(),
            "latency" => self.latency(run, arg(0).parse().unwrap_or(0.0)),
            "routes" => links::routes(run),
            _ => {
                return faults::carry_out(&self.spec.address, run, word)
                    .or_else(|| links::carry_out(run, word, args));
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(status: u16, body: &str) -> Option<String> {
        let first = format!("HTTP/1.1 {status} x");
        let message = Message { first, body: body.as_bytes().to_vec(), ..Message::default() };
        judged(Exchange::default(), &message).fault
    }

    #[test]
    fn judges_as_an_engine() {
        for fine in ["{}", "null", r#"{"Err":""}"#, r#"{"err":null,"x":1}"#] {
            assert_eq!(fault(200, fine), None, "{fine}");
        }
        for (status, bad) in [
            (200, ""),
            (200, "ok"),
            (200, r#"{"error":"x"}"#),
            (404, "{}"),
            (500, r#"{"Err":"x"}"#),
        ] {
            assert!(fault(status, bad).is_some(), "{status} {bad}");
        }
    }
}
