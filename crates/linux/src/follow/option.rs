//! A line of iptables-save(8), as far as it says something about new connections to this host.

use std::net::IpAddr;

use model::IpNet;

use super::rules::{Outcome, Test, Then, What};

/// `RULE` in `-A CHAIN RULE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) chain: String,
    /// Of each inner list one must hold.
    pub(super) tests: Vec<Vec<Test>>,
    /// `None`: it only logs, counts or marks.
    pub(super) then: Option<Then>,
    /// It is never so of a new connection that is led to a container.
    pub(super) never: bool,
    /// The first condition that is not understood.
    pub(super) unclear: Option<String>,
}

/// Targets after which the next rule comes.
const WITHOUT_VERDICT: [&str; 14] = [
    "LOG", "NFLOG", "ULOG", "AUDIT", "TRACE", "MARK", "CONNMARK", "SET", "CT", "NOTRACK", "TCPMSS",
    "CLASSIFY", "DSCP", "TTL",
];
/// Targets that are none of these, of which it is not known what they do.
const TERMINAL: [&str; 5] = ["QUEUE", "NFQUEUE", "TARPIT", "SYNPROXY", "TPROXY"];
/// Matches without options, or whose options are known below.
const MATCHES: [&str; 15] = [
    "tcp",
    "udp",
    "sctp",
    "udplite",
    "multiport",
    "conntrack",
    "state",
    "comment",
    "addrtype",
    "recent",
    "iprange",
    "icmp",
    "icmp6",
    "limit",
    "rt",
];
const TCP: u8 = 6;
/// TCP, UDP and SCTP.
const PUBLISHED: [u8; 3] = [TCP, 17, 132];

/// Reads a line; `None` where it adds no rule.
pub(super) fn read(line: &str, is_v4: bool) -> Option<Line> {
    let words = words(line)?;
    let (first, rest) = words.split_first()?;
    if first != "-A" && first != "--append" {
        return None;
    }
    let (chain, rest) = rest.split_first()?;
    let mut reader = Reader::new(chain, is_v4);
    reader.read(rest);
    Some(reader.done())
}

/// Splits at blanks outside of quotes; `None` where a quote does not end.
fn words(line: &str) -> Option<Vec<String>> {
    let (mut all, mut word, mut quote, mut began) = (Vec::new(), String::new(), None, false);
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(open), letter) if letter == open => quote = None,
            (Some('"') | None, '\\') => word.push(letters.next()?),
            (Some(_), letter) => word.push(letter),
            (None, '"' | '\'') => (quote, began) = (Some(letter), true),
            (None, letter) if letter.is_whitespace() => {
                if began {
                    all.push(std::mem::take(&mut word));
                }
                began = false;
            }
            (None, letter) => {
                word.push(letter);
                began = true;
            }
        }
    }
    if began {
        all.push(word);
    }
    quote.is_none().then_some(all)
}

struct Reader {
    line: Line,
    is_v4: bool,
    /// Of a rule of `recent`: whether it only remembers, and after how many in how many seconds it matches.
    recent: (bool, u32, u32),
    protocol: Option<u8>,
}

impl Reader {
    fn new(chain: &str, is_v4: bool) -> Self {
        let chain = chain.to_owned();
        let line = Line { chain, tests: Vec::new(), then: None, never: false, unclear: None };
        Self { line, is_v4, recent: (false, 0, 0), protocol: None }
    }

    fn read(&mut self, words: &[String]) {
        let mut rest = words.iter().map(String::as_str).peekable();
        let mut not = false;
        while let Some(word) = rest.next() {
            match word {
                "!" => {
                    not = true;
                    continue;
                }
                "-j" | "--jump" | "-g" | "--goto" => {
                    let Some(target) = rest.next() else {
                        self.unclear("a target without a name");
                        return;
                    };
                    self.line.then = then(target, word == "-g" || word == "--goto", rest.clone());
                    if TERMINAL.contains(&target) {
                        self.unclear(target);
                    }
                    return;
                }
                // Both without a value.
                "--set" => self.recent.0 = true,
                "--update" | "--rcheck" | "--rsource" => {}
                "--syn" => self.line.never |= not,
                word => match rest.next() {
                    Some(value) => self.option(word, value, not),
                    None => self.unclear(word),
                },
            }
            // How many values an unknown option has is not known either.
            while rest.next_if(|next| !next.starts_with('-') && *next != "!").is_some() {
                self.unclear(word);
            }
            not = false;
        }
    }

    fn unclear(&mut self, what: &str) {
        self.line.unclear.get_or_insert_with(|| model::text::shown(what));
    }

    /// One of these must hold; or none, where it is negated.
    fn test(&mut self, any: Vec<What>, not: bool) {
        match not {
            true => {
                let none = any.into_iter().map(|what| vec![Test { what, not: true }]);
                self.line.tests.extend(none);
            }
            false => self.line.tests.push(any.into_iter().map(What::holds).collect()),
        }
    }

    fn option(&mut self, word: &str, value: &str, not: bool) {
        let known = match word {
            "-m" | "--match" => MATCHES.contains(&value).then_some(()),
            "--comment" | "--limit-burst" | "--name" => Some(()),
            "--icmp-type" | "--icmpv6-type" => Some(()),
            "-i" | "--in-interface" => self.input(value, not),
            "-s" | "--source" | "--src" => self.address(value, not, What::Source),
            "-d" | "--destination" | "--dst" => self.address(value, not, What::Destination),
            "--src-range" => self.range(value, not, What::Source),
            "--dst-range" => self.range(value, not, What::Destination),
            "-p" | "--protocol" | "--proto" => self.protocol(value, not),
            "--dport" | "--destination-port" | "--dports" | "--destination-ports" => {
                self.ports(value, not, What::Port)
            }
            "--sport" | "--source-port" | "--sports" | "--source-ports" => {
                self.ports(value, not, What::SourcePort)
            }
            "--ctstate" | "--state" => self.state(value, not),
            "--dst-type" => self.destination_type(value, not),
            // Packets with a routing header of type 0 the kernel itself drops (RFC 5095).
            "--rt-type" if value == "0" => {
                self.line.never |= !not;
                Some(())
            }
            "--seconds" => value.parse().ok().map(|seconds| self.recent.2 = seconds),
            "--hitcount" => value.parse().ok().map(|times| self.recent.1 = times),
            // Of all sources alike.
            "--mask" => {
                matches!(value, "255.255.255.255" | "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff")
                    .then_some(())
            }
            _ => None,
        };
        if known.is_none() {
            self.unclear(&format!("{word} {value}"));
        }
    }

    fn input(&mut self, value: &str, not: bool) -> Option<()> {
        let (name, is_whole) = match value.strip_suffix('+') {
            Some(start) => (start, false),
            None => (value, true),
        };
        if name.len() > 15 {
            return None;
        }
        self.test(vec![What::Input { name: name.to_owned(), is_whole }], not);
        Some(())
    }

    fn address(&mut self, value: &str, not: bool, what: fn(IpAddr, IpAddr) -> What) -> Option<()> {
        let nets: Vec<IpNet> = value.split(',').map(net).collect::<Option<_>>()?;
        if nets.iter().any(|net| net.addr().is_ipv4() != self.is_v4) {
            return None;
        }
        self.test(nets.iter().map(|net| what(net.network(), net.broadcast())).collect(), not);
        Some(())
    }

    fn range(&mut self, value: &str, not: bool, what: fn(IpAddr, IpAddr) -> What) -> Option<()> {
        let (first, last) = value.split_once('-')?;
        let (first, last): (IpAddr, IpAddr) = (first.parse().ok()?, last.parse().ok()?);
        if first.is_ipv4() != self.is_v4 || last.is_ipv4() != self.is_v4 || first > last {
            return None;
        }
        self.test(vec![what(first, last)], not);
        Some(())
    }

    fn protocol(&mut self, value: &str, not: bool) -> Option<()> {
        let number = match value {
            "all" | "0" => return (!not).then_some(()),
            "tcp" => TCP,
            "udp" => 17,
            "sctp" => 132,
            "icmp" => 1,
            "ipv6-icmp" | "icmpv6" => 58,
            "igmp" => 2,
            "ipv6" => 41,
            "gre" => 47,
            "esp" => 50,
            "ah" => 51,
            "udplite" => 136,
            number => number.parse().ok()?,
        };
        self.protocol = (!not).then_some(number);
        self.test(vec![What::Protocol(number)], not);
        Some(())
    }

    fn ports(&mut self, value: &str, not: bool, what: fn(u16, u16) -> What) -> Option<()> {
        let port = |text: &str| text.parse::<u16>().ok();
        let ranges = value.split(',').map(|text| match text.split_once(':') {
            Some(("", last)) => Some(what(0, port(last)?)),
            Some((first, "")) => Some(what(port(first)?, u16::MAX)),
            Some((first, last)) => Some(what(port(first)?, port(last)?)),
            None => port(text).map(|one| what(one, one)),
        });
        let ranges = ranges.collect::<Option<Vec<_>>>()?;
        self.test(ranges, not);
        Some(())
    }

    /// What is judged is the first packet of a connection that is translated.
    fn state(&mut self, value: &str, not: bool) -> Option<()> {
        let mut is_meant = false;
        for state in value.split(',') {
            match state {
                "NEW" | "DNAT" => is_meant = true,
                "INVALID" | "ESTABLISHED" | "RELATED" | "UNTRACKED" | "SNAT" => {}
                _ => return None,
            }
        }
        // A port of the host's own is not translated.
        is_meant &= value.split(',').any(|state| state == "NEW");
        self.line.never |= is_meant == not;
        Some(())
    }

    /// What is led to containers was sent to an address of this host.
    fn destination_type(&mut self, value: &str, not: bool) -> Option<()> {
        let is_meant = value.split(',').any(|kind| kind == "LOCAL");
        self.line.never |= is_meant == not;
        Some(())
    }

    fn done(mut self) -> Line {
        let (remembers, times, seconds) = self.recent;
        match (remembers, times, seconds) {
            // It only remembers the source, which the rule that counts does, too.
            (true, ..) if self.line.then.is_none() => {}
            (false, 0, 0) => {}
            (false, 1.., 1..) => {
                let is_v4 = self.is_v4;
                // The one that is seen now counts.
                let often = What::Often { is_v4, times: times.saturating_sub(1).max(1), seconds };
                self.line.tests.push(vec![often.holds()]);
            }
            _ => self.unclear("recent"),
        }
        // Ports are published of these only.
        self.line.never |= self.protocol.is_some_and(|number| !PUBLISHED.contains(&number));
        if self.protocol != Some(TCP) && self.line.then == Some(Then::Decide(Outcome::Reset)) {
            self.line.then = Some(Then::Decide(Outcome::Reject));
        }
        self.line
    }
}

fn net(text: &str) -> Option<IpNet> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(model::host_net(address));
    }
    if let Ok(net) = text.parse::<IpNet>() {
        return Some(net);
    }
    // With a mask: 10.0.0.0/255.0.0.0.
    let (address, mask) = text.split_once('/')?;
    IpNet::with_netmask(address.parse().ok()?, mask.parse().ok()?).ok()
}

/// What a target does; `None` for those after which the next rule comes.
fn then<'a>(
    target: &str,
    is_goto: bool,
    mut options: impl Iterator<Item = &'a str>,
) -> Option<Then> {
    match target {
        "ACCEPT" => Some(Then::Decide(Outcome::Accept)),
        "DROP" => Some(Then::Decide(Outcome::Drop)),
        "REJECT" => {
            let is_reset = options.any(|option| option == "tcp-reset");
            Some(Then::Decide(if is_reset { Outcome::Reset } else { Outcome::Reject }))
        }
        "RETURN" => Some(Then::Return),
        target if WITHOUT_VERDICT.contains(&target) => None,
        target if TERMINAL.contains(&target) => Some(Then::Decide(Outcome::Accept)),
        chain if is_goto => Some(Then::Goto(chain.to_owned())),
        chain => Some(Then::Jump(chain.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_what_ufw_writes() {
        let line = "-A ufw-user-input -p tcp -m multiport --dports 80,443 -s 10.0.0.0/8 -j ACCEPT";
        let read = read(line, true).unwrap();
        assert_eq!((read.chain.as_str(), read.unclear), ("ufw-user-input", None));
        let ports = vec![What::Port(80, 80).holds(), What::Port(443, 443).holds()];
        assert_eq!(read.tests[1], ports);
        assert_eq!(read.tests[0], vec![What::Protocol(6).holds()]);
        assert_eq!(read.then, Some(Then::Decide(Outcome::Accept)));
    }

    #[test]
    fn what_is_not_known_is_told() {
        for (line, unclear) in [
            ("-A c -m set --match-set x src -j ACCEPT", Some("-m set")),
            ("-A c -m limit --limit 3/min -j ACCEPT", Some("--limit 3/min")),
            ("-A c -p tcp --dport 80x -j DROP", Some("--dport 80x")),
            ("-A c -j LOG --log-prefix \"[UFW BLOCK] \"", None),
            ("-A c -m set ! --match-set x src -p tcp -j DROP", Some("-m set")),
            ("-A c --odd a b c -j DROP", Some("--odd a")),
            ("-A c -i eth+ ! -s 192.0.2.0/255.255.255.0 -j DROP", None),
        ] {
            let read = read(line, true).unwrap();
            assert_eq!(read.unclear.as_deref(), unclear, "{line}");
            assert_eq!(read.then.is_some(), !line.contains("LOG"), "{line}");
        }
        assert_eq!(read(":c - [0:0]", true), None);
        assert_eq!(read("-A c -m comment --comment \"x", true), None);
    }

    proptest! {
        #[test]
        fn any_line_is_survived(line in "-A c( (-[a-z]|--[a-z]{1,8}|!|[0-9./:,]{1,9}|\"[a-z ]*\"?|[A-Z]{3,6})){0,9}") {
            let _ = read(&line, true);
        }
    }
}
