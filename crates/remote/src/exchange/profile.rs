//! The profile of a plugin: known, noted by another process, or asked for.

use std::sync::Arc;

use libnetwork::Profile;
use model::{DriverName, Result};

use crate::activate::{Activated, Manuscript};
use crate::calls::Failed;
use crate::discover::Installed;
use crate::notes::Matter;
use crate::plugins::{Plugins, lock};
use crate::request::Until;

impl Plugins {
    pub(super) fn activated(
        &self,
        name: &DriverName,
        until: &Until,
    ) -> Result<Arc<Profile>, Failed> {
        let plugin = self.plugin(name);
        let mut activated = lock(&plugin.activated);
        let found = self.find(name).ok();
        if let (Some(activated), Some(installed)) = (&*activated, &found)
            && activated.life == installed.life()
        {
            return Ok(Arc::clone(&activated.profile));
        }
        let noted = match (&*activated, &found) {
            (None, Some(installed)) => self.noted(name, installed),
            // This process's note has expired, and so have those of others.
            _ => None,
        };
        let fresh = match noted {
            Some(noted) => noted,
            None => self.ask(name, found.as_ref(), until)?,
        };
        let profile = Arc::clone(&fresh.profile);
        *activated = Some(fresh);
        Ok(profile)
    }

    fn noted(&self, name: &DriverName, installed: &Installed) -> Option<Activated> {
        let manuscript: Manuscript = self.notes.read(name, Matter::Manifest)?;
        manuscript.read(name, installed)
    }

    fn ask(
        &self,
        name: &DriverName,
        found: Option<&Installed>,
        until: &Until,
    ) -> Result<Activated, Failed> {
        let mut manuscript = found.map(Manuscript::new);
        let fresh = Activated::ask(name, |request| {
            let replied = self.exchange(name, request, until)?;
            // Another one may have answered by now.
            manuscript =
                manuscript.take().filter(|_| found.is_some_and(|it| it.life() == replied.life));
            if let Some(manuscript) = &mut manuscript {
                manuscript.take(request, &replied.reply);
            }
            Ok(replied)
        })?;
        if let Some(manuscript) = manuscript {
            self.notes.write(name, Matter::Manifest, &manuscript);
        }
        Ok(fresh)
    }
}
