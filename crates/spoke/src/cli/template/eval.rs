//! What a template says about a value.

use model::{Error, Result};
use serde_json::Value;

use super::super::table::clean as printable;
use super::{Node, Pipe, Word};

/// The functions that there are.
pub(super) const FUNCTIONS: [&str; 9] =
    ["json", "join", "len", "upper", "lower", "index", "eq", "ne", "println"];

pub(super) fn nodes(nodes: &[Node], dot: &Value, text: &mut String) -> Result<()> {
    for node in nodes {
        match node {
            Node::Text(literal) => text.push_str(literal),
            Node::Show(what) => text.push_str(&shown(&pipe(what, dot)?)),
            Node::If { what, then, otherwise } => {
                let branch = if is_true(&pipe(what, dot)?) { then } else { otherwise };
                self::nodes(branch, dot, text)?;
            }
            Node::Range { over, each, otherwise } => match elements(pipe(over, dot)?)? {
                items if items.is_empty() => self::nodes(otherwise, dot, text)?,
                items => items.iter().try_for_each(|item| self::nodes(each, item, text))?,
            },
        }
    }
    Ok(())
}

fn pipe(pipe: &Pipe, dot: &Value) -> Result<Value> {
    let mut last = None;
    for words in pipe {
        last = Some(call(words, dot, last)?);
    }
    Ok(last.unwrap_or(Value::Null))
}

fn call(words: &[Word], dot: &Value, piped: Option<Value>) -> Result<Value> {
    let (function, words) = match words.split_first() {
        Some((Word::Function(function), rest)) => (Some(function.as_str()), rest),
        _ => (None, words),
    };
    let mut arguments = words.iter().map(|word| value(word, dot)).collect::<Result<Vec<_>>>()?;
    // JSON says them in letters.
    if function != Some("json") {
        let shown = arguments.iter_mut().zip(words).filter(|(_, word)| !is_literal(word));
        shown.for_each(|(value, _)| clean(value));
    }
    arguments.extend(piped);
    match (function, arguments.as_slice()) {
        (None, [only]) => Ok(only.clone()),
        (None, _) => Err(Error::invalid("template: a value is not a function")),
        (Some(function), arguments) => apply(function, arguments),
    }
}

fn is_literal(word: &Word) -> bool {
    matches!(word, Word::Literal(_))
}

/// What others wrote must not steer the terminal; what the template says may.
fn clean(value: &mut Value) {
    match value {
        Value::String(text) => *text = printable(text),
        Value::Array(items) => items.iter_mut().for_each(clean),
        Value::Object(fields) => {
            let cleaned = std::mem::take(fields).into_iter().map(|(name, mut value)| {
                clean(&mut value);
                (printable(&name), value)
            });
            *fields = cleaned.collect();
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn value(word: &Word, dot: &Value) -> Result<Value> {
    match word {
        Word::Literal(literal) => Ok(literal.clone()),
        Word::Field(path) => path.iter().try_fold(dot.clone(), |within, name| field(&within, name)),
        Word::Function(function) => Err(Error::invalid(format!(
            "template: {function} stands where a value belongs; pass it on with a pipe"
        ))),
    }
}

fn field(within: &Value, name: &str) -> Result<Value> {
    let Value::Object(fields) = within else {
        return Err(Error::invalid(format!("template: .{name}: there are no fields in it")));
    };
    let folded = |name: &str| name.replace('_', "").to_lowercase();
    let found = fields.iter().find(|(known, _)| folded(known) == folded(name));
    found.map(|(_, value)| value.clone()).ok_or_else(|| {
        let known: Vec<&str> = fields.keys().map(String::as_str).collect();
        Error::invalid(format!("template: no field .{name}; there are {}", known.join(", ")))
    })
}

fn apply(function: &str, arguments: &[Value]) -> Result<Value> {
    Ok(match (function, arguments) {
        ("json", [value]) => Value::from(value.to_string()),
        ("join", [Value::Array(items), Value::String(between)]) => {
            Value::from(items.iter().map(shown).collect::<Vec<_>>().join(between))
        }
        ("len", [Value::Array(items)]) => Value::from(items.len()),
        ("len", [Value::Object(fields)]) => Value::from(fields.len()),
        ("len", [Value::String(text)]) => Value::from(text.len()),
        ("upper", [value]) => Value::from(shown(value).to_uppercase()),
        ("lower", [value]) => Value::from(shown(value).to_lowercase()),
        ("index", [within, Value::String(name)]) => field(within, name)?,
        ("index", [Value::Array(items), Value::Number(at)]) => {
            let item = at.as_u64().and_then(|at| items.get(usize::try_from(at).ok()?));
            item.cloned().ok_or_else(|| Error::invalid(format!("template: no element {at}")))?
        }
        ("eq", [one, other]) => Value::from(one == other),
        ("ne", [one, other]) => Value::from(one != other),
        ("println", values) => {
            Value::from(values.iter().map(shown).collect::<Vec<_>>().join(" ") + "\n")
        }
        (function, _) => {
            return Err(Error::invalid(format!("template: {function} does not take these values")));
        }
    })
}

fn elements(value: Value) -> Result<Vec<Value>> {
    match value {
        Value::Array(items) => Ok(items),
        Value::Object(fields) => Ok(fields.into_iter().map(|(_, value)| value).collect()),
        Value::Null => Ok(Vec::new()),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            Err(Error::invalid("template: range over a single value"))
        }
    }
}

fn is_true(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
    }
}

/// As Go prints it.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => "<no value>".to_owned(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            format!("[{}]", items.iter().map(shown).collect::<Vec<_>>().join(" "))
        }
        Value::Object(fields) => {
            let field = |(name, value): (&String, &Value)| format!("{name}:{}", shown(value));
            format!("map[{}]", fields.iter().map(field).collect::<Vec<_>>().join(" "))
        }
    }
}
