//! Images for containers that are to be started.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use image::Image;
use model::{Error, Kind, Result};

use super::{NetworkingPod, PluginSpec};

/// The interval of checks whether the caller waits still.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

impl NetworkingPod {
    /// The image, fetched by a thread of its own where it is not here: a registry that sends a byte
    /// now and then keeps no caller longer than the limit. What is fetched later is in the cache then.
    ///
    /// # Errors
    /// Why there is none; [`Kind::TryAgain`] where it does not come in time, or `is_over`.
    pub(super) fn image(&self, wanted: &PluginSpec, is_over: &dyn Fn() -> bool) -> Result<Image> {
        let (images, locator, keys) =
            (Arc::clone(&self.images), wanted.image.clone(), wanted.keys.clone());
        let (sender, receiver) = mpsc::channel();
        // If the receiver is gone, it waits no more.
        let fetch = move || drop(sender.send(images.get(&locator, &keys)));
        let made = thread::Builder::new().name("kurma-fetch".to_owned()).spawn(fetch);
        made.map_err(|error| Error::os("making a thread that fetches an image", error))?;
        let deadline = Instant::now() + self.limits.fetch;
        loop {
            match receiver.recv_timeout(POLL_INTERVAL) {
                Ok(fetched) => return fetched,
                Err(RecvTimeoutError::Timeout) if Instant::now() < deadline && !is_over() => {}
                Err(RecvTimeoutError::Timeout) => {
                    let (image, seconds) = (&wanted.image, self.limits.fetch.as_secs());
                    let what = format!(
                        "image {image} is not here after {seconds} s: \"spoke kurma pull {image}\" \
                         fetches it without that limit"
                    );
                    return Err(Error::new(Kind::TryAgain, what));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Error::bug("the thread that fetches an image has ended"));
                }
            }
        }
    }

    /// Has the image in the cache before anything waits for the container.
    pub(super) fn prefetch(&self, wanted: &PluginSpec, is_over: &dyn Fn() -> bool) -> Result<()> {
        match self.images.cached(&wanted.image, &wanted.keys)? {
            Some(_) => Ok(()),
            None => self.image(wanted, is_over).map(drop),
        }
    }
}
