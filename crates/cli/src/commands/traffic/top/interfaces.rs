//! What interfaces are called inside their containers.

use std::collections::HashMap;

use linux::meter;
use model::{Attachment, AttachmentId};

use crate::view::reported_interface;

/// The names that runtimes chose, each looked up once: that costs a look into the container's namespace.
#[derive(Debug, Default)]
pub(super) struct Interfaces(HashMap<AttachmentId, String>);

impl Interfaces {
    /// Of this attachment. Until its runtime has named it, the record's name.
    pub(super) fn name(&mut self, record: &Attachment) -> String {
        if let Some(known) = self.0.get(&record.id) {
            return known.clone();
        }
        let Some(named) = meter::named_by_runtime(record) else {
            return reported_interface(record).to_string();
        };
        // It is still on its way.
        if named != record.id.ifname {
            self.0.insert(record.id.clone(), named.to_string());
        }
        named.to_string()
    }
}
