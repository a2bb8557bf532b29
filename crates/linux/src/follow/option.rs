//! A line of iptables-save(8), as far as it says something about new connections to this host.

use std::iter::Peekable;
use std::net::IpAddr;

use model::IpNet;

use super::rules::{Match, Outcome, Test, Then};
use super::services::Services;

/// `RULE` in `-A CHAIN RULE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) chain: String,
    /// How many rules of its chain it comes behind; `None`: all.
    pub(super) place: Option<usize>,
    /// Of each inner list one must hold.
    pub(super) tests: Vec<Vec<Test>>,
    /// `None`: it only logs, counts or marks.
    pub(super) then: Option<Then>,
    /// It is never so of a new connection that is led to a container.
    pub(super) never: bool,
    /// The first condition that is not understood.
    pub(super) unclear: Option<String>,
}

impl Line {
    fn new(chain: &str) -> Self {
        let (chain, tests) = (chain.to_owned(), Vec::new());
        Self { chain, place: None, tests, then: None, never: false, unclear: None }
    }
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

type Words<'a> = Peekable<std::slice::Iter<'a, String>>;

/// Reads a line; `None` where it adds no rule. One that is not understood refuses in its chain.
///
/// # Errors
/// Where it is not known either which chain it is about.
pub(super) fn read(line: &str, is_v4: bool, services: &Services) -> Result<Option<Line>, String> {
    if line.is_empty() || line == "COMMIT" || line.starts_with([':', '#', '*']) {
        return Ok(None);
    }
    match words(line).and_then(|words| rule(&words, is_v4, services)) {
        Some(rule) => Ok(Some(rule)),
        None => refusal(line).map(Some),
    }
}

/// `[PACKETS:BYTES] -A CHAIN RULE`, or `-I CHAIN [NUMBER] RULE`.
fn rule(words: &[String], is_v4: bool, services: &Services) -> Option<Line> {
    let mut rest = words.iter().peekable();
    rest.next_if(|word| word.starts_with('['));
    let (command, attached) = split(rest.next()?);
    let chain = attached.or_else(|| next_value(&mut rest))?;
    let mut reader = Reader::new(chain, is_v4, services);
    match command {
        "-A" | "--append" => {}
        "-I" | "--insert" => {
            let number = rest.next_if(is_value).map_or(Ok(1), |number| number.parse::<usize>());
            reader.line.place = Some(number.ok()?.saturating_sub(1));
        }
        _ => return None,
    }
    reader.read(rest);
    Some(reader.done())
}

/// What holds in place of a line that is not understood.
fn refusal(line: &str) -> Result<Line, String> {
    let unclear = model::text::shown(line);
    let mut words = line.split_whitespace().skip_while(|word| word.starts_with('[')).peekable();
    let (command, attached) = words.next().map(split).unwrap_or_default();
    let chain = attached.or_else(|| words.next()).filter(|chain| !chain.starts_with('-'));
    let is_command = command.starts_with('-') && !matches!(command, "-t" | "--table");
    let Some(chain) = chain.filter(|_| is_command) else {
        return Err(format!("it is not understood: {unclear}"));
    };
    let mut line = Line::new(chain);
    // What else is done to a chain is done to the rules that are there.
    line.place = (!matches!(command, "-A" | "--append")).then_some(0);
    line.then = Some(Then::Decide(Outcome::Drop));
    line.unclear = Some(unclear);
    Ok(line)
}

/// An option and its value, where that is in the same word: `--dport=25`, `-jDROP`.
fn split(word: &str) -> (&str, Option<&str>) {
    if word.starts_with("--") {
        return word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
    }
    match word.char_indices().nth(2) {
        Some((at, _)) if word.starts_with('-') => (&word[..at], Some(&word[at..])),
        _ => (word, None),
    }
}

fn next_value<'a>(rest: &mut Words<'a>) -> Option<&'a str> {
    rest.next_if(is_value).map(String::as_str)
}

fn is_value(word: &&String) -> bool {
    !word.starts_with('-') && *word != "!"
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

struct Reader<'a> {
    line: Line,
    services: &'a Services,
    is_v4: bool,
    /// Of a rule of `recent`: whether it only remembers, and after how many in how many seconds it matches.
    recent: (bool, u32, u32),
    protocol: Option<u8>,
    has_target: bool,
    checks_recent: bool,
}

impl<'a> Reader<'a> {
    fn new(chain: &str, is_v4: bool, services: &'a Services) -> Self {
        let (line, recent) = (Line::new(chain), (false, 0, 0));
        Self {
            line,
            services,
            is_v4,
            recent,
            protocol: None,
            has_target: false,
            checks_recent: false,
        }
    }

    fn read(&mut self, mut rest: Words<'_>) {
        let mut not = false;
        while let Some(word) = rest.next() {
            if word == "!" {
                not = true;
                continue;
            }
            let (word, attached) = split(word);
            match (word, attached) {
                ("-j" | "--jump" | "-g" | "--goto", _) => {
                    let target = attached.or_else(|| next_value(&mut rest));
                    self.target(word, target, rest.clone());
                }
                // These without a value.
                ("--set", None) => self.recent.0 = true,
                ("--rsource", None) => {}
                ("--update" | "--rcheck", None) if !not => self.checks_recent = true,
                ("--syn", None) => self.line.never |= not,
                // It may look like an option.
                ("--comment", None) => drop(rest.next()),
                (word, _) => match attached.or_else(|| next_value(&mut rest)) {
                    Some(value) => self.option(word, value, not),
                    None => self.unclear(word),
                },
            }
            if self.has_target && self.line.then.is_none() {
                return;
            }
            // How many values an unknown option has is not known either.
            while rest.next_if(is_value).is_some() {
                self.unclear(word);
            }
            not = false;
        }
        // What is not understood may be the target.
        if !self.has_target && self.line.unclear.is_some() {
            self.line.then = Some(Then::Decide(Outcome::Drop));
        }
    }

    fn target(&mut self, option: &str, target: Option<&str>, rest: Words<'_>) {
        let Some(target) = target else { return self.unclear("a target without a name") };
        let is_goto = matches!(option, "-g" | "--goto");
        self.has_target = true;
        self.line.then = then(target, is_goto, rest.map(String::as_str));
        if TERMINAL.contains(&target) {
            self.unclear(target);
        }
    }

    fn unclear(&mut self, what: &str) {
        self.line.unclear.get_or_insert_with(|| model::text::shown(what));
    }

    /// One of these must hold; or none, where it is negated.
    fn test(&mut self, any: Vec<Match>, not: bool) {
        match not {
            true => {
                let none = any.into_iter().map(|what| vec![Test { what, not: true }]);
                self.line.tests.extend(none);
            }
            false => self.line.tests.push(any.into_iter().map(Match::holds).collect()),
        }
    }

    fn option(&mut self, word: &str, value: &str, not: bool) {
        let known = match word {
            "-m" | "--match" => MATCHES.contains(&value).then_some(()),
            "--comment" | "--limit-burst" | "--name" | "--reject-with" => Some(()),
            "--icmp-type" | "--icmpv6-type" => Some(()),
            "-i" | "--in-interface" => self.input(value, not),
            "-s" | "--source" | "--src" => self.address(value, not, Match::Source),
            "-d" | "--destination" | "--dst" => self.address(value, not, Match::Destination),
            "--src-range" => self.range(value, not, Match::Source),
            "--dst-range" => self.range(value, not, Match::Destination),
            "-p" | "--protocol" | "--proto" => self.protocol(value, not),
            "--dport" | "--destination-port" | "--dports" | "--destination-ports" => {
                self.ports(value, not, Match::Port)
            }
            "--sport" | "--source-port" | "--sports" | "--source-ports" => {
                self.ports(value, not, Match::SourcePort)
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
        self.test(vec![Match::Input { name: name.to_owned(), is_whole }], not);
        Some(())
    }

    fn address(&mut self, value: &str, not: bool, what: fn(IpAddr, IpAddr) -> Match) -> Option<()> {
        let nets: Vec<IpNet> = value.split(',').map(net).collect::<Option<_>>()?;
        if nets.iter().any(|net| net.addr().is_ipv4() != self.is_v4) {
            return None;
        }
        self.test(nets.iter().map(|net| what(net.network(), net.broadcast())).collect(), not);
        Some(())
    }

    fn range(&mut self, value: &str, not: bool, what: fn(IpAddr, IpAddr) -> Match) -> Option<()> {
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
        self.test(vec![Match::Protocol(number)], not);
        Some(())
    }

    fn ports(&mut self, value: &str, not: bool, what: fn(u16, u16) -> Match) -> Option<()> {
        let named = |name: &str| self.services.port(name, self.protocol?);
        let port = |text: &str| text.parse::<u16>().ok().or_else(|| named(text));
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

    /// Whether the target refuses: also by the chain in which ufw does that with too many connections.
    fn refuses(&self) -> bool {
        match &self.line.then {
            Some(Then::Decide(outcome)) => *outcome != Outcome::Accept,
            Some(Then::Jump(to)) => matches!(to.as_str(), "ufw-user-limit" | "ufw6-user-limit"),
            Some(Then::Return | Then::Goto(_)) | None => false,
        }
    }

    fn done(mut self) -> Line {
        let (remembers, times, seconds) = self.recent;
        match (remembers, times, seconds) {
            // It only remembers the source, which the rule that counts does, too.
            (true, ..) if self.line.then.is_none() => {}
            (false, 0, 0) if !self.checks_recent => {}
            // The table counts by itself, which is what refuses as this does.
            (false, 1.., 1..) if self.checks_recent && self.refuses() => {
                let is_v4 = self.is_v4;
                // The one that is seen now counts.
                let often = Match::Often { is_v4, times: times.saturating_sub(1).max(1), seconds };
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
            let is_reset = options.any(|option| option.ends_with("tcp-reset"));
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
        let read = |line: &str, is_v4| read(line, is_v4, &Services::default());
        let line = "-A ufw-user-input -p tcp -m multiport --dports 80,443 -s 10.0.0.0/8 -j ACCEPT";
        let read = read(line, true).unwrap().unwrap();
        assert_eq!((read.chain.as_str(), read.unclear), ("ufw-user-input", None));
        let ports = vec![Match::Port(80, 80).holds(), Match::Port(443, 443).holds()];
        assert_eq!(read.tests[1], ports);
        assert_eq!(read.tests[0], vec![Match::Protocol(6).holds()]);
        assert_eq!(read.then, Some(Then::Decide(Outcome::Accept)));
    }

    #[test]
    fn what_is_not_known_is_reported() {
        let read = |line: &str, is_v4| read(line, is_v4, &Services::default());
        for (line, unclear) in [
            ("-A c -m set --match-set x src -j ACCEPT", Some("-m set")),
            ("-A c -m limit --limit 3/min -j ACCEPT", Some("--limit 3/min")),
            ("-A c -p tcp --dport 80x -j DROP", Some("--dport 80x")),
            ("-A c -j LOG --log-prefix \"[UFW BLOCK] \"", None),
            ("-A c -m set ! --match-set x src -p tcp -j DROP", Some("-m set")),
            ("-A c --odd a b c -j DROP", Some("--odd a")),
            ("-A c -i eth+ ! -s 192.0.2.0/255.255.255.0 -j DROP", None),
        ] {
            let read = read(line, true).unwrap().unwrap();
            assert_eq!(read.unclear.as_deref(), unclear, "{line}");
            assert_eq!(read.then.is_some(), !line.contains("LOG"), "{line}");
        }
        for line in [":c - [0:0]", "# c", "", "COMMIT"] {
            assert_eq!(read(line, true), Ok(None), "{line}");
        }
        for line in ["-A c -m comment --comment \"x", "-D c 1", "-I c x -j ACCEPT", "[0:0] -P c"] {
            let read = read(line, true).unwrap().unwrap();
            assert_eq!(read.chain, "c");
            assert_eq!(read.unclear.unwrap().replace('\\', ""), line);
            assert_eq!(read.then, Some(Then::Decide(Outcome::Drop)));
        }
        for line in ["c", "c d", "-A", "-A -j DROP", "-t filter -A c -j DROP", "\"", "[0:0]"] {
            assert!(read(line, true).is_err(), "{line}");
        }
    }

    proptest! {
        #[test]
        fn any_line_is_survived(line in "-A c( (-[a-z]|--[a-z]{1,8}|!|[0-9./:,]{1,9}|\"[a-z ]*\"?|[A-Z]{3,6})){0,9}") {
            let _ = read(&line, true, &Services::default());
        }
    }
}
