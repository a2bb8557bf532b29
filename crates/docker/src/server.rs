//! The protocol's server: HTTP/1.1 on any number of sockets, over one synchronous [`Plugin`].
//!
//! This is the only asynchronous code of the crate. Questions are answered on the one thread that
//! serves all connections. Work crosses over to a few other threads in `bridge`, and only there. A
//! call that has arrived whole is carried out to its end, even if its connection ends.

mod body;
mod bridge;
mod connection;
mod connection_slots;
mod in_flight;
mod listener;
mod manner;
mod pace;
mod reply;
mod tls;

use std::sync::Arc;
use std::time::Duration;

use model::{Error, Kind, Result};
use tokio::sync::{Semaphore, watch};

use connection_slots::ConnectionSlots;
pub use in_flight::InFlight;
use libnetwork::{Answer, Call, Method, Profile};
pub use listener::Listener;
pub use manner::Manner;
pub use tls::{Pem, Tls};

/// Answers calls.
pub trait Plugin: Send + Sync + 'static {
    /// Its profile; never blocks.
    fn profile(&self) -> &Profile;

    /// Carries out a call, on one of a few threads that wait for nothing else.
    fn call(&self, call: Call) -> Result<Answer>;

    /// Whether the call waits for third parties, which may not answer for long. It is asked on such a thread
    /// too.
    fn asks_others(&self, call: &Call) -> bool {
        let _ = call;
        false
    }

    /// How it speaks HTTP.
    fn manner(&self) -> Manner {
        Manner::default()
    }
}

/// Observes each request, for logs and metrics. It may not block.
pub trait Observe: Send + Sync + 'static {
    /// A request was answered.
    fn answered(&self, request: &Answered<'_>);

    /// Something else went wrong: a connection could not be accepted, a peer not be trusted.
    fn trouble(&self, what: &str);
}

/// A request that was answered.
#[derive(Clone, Copy, Debug)]
pub struct Answered<'a> {
    /// Which call; none if there is no such call.
    pub method: Option<Method>,
    /// The id of what it was about.
    pub subject: Option<&'a str>,
    /// How it went.
    pub outcome: Outcome,
    /// The error in the answer, if there is one.
    pub error: Option<&'a str>,
    /// From the request's head to its answer, waiting included.
    pub took: Duration,
}

/// How a request went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Well.
    Done,
    /// It was understood and failed.
    Failed(Kind),
    /// It was not carried out; the HTTP status.
    Refused(u16),
}

/// The limits of the server.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Open connections. Idle ones are never closed, or the engine's next call would be lost; where there
    /// are too many, those are on which nothing was ever asked, the oldest first.
    pub connections: usize,
    /// Whether a connection at a unix socket serves one request. What an engine writes into one that
    /// stays open is lost if this process is killed, and a process that is killed takes its time to
    /// close it; what waits at a socket that outlives this process is not.
    pub one_request: bool,
    /// Calls that work at the same time, each on its own thread.
    pub calls: usize,
    /// Calls that wait for third parties at the same time, each on its own thread beside those: however many
    /// do not answer, the other calls have their turns.
    pub asking: usize,
    /// Large bodies that are read at the same time.
    pub large_bodies: usize,
    /// The stack of each thread, in bytes; memory is used only so far as a call needs it.
    pub stack: usize,
    /// From a request's first byte to the end of its head, from there to the end of its body,
    /// and for the TLS handshake.
    pub reading: Duration,
    /// How long a call or a connection waits for its turn before it is refused with status 503.
    pub timeout: Duration,
    /// How long calls may continue after the server is stopped.
    pub stopping: Duration,
    /// How long a connection may bring its first request after that: an engine that is connected
    /// is about to write.
    pub first_request: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 256,
            one_request: true,
            calls: 8,
            asking: 32,
            large_bodies: 4,
            stack: 512 << 10,
            reading: Duration::from_secs(10),
            timeout: Duration::from_secs(30),
            stopping: Duration::from_secs(10),
            first_request: Duration::from_millis(500),
        }
    }
}

/// A server that has not begun.
pub struct Server {
    /// The plugin.
    pub plugin: Arc<dyn Plugin>,
    /// The observer.
    pub observe: Arc<dyn Observe>,
    /// The limits.
    pub limits: Limits,
    /// Where requests outlive a life that is killed; without it they are lost with it.
    pub in_flight: Option<InFlight>,
}

/// Ends a [`Server::run`], from any thread. Dropping it does the same.
#[derive(Debug)]
pub struct Stopper(watch::Sender<bool>);

/// The signal that ends [`Server::run`].
#[derive(Clone, Debug)]
pub struct Stop(watch::Receiver<bool>);

impl Stopper {
    /// A stopper and what it stops.
    pub fn pair() -> (Stopper, Stop) {
        let (sender, receiver) = watch::channel(false);
        (Stopper(sender), Stop(receiver))
    }

    /// Accept nothing more, finish what is being worked on, and return.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

impl Stop {
    async fn requested(&mut self) {
        // An error says that the stopper is gone, which means the same.
        let _ = self.0.wait_for(|stopped| *stopped).await;
    }
}

/// The state that all connections share.
struct Shared {
    plugin: Arc<dyn Plugin>,
    observe: Arc<dyn Observe>,
    limits: Limits,
    connections: ConnectionSlots,
    calls: Arc<Semaphore>,
    asking: Arc<Semaphore>,
    large_bodies: Semaphore,
    in_flight: Option<Arc<InFlight>>,
    stop: Stop,
}

impl Server {
    /// Serves the listeners until `stop`, on this thread. Fails if a listener cannot be used, and
    /// with [`Kind::TryAgain`] if calls were still at work when the time for stopping was over.
    pub fn run(self, listeners: Vec<Listener>, stop: Stop) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(self.limits.calls + self.limits.asking)
            .thread_stack_size(self.limits.stack)
            .thread_name("docker-call")
            .build()
            .map_err(|error| Error::os("starting the server for Docker", error))?;
        let shared = Arc::new(self.share(stop));
        bridge::settle(&shared);
        let result = runtime.block_on(serve(shared, listeners));
        runtime.shutdown_background();
        result
    }

    fn share(self, stop: Stop) -> Shared {
        let Server { plugin, observe, limits, in_flight } = self;
        Shared {
            plugin,
            observe,
            connections: ConnectionSlots::new(limits.connections),
            calls: Arc::new(Semaphore::new(limits.calls)),
            asking: Arc::new(Semaphore::new(limits.asking)),
            large_bodies: Semaphore::new(limits.large_bodies),
            in_flight: in_flight.map(Arc::new),
            limits,
            stop,
        }
    }
}

async fn serve(shared: Arc<Shared>, listeners: Vec<Listener>) -> Result<()> {
    let bound = listeners.into_iter().map(Listener::bind).collect::<Result<Vec<_>>>()?;
    let accepting: Vec<_> = bound
        .into_iter()
        .map(|listener| tokio::spawn(connection::accept_all(Arc::clone(&shared), listener)))
        .collect();
    shared.stop.clone().requested().await;
    for task in accepting {
        task.abort();
        // It ends with an error because it was aborted; what it held is free then.
        let _ = task.await;
    }
    let Limits { connections, stopping, .. } = shared.limits;
    match shared.connections.all(connections, stopping).await {
        true => Ok(()),
        false => Err(Error::try_again("the server for Docker stopped while calls were at work")),
    }
}
