//! A network and IPAM driver in memory, strict about its calls, that fails when the test says so.

mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};

use libnetwork::{
    AddressSpaces, Answer, Call, EndpointGiven, IpamCapabilities, Joined, Moved,
    NetworkCapabilities, PoolGiven, Profile, RequestAddress, RequestPool, Scope, Skip,
};
use model::{DriverName, Error, IpNet, Kind, hosts_of, next_address};
use remote::calls::{Calls, Failed, Fate, Life};

/// How a call goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The plugin is not there.
    Dead,
    /// It says no, and does nothing.
    Refused,
    /// It never saw the call, which the caller cannot know.
    Lost,
    /// It did it, and its answer is lost.
    AnswerLost,
    /// It did it, and its answer makes no sense.
    Nonsense,
    /// The caller is killed before.
    KilledBefore,
    /// The caller is killed before it sees the answer.
    KilledAfter,
}

type Faults = Box<dyn FnMut(usize, &Call) -> Option<Fault> + Send>;
type Answers = Box<dyn FnMut(&Call) -> Option<Answer> + Send>;

#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) net: IpNet,
    pub(crate) part: IpNet,
    pub(crate) references: u32,
    pub(crate) addresses: BTreeSet<IpAddr>,
}

#[derive(Debug, Default)]
pub(crate) struct Endpoint {
    pub(crate) is_joined: bool,
    pub(crate) is_programmed: bool,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) pools: BTreeMap<String, Pool>,
    pub(crate) networks: BTreeSet<String>,
    pub(crate) allocated: BTreeSet<String>,
    pub(crate) endpoints: BTreeMap<(String, String), Endpoint>,
    /// Every call that came, as text.
    pub(crate) log: Vec<String>,
    pub(crate) calls: Vec<Call>,
    /// What it should never have been asked.
    pub(crate) violations: Vec<String>,
    /// Answers with an address or pool of its own choice that were lost.
    pub(crate) lost_choices: usize,
    pub(crate) life: u32,
    /// What the keys of these pools begin with.
    pub(crate) prefixes: BTreeMap<IpNet, &'static str>,
    pub(crate) profile: Option<Profile>,
    pub(crate) faults: Option<Faults>,
    pub(crate) answers: Option<Answers>,
    pub(crate) joined: Joined,
    pub(crate) skip: Skip,
    count: usize,
}

#[derive(Default)]
pub(crate) struct Plugin(Mutex<State>);

impl Plugin {
    pub(crate) fn new() -> Arc<Self> {
        let plugin = Self::default();
        plugin.state().profile = Some(profile());
        Arc::new(plugin)
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The calls since the last time, by name.
    pub(crate) fn log(&self) -> Vec<String> {
        std::mem::take(&mut self.state().log)
    }

    /// From now on.
    pub(crate) fn fail(&self, faults: impl FnMut(usize, &Call) -> Option<Fault> + Send + 'static) {
        let mut state = self.state();
        state.count = 0;
        state.faults = Some(Box::new(faults));
    }

    pub(crate) fn work(&self) {
        self.state().faults = None;
    }

    pub(crate) fn answer(&self, answers: impl FnMut(&Call) -> Option<Answer> + Send + 'static) {
        self.state().answers = Some(Box::new(answers));
    }

    /// How many calls came since [`Plugin::fail`].
    pub(crate) fn count(&self) -> usize {
        self.state().count
    }

    #[track_caller]
    pub(crate) fn is_empty(&self) {
        let state = self.state();
        assert!(state.endpoints.is_empty(), "endpoints: {:?}", state.endpoints);
        assert!(state.networks.is_empty(), "networks: {:?}", state.networks);
        assert!(state.allocated.is_empty(), "allocated: {:?}", state.allocated);
        assert!(state.pools.is_empty(), "pools: {:?}", state.pools);
        assert_eq!(state.violations, Vec::<String>::new());
    }
}

pub(crate) fn profile() -> Profile {
    let scope = Scope::Local;
    Profile {
        network: Some(NetworkCapabilities { scope, connectivity: scope, checks_gateways: false }),
        ipam: Some(IpamCapabilities { requires_mac: false, requires_replay: false }),
        spaces: Some(AddressSpaces {
            local: "local".parse().unwrap(),
            global: "global".parse().unwrap(),
        }),
    }
}

impl Calls for Plugin {
    fn call(&self, driver: &DriverName, call: &Call) -> Result<Answer, Failed> {
        let mut state = self.state();
        state.log.push(words::describe(call));
        state.calls.push(call.clone());
        let count = state.count;
        state.count += 1;
        let fault = state.faults.as_mut().and_then(|faults| faults(count, call));
        let failed = |kind, what: &str, fate| {
            Failed::new(Error::new(kind, format!("plugin {driver}: {what}")), fate)
        };
        match fault {
            Some(Fault::Dead) => {
                return Err(failed(Kind::TryAgain, "connection refused", Fate::Unsent));
            }
            Some(Fault::Refused) => return Err(failed(Kind::TryAgain, "boom", Fate::Refused)),
            Some(Fault::Lost) => return Err(failed(Kind::TryAgain, "timed out", Fate::Unknown)),
            Some(Fault::KilledBefore) => {
                drop(state);
                panic!("killed before {call:?}");
            }
            Some(Fault::AnswerLost | Fault::Nonsense | Fault::KilledAfter) | None => {}
        }
        let own = state.answers.as_mut().and_then(|answers| answers(call));
        let done = state.carry_out(call);
        let done = done.map(|answer| own.unwrap_or(answer));
        let answer = done.map_err(|(kind, what)| failed(kind, &what, Fate::Refused))?;
        let is_choice = match call {
            Call::RequestAddress(request) => request.address.is_none(),
            Call::RequestPool(request) => request.pool.is_none(),
            _ => false,
        };
        match fault {
            Some(Fault::AnswerLost) => {
                state.lost_choices += usize::from(is_choice);
                Err(failed(Kind::TryAgain, "timed out", Fate::Unknown))
            }
            Some(Fault::Nonsense) => {
                let mut failed = failed(Kind::Invalid, "its answer is no JSON", Fate::Done);
                failed.undo = undo_of(call, &answer).map(Box::new);
                state.lost_choices += usize::from(is_choice && failed.undo.is_none());
                Err(failed)
            }
            Some(Fault::KilledAfter) => {
                state.lost_choices += usize::from(is_choice);
                drop(state);
                panic!("killed after {call:?}");
            }
            _ => Ok(answer),
        }
    }

    fn profile(&self, _: &DriverName) -> Result<Arc<Profile>, Failed> {
        Ok(Arc::new(self.state().profile.clone().unwrap()))
    }

    fn life(&self, _: &DriverName) -> Result<Life, Failed> {
        Ok(Life(self.state().life.to_string()))
    }

    fn installed(&self) -> Vec<DriverName> {
        vec!["plug".parse().unwrap()]
    }
}

fn undo_of(call: &Call, answer: &Answer) -> Option<Call> {
    match (call, answer) {
        (Call::RequestPool(_), Answer::Pool(given)) => Some(Call::ReleasePool(given.key.clone())),
        (Call::RequestAddress(request), Answer::Address { address, .. }) => {
            let (pool, address) = (request.pool.clone(), address.addr());
            Some(Call::ReleaseAddress(libnetwork::ReleaseAddress { pool, address }))
        }
        _ => None,
    }
}

type Done = Result<Answer, (Kind, String)>;

fn unknown(what: &str) -> (Kind, String) {
    (Kind::NotFound, format!("{what} not found"))
}

impl State {
    fn carry_out(&mut self, call: &Call) -> Done {
        match call {
            Call::GwAllocCheck(_) => Ok(Answer::Skip(self.skip)),
            Call::CreateNetwork(create) => match self.networks.insert(create.id.to_string()) {
                true => Ok(Answer::Done {}),
                false => Err((Kind::TryAgain, "there is such a network".into())),
            },
            Call::DeleteNetwork(id) => {
                if self.endpoints.keys().any(|(network, _)| network == id.as_str()) {
                    self.violations.push(format!("DeleteNetwork {id} with endpoints"));
                }
                let was = self.networks.remove(id.as_str());
                if was { Ok(Answer::Done {}) } else { Err(unknown("network")) }
            }
            Call::AllocateNetwork(allocate) => {
                self.allocated.insert(allocate.id.to_string());
                Ok(Answer::Allocated { options: BTreeMap::from([("vni".into(), "7".into())]) })
            }
            Call::FreeNetwork(id) => {
                let was = self.allocated.remove(id.as_str());
                if was { Ok(Answer::Done {}) } else { Err(unknown("network")) }
            }
            Call::CreateEndpoint(create) => {
                if !self.networks.contains(create.at.network.as_str()) {
                    return Err(unknown("network"));
                }
                let key = (create.at.network.to_string(), create.at.endpoint.to_string());
                if self.endpoints.contains_key(&key) {
                    return Err((Kind::TryAgain, "there is such an endpoint".into()));
                }
                self.endpoints.insert(key, Endpoint::default());
                Ok(Answer::Endpoint { interface: EndpointGiven::default() })
            }
            Call::RequestPool(request) => self.request_pool(request),
            Call::ReleasePool(key) => self.release_pool(key.as_str()),
            Call::RequestAddress(request) => self.request_address(request),
            Call::ReleaseAddress(release) => {
                let pool = self.pools.get_mut(release.pool.as_str()).ok_or(unknown("pool"))?;
                pool.addresses.remove(&release.address);
                Ok(Answer::Done {})
            }
            Call::DiscoverNew(_) | Call::DiscoverDelete(_) => Ok(Answer::Done {}),
            _ => self.of_endpoint(call),
        }
    }

    fn of_endpoint(&mut self, call: &Call) -> Done {
        let at = match call {
            Call::Join(join) => &join.at,
            Call::ProgramConnectivity(program) => &program.at,
            Call::Leave(at)
            | Call::DeleteEndpoint(at)
            | Call::RevokeConnectivity(at)
            | Call::EndpointOperInfo(at) => at,
            other => panic!("{other:?}"),
        };
        let key = (at.network.to_string(), at.endpoint.to_string());
        let endpoint = self.endpoints.get_mut(&key).ok_or(unknown("endpoint"))?;
        match call {
            Call::Join(_) if endpoint.is_joined => Err((Kind::TryAgain, "has joined".into())),
            Call::Join(_) => {
                endpoint.is_joined = true;
                Ok(Answer::Joined(Box::new(self.joined.clone())))
            }
            Call::Leave(_) if !endpoint.is_joined => Err(unknown("sandbox")),
            Call::Leave(_) => {
                endpoint.is_joined = false;
                Ok(Answer::Done {})
            }
            Call::ProgramConnectivity(_) => {
                endpoint.is_programmed = true;
                Ok(Answer::Done {})
            }
            Call::RevokeConnectivity(_) => {
                endpoint.is_programmed = false;
                Ok(Answer::Done {})
            }
            Call::DeleteEndpoint(_) => {
                self.endpoints.remove(&key);
                Ok(Answer::Done {})
            }
            _ => Ok(Answer::Info { value: BTreeMap::from([("state".into(), "up".into())]) }),
        }
    }

    fn request_pool(&mut self, request: &RequestPool) -> Done {
        let free = || {
            (0..200).map(|n| -> IpNet {
                let text = match request.v6 {
                    false => format!("10.9.{n}.0/24"),
                    true => format!("fd09:{n}::/64"),
                };
                text.parse().unwrap()
            })
        };
        let is_taken = |net: &IpNet| self.pools.values().any(|pool| pool.net == *net);
        let net = request.pool.or_else(|| free().find(|net| !is_taken(net)));
        let net = net.ok_or((Kind::Exhausted, "no available pools".to_owned()))?;
        let part = request.sub.unwrap_or(net);
        let prefix = self.prefixes.get(&net).copied().unwrap_or_default();
        let key = format!("{prefix}{}|{net}|{part}", request.space);
        let fresh = || Pool { net, part, references: 0, addresses: BTreeSet::new() };
        self.pools.entry(key.clone()).or_insert_with(fresh).references += 1;
        let key = key.parse().unwrap();
        Ok(Answer::Pool(PoolGiven { key, pool: net, data: BTreeMap::new() }))
    }

    fn release_pool(&mut self, key: &str) -> Done {
        let pool = self.pools.get_mut(key).ok_or(unknown("pool"))?;
        pool.references -= 1;
        if pool.references == 0 {
            // What no call can name goes with the pool; anything else is released before.
            if pool.addresses.len() > self.lost_choices {
                let what = format!("ReleasePool {key} with {:?}", pool.addresses);
                self.violations.push(what);
            }
            self.pools.remove(key);
        }
        Ok(Answer::Done {})
    }

    fn request_address(&mut self, request: &RequestAddress) -> Done {
        let pool = self.pools.get_mut(request.pool.as_str()).ok_or(unknown("pool"))?;
        let address = match request.address {
            Some(address) if pool.addresses.contains(&address) => {
                return Err((Kind::Conflict, format!("address {address} is in use")));
            }
            Some(address) => address,
            None => {
                let (first, last) = hosts_of(&pool.part);
                let mut next = Some(first);
                loop {
                    let full = || (Kind::Exhausted, "No available addresses".to_owned());
                    let address = next.filter(|next| *next <= last).ok_or_else(full)?;
                    if !pool.addresses.contains(&address) {
                        break address;
                    }
                    next = next_address(address);
                }
            }
        };
        pool.addresses.insert(address);
        let address = IpNet::new(address, pool.net.prefix_len()).unwrap();
        Ok(Answer::Address { address, data: BTreeMap::new() })
    }
}

/// One link that the driver made, and a way out.
pub(crate) fn joined(source: &str, gateway: &str) -> Joined {
    Joined {
        interface: Some(Moved { from: source.parse().unwrap(), prefix: "eth".into() }),
        gateway: gateway.parse().ok(),
        ..Joined::default()
    }
}

/// What is killed on purpose says nothing of it.
pub(crate) fn kills_are_quiet() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let text = info.payload().downcast_ref::<String>();
            if !text.is_some_and(|text| text.starts_with("killed ")) {
                before(info);
            }
        }));
    });
}
