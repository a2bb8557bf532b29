//! The names of this host's address holders, as other hosts read them.
//!
//! Docker asks for an address before it says for which container, and an earlier one than 29 never says it: its API tells
//! the name, in a moment.

use cluster::{Etcd, View, book};
use model::{Holder, Result, Runtime};

use super::address_lock::NetworkAddress;
use crate::hosts::Attached;
use crate::hosts::keep::Keeper;

impl Keeper<'_> {
    /// Its runtime and its container's name, or what is known instead.
    pub(in crate::hosts) fn shown(&self, holder: &Holder) -> String {
        let of_holder = holder.owner.as_ref().map(ToString::to_string);
        let pool = holder.lease.pool.as_ref();
        let place = pool.map(|pool| (pool.network.clone(), holder.lease.address.addr()));
        let called = || {
            let state = self.hosts.lock();
            let owner = state.attached.as_ref()?.called.get(place.as_ref()?)?;
            Some(owner.to_string())
        };
        let id = || holder.attachment().map(|id| id.container.to_string());
        let name =
            of_holder.or_else(called).or_else(id).unwrap_or_else(|| "a container".to_owned());
        format!("{}/{name}", holder.runtime)
    }

    /// Tells the others the name of the container of Docker's that has an address from them, once it is known.
    pub(in crate::hosts) fn call_by_name(
        &self,
        etcd: &Etcd,
        view: &mut View,
        place: &NetworkAddress,
        attached: &Attached,
    ) -> Result<()> {
        let name = attached.called.get(place).map(ToString::to_string);
        let Some((name, (pin, at))) = name.zip(view.pins.get(place).cloned()) else {
            return Ok(());
        };
        let by = format!("{}/{name}", Runtime::Docker);
        // What a name keeps is written with that name.
        if pin.name.is_some() || book::is_called(&pin, &name) {
            return Ok(());
        }
        let written = book::call_pin(etcd, view, (&place.0, place.1), (&pin, at), &by)?;
        if let Some(written) = written {
            view.pins.insert(place.clone(), written);
        }
        Ok(())
    }
}
