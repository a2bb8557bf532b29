//! Records of messages of other servers, within bounds.

use domain::base::iana::Rtype;
use domain::base::{Message, Name, ParsedName, Ttl};
use domain::rdata::AllRecordData;

/// Records that are read of one section.
pub(crate) const RECORDS: usize = 1024;

/// The records of one kind that a message has of a name.
pub(crate) fn records_of<'a>(
    answer: &'a Message<&'a [u8]>,
    owner: &'a Name<Vec<u8>>,
    kind: Rtype,
) -> impl Iterator<Item = (Ttl, AllRecordData<&'a [u8], ParsedName<&'a [u8]>>)> {
    let section = answer.answer().ok();
    let records = section.map(|section| section.limit_to_in::<AllRecordData<_, _>>());
    let records = records.into_iter().flatten().take(RECORDS).filter_map(Result::ok);
    let records = records.filter(move |it| it.owner() == owner && it.rtype() == kind);
    records.map(|record| (lifetime(record.ttl()), record.into_data()))
}

/// What is longer than a time to live can be is none (RFC 2181 §8).
pub(crate) fn lifetime(ttl: Ttl) -> Ttl {
    if i32::try_from(ttl.as_secs()).is_ok() { ttl } else { Ttl::ZERO }
}
