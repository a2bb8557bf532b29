//! What one of two drivers answers.

use std::collections::BTreeMap;

use crate::bed::Bed;

/// Serves at two ports a page that says who asks; by custom the second is not published.
const PAGES: &str = "sh -c 'mkdir -p /www/cgi-bin; cd /www/cgi-bin; \
    printf \"#!/bin/sh\\necho; echo \\$REMOTE_ADDR\\n\" >who; chmod +x who; \
    httpd -p 80 -h /www; exec httpd -f -p 81 -h /www'";

/// What a client reads at a host and a port. The second of silence is for a lost SYN.
const ASK: &str = "exec 3<>/dev/tcp/$1/$2 && printf \"GET /cgi-bin/who HTTP/1.0\\r\\n\\r\\n\" >&3 && tail -n 1 <&3";

/// A server on the neighbour's machine that says who asks. It reads all of a request: who closes a
/// socket with something unread in it resets the connection, and the answer is lost.
const OUTSIDE: &str = "use Socket; use IO::Socket::IP;
my $s = IO::Socket::IP->new(LocalHost => q(::), LocalPort => 80, Listen => 99, ReuseAddr => 1, V6Only => 0) or die;
while (my $c = $s->accept) { my $l; 1 while defined($l = <$c>) and $l =~ /[A-Z]/; print $c qq(HTTP/1.0 200 OK\\r\\n\\r\\n), $c->peerhost, qq(\\n); close $c }";

/// Starts it, where packets of IPv6 to containers find their way as well.
pub(super) fn serve_outside(bed: &Bed) {
    bed.world().sh("ip -n lan -6 route add default via 2001:db8:1::1");
    bed.world().sh(&format!(
        "ip netns exec lan perl -e '{OUTSIDE}' >/dev/null 2>&1 </dev/null & echo $! >/run/outside"
    ));
    bed.until("ip netns exec lan bash -c \"exec 3<>/dev/tcp/127.0.0.1/80\" 2>/dev/null");
}

/// Ends it.
pub(super) fn end_outside(bed: &Bed) {
    bed.world().sh("kill $(cat /run/outside); rm /run/outside");
}

/// A driver, and what it has answered.
pub(super) struct Side<'a> {
    pub(super) bed: &'a Bed,
    driver: &'static str,
    networks: Vec<String>,
    containers: Vec<String>,
    facts: BTreeMap<String, String>,
}

impl<'a> Side<'a> {
    pub(super) fn new(bed: &'a Bed, driver: &'static str) -> Self {
        Self { bed, driver, networks: Vec::new(), containers: Vec::new(), facts: BTreeMap::new() }
    }

    /// Removes all of it, and gives what was answered.
    pub(super) fn end(self) -> BTreeMap<String, String> {
        self.containers.iter().for_each(|name| self.forget(name));
        if !self.networks.is_empty() {
            self.bed.docker(&format!("network rm {}", self.networks.join(" ")));
        }
        self.facts
    }

    /// Removes a container, if it ever came to be.
    pub(super) fn forget(&self, name: &str) {
        self.bed.engine.try_docker(&format!("rm -f {name}"));
    }

    /// A network of the driver.
    #[track_caller]
    pub(super) fn network(&mut self, name: &str, options: &str) {
        self.bed.docker(&format!("network create {} {options} {name}", self.driver));
        self.networks.push(name.to_owned());
    }

    /// A container with the pages, which it serves by now.
    #[track_caller]
    pub(super) fn serve(&mut self, name: &str, options: &str) {
        self.bed.docker(&format!("run -d --name {name} {options} busybox {PAGES}"));
        self.containers.push(name.to_owned());
        self.until_served(name);
    }

    /// Waits until a container serves both pages.
    #[track_caller]
    pub(super) fn until_served(&self, name: &str) {
        let over = self.over(&format!("@{name}"));
        self.bed.until(&format!("{over} bash -c \"exec 3<>/dev/tcp/127.0.0.1/81\" 2>/dev/null"));
    }

    /// What is so. What was asked before is asked again.
    pub(super) fn fact(&mut self, what: impl Into<String>, is: impl Into<String>) {
        let mut what = what.into();
        while self.facts.contains_key(&what) {
            what.push_str(" again");
        }
        self.facts.insert(what, is.into());
    }

    /// Whether `docker ARGUMENTS` is carried out. A container of this name is removed at the end.
    pub(super) fn tries(&mut self, what: &str, container: Option<&str>, arguments: &str) {
        let done = self.bed.engine.try_docker(arguments);
        self.containers.extend(container.map(str::to_owned));
        self.fact(what, if done.status == 0 { "done" } else { "refused" });
    }

    /// The same of a network of the driver with these options.
    pub(super) fn tries_network(&mut self, what: &str, options: &str) {
        let create = format!("network create {} {options} tried", self.driver);
        let done = self.bed.engine.try_docker(&create);
        if done.status == 0 {
            self.bed.docker("network rm tried");
        }
        self.fact(what, if done.status == 0 { "done" } else { "refused" });
    }

    /// What a script in a container prints.
    pub(super) fn inside(&mut self, what: &str, name: &str, script: &str) {
        let done = self.bed.engine.exec(name, &["sh", "-c", script]);
        self.fact(what, done.stdout.trim().to_owned());
    }

    /// What the engine says of a container, by a template.
    pub(super) fn says(&mut self, what: &str, name: &str, template: &str) {
        let said = self.bed.docker(&format!("inspect -f '{template}' {name}"));
        self.fact(what, said);
    }

    /// What is answered, all at once: who asks (a namespace, `@` and a container, or the host `""`),
    /// where, and at which port. The answer is the client as the server sees it.
    pub(super) fn asks(&mut self, asked: &[(&str, &str, u16)]) {
        let mut script = String::new();
        for (number, (from, host, port)) in asked.iter().enumerate() {
            let over = self.over(from);
            script.push_str(&format!(
                "(said=$(timeout 3 {over} bash -c '{ASK}' ask {host} {port} 2>/dev/null) || said=; \
                 echo \"{number} $said\") &\n"
            ));
        }
        let said = self.bed.world().sh(&format!("{script}wait"));
        for line in said.lines() {
            let (number, client) = line.split_once(' ').expect("a number");
            let (from, host, port) = asked[number.parse::<usize>().expect("a number")];
            let client = client.trim().trim_matches(['[', ']']).trim_start_matches("::ffff:");
            let from = if from.is_empty() { "the host" } else { from };
            let client = if client.is_empty() { "no answer" } else { client };
            self.fact(format!("{from} asks {host} port {port}"), client);
        }
    }

    /// Whether a port is answered, whichever client the server sees: behind a proxy that is
    /// another.
    pub(super) fn answers(&mut self, from: &str, host: &str, port: u16) {
        let script = format!("timeout 3 {} bash -c '{ASK}' ask {host} {port}", self.over(from));
        let done = self.bed.world().try_sh(&script);
        let is_answered = done.status == 0 && !done.stdout.trim().is_empty();
        let from = if from.is_empty() { "the host" } else { from };
        self.fact(
            format!("{from} at {host} port {port}"),
            if is_answered { "an answer" } else { "no answer" },
        );
    }

    /// Whether a container's pings are answered.
    pub(super) fn pings(&mut self, from: &str, to: &[&str]) {
        let each = to.iter().map(|to| {
            format!("(ping -c 1 -W 2 {to} >/dev/null 2>&1 && echo {to} yes || echo {to} no) & ")
        });
        let script = format!("{} wait", each.collect::<String>());
        let said = self.bed.engine.exec(from, &["sh", "-c", &script]).stdout;
        for line in said.lines() {
            let (to, answered) = line.split_once(' ').expect("both");
            self.fact(format!("{from} pings {to}"), answered);
        }
    }

    /// How a command gets into a namespace.
    fn over(&self, from: &str) -> String {
        match from.strip_prefix('@') {
            Some(name) => {
                let pid = self.bed.engine.container(name)["State"]["Pid"].clone();
                format!("nsenter --net=/proc/{pid}/ns/net")
            }
            None if from.is_empty() => String::new(),
            None => format!("ip netns exec {from}"),
        }
    }
}
