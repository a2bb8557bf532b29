//! What this Neutron can do beyond the API that each has.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use model::Result;
use serde::{Deserialize, Serialize};

use crate::Neutron;
use crate::auth::Auth;

/// How long the list is good: operators upgrade Neutron while we run.
const GOOD: Duration = Duration::from_secs(3600);

/// What the list is called among what processes share.
const NAME: &str = "extensions";

/// The aliases of extensions, and when they were read.
#[derive(Debug, Default)]
pub(crate) struct Extensions(Mutex<Option<Arc<Listed>>>);

#[derive(Debug, Serialize, Deserialize)]
struct Listed {
    at: SystemTime,
    aliases: BTreeSet<String>,
}

impl Listed {
    fn is_good(&self, now: SystemTime) -> bool {
        now.duration_since(self.at).is_ok_and(|age| age < GOOD)
    }
}

impl Neutron {
    /// Whether Neutron has this extension. Asked for once an hour and host.
    ///
    /// # Errors
    /// Neutron's, where it must be asked.
    pub fn has_extension(&self, alias: &str) -> Result<bool> {
        Ok(self.listed()?.aliases.contains(alias))
    }

    fn listed(&self) -> Result<Arc<Listed>> {
        let now = SystemTime::now();
        let lock = || self.extensions.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(listed) = lock().as_ref().filter(|listed| listed.is_good(now)) {
            return Ok(Arc::clone(listed));
        }
        let cache = Auth::cache(&self.settings.access, &self.directory);
        let left = cache.read::<Listed>(NAME).filter(|listed| listed.is_good(now));
        let listed = match left {
            Some(listed) => listed,
            None => {
                let aliases = self.api().extensions()?.into_iter().collect();
                let listed = Listed { at: now, aliases };
                cache.write(NAME, &listed);
                listed
            }
        };
        let listed = Arc::new(listed);
        *lock() = Some(Arc::clone(&listed));
        Ok(listed)
    }
}
