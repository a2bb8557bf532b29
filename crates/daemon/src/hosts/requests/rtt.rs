//! `spoke host rtt`: how long the other hosts take to answer.

use std::net::IpAddr;
use std::time::Duration;

use host::hosts::{HostRtt, Reply};
use model::Result;
use netlink::ping::{self, Ask, Question};

use super::check::host_path;
use crate::hosts::{Hosts, local};

/// How long a host may take to answer.
const LIMIT: Duration = Duration::from_secs(1);
/// How often each is asked: the first answer has to wait for what is looked up on the way.
const TRIES: usize = 3;
/// In bytes, from the IP header on: what ping(8) sends by IPv4.
const SIZE: u32 = 84;

impl Hosts {
    pub(in crate::hosts) fn rtt(&self) -> Result<Reply> {
        let (member, view) = {
            let state = self.lock();
            let member = state.member.clone().ok_or_else(super::no_member)?;
            (member, state.view.clone().unwrap_or_default())
        };
        let made = local::made(&self.place)?;
        let mut rtts = Vec::new();
        let mut paths: Vec<(IpAddr, IpAddr)> = Vec::new();
        let mut asked = Vec::new();
        for (name, host) in view.hosts.iter().filter(|(name, _)| **name != member.name) {
            let inside = host_path(&view, &made, (name, host));
            let at = paths.len();
            paths.push((member.address, host.address));
            let inner = inside.as_ref().map(|path| {
                paths.push((path.from, path.to));
                at + 1
            });
            asked.push((at, inner));
            rtts.push(HostRtt {
                name: name.to_string(),
                address: host.address.to_string(),
                host_microseconds: None,
                network: inside.map(|path| path.network.to_string()),
                network_microseconds: None,
            });
        }
        let least = least(&paths)?;
        for (rtt, (at, inner)) in rtts.iter_mut().zip(asked) {
            rtt.host_microseconds = least[at];
            rtt.network_microseconds = inner.and_then(|inner| least[inner]);
        }
        Ok(Reply::Rtts(rtts))
    }
}

/// The shortest answer on each path, in microseconds.
fn least(paths: &[(IpAddr, IpAddr)]) -> Result<Vec<Option<u128>>> {
    let question =
        |(from, to): &(IpAddr, IpAddr)| Question { from: *from, to: *to, ask: Ask::Echo(SIZE) };
    let questions: Vec<Question> = paths.iter().map(question).collect();
    let mut least: Vec<Option<u128>> = vec![None; paths.len()];
    for _ in 0..TRIES {
        let answers = ping::ask(&questions, LIMIT)?;
        for (least, answer) in least.iter_mut().zip(answers) {
            let took = answer.map(|answer| answer.took.as_micros());
            *least = match (*least, took) {
                (Some(before), Some(took)) => Some(before.min(took)),
                (before, took) => before.or(took),
            };
        }
    }
    Ok(least)
}
