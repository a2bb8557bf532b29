//! Networks whose addresses others share through the files of the reference plugin `host-local`: a
//! requested address has its file there, in the name of a stand-in.

use std::net::IpAddr;

use model::{
    Attachment, AttachmentId, ContainerId, Error, Holder, IfName, Ipam, Layer, Lease, Network,
    Phase, Result, Tenant, Want,
};

use crate::addresses::search::Avoid;
use crate::port::{Granted, Key, Outcome, Prefix, Txn};
use crate::subnets::AddressRequest;
use crate::subnets::ranges::SubnetRanges;
use crate::{Members, Subnets};

impl Subnets<'_> {
    /// Claims the file of an address that the store has granted; `None` where a holder outside the
    /// store has it. Then the grant is undone.
    pub(super) fn claim_file(
        &self,
        place: &SubnetRanges,
        request: &AddressRequest,
        lease: Lease,
        avoid: &mut Avoid,
    ) -> Result<Option<Lease>> {
        let Some(attachment) = self.stand_in(place, &lease)? else { return Ok(Some(lease)) };
        let refused = match self.ipam.lease(&attachment) {
            Ok(Granted::Chosen | Granted::Offered(_)) => return Ok(Some(lease)),
            Ok(Granted::Held { address, by, all }) => {
                avoid.extend(all);
                Error::conflict(format!("address {address} is held by {by}"))
            }
            Err(error) => error,
        };
        self.ungrant(place, &lease)?;
        match (request.want, refused.kind()) {
            (Want::Any, model::Kind::Conflict) => Ok(None),
            (_, _) => Err(refused),
        }
    }

    /// Undoes a grant that was not reported.
    fn ungrant(&self, place: &SubnetRanges, lease: &Lease) -> Result<()> {
        let address = lease.address.addr();
        let granted = Txn::new().delete(Key::Lease(lease.space.clone(), address));
        let noted = self.addresses.note_freed(&place.pool, &[address], granted.clone())?;
        if let Outcome::Lost(_) = self.store.commit(&noted)? {
            self.store.commit(&granted)?;
        }
        Ok(())
    }

    /// Removes the file of a requested address.
    pub(super) fn release_file(&self, place: &SubnetRanges, lease: &Lease) -> Result<()> {
        match self.stand_in(place, lease)? {
            Some(attachment) => self.ipam.release(&attachment),
            None => Ok(()),
        }
    }

    /// Claims the file of a requested address again, which was removed for an address that was not freed after
    /// all. One that another process freed meanwhile needs no file, and who has it by then has its own.
    pub(super) fn restore_file(&self, place: &SubnetRanges, lease: &Lease) -> Result<()> {
        let Some(attachment) = self.stand_in(place, lease)? else { return Ok(()) };
        let held = self.records.holder_of(&lease.space, lease.address.addr())?;
        if !held.is_some_and(|read| matches!(read.value.tenant, Tenant::Request { .. })) {
            return Ok(());
        }
        match self.ipam.lease(&attachment)? {
            Granted::Chosen | Granted::Offered(_) => Ok(()),
            Granted::Held { address, by, .. } => Err(Error::conflict(format!(
                "address {address} was taken by {by} while it was being freed"
            ))),
        }
    }

    /// In whose names files of the network are that no attachment has.
    pub(crate) fn stand_ins(&self, network: &Network) -> Result<Members> {
        let Ipam::HostLocal { .. } = network.ipam else { return Ok(Members::new()) };
        let requested = |holder: &Holder| {
            let pool = holder.lease.pool.as_ref();
            matches!(holder.tenant, Tenant::Request { .. })
                && pool.is_some_and(|pool| pool.network == network.name)
        };
        let holders = self.records.holders_in(&Prefix::AllLeases)?;
        let requested = holders.iter().filter(|read| requested(&read.value));
        requested.map(|read| requester(read.value.lease.address.addr())).collect()
    }

    fn stand_in(&self, place: &SubnetRanges, lease: &Lease) -> Result<Option<Attachment>> {
        if !place.keeps_files() {
            return Ok(None);
        }
        let Some(network) = &place.network else { return Ok(None) };
        let (container, ifname) = requester(lease.address.addr())?;
        Ok(Some(Attachment {
            ipam: network.ipam.clone(),
            leases: vec![lease.clone()],
            ..Attachment::new(
                AttachmentId { network: network.name.clone(), container, ifname },
                Layer::Address,
                place.subnet.runtime,
                self.host.now(),
                Phase::Reserved,
            )
        }))
    }
}

impl SubnetRanges {
    /// Whether the network's addresses have files.
    pub(super) fn keeps_files(&self) -> bool {
        let ipam = self.network.as_ref().map(|network| &network.ipam);
        matches!(ipam, Some(Ipam::HostLocal { .. }))
    }
}

/// In whose name the file of a requested address is.
fn requester(address: IpAddr) -> Result<(ContainerId, IfName)> {
    let text = address.to_string().replace(':', "-");
    Ok((format!("requested-{text}").parse()?, "eth".parse()?))
}
