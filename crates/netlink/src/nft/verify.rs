//! Whether the chains of a table are as a program makes them.

use model::{Error, Result};

use super::list::{chains, fold_rules};
use super::shape::Outline;
use super::{Base, Chain, Expression, Table};
use crate::Socket;
use crate::wire::Attributes;

/// Compares chains with what they should be: each one's name, where it hangs, and its rules in their order: what these load,
/// compare, look up and decide. Registers, limits and logs are not compared. Other chains of the table do not matter.
///
/// # Errors
/// [`model::Kind::NotFound`] naming the first chain that is missing or changed; those of [`chains`].
pub fn verify<'a, R: AsRef<[Expression<'a>]>>(
    socket: &mut Socket,
    table: Table<'_>,
    wanted: &[(&str, Option<Base>, Vec<R>)],
) -> Result<()> {
    let there = chains(socket, table.family)?;
    let listed = fold_rules(socket, table, Compared::default, |compared, chain, rule| {
        compared.hear(wanted, chain, rule);
    })?;
    for (index, (name, base, rules)) in wanted.iter().enumerate() {
        let is_it = |chain: &&Chain| chain.table == table.name && chain.name == *name;
        if there.iter().find(is_it).is_none_or(|chain| chain.base != *base) {
            let what = format!("chain {name} of {table} is missing or changed");
            return Err(Error::not_found(what));
        }
        if !listed.is_like(index, rules.len()) {
            return Err(Error::not_found(format!("the rules of chain {name} of {table} changed")));
        }
    }
    Ok(())
}

/// How many rules of each wanted chain have been the wanted ones; `None` of a chain one of whose rules is another. Each rule
/// is compared where it stands in the kernel's answer: hundreds are in one, and each container that is attached behind a
/// fence waits for it.
#[derive(Default)]
struct Compared {
    /// By the chain's index.
    equal: Vec<Option<usize>>,
    /// The kernel lists rules chain by chain.
    last: usize,
}

impl Compared {
    fn hear<'a, R: AsRef<[Expression<'a>]>>(
        &mut self,
        wanted: &[(&str, Option<Base>, Vec<R>)],
        chain: &str,
        rule: Attributes<'_>,
    ) {
        let is_it = |index: &usize| wanted.get(*index).is_some_and(|(name, ..)| *name == chain);
        let index = Some(self.last).filter(is_it);
        let Some(index) = index.or_else(|| (0..wanted.len()).find(is_it)) else { return };
        self.last = index;
        self.equal.resize(wanted.len(), Some(0));
        let Some(so_far) = self.equal.get_mut(index) else { return };
        let place = *so_far;
        let steps = place.and_then(|place| wanted.get(index)?.2.get(place));
        let is_equal = steps.is_some_and(|steps| {
            let there = rule.filter_map(|step| Outline::read(&step.nested()));
            there.eq(steps.as_ref().iter().map(Outline::of))
        });
        *so_far = place.filter(|_| is_equal).map(|place| place + 1);
    }

    /// Whether the chain with this index has had so many rules, and all of them as wanted.
    fn is_like(&self, index: usize, rules: usize) -> bool {
        self.equal.get(index).copied().unwrap_or(Some(0)) == Some(rules)
    }
}
