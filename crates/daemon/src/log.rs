//! The daemon's log on standard error. A line is one record: a time, a level, a sentence, and the
//! network, container and interface of the record. It needs no spans, filters by module or
//! subscribers, and so no framework.

use std::io::Write;

use config::{Format, Level, LogConfig};
use host::time::rfc3339;
use serde_json::{Map, Value};

/// Writes lines to standard error, as the configuration asks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Log {
    config: LogConfig,
}

impl Log {
    /// As configured.
    pub(crate) fn new(config: LogConfig) -> Self {
        Self { config }
    }

    /// Whether such lines are written at all.
    pub(crate) fn wants(&self, level: Level) -> bool {
        level <= self.config.level
    }

    /// Writes a line, in one call; a reader that is gone is no failure.
    pub(crate) fn say(&self, level: Level, message: &str, fields: &[(&'static str, String)]) {
        if self.wants(level) {
            let line = line(self.config.format, level, message, fields);
            let _ = std::io::stderr().write_all(line.as_bytes());
        }
    }
}

fn line(format: Format, level: Level, message: &str, fields: &[(&'static str, String)]) -> String {
    let time = rfc3339(host::time::now());
    match format {
        Format::Text => text(&time, level, message, fields),
        Format::Json => json(&time, level, message, fields),
    }
}

fn text(time: &str, level: Level, message: &str, fields: &[(&'static str, String)]) -> String {
    let mut line = format!("{time} {:5} {}", name(level), printable(message));
    for (key, value) in fields {
        let is_word = !value.is_empty() && !value.contains([' ', '"', '=']);
        match is_word && !value.contains(char::is_control) {
            true => line.push_str(&format!(" {key}={value}")),
            false => line.push_str(&format!(" {key}={value:?}")),
        }
    }
    line.push('\n');
    line
}

fn json(time: &str, level: Level, message: &str, fields: &[(&'static str, String)]) -> String {
    let mut object = Map::new();
    let first = [("time", time), ("level", name(level)), ("message", message)];
    object.extend(first.map(|(key, value)| (key.to_owned(), Value::from(value))));
    object.extend(fields.iter().map(|(key, value)| ((*key).to_owned(), value.clone().into())));
    format!("{}\n", Value::Object(object))
}

/// Text of other programs must neither control the terminal nor begin a line.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn name(level: Level) -> &'static str {
    match level {
        Level::Error => "error",
        Level::Warn => "warn",
        Level::Info => "info",
        Level::Debug => "debug",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_one_line() {
        let fields = [("network", "front".to_owned()), ("why", "a \"b\"\nc".to_owned())];
        assert_eq!(
            text("T", Level::Info, "done\nand more", &fields),
            "T info  done and more network=front why=\"a \\\"b\\\"\\nc\"\n"
        );
        let line = json("T", Level::Warn, "x\ny", &fields);
        assert_eq!(line.lines().count(), 1);
        let value: Value = serde_json::from_str(&line).unwrap();
        assert_eq!((&value["level"], &value["network"]), (&"warn".into(), &"front".into()));
    }

    #[test]
    fn says_only_what_is_wanted() {
        let log = Log::new(LogConfig { level: Level::Warn, format: Format::Text });
        assert!(log.wants(Level::Error) && log.wants(Level::Warn) && !log.wants(Level::Info));
    }
}
