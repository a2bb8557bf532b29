//! Whether the chains of a table are as a program makes them.

use model::{Error, Result};

use super::list::rules_by_chain;
use super::{Base, Expression, Rule, Shape, Table, chains};
use crate::Socket;

/// Compares chains with what they should be: each one's name, where it hangs, and its rules in their order, as far as
/// [`Shape`] distinguishes their steps. Other chains of the table do not matter.
///
/// # Errors
/// [`model::Kind::NotFound`] naming the first chain that is missing or changed; those of [`chains`].
pub fn verify<'a, R: AsRef<[Expression<'a>]>>(
    socket: &mut Socket,
    table: Table<'_>,
    wanted: &[(&str, Option<Base>, Vec<R>)],
) -> Result<()> {
    let there = chains(socket, table.family)?;
    let listed = rules_by_chain(socket, table)?;
    for (name, base, steps) in wanted {
        let is_it = |chain: &&super::Chain| chain.table == table.name && chain.name == *name;
        if there.iter().find(is_it).is_none_or(|chain| chain.base != *base) {
            let what = format!("chain {name} of {table} is missing or changed");
            return Err(Error::not_found(what));
        }
        let shape = |rule: &R| rule.as_ref().iter().map(Shape::of).collect::<Vec<_>>();
        let rules: &[Rule] = listed.get(*name).map_or(&[], Vec::as_slice);
        if !rules.iter().map(|rule| rule.shape.as_slice()).eq(steps.iter().map(shape)) {
            return Err(Error::not_found(format!("the rules of chain {name} of {table} changed")));
        }
    }
    Ok(())
}
