//! What is distinguished of the steps of a rule.

use super::abi;
use super::expression::{Expression, Meta, Verdict};
use crate::wire::Attributes;

/// One step of a rule that exists, without its registers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// [`Expression::Meta`] of the interface that the packet came in through.
    InputName,
    /// [`Expression::Meta`] of the interface that the packet goes out through.
    OutputName,
    /// [`Expression::Equal`].
    Equal(Vec<u8>),
    /// [`Expression::Extension`], with its structure.
    Extension(String, Vec<u8>),
    /// [`Expression::Counter`].
    Counter,
    /// [`Verdict::Accept`].
    Accept,
    /// [`Verdict::Return`].
    Return,
    /// [`Verdict::Jump`].
    Jump(String),
    /// Anything else, by the kernel's name for it.
    Other(String),
}

impl Shape {
    /// The shape in which `expression` is listed.
    pub fn of(expression: &Expression<'_>) -> Self {
        Outline::of(expression).into()
    }

    pub(super) fn read(expression: &Attributes<'_>) -> Option<Self> {
        Outline::read(expression).map(Self::from)
    }
}

impl From<Outline<'_>> for Shape {
    fn from(outline: Outline<'_>) -> Self {
        match outline {
            Outline::InputName => Shape::InputName,
            Outline::OutputName => Shape::OutputName,
            Outline::Equal(value) => Shape::Equal(value.to_vec()),
            Outline::Extension(name, info) => Shape::Extension(name.to_owned(), info.to_vec()),
            Outline::Counter => Shape::Counter,
            Outline::Accept => Shape::Accept,
            Outline::Return => Shape::Return,
            Outline::Jump(chain) => Shape::Jump(chain.to_owned()),
            Outline::Loaded(name, _) | Outline::Other(name) => Shape::Other(name.to_owned()),
            Outline::Drop | Outline::Goto(_) | Outline::Load(_) => {
                Shape::Other("immediate".to_owned())
            }
            Outline::Unequal(_) => Shape::Other("cmp".to_owned()),
            Outline::Masked(_) => Shape::Other("bitwise".to_owned()),
            Outline::Lookup(..) => Shape::Other("lookup".to_owned()),
        }
    }
}

/// A step where it stands, in an expression or in the kernel's answer: comparing hundreds of them copies none. It says
/// more than a [`Shape`]: what a step that decides compares, keeps or looks up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outline<'a> {
    InputName,
    OutputName,
    /// By the kernel's name, what is loaded, or set.
    Loaded(&'a str, [u32; 3]),
    Equal(&'a [u8]),
    Unequal(&'a [u8]),
    Masked(&'a [u8]),
    /// A set or map, and whether it must lack the key (`NFT_LOOKUP_F_INV`).
    Lookup(&'a str, u32),
    Extension(&'a str, &'a [u8]),
    Counter,
    Accept,
    Return,
    Drop,
    Jump(&'a str),
    Goto(&'a str),
    Load(&'a [u8]),
    Other(&'a str),
}

impl<'a> Outline<'a> {
    pub(super) fn of(expression: &'a Expression<'_>) -> Self {
        if let Some(loaded) = expression.loaded() {
            return Outline::Loaded(expression.name(), loaded);
        }
        match expression {
            Expression::Meta(Meta::InputName, _) => Outline::InputName,
            Expression::Meta(Meta::OutputName, _) => Outline::OutputName,
            Expression::Equal(_, value) => Outline::Equal(value),
            Expression::Unequal(_, value) => Outline::Unequal(value),
            Expression::Mask(_, mask) => Outline::Masked(mask),
            Expression::In(set, _) | Expression::Map { name: set, .. } => Outline::Lookup(set, 0),
            Expression::NotIn(set, _) => Outline::Lookup(set, 1),
            Expression::Extension { name, info, .. } => Outline::Extension(name, info),
            Expression::Counter => Outline::Counter,
            Expression::Verdict(Verdict::Accept) => Outline::Accept,
            Expression::Verdict(Verdict::Return) => Outline::Return,
            Expression::Verdict(Verdict::Drop) => Outline::Drop,
            Expression::Verdict(Verdict::Jump(chain)) => Outline::Jump(chain),
            Expression::Verdict(Verdict::Goto(chain)) => Outline::Goto(chain),
            Expression::Load(_, value) => Outline::Load(value),
            other => Outline::Other(other.name()),
        }
    }

    pub(super) fn read(expression: &Attributes<'a>) -> Option<Self> {
        let name = expression.find_kind(abi::EXPRESSION_NAME)?.text()?;
        let data = expression.find_kind(abi::EXPRESSION_DATA).map(|data| data.nested());
        let known = data.and_then(|data| Self::read_known(name, &data));
        Some(known.unwrap_or(Outline::Other(name)))
    }

    fn read_known(name: &'a str, data: &Attributes<'a>) -> Option<Self> {
        let number = |kind| data.find_kind(kind)?.be32();
        match name {
            "counter" => Some(Outline::Counter),
            // With the register that is written to, where nothing is set.
            "meta" => match (number(2)?, number(1)) {
                (key, Some(_)) if key == Meta::InputName.number() => Some(Outline::InputName),
                (key, Some(_)) if key == Meta::OutputName.number() => Some(Outline::OutputName),
                (key, into) => Some(Outline::Loaded(name, [key, into.is_none().into(), 0])),
            },
            "ct" => Some(Outline::Loaded(name, [number(2)?, number(1).is_none().into(), 0])),
            "payload" => Some(Outline::Loaded(name, [number(2)?, number(3)?, number(4)?])),
            "fib" => Some(Outline::Loaded(name, [number(2)?, number(3)?, 0])),
            "lookup" => {
                let set = data.find_kind(1)?.text()?;
                Some(Outline::Lookup(set, number(5).unwrap_or_default()))
            }
            "bitwise" => {
                let turned = data.find_kind(5)?.nested().find_kind(abi::DATA_VALUE)?.value;
                let mask = data.find_kind(4)?.nested().find_kind(abi::DATA_VALUE)?.value;
                turned.iter().all(|byte| *byte == 0).then_some(Outline::Masked(mask))
            }
            "cmp" => {
                let value = data.find_kind(3)?.nested().find_kind(abi::DATA_VALUE)?.value;
                match number(2)? {
                    0 => Some(Outline::Equal(value)),
                    1 => Some(Outline::Unequal(value)),
                    _ => None,
                }
            }
            "match" => {
                let extension = data.find_kind(1)?.text()?;
                Some(Outline::Extension(extension, data.find_kind(3)?.value))
            }
            "immediate" => Self::read_immediate(&data.find_kind(2)?.nested()),
            _ => None,
        }
    }

    fn read_immediate(data: &Attributes<'a>) -> Option<Self> {
        if let Some(value) = data.find_kind(abi::DATA_VALUE) {
            return Some(Outline::Load(value.value));
        }
        let verdict = data.find_kind(abi::DATA_VERDICT)?.nested();
        let chain = || verdict.find_kind(abi::VERDICT_CHAIN)?.text();
        let code = verdict.find_kind(abi::VERDICT_CODE)?.be32()?.cast_signed();
        let simple = [
            (Verdict::Accept, Outline::Accept),
            (Verdict::Return, Outline::Return),
            (Verdict::Drop, Outline::Drop),
        ];
        match simple.iter().find(|(verdict, _)| verdict.code() == code) {
            Some((_, outline)) => Some(*outline),
            None if code == Verdict::Jump("").code() => chain().map(Outline::Jump),
            None if code == Verdict::Goto("").code() => chain().map(Outline::Goto),
            None => None,
        }
    }
}
