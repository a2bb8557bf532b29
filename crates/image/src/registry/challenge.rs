//! The authentication that a registry asks for: `WWW-Authenticate` (RFC 9110 11.6.1), with the
//! parameters of the distribution project's token protocol.

/// Longer headers are not read, in bytes.
const LONGEST: usize = 8 << 10;

/// Further schemes are ignored.
const MOST: usize = 16;

/// The requested authentication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Challenge {
    /// A token, which `realm` gives for a `service` and a `scope`.
    Bearer {
        /// The URL of who gives tokens.
        realm: String,
        /// The service that the token is for.
        service: Option<String>,
        /// For what it is: `repository:library/busybox:pull`.
        scope: Option<String>,
    },
    /// A name and a password.
    Basic,
}

impl Challenge {
    /// The best of those that a header offers: a token rather than a password. None where it
    /// offers neither, or cannot be read.
    pub fn read(header: &str) -> Option<Self> {
        let offers = offers(header.get(..header.len().min(LONGEST))?);
        let basic = offers.iter().any(|offer| offer.scheme.eq_ignore_ascii_case("basic"));
        offers.into_iter().find_map(Offer::bearer).or(basic.then_some(Self::Basic))
    }
}

/// A scheme and its parameters.
#[derive(Debug)]
struct Offer {
    scheme: String,
    parameters: Vec<(String, String)>,
}

impl Offer {
    fn bearer(self) -> Option<Challenge> {
        if !self.scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let value = |name: &str| {
            let found = self.parameters.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
            found.map(|(_, value)| value.clone())
        };
        Some(Challenge::Bearer {
            realm: value("realm")?,
            service: value("service"),
            scope: value("scope"),
        })
    }
}

/// `Bearer realm="…",service="…", Basic realm="…"`: a word that no `=` follows begins a new one.
fn offers(header: &str) -> Vec<Offer> {
    let mut rest = header;
    let mut offers: Vec<Offer> = Vec::new();
    while offers.len() < MOST {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        let Some((name, after)) = token(rest) else { break };
        let value = after.trim_start_matches([' ', '\t']).strip_prefix('=').and_then(value);
        match (value, offers.last_mut()) {
            (Some((value, after)), Some(offer)) => {
                offer.parameters.push((name.to_owned(), value));
                rest = after;
            }
            (Some(_), None) => break,
            (None, _) => {
                offers.push(Offer { scheme: name.to_owned(), parameters: Vec::new() });
                rest = after;
            }
        }
    }
    offers
}

fn token(text: &str) -> Option<(&str, &str)> {
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    let end = text.find(|c| !is_token(c)).unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

/// A quoted string or a token, and what comes after it.
fn value(text: &str) -> Option<(String, &str)> {
    let text = text.trim_start_matches([' ', '\t']);
    let Some(quoted) = text.strip_prefix('"') else {
        return token(text).map(|(value, rest)| (value.to_owned(), rest));
    };
    let mut value = String::new();
    let mut chars = quoted.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, &quoted[at + 1..])),
            '\\' => value.push(chars.next()?.1),
            c => value.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_what_registries_say() {
        let hub = "Bearer realm=\"https://auth.docker.io/token\",service=\"registry.docker.io\",\
                   scope=\"repository:library/busybox:pull,push\"";
        assert_eq!(
            Challenge::read(hub),
            Some(Challenge::Bearer {
                realm: "https://auth.docker.io/token".to_owned(),
                service: Some("registry.docker.io".to_owned()),
                scope: Some("repository:library/busybox:pull,push".to_owned()),
            })
        );
        assert_eq!(Challenge::read("Basic realm=\"a, b=\\\"c\\\"\""), Some(Challenge::Basic));
        let both = "BASIC realm=x , bearer Realm = \"http://t\" , scope=a:b";
        let token = Challenge::read(both).unwrap();
        assert!(matches!(token, Challenge::Bearer { realm, .. } if realm == "http://t"));
    }

    #[test]
    fn asks_for_nothing_that_it_does_not_know() {
        for header in ["", "Digest realm=\"x\"", "Bearer", "Bearer realm=\"x", "realm=\"x\"", ","] {
            assert_eq!(Challenge::read(header), None, "{header}");
        }
    }

    proptest! {
        #[test]
        fn nothing_breaks_it(header in ".{0,200}") {
            let _ = Challenge::read(&header);
            let _ = Challenge::read(&format!("Bearer realm=\"{header}"));
        }

        #[test]
        fn what_is_quoted_comes_back(realm in "[ -~]{1,40}") {
            let quoted = realm.replace('\\', "\\\\").replace('"', "\\\"");
            let read = Challenge::read(&format!("Bearer realm=\"{quoted}\""));
            prop_assert_eq!(read, Some(Challenge::Bearer { realm, service: None, scope: None }));
        }
    }
}
