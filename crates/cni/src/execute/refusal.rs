//! The answer of a plugin that failed.

use std::process::ExitStatus;

use serde_json::{Map, Value};

use crate::wire::{Failure, Object};

/// The error of a plugin that failed, in the words of libcni.
pub(crate) fn refusal(answer: &[u8], complained: &[u8], status: ExitStatus) -> Failure {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    let plain = |msg: String| Failure::new(Failure::INTERNAL, msg);
    if answer.is_empty() {
        return plain(match complained.is_empty() {
            true => format!("netplugin failed with no error message: {status}"),
            false => format!("netplugin failed: {:?}", text(complained)),
        });
    }
    let parsed: serde_json::Result<Map<String, Value>> = serde_json::from_slice(answer);
    match parsed {
        Err(why) => plain(format!(
            "netplugin failed but error parsing its diagnostic message {:?}: {why}",
            text(answer)
        )),
        Ok(object) => {
            let object = Object::new("", &object);
            let msg = || object.text("msg").ok().flatten().unwrap_or_default();
            Failure::parse(&object).unwrap_or_else(|| plain(msg().to_owned()))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    #[test]
    fn says_what_the_reference_library_says() {
        let answer = |out: &str, err: &str| {
            refusal(out.as_bytes(), err.as_bytes(), ExitStatus::from_raw(1 << 8)).to_string()
        };
        assert_eq!(answer("", ""), "netplugin failed with no error message: exit status: 1");
        assert_eq!(answer("", "oh\n"), "netplugin failed: \"oh\\n\"");
        assert_eq!(answer(r#"{"code":7,"msg":"no","details":"d"}"#, "x"), "no; d");
        let text = answer("oops", "");
        assert!(
            text.starts_with(
                "netplugin failed but error parsing its diagnostic message \"oops\": "
            )
        );
        assert_eq!(answer(r#"{"msg":"no"}"#, ""), "no");
    }
}
