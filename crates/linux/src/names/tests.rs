use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};

use model::{Dns, Error, GatewayRole, Layer, Phase, Process, Runtime, Sandbox, Timestamp};
use proptest::prelude::*;
use tempfile::TempDir;

use engine::port::Near;

use super::*;

/// A root with a host's resolv.conf and namespaces that are files.
struct Host(TempDir);

impl Host {
    fn new(resolver: &str) -> Self {
        let root = tempfile::tempdir().unwrap();
        for directory in ["etc", "run/netns"] {
            fs::create_dir_all(root.path().join(directory)).unwrap();
        }
        fs::write(root.path().join("etc/resolv.conf"), resolver).unwrap();
        Self(root)
    }

    fn names(&self) -> Names {
        Names::new(self.0.path(), self.path("run/spoke"))
    }

    fn path(&self, below: &str) -> PathBuf {
        self.0.path().join(below)
    }

    fn on(&self, network: &str, name: &str, address: &str) -> Attachment {
        let path = self.path("run/netns").join(name);
        if !path.exists() {
            fs::write(&path, "").unwrap();
        }
        let inode = fs::metadata(&path).unwrap().ino();
        let id = doubles::attachment_id(network, name);
        let phase = Phase::Attaching { by: Process { pid: 1, start: 1 } };
        Attachment {
            sandbox: Some(Sandbox { path, inode }),
            gateway_role: Some(GatewayRole::default()),
            addresses: vec![doubles::address(address)],
            ..Attachment::new(id, Layer::Link, Runtime::Spoke, Timestamp(0), phase)
        }
    }

    fn write(&self, records: &[Attachment]) -> Vec<String> {
        let notes = self.names().write(&|| Ok(records.to_vec())).unwrap();
        notes.into_iter().map(|note| note.sentence).collect()
    }

    /// The same of these namespaces only.
    fn write_near(&self, names: &[&str], records: &[Attachment]) {
        let near = Near {
            namespaces: names.iter().map(|name| (*name).to_owned()).collect(),
            records: records.to_vec(),
        };
        let path = self.path("run/netns").join(names[0]);
        self.names().write_near(&path, &|| Ok(near.clone())).unwrap();
    }

    /// What a file says behind its first line.
    fn given(&self, below: &str) -> String {
        let text = fs::read_to_string(self.path("etc/netns").join(below)).unwrap();
        text.split_once('\n').unwrap().1.to_owned()
    }

    fn remaining(&self) -> bool {
        self.path("etc/netns").exists()
    }
}

#[test]
fn only_what_is_near_is_written() {
    let host = Host::new("nameserver 10.1.1.1\n");
    let (web, db) = (host.on("front", "web", "10.0.0.2/24"), host.on("front", "db", "10.0.0.3/24"));
    let far = host.on("back", "far", "10.0.1.2/24");
    host.write(&[web.clone(), far.clone()]);
    let before = fs::metadata(host.path("etc/netns/far/hosts")).unwrap();
    host.write_near(&["db", "web"], &[web.clone(), db.clone()]);
    assert!(host.given("web/hosts").ends_with("10.0.0.2\tweb\n10.0.0.3\tdb\n"));
    assert!(host.given("db/hosts").ends_with("10.0.0.3\tdb\n10.0.0.2\tweb\n"));
    assert_eq!(fs::metadata(host.path("etc/netns/far/hosts")).unwrap().ino(), before.ino());
    // Under another name in one namespace: that is remembered for those who come next.
    let mut odd = host.on("back", "odd", "10.0.1.9/24");
    odd.sandbox = web.sandbox.clone();
    host.write_near(&["web"], &[web.clone(), db.clone(), odd.clone(), far.clone()]);
    let path = host.path("run/netns/web");
    let called = |host: &Host| {
        let (name, called) = host.names().named_with(&path).unwrap();
        (name, called.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "))
    };
    assert_eq!(called(&host), ("web".to_owned(), "odd web".to_owned()));
    assert!(host.given("web/hosts").contains("10.0.1.9\todd\n"));
    // Also by the call that writes all; and forgotten with it.
    host.write(&[web, db.clone(), odd, far.clone()]);
    assert_eq!(called(&host).1, "odd web");
    host.write_near(&["web"], &[db.clone(), far.clone()]);
    assert_eq!(called(&host).1, "web");
    assert!(!host.path("etc/netns/web").exists());
    host.write(&[]);
    assert!(!host.remaining());
    assert!(!host.path("run/spoke/names/others").join("web").exists());
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[test]
fn who_is_on_a_network_knows_the_others_there() {
    let host = Host::new("nameserver 10.1.1.1\n");
    let mut db = host.on("back", "db", "10.0.0.3/24");
    db.names = vec!["sql".parse().unwrap()];
    let web = host.on("back", "web", "10.0.0.2/24");
    let far = host.on("front", "far", "10.9.0.2/24");
    assert_eq!(host.write(&[web.clone(), db.clone(), far.clone()]), words(&[]));
    assert!(host.given("web/hosts").ends_with("\n10.0.0.2\tweb\n10.0.0.3\tdb sql\n"));
    assert!(host.given("db/hosts").ends_with("\n10.0.0.3\tdb sql\n10.0.0.2\tweb\n"));
    assert!(host.given("far/hosts").ends_with("\n10.9.0.2\tfar\n"));
    assert_eq!(host.given("web/resolv.conf"), "nameserver 10.1.1.1\n");
    // It is the same file: programs that run have it in the place of the host's.
    let inode = || fs::metadata(host.path("etc/netns/web/hosts")).unwrap().ino();
    let before = inode();
    host.write(&[web.clone(), far.clone()]);
    assert!(host.given("web/hosts").ends_with("ip6-allrouters\n10.0.0.2\tweb\n"));
    assert_eq!(inode(), before);
    assert!(!host.path("etc/netns/db").exists());
    host.write(&[]);
    assert!(!host.remaining());
}

#[test]
fn what_another_program_wrote_stays() {
    let host = Host::new("nameserver 10.1.1.1\n");
    let web = host.on("back", "web", "10.0.0.2/24");
    let directory = host.path("etc/netns/web");
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("hosts"), "10.7.7.7 mine\n").unwrap();
    symlink("/nonexistent", directory.join("resolv.conf")).unwrap();
    let notes = host.write(std::slice::from_ref(&web));
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert!(notes[0].contains("netns/web/hosts is not ours"), "{notes:?}");
    host.write(&[]);
    assert_eq!(fs::read_to_string(directory.join("hosts")).unwrap(), "10.7.7.7 mine\n");
    assert!(fs::symlink_metadata(directory.join("resolv.conf")).unwrap().is_symlink());

    // What was ours is theirs once they changed it.
    fs::remove_file(directory.join("resolv.conf")).unwrap();
    host.write(std::slice::from_ref(&web));
    let path = directory.join("resolv.conf");
    let changed = fs::read_to_string(&path).unwrap() + "options rotate\n";
    fs::write(&path, &changed).unwrap();
    assert_eq!(host.write(std::slice::from_ref(&web)).len(), 2);
    host.write(&[]);
    assert_eq!(fs::read_to_string(&path).unwrap(), changed);

    // An empty directory of theirs is no leftover of ours.
    let empty = host.path("etc/netns/empty");
    fs::create_dir(&empty).unwrap();
    host.write(&[]);
    assert!(empty.exists());
}

#[test]
fn what_a_dead_process_left_is_mended() {
    let host = Host::new("nameserver 10.1.1.1\n");
    let web = host.on("back", "web", "10.0.0.2/24");
    host.write(std::slice::from_ref(&web));
    let path = host.path("etc/netns/web/hosts");
    let whole = fs::read_to_string(&path).unwrap();
    let (head, body) = whole.split_once('\n').unwrap();
    let blank = format!("{}{}", &head[..head.len() - 64], "0".repeat(64));
    for half in
        [format!("{blank}\n{body}"), format!("{blank}\n127."), format!("{blank}\n{body}x y")]
    {
        fs::write(&path, half).unwrap();
        assert_eq!(host.write(std::slice::from_ref(&web)), words(&[]));
        assert_eq!(fs::read_to_string(&path).unwrap(), whole);
    }
    fs::write(host.names().fresh(), "half").unwrap();
    fs::remove_file(&path).unwrap();
    host.write(std::slice::from_ref(&web));
    assert_eq!(fs::read_to_string(&path).unwrap(), whole);
    // A directory that was to be removed, or filled.
    let names = host.names();
    names.make(&host.path("etc/netns/gone")).unwrap();
    fs::write(host.names().fresh(), "half").unwrap();
    host.write(&[]);
    assert!(!host.remaining());
}

#[test]
fn garbage_is_what_no_record_wants() {
    let host = Host::new("");
    let web = host.on("back", "web", "10.0.0.2/24");
    host.write(&[web.clone(), host.on("back", "db", "10.0.0.3/24")]);
    let strays = host.names().strays(&|| Ok(vec![web.clone()])).unwrap();
    assert_eq!(strays, [(Stray::Names("db".into()), Presence::Gone)]);
    host.names().forget("db").unwrap();
    assert!(!host.path("etc/netns/db").exists() && host.path("etc/netns/web/hosts").exists());
    // Where the book cannot be read nothing is judged.
    let unread = || Err(Error::bug("unreadable"));
    assert!(host.names().write(&unread).is_err());
    assert!(host.path("etc/netns/web/hosts").exists());
}

#[test]
fn another_book_has_files_of_its_own() {
    let host = Host::new("");
    let web = host.on("back", "web", "10.0.0.2/24");
    host.write(std::slice::from_ref(&web));
    let before = fs::read(host.path("etc/netns/web/hosts")).unwrap();
    let other = Names::new(host.0.path(), host.path("run/other"));
    assert_eq!(other.strays(&|| Ok(Vec::new())).unwrap(), []);
    other.write(&|| Ok(Vec::new())).unwrap();
    let notes = other.write(&|| Ok(vec![host.on("front", "web", "10.9.0.2/24")])).unwrap();
    assert!(notes.iter().any(|note| note.sentence.contains("web/hosts is not")), "{notes:?}");
    assert_eq!(fs::read(host.path("etc/netns/web/hosts")).unwrap(), before);
}

#[test]
fn the_host_is_asked_by_default() {
    let host = Host::new(
        "# a comment\nsearch old\nsearch lan. example\nnameserver 127.0.0.1\nnameserver 10.1.1.1\n\
         nameserver fe80::1%eth0\nnameserver ::1\noptions ndots:2 A;\n",
    );
    let mut web = host.on("back", "web", "10.0.0.2/24");
    host.write(std::slice::from_ref(&web));
    let text = "search lan. example\nnameserver 10.1.1.1\noptions ndots:2\n";
    assert_eq!(host.given("web/resolv.conf"), text);
    // What anybody said for it comes first, and nothing that is no server gets in.
    web.dns = Dns {
        nameservers: words(&["10.2.2.2", "1.1.1.1\nsearch evil", "x"]),
        domain: Some("a\nb".into()),
        search: words(&["."]),
        options: words(&["edns0", "a b"]),
    };
    let mut second = host.on("front", "web", "10.9.0.2/24");
    second.dns.nameservers = words(&["10.3.3.3", "10.2.2.2"]);
    host.write(&[web, second]);
    let text = "nameserver 10.2.2.2\nnameserver 10.3.3.3\noptions edns0\n";
    assert_eq!(host.given("web/resolv.conf"), text);
}

#[test]
fn what_answers_only_on_the_host_is_no_server() {
    let host = Host::new("nameserver 127.0.0.53\noptions edns0\n");
    let web = host.on("back", "web", "10.0.0.2/24");
    let notes = host.write(std::slice::from_ref(&web));
    assert!(notes.len() == 1 && notes[0].contains("no name server"), "{notes:?}");
    assert_eq!(host.given("web/resolv.conf"), "options edns0\n");
    let behind = host.path("run/systemd/resolve");
    fs::create_dir_all(&behind).unwrap();
    fs::write(behind.join("resolv.conf"), "nameserver 192.0.2.1\nsearch corp\n").unwrap();
    assert_eq!(host.write(std::slice::from_ref(&web)), words(&[]));
    assert_eq!(host.given("web/resolv.conf"), "search corp\nnameserver 192.0.2.1\n");
}

#[test]
fn only_a_name_is_a_name() {
    let names = Names::new("/", "");
    for (path, name) in [
        ("/run/netns/web", Some("web")),
        ("/var/run/netns/web", Some("web")),
        ("/run/netns/a/b", None),
        ("/run/netns/..", None),
        ("/run/netns", None),
        ("/run/netns/.spoke.12", None),
        ("/run/netns/a\nb", None),
        ("/proc/7/ns/net", None),
        ("/run/docker/netns/web", None),
    ] {
        assert_eq!(names.name_of(Path::new(path)), name, "{path:?}");
    }
}

#[test]
fn another_namespace_of_the_name_is_another_one() {
    let host = Host::new("nameserver 10.1.1.1\n");
    let mut old = host.on("front", "web", "10.9.0.2/24");
    old.sandbox.as_mut().unwrap().inode += 1;
    let web = host.on("back", "web", "10.0.0.2/24");
    host.write(&[old, web]);
    assert!(!host.given("web/hosts").contains("10.9.0.2"));
}

proptest! {
    /// Whatever the host's file says, what is made of it is what it reads as.
    #[test]
    fn hostile_files_are_read_as_they_are_written(text in "((search|nameserver|options|domain) )?[ -~\n]{0,200}") {
        let host = Host::new(&text);
        let web = host.on("back", "web", "10.0.0.2/24");
        let resolver = Resolver::of(&[&web], host.0.path());
        let again = Host::new(&resolver.text());
        let same = Resolver::of(&[&web], again.0.path());
        prop_assert_eq!(same.text(), resolver.text());
        let is_known = |line: &str| {
            ["search ", "nameserver ", "options "].iter().any(|word| line.starts_with(word))
        };
        prop_assert!(resolver.text().lines().all(is_known));
    }

    #[test]
    fn nothing_but_what_we_wrote_is_ours(text in prop::collection::vec(any::<u8>(), 0..300)) {
        let host = Host::new("");
        let path = host.path("etc/file");
        fs::write(&path, &text).unwrap();
        let hand = host.names().hand();
        prop_assert!(!page::is_ours(&path, &hand).unwrap());
        prop_assert_eq!(page::write(&path, "x", &hand, &host.path("etc/new")).unwrap(), Written::Theirs);
        prop_assert_eq!(fs::read(&path).unwrap(), text);
    }
}
