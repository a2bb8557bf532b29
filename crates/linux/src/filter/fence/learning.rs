//! Elements that last as long as a network or a container learns.

use std::time::Duration;

use netlink::nft::{Element, Expiring, Transaction, Tuple};

use super::sets::TABLE;

/// Has an element of a set last for so long. Without any time it is removed: it is made first, so that it is there.
pub(super) fn put_for(
    transaction: &mut Transaction,
    (set, key): (&'static str, Tuple),
    remaining: Duration,
    about: String,
) {
    let element = Element::of(key);
    let limit = remaining.max(Duration::from_secs(1));
    transaction.put_expiring((TABLE, set), &element, limit, &about);
    if remaining.is_zero() {
        transaction.delete_element(TABLE, set, &element, about);
    }
}

/// Whether an element lasts no longer than it should.
pub(super) fn is_so(there: &[Expiring], key: &Tuple, remaining: Duration) -> bool {
    // Whole seconds are recorded, and a moment passes between the two.
    let most = remaining + Duration::from_secs(2);
    let mut own = there.iter().filter(|it| it.element.key == *key);
    own.all(|it| it.remaining.is_some_and(|remaining| remaining <= most))
}
