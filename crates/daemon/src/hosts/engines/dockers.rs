//! Docker's engines of this host, in which networks are made and removed by its API.

use std::time::{Duration, Instant};

use docker::api::{Api, SharedIn, SharedList};
use model::{Error, NetworkName, Result, Runtime, SharedNetwork};

use crate::Daemon;

/// How long an engine may take for one call.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The engines, as one pass over all networks finds them.
pub(super) struct Dockers<'a> {
    daemon: &'a Daemon,
    there: Vec<Engine>,
    /// Whether an engine of the configuration is not there.
    is_one_away: bool,
}

/// An engine. It is asked once for its networks, and no more in this pass once it has not answered, so that the other
/// networks and engines do not wait for it.
struct Engine {
    api: Api,
    timeout: Duration,
    list: Option<SharedList>,
    failure: Option<String>,
}

impl<'a> Dockers<'a> {
    pub(super) fn new(daemon: &'a Daemon) -> Self {
        let config = &daemon.context_pool.config().docker;
        let sockets = config.api.iter().filter(|socket| config.enabled && socket.exists());
        let there: Vec<Engine> = sockets.map(|socket| Engine::new(socket, TIMEOUT)).collect();
        let is_one_away = there.is_empty() || there.len() < config.api.len();
        Self { daemon, there, is_one_away }
    }

    /// Makes a network in each; `false` where there is none.
    pub(super) fn make(&mut self, name: &NetworkName, network: &SharedNetwork) -> Result<bool> {
        let driver = self.daemon.context_pool.config().docker.driver();
        let (subnets, internal) = (network.nets().collect(), network.rules.internal);
        let wanted = SharedIn { name, driver, subnets, internal };
        self.ask(|api, list| api.ensure_shared(list, &wanted))?;
        Ok(!self.there.is_empty())
    }

    /// Removes it from each.
    pub(super) fn remove(&mut self, name: &NetworkName) -> Result<()> {
        let driver = self.daemon.context_pool.config().docker.driver();
        self.ask(|api, list| api.remove_shared(list, name, driver))?;
        match self.is_one_away && self.is_known(name)? {
            true => Err(Error::try_again("Docker has it, and is not there")),
            false => Ok(()),
        }
    }

    /// Each of them, also where one fails.
    fn ask(&mut self, what: impl Fn(&Api, &SharedList) -> Result<bool>) -> Result<()> {
        let asked = self.there.iter_mut().map(|engine| engine.ask(&what));
        asked.fold(Ok(()), Result::and)
    }

    /// Whether Docker has an id for a network, which Docker gives up itself.
    fn is_known(&self, name: &NetworkName) -> Result<bool> {
        let context_pool = &self.daemon.context_pool;
        let aliases = context_pool.with(|host_context| host_context.engine().records.aliases())?;
        Ok(aliases.iter().any(|alias| alias.network == *name && alias.runtime == Runtime::Docker))
    }
}

impl Engine {
    fn new(socket: &std::path::Path, timeout: Duration) -> Self {
        Self { api: Api::new(socket, timeout), timeout, list: None, failure: None }
    }

    /// `what`: asks it, by what it listed, for one network; whether it lists something else by now.
    fn ask(&mut self, what: impl FnOnce(&Api, &SharedList) -> Result<bool>) -> Result<()> {
        if let Some(failure) = &self.failure {
            return Err(Error::try_again(failure.clone()));
        }
        let list = match self.list.take() {
            Some(list) => list,
            None => self.api.list_shared().inspect_err(|error| {
                self.failure = Some(error.to_string());
            })?,
        };
        let began = Instant::now();
        let is_outdated = what(&self.api, &list).inspect_err(|error| {
            // It has not answered. Where it refused, that is of this network alone.
            if began.elapsed() >= self.timeout {
                self.failure = Some(error.to_string());
            }
        })?;
        self.list = Some(list).filter(|_| !is_outdated);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, ErrorKind, Write};
    use std::os::unix::net::UnixListener;
    use std::thread;

    use super::*;

    /// Answers one request with an empty list, and ends.
    fn answer_once(listener: UnixListener) {
        let (mut stream, _) = listener.accept().unwrap();
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
        while lines.next().is_some_and(|line| !line.unwrap().is_empty()) {}
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]").unwrap();
    }

    #[test]
    fn an_engine_is_asked_once_for_its_networks() {
        let root = tempfile::tempdir().unwrap();
        let socket = root.path().join("docker.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let answered = thread::spawn(move || answer_once(listener));
        let mut engine = Engine::new(&socket, Duration::from_secs(60));
        engine.ask(|_, _| Ok(false)).unwrap();
        answered.join().unwrap();
        let refused = engine.ask(|_, _| Err(Error::conflict("another's"))).unwrap_err();
        assert_eq!(refused.to_string(), "another's");
        // After a refusal, or a change, it is asked again.
        let error = engine.ask(|_, _| Ok(true)).unwrap_err();
        assert!(error.to_string().contains("does not answer GET /networks"), "{error}");
    }

    #[test]
    fn an_engine_that_does_not_answer_is_not_waited_for_again() {
        let root = tempfile::tempdir().unwrap();
        let socket = root.path().join("docker.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let mut engine = Engine::new(&socket, Duration::from_millis(1));
        let first = engine.ask(|_, _| Ok(false)).unwrap_err().to_string();
        assert_eq!(engine.ask(|_, _| Ok(false)).unwrap_err().to_string(), first);
        drop(listener.accept().unwrap());
        listener.set_nonblocking(true).unwrap();
        assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    }
}
