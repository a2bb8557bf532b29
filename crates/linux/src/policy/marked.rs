//! Elements that bear the mark of an owner.

use model::Result;

use super::Policy;
use crate::filter;

impl Policy {
    /// The marks of all owners of elements.
    pub(crate) fn marks(&self) -> Result<Vec<String>> {
        let owners = self.if_there(filter::list_owners)?;
        let mut marks = self.if_there(filter::spoof::owners)?;
        marks.extend(self.if_there(filter::quota::owners)?);
        marks.extend(owners.keys().map(|owner| owner.as_str().to_owned()));
        Ok(marks.into_iter().collect())
    }

    /// Removes everything that bears the mark.
    pub(crate) fn remove_marked(&self, mark: &str) -> Result<()> {
        let owner = mark.parse()?;
        self.if_there(|socket| filter::spoof::remove_owned(socket, &owner))?;
        self.if_there(|socket| filter::quota::remove_owned(socket, &owner))?;
        self.take_out(&self.owned(&owner)?, None)
    }
}
