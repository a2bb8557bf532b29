//! A request's body: bounded in length and time.

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use tokio::time::timeout;

use super::Shared;
use libnetwork::LONGEST_BODY;

/// Longer bodies, and those without a length, are read a few at a time, so that many slow peers
/// cannot fill the memory.
const SMALL: u64 = 64 << 10;
/// As much of a body that is too long is still read and thrown away, so that a peer that sends
/// before it listens comes to read why it is refused.
const THROWN_AWAY: usize = 8 * LONGEST_BODY;

/// Why there is no body.
pub(super) enum Unread {
    TooLong,
    TooSlow,
    Broken(hyper::Error),
}

pub(super) async fn read(shared: &Shared, body: Incoming) -> Result<Vec<u8>, Unread> {
    let limit = shared.limits.reading;
    let is_small = body.size_hint().upper().is_some_and(|upper| upper <= SMALL);
    let reading = async {
        let _turn = match is_small {
            true => None,
            false => shared.large_bodies.acquire().await.ok(),
        };
        collect(body).await
    };
    timeout(limit, reading).await.unwrap_or(Err(Unread::TooSlow))
}

async fn collect(mut body: Incoming) -> Result<Vec<u8>, Unread> {
    let mut bytes = Vec::new();
    let mut total = 0usize;
    while let Some(chunk) = chunk(&mut body).await? {
        total = total.saturating_add(chunk.len());
        if total <= LONGEST_BODY {
            bytes.extend_from_slice(&chunk);
        } else if total > THROWN_AWAY {
            break;
        } else {
            bytes = Vec::new();
        }
    }
    if total > LONGEST_BODY { Err(Unread::TooLong) } else { Ok(bytes) }
}

/// The next piece; trailers are none.
async fn chunk(body: &mut Incoming) -> Result<Option<Bytes>, Unread> {
    match body.frame().await {
        None => Ok(None),
        Some(Ok(frame)) => Ok(Some(frame.into_data().unwrap_or_default())),
        Some(Err(error)) => Err(Unread::Broken(error)),
    }
}
