//! Removes a resource only after two checks found it unchanged and without an owner.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use model::ResourceId;

use super::{Fate, Findings, Orphan, OrphanKind};

/// How long a resource has no owner before it is deleted.
pub const GRACE: Duration = Duration::from_secs(60);

/// The previous observation.
#[derive(Debug, Default)]
pub struct Sweep {
    seen: BTreeMap<(OrphanKind, ResourceId), (Orphan, Instant)>,
}

impl Sweep {
    /// Which of them were seen before, long enough ago, and are still the same: those go. What is
    /// not among them any more was never seen.
    pub fn due(&mut self, findings: &Findings, now: Instant) -> Vec<Orphan> {
        let mut seen = BTreeMap::new();
        let mut due = Vec::new();
        for orphan in &findings.orphans {
            let key = (orphan.thing, orphan.id.clone());
            let before = self.seen.remove(&key).filter(|(before, _)| before == orphan);
            let first = before.map_or(now, |(_, first)| first);
            if now.saturating_duration_since(first) >= GRACE
                && matches!(orphan.fate, Fate::Delete | Fate::Stock)
            {
                due.push(orphan.clone());
            }
            seen.insert(key, (orphan.clone(), first));
        }
        self.seen = seen;
        due
    }

    /// Whether something is seen that may go the next time.
    pub fn is_waiting(&self) -> bool {
        let may_go = |fate| matches!(fate, Fate::Delete | Fate::Stock | Fate::Wait);
        self.seen.values().any(|(orphan, _)| may_go(orphan.fate))
    }

    /// How many are seen.
    pub fn len(&self) -> usize {
        self.seen.len()
    }

    /// Whether none is seen.
    pub fn is_empty(&self) -> bool {
        self.seen.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Version;
    use super::*;

    fn orphan(id: u8, revision: u64, fate: Fate) -> Orphan {
        Orphan {
            thing: OrphanKind::Port,
            id: format!("p{id}").parse().unwrap(),
            title: String::new(),
            why: "no container has it".into(),
            fate,
            version: Version::Revision(revision),
        }
    }

    fn findings(orphans: Vec<Orphan>) -> Findings {
        Findings { orphans, ..Findings::default() }
    }

    #[test]
    fn nothing_goes_at_once() {
        let (mut sweep, start) = (Sweep::default(), Instant::now());
        let observe = |sweep: &mut Sweep, revision, after| {
            let found = findings(vec![orphan(1, revision, Fate::Delete)]);
            sweep.due(&found, start + Duration::from_secs(after)).len()
        };
        assert_eq!(observe(&mut sweep, 1, 0), 0);
        assert_eq!(observe(&mut sweep, 1, 59), 0, "too soon");
        assert_eq!(observe(&mut sweep, 2, 61), 0, "another process touched it");
        assert!(sweep.is_waiting());
        assert_eq!(observe(&mut sweep, 2, 121), 1);
        assert!(sweep.due(&findings(Vec::new()), start).is_empty());
        assert_eq!(observe(&mut sweep, 2, 300), 0, "it was not seen between");
        let wait = findings(vec![orphan(2, 1, Fate::Wait), orphan(3, 1, Fate::OnlyIfForced)]);
        sweep.due(&wait, start);
        assert!(sweep.due(&wait, start + Duration::from_secs(9999)).is_empty());
    }

    proptest! {
        /// What goes was in every look of the last minute, and the same in each.
        #[test]
        fn what_goes_was_unused_all_the_time(
            looks in prop::collection::vec(
                (1u64..50, prop::collection::btree_map(0u8..4, 0u64..3, 0..4)), 1..30),
        ) {
            let (mut sweep, start, mut at) = (Sweep::default(), Instant::now(), 0);
            let mut history: Vec<(u64, BTreeMap<u8, u64>)> = Vec::new();
            for (after, there) in looks {
                at += after;
                let orphans =
                    there.iter().map(|(id, revision)| orphan(*id, *revision, Fate::Delete)).collect();
                history.push((at, there));
                for due in sweep.due(&findings(orphans), start + Duration::from_secs(at)) {
                    let id: u8 = due.id.as_str()[1..].parse().unwrap();
                    let same = |there: &BTreeMap<u8, u64>| {
                        there.get(&id).map(|revision| Version::Revision(*revision))
                            == Some(due.version.clone())
                    };
                    let all = history.iter().rev();
                    let unbroken: Vec<u64> =
                        all.take_while(|(_, there)| same(there)).map(|(at, _)| *at).collect();
                    prop_assert!(unbroken.len() >= 2);
                    prop_assert!(at - unbroken[unbroken.len() - 1] >= GRACE.as_secs());
                }
            }
        }
    }
}
