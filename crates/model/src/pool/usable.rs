//! Which addresses containers can use at all.

use super::Range;
use crate::{Error, Result};

impl Range {
    /// Refuses addresses that no interface of a container ever works with: those of the loopback, which
    /// leave no interface, and those of groups.
    ///
    /// # Errors
    /// [`crate::Kind::Invalid`], naming the subnet.
    pub fn for_containers(self) -> Result<Self> {
        for end in [self.first, self.last] {
            let what = match end {
                _ if end.is_loopback() => "a loopback address",
                _ if end.is_multicast() => "a multicast address",
                _ => continue,
            };
            return Err(Error::invalid(format!(
                "subnet {} cannot be used for containers: {end} is {what}",
                self.subnet
            )));
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_what_no_container_can_use() {
        for (subnet, holds) in [
            ("127.0.0.0/8", false),
            ("127.5.0.0/16", false),
            ("126.0.0.0/7", false),
            ("224.0.0.0/4", false),
            ("239.1.0.0/16", false),
            ("ff05::/64", false),
            ("126.0.0.0/8", true),
            ("240.0.0.0/24", true),
            ("255.255.255.0/24", true),
            ("fd00::/64", true),
        ] {
            let range = Range::of_hosts(subnet.parse().unwrap(), None, None).unwrap();
            let refused = range.for_containers().map_err(|error| error.to_string());
            assert_eq!(refused.is_ok(), holds, "{subnet}: {refused:?}");
            assert!(refused.err().is_none_or(|error| error.contains(subnet)));
        }
    }
}
