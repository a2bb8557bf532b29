//! ufw's files (ufw-framework(8)), as `ufw-init` puts them together. ufw writes them before it changes the
//! kernel, so they hold also after a flush, before ufw is started, and with both packet filters. It truncates
//! them and writes them in place: what is incomplete says nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::Path;

use netlink::nft::{self, AnyRule, Decision, Family, Hook, Policy, Shape, Step, Table};
use netlink::{Socket, xtables};

use super::option::{self, Line};
use super::rules::{Chains, Outcome, Rule, Then};
use super::services::Services;
use super::{Followed, Judgement, State};

/// Below the root. `spoke serve` watches their directories.
pub const SETTINGS: [&str; 2] = ["etc/default/ufw", "etc/ufw/ufw.conf"];
/// A longer file is refused.
const LONGEST: u64 = 4 << 20;
/// More rules than this are none that an operator wrote.
const MOST: usize = 16_384;
const ENTRY: &str = "INPUT";

/// Whether it is there.
pub(super) fn is_installed(root: &Path) -> bool {
    SETTINGS.iter().all(|path| root.join(path).exists())
}

/// The judgement of ufw.
pub(super) fn read(root: &Path) -> Judgement {
    let read = Settings::read(root).and_then(|settings| judgement(root, &settings));
    read.unwrap_or_else(|why| Judgement::unknown(Followed::Ufw, why))
}

fn judgement(root: &Path, settings: &Settings) -> Result<Judgement, String> {
    if !settings.is_enabled {
        return Ok(Judgement::off(Followed::Ufw));
    }
    let (mut notes, services) = (Vec::new(), Services::read(root));
    let settings = (settings, &services);
    let v4 = chains(root, settings, true, &mut notes)?;
    let v6 = match settings.0.has_v6 {
        true => chains(root, settings, false, &mut notes)?,
        // Nothing but the loopback device.
        false => Chains::refusing(),
    };
    Ok(Judgement { by: Followed::Ufw, state: State::On, v4, v6, notes })
}

/// Whether iptables drops by its policy what comes to this host, as it does while ufw is on.
///
/// # Errors
/// Where the kernel cannot be asked.
pub fn refuses_input(socket: &mut Socket) -> model::Result<bool> {
    let refuses = |chain: &nft::Chain| {
        let base = chain.base.is_some_and(|it| it.hook == Hook::Input && it.policy == Policy::Drop);
        base && chain.table == "filter" && chain.name == "INPUT"
    };
    for family in [Family::Ipv4, Family::Ipv6] {
        if nft::chains(socket, family)?.iter().any(refuses) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether its rules are in the kernel, by either iptables. After a flush of the packet filter `ufw status` goes on
/// saying that it is active.
///
/// # Errors
/// Where the kernel cannot be asked.
pub fn ufw_is_loaded(socket: &mut Socket) -> model::Result<bool> {
    const FIRST: &str = "ufw-before-input";
    let table = Table { family: Family::Ipv4, name: "filter" };
    let leads =
        |rule: &nft::Rule| matches!(rule.shape.last(), Some(Shape::Jump(to)) if to == FIRST);
    if nft::rules(socket, table, ENTRY)?.iter().any(leads) {
        return Ok(true);
    }
    let old = xtables::read(model::Family::V4);
    // What cannot be read may be there.
    // A chain to which nothing leads is what `iptables -F` has left.
    let leads = |rule: &AnyRule| {
        let to = |step: &Step| matches!(step, Step::Decision(Decision::Jump(to)) if to == FIRST);
        rule.chain == ENTRY && rule.steps.iter().any(to)
    };
    Ok(old.map_or(true, |old| old.rules.iter().any(leads)))
}

#[derive(Debug, Default)]
struct Settings {
    is_enabled: bool,
    has_v6: bool,
    policy: Option<Outcome>,
}

impl Settings {
    fn read(root: &Path) -> Result<Self, String> {
        let mut found = BTreeMap::new();
        for path in SETTINGS {
            for line in text(root, path)?.lines() {
                if let Some((name, value)) = line.trim().split_once('=') {
                    let value = value.split_once('#').map_or(value, |(value, _)| value).trim();
                    let value = value.trim_matches(['"', '\'']).to_owned();
                    found.insert(name.trim().to_owned(), value);
                }
            }
        }
        let is_enabled = match found.get("ENABLED").map(String::as_str) {
            Some("yes" | "YES") => true,
            Some("no" | "NO") => false,
            _ => return Err(format!("{} has neither ENABLED=yes nor ENABLED=no", SETTINGS[1])),
        };
        let has_v6 = found.get("IPV6").is_some_and(|it| it == "yes" || it == "YES");
        let policy = match found.get("DEFAULT_INPUT_POLICY").map(String::as_str) {
            Some("ACCEPT") => Some(Outcome::Accept),
            Some("REJECT") => Some(Outcome::Reject),
            Some("DROP") => Some(Outcome::Drop),
            _ => None,
        };
        Ok(Self { is_enabled, has_v6, policy })
    }
}

fn text(root: &Path, path: &str) -> Result<String, String> {
    let path = root.join(path);
    file::text(&path, LONGEST).map_err(|cause| match cause.kind() {
        ErrorKind::NotFound => format!("{} is missing", path.display()),
        _ => format!("reading {}: {cause}", path.display()),
    })
}

/// The chains of one family; their names are those of the files.
fn chains(
    root: &Path,
    (settings, services): (&Settings, &Services),
    is_v4: bool,
    notes: &mut Vec<String>,
) -> Result<Chains, String> {
    let six = if is_v4 { "" } else { "6" };
    let mut lines: BTreeMap<String, Vec<Line>> = BTreeMap::new();
    let named = |name: &str| format!("ufw{six}-{name}");
    let jump =
        |chain: &str, to: String| option::read(&format!("-A {chain} -j {to}"), is_v4, services);
    let mut add = |line: Result<Option<Line>, String>| -> Result<(), String> {
        if let Some(line) = line? {
            let before = lines.entry(line.chain.clone()).or_default();
            before.insert(line.place.unwrap_or(usize::MAX).min(before.len()), line);
        }
        Ok(())
    };
    // The order of `ufw_start` in /lib/ufw/ufw-init-functions.
    for chain in ["before-input", "after-input", "reject-input", "track-input"] {
        add(jump(ENTRY, named(chain)))?;
    }
    let policy = settings.policy.unwrap_or(Outcome::Drop);
    let target = match policy {
        Outcome::Accept => "ACCEPT",
        Outcome::Reject | Outcome::Reset => "REJECT",
        Outcome::Drop => "DROP",
    };
    add(jump(&named("skip-to-policy-input"), target.to_owned()))?;
    for file in ["before", "after", "user"] {
        let path = format!("etc/ufw/{file}{six}.rules");
        let text = text(root, &path)?;
        if !is_whole(&text) {
            return Err(format!("{path} is incomplete: it has no *filter with a COMMIT"));
        }
        if filter_part(&text).count() > MOST {
            return Err(format!("{path} has more than {MOST} rules"));
        }
        for line in filter_part(&text) {
            let read = option::read(line, is_v4, services);
            add(read.map_err(|why| format!("a line of {path}: {why}")))?;
        }
    }
    add(jump(&named("before-input"), named("user-input")))?;
    let all = resolved(&lines, notes);
    Ok(Chains { entry: ENTRY.to_owned(), policy, all })
}

/// Whether there is a table `filter`, and each table that begins ends.
fn is_whole(text: &str) -> bool {
    let (mut has_filter, mut is_open) = (false, false);
    for line in text.lines().map(str::trim) {
        match line {
            "COMMIT" => is_open = false,
            line if line.starts_with('*') && is_open => return false,
            line if line.starts_with('*') => {
                is_open = true;
                has_filter |= line == "*filter";
            }
            _ => {}
        }
    }
    has_filter && !is_open
}

/// The lines of the table `filter`.
fn filter_part(text: &str) -> impl Iterator<Item = &str> {
    let mut is_filter = false;
    text.lines().map(str::trim).filter(move |line| {
        if let Some(table) = line.strip_prefix('*') {
            is_filter = table == "filter";
        }
        is_filter && !line.starts_with('#')
    })
}

/// The chains that new connections to this host come to, as far as they decide.
fn resolved(
    lines: &BTreeMap<String, Vec<Line>>,
    notes: &mut Vec<String>,
) -> BTreeMap<String, Vec<Rule>> {
    let idle = idle(lines);
    let mut all = BTreeMap::new();
    let mut next = vec![ENTRY.to_owned()];
    while let Some(chain) = next.pop() {
        if all.contains_key(&chain) {
            continue;
        }
        let mut rules = Vec::new();
        for line in lines.get(&chain).into_iter().flatten() {
            let Some(then) = effect(line, &idle, notes) else { continue };
            if let Then::Jump(to) | Then::Goto(to) = &then {
                next.push(to.clone());
            }
            rules.extend(
                product(&line.tests).into_iter().map(|tests| Rule { tests, then: then.clone() }),
            );
        }
        all.insert(chain, rules);
    }
    all
}

/// What a line does; `None` where it decides nothing. One that is not fully understood never opens.
fn effect(line: &Line, idle: &BTreeSet<&str>, notes: &mut Vec<String>) -> Option<Then> {
    let then = line.then.clone()?;
    if line.never {
        return None;
    }
    if let Then::Jump(to) = &then
        && idle.contains(to.as_str())
    {
        return None;
    }
    let Some(unclear) = &line.unclear else { return Some(then) };
    let (instead, then) = match then {
        Then::Decide(Outcome::Accept) => ("it accepts nothing", None),
        refusal @ Then::Decide(_) => ("it refuses without that condition", Some(refusal)),
        Then::Return | Then::Jump(_) | Then::Goto(_) => {
            ("it refuses", Some(Then::Decide(Outcome::Drop)))
        }
    };
    notes.push(format!(
        "a rule of {} has {unclear}, which is not understood: {instead}",
        line.chain
    ));
    then
}

/// Chains that decide nothing: they log, or are empty or unknown.
fn idle(lines: &BTreeMap<String, Vec<Line>>) -> BTreeSet<&str> {
    let targets = lines.values().flatten().filter_map(|line| match &line.then {
        Some(Then::Jump(to) | Then::Goto(to)) => Some(to.as_str()),
        _ => None,
    });
    let mut idle: BTreeSet<&str> = targets.collect();
    // Those that decide are taken out, until nothing changes.
    loop {
        let decides = |chain: &&&str| {
            let of = lines.get(**chain).into_iter().flatten();
            of.into_iter().any(|line| match &line.then {
                None | Some(Then::Return) => false,
                Some(Then::Decide(_)) => true,
                Some(Then::Jump(to) | Then::Goto(to)) => !idle.contains(to.as_str()),
            })
        };
        let busy: Vec<&str> = idle.iter().filter(|chain| decides(chain)).copied().collect();
        if busy.is_empty() {
            return idle;
        }
        idle.retain(|chain| !busy.contains(chain));
    }
}

/// One list of tests for each choice of one out of every list.
pub(super) fn product<T: Clone>(lists: &[Vec<T>]) -> Vec<Vec<T>> {
    lists.iter().fold(vec![Vec::new()], |all, list| {
        let with = |before: &Vec<T>| {
            let before = before.clone();
            list.iter().map(move |test| [before.clone(), vec![test.clone()]].concat())
        };
        all.iter().flat_map(with).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::super::Arrival;
    use super::*;

    /// ufw's own before.rules are Debian's; the rules are those that `ufw` 0.36 writes.
    fn files(user: &str, policy: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("etc/ufw/ufw.conf", "# x\nENABLED=yes\nLOGLEVEL=low\n");
        write("etc/default/ufw", &format!("IPV6=yes\nDEFAULT_INPUT_POLICY=\"{policy}\"\n"));
        for (six, any) in [("", "0.0.0.0/0"), ("6", "::/0")] {
            let before = format!(
                "*filter\n:ufw{six}-before-input - [0:0]\n\
                -A ufw{six}-before-input -i lo -j ACCEPT\n\
                -A ufw{six}-before-input -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n\
                -A ufw{six}-before-input -m conntrack --ctstate INVALID -j DROP\n\
                -A ufw{six}-before-input -j ufw{six}-not-local\n\
                -A ufw{six}-not-local -m addrtype --dst-type LOCAL -j RETURN\n\
                -A ufw{six}-not-local -m limit --limit 3/min -j ufw{six}-logging-deny\n\
                -A ufw{six}-not-local -j DROP\nCOMMIT\n"
            );
            write(&format!("etc/ufw/before{six}.rules"), &before);
            write(
                &format!("etc/ufw/after{six}.rules"),
                &format!(
                    "*filter\n-A ufw{six}-after-input -p udp --dport 137 -j ufw{six}-skip-to-policy-input\nCOMMIT\n"
                ),
            );
            let user = user.replace("SIX", six).replace("ANY", any);
            write(&format!("etc/ufw/user{six}.rules"), &format!("*filter\n{user}\nCOMMIT\n"));
        }
        root
    }

    fn outcome(root: &tempfile::TempDir, source: &str, port: u16) -> Outcome {
        let judgement = read(root.path());
        assert_eq!(judgement.state, State::On);
        let source: std::net::IpAddr = source.parse().unwrap();
        let input = "eth0".to_owned();
        let chains = if source.is_ipv4() { judgement.v4 } else { judgement.v6 };
        chains.of(&Arrival { source, input, protocol: 6, port, destination: None })
    }

    #[test]
    fn rules_hold_in_their_order() {
        let root = files(
            "-A ufwSIX-user-input -p tcp --dport 80 -j ACCEPT\n\
             -A ufwSIX-user-input -p tcp --dport 81 -s ANY -j DROP\n\
             -A ufwSIX-user-input -p tcp -m multiport --dports 81,90:99 -j ACCEPT\n\
             -A ufwSIX-user-input -p tcp --dport 82 -j REJECT --reject-with tcp-reset",
            "DROP",
        );
        for source in ["192.0.2.2", "2001:db8::2"] {
            for (port, wanted) in [
                (80, Outcome::Accept),
                (81, Outcome::Drop),
                (95, Outcome::Accept),
                (82, Outcome::Reset),
                (83, Outcome::Drop),
            ] {
                assert_eq!(outcome(&root, source, port), wanted, "{source} {port}");
            }
        }
        assert_eq!(outcome(&files("", "ACCEPT"), "192.0.2.2", 80), Outcome::Accept);
        assert_eq!(outcome(&files("", "REJECT"), "192.0.2.2", 80), Outcome::Reject);
    }

    #[test]
    fn what_is_not_understood_never_opens() {
        let root = files(
            "-A ufwSIX-user-input -p tcp --dport 80 -m set --match-set x src -j ACCEPT\n\
             -A ufwSIX-user-input -p tcp --dport 81 -m set --match-set x src -j DROP\n\
             -A ufwSIX-user-input -p tcp --dport 80:81 -j ACCEPT",
            "DROP",
        );
        assert_eq!(outcome(&root, "192.0.2.2", 80), Outcome::Accept);
        assert_eq!(outcome(&root, "192.0.2.2", 81), Outcome::Drop);
        assert_eq!(read(root.path()).notes.len(), 4);
        std::fs::remove_file(root.path().join("etc/ufw/user.rules")).unwrap();
        assert!(
            matches!(read(root.path()).state, State::Unknown(why) if why.contains("user.rules"))
        );
    }

    #[test]
    fn a_line_that_refuses_never_vanishes() {
        for line in [
            "-A CHAIN -p tcp --dport 81 -m recent --rcheck --seconds 9 --rttl -j DROP",
            "-A CHAIN -p tcp --dport 81 -m addrtype --dst-type LOCAL --limit-iface-in -j DROP",
            "-A CHAIN -p tcp --dport=81 -j DROP",
            "-A CHAIN -ptcp --dport 81 -jDROP",
            "-A CHAIN -p tcp --dport 81 --jum DROP",
            "-A CHAIN -f -j DROP",
            "-A CHAIN -fj DROP",
            "[0:0] -A CHAIN -p tcp --dport 81 -j DROP",
            "-A CHAIN -p tcp --dport 81 -j DROP -m comment --comment \"-x",
            "-A CHAIN -p tcp --dport 81 -m comment --comment it's -j DROP",
            "-I CHAIN -p tcp --dport 81 -j DROP",
            "-I CHAIN 1 -p tcp --dport 81 -j DROP",
            "--insert=CHAIN -p tcp --dport 81 -j DROP",
            "-R CHAIN 1 -p tcp --dport 81 -j DROP",
        ] {
            let line = line.replace("CHAIN", "ufw-user-input");
            // One at the head comes before what is there.
            let place = line.starts_with("-I") || line.starts_with("--insert");
            let other = "-A ufw-user-input -p tcp --dport 81:82 -j ACCEPT";
            let lines = if place { format!("{other}\n{line}") } else { format!("{line}\n{other}") };
            let root = files("", "ACCEPT");
            let text = format!("*filter\n:ufw-user-input - [0:0]\n{lines}\nCOMMIT\n");
            std::fs::write(root.path().join("etc/ufw/user.rules"), text).unwrap();
            assert_eq!(outcome(&root, "192.0.2.2", 81), Outcome::Drop, "{line}");
        }
    }

    #[test]
    fn conditions_behind_the_target_hold() {
        let root = files(
            "-A ufwSIX-user-input -j ACCEPT -p tcp --dport 80\n\
             -A ufwSIX-user-input -p tcp -j REJECT --reject-with tcp-reset --dport 81\n\
             -I ufwSIX-user-input 2 -p tcp -j ACCEPT --dport 80:81 -m comment --comment '-x'",
            "DROP",
        );
        assert_eq!(outcome(&root, "192.0.2.2", 80), Outcome::Accept);
        assert_eq!(outcome(&root, "192.0.2.2", 81), Outcome::Accept);
        assert_eq!(outcome(&root, "192.0.2.2", 82), Outcome::Drop);
        assert_eq!(read(root.path()).notes, Vec::<String>::new());
    }

    #[test]
    fn who_came_lately_is_not_let_in() {
        for recent in [
            "--rcheck --name KNOCK -j ACCEPT",
            "! --rcheck --name KNOCK -j ACCEPT",
            "--rcheck --seconds 30 --hitcount 1 -j ACCEPT",
            "--update --seconds 30 --hitcount 1 -g ufw-user-limit-accept",
        ] {
            let rule = format!("-A ufwSIX-user-input -p tcp --dport 80 -m recent {recent}");
            let limit = "-A ufw-user-limit-accept -j ACCEPT";
            let root = files(&format!("{rule}\n{limit}"), "DROP");
            assert_eq!(outcome(&root, "192.0.2.2", 80), Outcome::Drop, "{recent}");
            let notes = read(root.path()).notes;
            assert_eq!(notes.len(), 2, "{recent}: {notes:?}");
        }
    }

    #[test]
    fn switched_off_it_judges_nothing() {
        let root = files("", "DROP");
        std::fs::write(root.path().join("etc/ufw/ufw.conf"), "ENABLED=no\n").unwrap();
        assert_eq!(read(root.path()).state, State::Off);
    }

    #[test]
    fn what_is_half_written_says_nothing() {
        let user = "-A ufwSIX-user-input -p tcp --dport 81 -j DROP";
        for (path, text) in [
            ("ufw.conf", ""),
            ("ufw.conf", "# x\nENAB"),
            ("ufw.conf", "# x\nENABLED=\n"),
            ("ufw.conf", "# x\nENABLED=n"),
            ("user.rules", ""),
            ("user.rules", "*filter\n-A ufw-user-input -p tcp --dport 80 -j ACCEPT\n"),
            ("user6.rules", "*filter\nCOMM"),
            ("before.rules", "*nat\nCOMMIT\n*filter\n"),
            ("before.rules", "*nat\n*filter\nCOMMIT\n"),
            ("after.rules", "*nat\nCOMMIT\n"),
        ] {
            let root = files(user, "ACCEPT");
            std::fs::write(root.path().join("etc/ufw").join(path), text).unwrap();
            let state = read(root.path()).state;
            assert!(
                matches!(&state, State::Unknown(why) if why.contains(path)),
                "{text}: {state:?}"
            );
        }
    }
}
