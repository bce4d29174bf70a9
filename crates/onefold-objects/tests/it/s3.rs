//! The client of S3, on a small server of ours; and on any other one, if the environment names it.

use std::path::Path;
use std::sync::Arc;

use onefold_block::conformance::media::check_folder;
use onefold_block::{Folder as _, SplitMix64};
use onefold_objects::{
    Expect, LeaseError, ObjectError, ObjectFolder, Objects, S3Objects, S3Place, Stored, Tail, Use,
};

use crate::server::{Fault, Server};
use crate::support::owner;

fn variables(url: &str) -> Vec<(String, String)> {
    let pairs = [
        ("AWS_ENDPOINT_URL", url),
        ("AWS_ALLOW_HTTP", "true"),
        ("AWS_ACCESS_KEY_ID", "KEYNAME"),
        ("AWS_SECRET_ACCESS_KEY", "SECRET"),
        ("HOME", "/nowhere"),
    ];
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()
}

fn open_place(server: &Server, place: &str) -> S3Objects {
    let place = S3Place::parse(Path::new(place)).unwrap();
    S3Objects::open(&place, variables(&server.url).into_iter()).unwrap()
}

fn open(server: &Server) -> S3Objects {
    open_place(server, "s3://bucket/store")
}

/// Every request, with every answer that it may get.
fn check_requests(objects: &dyn Objects, part_bytes: usize) {
    let (at, other) = ("folder/a", Expect::Tag("\"another\"".to_owned()));
    assert_eq!(objects.tail(at, 10), Err(ObjectError::NotFound));
    assert_eq!(objects.put(at, b"x", &other), Err(ObjectError::Conflict));
    let first = objects.put(at, b"first", &Expect::Nothing).unwrap();
    assert_eq!(objects.put(at, b"x", &Expect::Nothing), Err(ObjectError::Conflict));
    let tag = objects.put(at, b"second one", &Expect::Tag(first.clone())).unwrap();
    assert_eq!(objects.put(at, b"x", &Expect::Tag(first.clone())), Err(ObjectError::Conflict));
    let stored = Stored { bytes: 10, tag: tag.clone() };
    let tail = Tail { stored: stored.clone(), bytes: b"one".to_vec() };
    assert_eq!(objects.tail(at, 3), Ok(tail));
    assert_eq!(objects.tail(at, 99).unwrap().bytes, b"second one");
    assert_eq!(objects.get(at, 2..6, &tag).unwrap(), b"cond");
    assert_eq!(objects.get(at, 2..6, &first), Err(ObjectError::Conflict));
    assert_eq!(objects.get("folder/none", 0..1, &tag), Err(ObjectError::NotFound));
    let empty = objects.put("folder/empty", b"", &Expect::Anything).unwrap();
    let nothing = Tail { stored: Stored { bytes: 0, tag: empty }, bytes: Vec::new() };
    assert_eq!(objects.tail("folder/empty", 5), Ok(nothing));
    for number in 0..7 {
        objects.put(&format!("folder/{number}"), &[0; 3], &Expect::Anything).unwrap();
    }
    objects.put("folder/inner/deep", b"", &Expect::Anything).unwrap();
    let mut listed = objects.list("folder/").unwrap();
    listed.sort_by(|a, b| a.name.cmp(&b.name));
    let names: Vec<&str> = listed.iter().map(|listed| listed.name.as_str()).collect();
    assert_eq!(names, ["0", "1", "2", "3", "4", "5", "6", "a", "empty"]);
    assert_eq!(listed[7].stored, stored);
    assert!(objects.list("").unwrap().is_empty());
    check_parts(objects, part_bytes);
    for name in ["large", "folder/a", "folder/a", "folder/inner/deep", "folder/empty"] {
        objects.remove(name).unwrap();
    }
    (0..7).for_each(|number| objects.remove(&format!("folder/{number}")).unwrap());
    assert!(objects.list("folder/").unwrap().is_empty());
}

/// What is sent in parts is there when it is complete, and not before; given up it never is.
fn check_parts(objects: &dyn Objects, part_bytes: usize) {
    let bytes = SplitMix64::new(1).bytes(2 * part_bytes + 5);
    let parts: Vec<&[u8]> = bytes.chunks(part_bytes).collect();
    let upload = objects.begin("large").unwrap();
    let send = |number: usize| objects.part("large", &upload, number, parts[number]).unwrap();
    // A part that is sent again takes the place of the first one.
    objects.part("large", &upload, 1, parts[0]).unwrap();
    let tags = [send(0), send(1), send(2)];
    assert_eq!(objects.tail("large", 1), Err(ObjectError::NotFound));
    let large = objects.complete("large", &upload, &tags).unwrap();
    assert!(objects.get("large", 0..bytes.len() as u64, &large).unwrap() == bytes);
    assert_eq!(objects.tail("large", 1).unwrap().stored.tag, large);
    let other = objects.begin("large").unwrap();
    objects.part("large", &other, 0, parts[0]).unwrap();
    objects.abort("large", &other).unwrap();
    assert!(objects.part("large", &other, 1, parts[0]).is_err());
    assert_eq!(objects.tail("large", 1).unwrap().stored.tag, large);
}

#[test]
fn every_request_gets_its_answer() {
    let server = Server::start();
    for place in ["s3://bucket", "s3://bucket/store/deep"] {
        let objects = open_place(&server, place);
        check_requests(&objects, 64 << 10);
        // Of an object without bytes some servers send all of it, where others refuse its end.
        objects.put("whole", b"", &Expect::Nothing).unwrap();
        assert!(objects.tail("whole", 9).unwrap().bytes.is_empty());
        objects.put("whole", b"bytes", &Expect::Anything).unwrap();
        assert_eq!(objects.tail("whole", 3).unwrap().bytes, b"tes");
        objects.remove("whole").unwrap();
        assert!(server.store.contents().is_empty());
    }
}

#[test]
fn the_gateway_of_ceph_is_told_tags_as_it_takes_them() {
    let server = Server::start();
    server.be_as_ceph();
    let objects = open(&server);
    let first = objects.put("a", b"first", &Expect::Nothing).unwrap();
    let asked = |expect: &Expect, bytes: &[u8]| {
        let before = server.answered();
        let put = objects.put("a", bytes, expect);
        (put, server.answered() - before)
    };
    // Refused, looked at, and put; from then on put at once.
    let (second, requests) = asked(&Expect::Tag(first.clone()), b"second");
    assert_eq!(requests, 3);
    let (third, requests) = asked(&Expect::Tag(second.unwrap()), b"third");
    assert_eq!(requests, 1);
    assert_eq!(asked(&Expect::Tag(first.clone()), b"x"), (Err(ObjectError::Conflict), 1));
    assert_eq!(objects.tail("a", 9).unwrap().stored.tag, third.unwrap());
    // One that is really another's, or not there, is no reason to ask so.
    let objects = open(&server);
    assert_eq!(objects.put("a", b"x", &Expect::Tag(first.clone())), Err(ObjectError::Conflict));
    assert_eq!(objects.put("b", b"x", &Expect::Tag(first)), Err(ObjectError::Conflict));
    check_requests(&open_place(&server, "s3://bucket"), 64 << 10);
}

#[test]
fn folders_in_s3_keep_the_contract_of_folders() {
    check_folder(&|| Arc::new(ObjectFolder::new(Arc::new(open(&Server::start())), None)));
}

#[test]
fn a_server_that_stumbles_is_asked_again() {
    let server = Server::start();
    let objects = open(&server);
    server.fail([
        Fault::Answer(503, "SlowDown"),
        Fault::Answer(500, "InternalError"),
        Fault::Close,
    ]);
    let tag = objects.put("a", b"bytes", &Expect::Nothing).unwrap();
    server.fail([Fault::Close, Fault::Answer(503, "SlowDown")]);
    assert_eq!(objects.get("a", 0..5, &tag).unwrap(), b"bytes");
    server.fail([Fault::CutBody]);
    assert_eq!(objects.get("a", 0..5, &tag).unwrap(), b"bytes", "what is cut short is read on");
    for _ in 0..2 {
        server.fail([Fault::CutBody, Fault::CutBody]);
        assert_eq!(objects.tail("a", 4).unwrap().bytes, b"ytes", "its end as well");
    }
    server.fail([Fault::CutBody, Fault::CutBody]);
    let listed = objects.list("").unwrap();
    assert_eq!((listed.len(), &*listed[0].name), (1, "a"), "and so is a listing");
}

#[test]
fn a_put_whose_answer_is_lost_is_done_once() {
    let server = Server::start();
    let folder = ObjectFolder::new(Arc::new(open(&server)), None);
    let media = folder.create("log").unwrap();
    media.write(0, b"one").unwrap();
    server.fail([Fault::Answer(503, "SlowDown")]);
    folder.sync_names().unwrap();
    media.write(3, b" two").unwrap();
    server.fail([Fault::DoAndClose]);
    // Whether the client repeats it by itself or not: the next sync knows its own bytes again.
    media.sync().or_else(|_| media.sync()).unwrap();
    media.write(7, b" three").unwrap();
    media.sync().unwrap();
    assert_eq!(server.store.contents()["store/log"], b"one two three");
}

#[test]
fn each_refusal_is_one_clear_error_and_no_error_tells_the_key() {
    let server = Server::start();
    let objects = open(&server);
    let cases = [
        (403, "AccessDenied", "access denied (AccessDenied)"),
        (403, "InvalidAccessKeyId", "the credentials are not accepted (InvalidAccessKeyId)"),
        (403, "SignatureDoesNotMatch", "the credentials are not accepted (SignatureDoesNotMatch)"),
        (401, "Odd", "access denied (Odd)"),
        (404, "NoSuchBucket", "there is no bucket 'bucket'"),
        (
            400,
            "AuthorizationHeaderMalformed",
            "the store refused it (AuthorizationHeaderMalformed)",
        ),
    ];
    for (status, code, text) in cases {
        server.fail_always(Some(Fault::Answer(status, code)));
        let errors = [
            objects.put("a", b"x", &Expect::Nothing).unwrap_err(),
            objects.list("").unwrap_err(),
            objects.get("a", 0..1, "\"tag\"").unwrap_err(),
            objects.tail("a", 1).unwrap_err(),
        ];
        for error in errors {
            assert_eq!(error.to_string(), text);
            let shown = error.of("write", objects.address("a")).to_string();
            assert!(!shown.contains("KEYNAME") && !shown.contains("SECRET"), "{shown}");
        }
    }
    server.fail_always(None);
    let other = open_place(&server, "s3://elsewhere/store");
    let error = other.list("").unwrap_err();
    assert_eq!(error.to_string(), "there is no bucket 'elsewhere'");
}

#[test]
fn a_store_that_is_full_says_so() {
    let server = Server::start();
    // Tried a few times: it may be for a moment.
    server.fail_always(Some(Fault::Answer(507, "XMinioStorageFull")));
    let full = ObjectError::NoSpace("XMinioStorageFull".to_owned());
    assert_eq!(open(&server).put("a", b"x", &Expect::Nothing), Err(full));
}

#[test]
fn an_environment_that_cannot_do_is_refused_before_anything_is_asked() {
    let place = S3Place::parse(Path::new("s3://bucket")).unwrap();
    // What does not begin as Amazon's names do may be anybody's, and what is empty says nothing.
    for (name, value) in [("ACCESS_KEY_ID", "KEYNAME"), ("AWS_ACCESS_KEY_ID", "")] {
        let named = [name, "AWS_SECRET_ACCESS_KEY"].map(str::to_owned);
        let variables = named.into_iter().zip([value, "SECRET"].map(str::to_owned));
        let error = S3Objects::open(&place, variables).map(drop).unwrap_err();
        assert!(error.starts_with("there are no credentials"), "{name}: {error}");
    }
    let open = |without: &str| {
        let variables = variables("http://127.0.0.1:9");
        let kept = variables.into_iter().filter(|(name, _)| name != without);
        S3Objects::open(&place, kept).map(drop)
    };
    open("HOME").unwrap();
    let error = open("AWS_ACCESS_KEY_ID").unwrap_err();
    assert!(error.contains("set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"), "{error}");
    let error = open("AWS_ALLOW_HTTP").unwrap_err();
    assert!(error.contains("AWS_ALLOW_HTTP=true"), "{error}");
    let error = open("AWS_SECRET_ACCESS_KEY").unwrap_err();
    assert!(!error.contains("KEYNAME"), "{error}");
}

#[test]
fn locks_are_seen_by_the_clock_of_the_store() {
    let server = Server::start();
    let objects: Arc<dyn Objects> = Arc::new(open(&server));
    let lease = S3Objects::lock(&objects, Use::Add, &owner(1), |_| ()).unwrap();
    server.store.pass_s(10);
    let second = S3Objects::lock(&objects, Use::Add, &owner(2), |_| ()).map(drop);
    assert!(matches!(second, Err(LeaseError::Held { holder }) if holder == "process 1 on here"));
    server.store.pass_s(400);
    drop(S3Objects::lock(&objects, Use::Remove, &owner(3), |_| ()).unwrap());
    assert!(!lease.renew() && lease.must_hold().is_err());
}

/// On the server that the environment names, in the place `ONEFOLD_S3`; docs/testing.md.
#[test]
fn a_real_server_keeps_the_contract() {
    let Ok(text) = std::env::var("ONEFOLD_S3") else {
        eprintln!("skipped: ONEFOLD_S3 names no place");
        return;
    };
    let place = S3Place::parse(Path::new(&text)).unwrap();
    let objects: Arc<dyn Objects> = Arc::new(S3Objects::open(&place, std::env::vars()).unwrap());
    check_requests(&*objects, 5 << 20);
    let first = S3Objects::lock(&objects, Use::Add, &owner(1), |_| ()).unwrap();
    assert!(first.renew());
    assert!(S3Objects::lock(&objects, Use::Remove, &owner(2), |_| ()).is_err());
    drop(first);
    let runs = std::cell::Cell::new(0);
    check_folder(&|| {
        runs.set(runs.get() + 1);
        // What an earlier run left is not in the way.
        let place = format!("{text}/run-{}-{}", std::process::id(), runs.get());
        let place = S3Place::parse(Path::new(&place)).unwrap();
        Arc::new(ObjectFolder::new(
            Arc::new(S3Objects::open(&place, std::env::vars()).unwrap()),
            None,
        ))
    });
}
