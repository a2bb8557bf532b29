//! A cloud's words: Neutron's answers, Open vSwitch's database, the operator's settings.

use std::sync::{Arc, Mutex};

use engine::port::{AddressSpec, AddressUse, Cloud, CloudNetwork, PoolSpec, SubnetPlan};
use model::{Error, Family, Kind, PortSpec, Result};
use neutron::Neutron;
use neutron::api::{Request, Transport};
use neutron::config::{Access, Identity, Settings};
use neutron::contract::HostId;
use neutron::facts::Facts;
use neutron::reconcile::Breadth;
use serde_json::Value;

/// No conversation is longer: a caller that goes on for ever hangs.
const LONGEST: usize = 500;

/// A Neutron that says these things in turn, and the last one from then on.
struct Says {
    answers: Vec<Value>,
    asked: Arc<Mutex<usize>>,
}

impl Transport for Says {
    fn carry(&self, _: &Request<'_>) -> Result<Value> {
        let mut asked = self.asked.lock().expect("no thread panics with it");
        *asked += 1;
        assert!(*asked < LONGEST, "it asks for ever");
        let answer = &self.answers[(*asked - 1).min(self.answers.len() - 1)];
        match answer.as_u64().and_then(|status| u16::try_from(status).ok()) {
            Some(status) => Err(Error::try_again("refused").with_status(status)),
            None => Ok(answer.clone()),
        }
    }
}

/// Each line is an answer of Neutron's, or the status of a refusal. Whatever it says, nothing is our
/// bug, and no call goes on for ever.
pub fn cloud(bytes: &[u8]) {
    let lines = bytes.split(|byte| *byte == b'\n');
    let answers: Vec<Value> =
        lines.filter_map(|line| serde_json::from_slice(line).ok()).take(64).collect();
    if answers.is_empty() {
        return;
    }
    for begin in 0..answers.len().min(4) {
        converse(answers[begin..].to_vec());
    }
}

/// How many of the calls went well.
fn converse(answers: Vec<Value>) -> usize {
    let asked = Arc::new(Mutex::new(0));
    let says = Says { answers, asked: Arc::clone(&asked) };
    let kept = crate::place::folder();
    let neutron = Neutron::over(Box::new(says), settings(), kept.path().to_owned());
    let again = || *asked.lock().expect("no thread panics with it") = 0;
    let net = "10.0.0.0/24".parse().expect("a subnet");
    let spec = PoolSpec {
        net: Some(net),
        part: None,
        family: Family::V4,
        subnet: None,
        network: None,
        pool: None,
        address_scope: None,
        shared: None,
    };
    let pool = judge(neutron.request_pool(&spec)).map(|pool| pool.id);
    let pool = pool.unwrap_or_else(|| "pool".parse().expect("an id"));
    let id = "a".repeat(64).parse().expect("an id");
    let part = SubnetPlan { net, gateway: None, auxiliary: Vec::new(), subnet: None, pool: None };
    let plan = CloudNetwork {
        id,
        existing: None,
        shared: None,
        subnets: vec![part],
        foreign_addresses: false,
        ports: PortSpec::default(),
    };
    again();
    let mut done = 0;
    let mut call = |went_well: bool| {
        again();
        done += usize::from(went_well);
    };
    call(judge(neutron.create_network(&plan)).is_some());
    for purpose in [AddressUse::Gateway, AddressUse::Container] {
        let address = Some("10.0.0.9".parse().expect("an address"));
        let spec = AddressSpec { pool: pool.clone(), address, mac: None, purpose };
        call(judge(neutron.request_address(&spec)).is_some());
    }
    let address = "10.0.0.9".parse().expect("an address");
    let records = || Ok(Vec::new());
    call(judge(neutron.release_address(&pool, address, &records)).is_some());
    let facts = || Ok(Facts::default());
    let found = judge(neutron.find_orphans(Breadth::Ports, &facts));
    call(found.is_some());
    let orphans = found.map(|found| found.orphans).unwrap_or_default();
    call(judge(neutron.remove_orphans(&orphans, &facts)).is_some());
    call(judge(neutron.find_wide_orphans(&facts)).is_some());
    call(judge(neutron.release_pool(&pool, &records)).is_some());
    call(judge(neutron.delete_network(&plan.id, &records)).is_some());
    done
}

fn judge<T>(done: Result<T>) -> Option<T> {
    if let Err(error) = &done {
        assert!(error.kind() != Kind::Bug, "{error}");
        assert!(error.to_string().len() < 8192, "a long story");
    }
    done.ok()
}

fn settings() -> Settings {
    let access = Access::of(Identity::None { project: None });
    let host = HostId::try_from("node".to_owned()).expect("a host");
    Settings::new(access, host).expect("settings")
}

/// What a database sends is the same messages however it is cut.
pub fn database(bytes: &[u8]) {
    let whole = neutron::ovsdb::decode_anything(bytes, usize::MAX);
    for piece in [1, 7] {
        assert_eq!(neutron::ovsdb::decode_anything(bytes, piece), whole);
    }
}

/// `kuryr.conf`, `clouds.yaml`.
pub fn cloud_settings(bytes: &[u8]) {
    neutron::config::decode_anything(&String::from_utf8_lossy(bytes));
}

#[cfg(test)]
mod tests {
    /// Otherwise what is made from them gets no further either.
    #[test]
    fn real_words_are_understood() {
        for input in crate::corpus("cloud") {
            let lines = input.split(|byte| *byte == b'\n');
            let answers: Vec<_> =
                lines.filter_map(|line| serde_json::from_slice(line).ok()).collect();
            if answers.len() == 1 {
                let done = super::converse(answers);
                assert!(done > 5, "{done}");
            }
        }
        for input in crate::corpus("database") {
            assert!(neutron::ovsdb::decode_anything(&input, 5) > 1);
        }
        let read = |input: Vec<u8>| {
            neutron::config::decode_anything(&String::from_utf8(input).expect("a text"))
        };
        for input in crate::corpus("cloud_settings") {
            assert!(read(input).contains(&true));
        }
    }
}
