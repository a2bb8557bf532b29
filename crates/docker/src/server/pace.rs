//! How long a request's head may take, and when its answer is sent. The clock starts with its first
//! byte: between requests a connection may be idle for ever.

use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use super::bridge::KeptRequest;

/// Counts how often work on a request began or ended: the count is odd while a request is being
/// worked on, that is when its head is complete and its answer is not.
#[derive(Default)]
pub(super) struct Pace {
    steps: AtomicU64,
    /// The request whose answer is on its way.
    answered: Mutex<KeptRequest>,
}

impl Pace {
    /// A request's head is complete.
    pub(super) fn begin(&self) {
        self.steps.fetch_add(1, Ordering::Relaxed);
    }

    /// Its answer is. The request is kept until that has been sent.
    pub(super) fn answer(&self, request: KeptRequest) {
        self.steps.fetch_add(1, Ordering::Relaxed);
        *self.answered.lock().unwrap_or_else(PoisonError::into_inner) = request;
    }

    /// Whether there has been any request.
    pub(super) fn has_started(&self) -> bool {
        self.count() > 0
    }

    fn sent(&self) {
        drop(self.answered.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    fn count(&self) -> u64 {
        self.steps.load(Ordering::Relaxed)
    }
}

/// A stream that fails when the head of a request takes too long.
pub(super) struct Paced<S> {
    stream: S,
    pace: Arc<Pace>,
    limit: Duration,
    /// The count at which `head` began to run.
    count: u64,
    /// Runs while a head is being read.
    head: Option<Pin<Box<Sleep>>>,
}

impl<S> Paced<S> {
    pub(super) fn new(stream: S, pace: Arc<Pace>, limit: Duration) -> Self {
        Self { stream, pace, limit, count: 0, head: None }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Paced<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let count = this.pace.count();
        if count != this.count {
            this.count = count;
            this.head = None;
        }
        if !count.is_multiple_of(2) {
            return Pin::new(&mut this.stream).poll_read(cx, buffer);
        }
        if let Some(head) = &mut this.head
            && head.as_mut().poll(cx).is_ready()
        {
            return Poll::Ready(Err(ErrorKind::TimedOut.into()));
        }
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.stream).poll_read(cx, buffer);
        if this.head.is_none() && buffer.filled().len() > before {
            let deadline = Instant::now() + this.limit;
            this.head = Some(Box::pin(tokio::time::sleep_until(deadline)));
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Paced<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        if let Poll::Ready(Ok(())) = &flushed {
            self.pace.sent();
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
