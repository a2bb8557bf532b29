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
            Outline::Other(name) => Shape::Other(name.to_owned()),
        }
    }
}

/// A [`Shape`] where it stands, in an expression or in the kernel's answer: comparing hundreds of them copies none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outline<'a> {
    InputName,
    OutputName,
    Equal(&'a [u8]),
    Extension(&'a str, &'a [u8]),
    Counter,
    Accept,
    Return,
    Jump(&'a str),
    Other(&'a str),
}

impl<'a> Outline<'a> {
    pub(super) fn of(expression: &'a Expression<'_>) -> Self {
        match expression {
            Expression::Meta(Meta::InputName, _) => Outline::InputName,
            Expression::Meta(Meta::OutputName, _) => Outline::OutputName,
            Expression::Equal(_, value) => Outline::Equal(value),
            Expression::Extension { name, info, .. } => Outline::Extension(name, info),
            Expression::Counter => Outline::Counter,
            Expression::Verdict(Verdict::Accept) => Outline::Accept,
            Expression::Verdict(Verdict::Return) => Outline::Return,
            Expression::Verdict(Verdict::Jump(chain)) => Outline::Jump(chain),
            other => Outline::Other(other.name()),
        }
    }

    pub(super) fn read(expression: &Attributes<'a>) -> Option<Self> {
        let name = expression.find_kind(abi::EXPRESSION_NAME)?.text()?;
        let data = expression.find_kind(abi::EXPRESSION_DATA).map(|data| data.nested());
        let known = data.and_then(|data| Self::read_known(name, &data));
        Some(known.unwrap_or(Outline::Other(name)))
    }

    fn read_known(name: &str, data: &Attributes<'a>) -> Option<Self> {
        match name {
            "counter" => Some(Outline::Counter),
            "meta" => match data.find_kind(2)?.be32()? {
                key if key == Meta::InputName.number() => Some(Outline::InputName),
                key if key == Meta::OutputName.number() => Some(Outline::OutputName),
                _ => None,
            },
            "cmp" if data.find_kind(2)?.be32()? == 0 => {
                let value = data.find_kind(3)?.nested().find_kind(abi::DATA_VALUE)?.value;
                Some(Outline::Equal(value))
            }
            "match" => {
                let extension = data.find_kind(1)?.text()?;
                Some(Outline::Extension(extension, data.find_kind(3)?.value))
            }
            "immediate" => {
                let verdict = data.find_kind(2)?.nested().find_kind(abi::DATA_VERDICT)?.nested();
                let code = verdict.find_kind(abi::VERDICT_CODE)?.be32()?.cast_signed();
                match code {
                    code if code == Verdict::Accept.code() => Some(Outline::Accept),
                    code if code == Verdict::Return.code() => Some(Outline::Return),
                    code if code == Verdict::Jump("").code() => {
                        Some(Outline::Jump(verdict.find_kind(abi::VERDICT_CHAIN)?.text()?))
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }
}
