//! From accepted sockets to requests.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use model::Error;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use super::listener::{Accepted, Bound};
use super::pace::{Pace, Paced};
use super::{Shared, Tls, bridge, reply};

/// The longest head of a request, in bytes; engines send about 200.
const LONGEST_HEAD: usize = 16 << 10;
/// Until the next attempt where there are no descriptors left.
const RECOVERY: Duration = Duration::from_millis(100);
/// For telling a peer that it cannot be served.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(1);

/// Accepts connections for ever. Beyond the limit further ones wait in the kernel's queue, and are
/// refused when that lasts too long; a connection without a request is closed for them.
pub(super) async fn accept_all(shared: Arc<Shared>, listener: Bound) {
    let mut crowded = false;
    loop {
        match listener.accept().await {
            Ok(accepted) => {
                let wait = if crowded { Duration::ZERO } else { shared.limits.timeout };
                crowded = !admit(&shared, accepted, wait).await;
            }
            Err(error) => {
                let error = Error::os("accepting a connection from Docker", error);
                shared.observe.trouble(&error.to_string());
                sleep(RECOVERY).await;
            }
        }
    }
}

/// Whether there was place for the connection.
async fn admit(shared: &Arc<Shared>, accepted: Accepted, wait: Duration) -> bool {
    let (place, shed) = shared.connections.take(wait).await;
    if shed {
        shared
            .observe
            .trouble("there are too many connections from Docker: a silent one was closed");
    }
    let Some(place) = place else {
        shared.observe.trouble("there are too many connections from Docker: one was refused");
        refuse(accepted).await;
        return false;
    };
    let shared = Arc::clone(shared);
    tokio::spawn(async move {
        let pace = place.pace();
        let conversation = async {
            match accepted {
                Accepted::Unix(stream) => {
                    let stays = !shared.limits.one_request;
                    converse(shared, (stream, pace), stays).await
                }
                Accepted::Tcp(stream) => converse(shared, (stream, pace), true).await,
                Accepted::Tls(stream, tls) => converse_secretly(shared, (stream, pace), tls).await,
            }
        };
        // Data that has arrived is read first.
        tokio::select! {
            biased;
            () = conversation => {}
            () = place.wanted() => {}
        }
    });
    true
}

async fn refuse(accepted: Accepted) {
    let send_refusal = async |stream: &mut (dyn AsyncWrite + Send + Unpin)| {
        // The peer may not read it.
        let _ = timeout(REFUSAL_TIMEOUT, stream.write_all(reply::CROWDED.as_bytes())).await;
    };
    match accepted {
        Accepted::Unix(mut stream) => send_refusal(&mut stream).await,
        Accepted::Tcp(mut stream) => send_refusal(&mut stream).await,
        Accepted::Tls(..) => {}
    }
}

async fn converse_secretly(shared: Arc<Shared>, (stream, pace): (TcpStream, Arc<Pace>), tls: Tls) {
    match timeout(shared.limits.reading, tls.acceptor().accept(stream)).await {
        Ok(Ok(stream)) => converse(shared, (stream, pace), true).await,
        Ok(Err(error)) => shared.observe.trouble(&format!("a TLS handshake failed: {error}")),
        Err(_) => shared.observe.trouble("a TLS handshake took too long"),
    }
}

async fn converse<S: AsyncRead + AsyncWrite + Unpin>(
    shared: Arc<Shared>,
    (stream, pace): (S, Arc<Pace>),
    stays: bool,
) {
    let paced = Paced::new(stream, Arc::clone(&pace), shared.limits.reading);
    let mut stop = shared.stop.clone();
    let (started, first_request) = (Arc::clone(&pace), shared.limits.first_request);
    let service = service_fn(move |request| {
        let (shared, pace) = (Arc::clone(&shared), Arc::clone(&pace));
        async move {
            pace.begin();
            let (response, kept) = bridge::respond(&shared, request).await;
            pace.answer(kept);
            Ok::<_, Infallible>(response)
        }
    });
    let connection = http1::Builder::new()
        .half_close(true)
        .keep_alive(stays)
        .header_read_timeout(None)
        .max_buf_size(LONGEST_HEAD)
        .serve_connection(TokioIo::new(paced), service);
    let mut connection = std::pin::pin!(connection);
    // How a conversation ends is the peer's business; each request has been reported.
    tokio::select! {
        biased;
        _ = connection.as_mut() => return,
        () = stop.requested() => {}
    }
    // A graceful shutdown closes a connection that nothing was read from, and loses what is written to it.
    if !started.has_started() {
        tokio::select! {
            biased;
            _ = connection.as_mut() => return,
            () = sleep(first_request) => {}
        }
    }
    connection.as_mut().graceful_shutdown();
    // The client may be gone, and the connection ends in any case.
    let _ = connection.await;
}
