//! A resolver's configuration in a file (resolv.conf(5)), for `resolvConf` of `host-local`.

use std::path::Path;

use model::{Dns, Fact, Result};

/// Longer files are refused, in bytes.
const LONGEST: u64 = 1 << 16;

/// Reads the file.
pub(super) fn read(path: &str) -> Result<Dns> {
    let doing = || format!("open {path}, the \"ipam.resolvConf\"");
    let text = file::read(Path::new(path), LONGEST).map_err(|cause| {
        let is_missing = cause.kind() == std::io::ErrorKind::NotFound;
        let error = file::failed(doing(), cause);
        let words = format!("open {path}: no such file or directory");
        if is_missing { error.about(Fact::Words(words)) } else { error }
    })?;
    Ok(parse(&String::from_utf8_lossy(&text)))
}

fn parse(text: &str) -> Dns {
    let mut dns = Dns::default();
    let lines = text.lines().map(str::trim);
    for line in lines.filter(|line| !line.starts_with(['#', ';'])) {
        let mut words = line.split_whitespace().map(str::to_owned);
        let (Some(keyword), Some(first)) = (words.next(), words.next()) else { continue };
        match keyword.as_str() {
            "nameserver" => dns.nameservers.push(first),
            "domain" => dns.domain = Some(first),
            "search" => dns.search.extend(std::iter::once(first).chain(words)),
            "options" => dns.options.extend(std::iter::once(first).chain(words)),
            _ => {}
        }
    }
    dns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_as_the_reference_does() {
        let text = "nameserver 1.1.1.1\nsearch a b\noptions x y\ndomain d\n#c\n ; d\n\
                    nameserver 2.2.2.2 # second\nnameserver\n";
        let dns = parse(text);
        assert_eq!(dns.nameservers, ["1.1.1.1", "2.2.2.2"]);
        assert_eq!(
            (dns.search, dns.options),
            (vec!["a".into(), "b".into()], vec!["x".into(), "y".into()])
        );
        assert_eq!(dns.domain.as_deref(), Some("d"));
        for (path, what) in [("/dev/zero", "a device"), ("/", "a directory")] {
            let refused = read(path).unwrap_err().to_string();
            assert!(refused.contains(path) && refused.contains(what), "{refused}");
        }
        assert_eq!(read("/nonexistent").unwrap_err().kind(), model::Kind::Kernel);
    }
}
