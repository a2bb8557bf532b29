//! What others send: the kernel's datagrams, results of plugins, arguments of runtimes.

use cni::wire::{Args, Configuration, Document, Success, Version};

/// Everything that the kernel may say, read in every way.
pub fn netlink(bytes: &[u8]) {
    let _ = netlink::decode_anything(bytes);
}

/// `CNI_ARGS`.
pub fn arguments(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let Ok(args) = Args::parse(&text) else { return };
    let _ = (args.runtime(), args.owner());
    let _ = args.strict();
}

/// A result of an earlier plugin: what a version can say survives being said in it.
pub fn result(bytes: &[u8]) {
    configuration(bytes);
    let Ok(document) = Document::parse(bytes) else { return };
    let Ok(success) = Success::parse(&document.root(), Version::LATEST) else { return };
    let _ = success.attached();
    for version in Version::ALL {
        let Ok(said) = success.render(version) else { continue };
        let said = said.to_string();
        let again = Document::parse(said.as_bytes()).expect("our own words are JSON");
        let again = Success::parse(&again.root(), version).expect("our own words are a result");
        let twice = again.render(version).expect("said once, it can be said again").to_string();
        assert_eq!(said, twice, "{version:?}");
    }
}

/// The same bytes as a whole configuration.
fn configuration(bytes: &[u8]) {
    let Ok(configuration) = Configuration::parse(bytes) else { return };
    let _ = configuration.previous();
    let _ = configuration.runtime();
    let _ = configuration.args();
    let _ = configuration.valid_attachments();
}
