//! A server that speaks as much of S3 as the client needs, on a simulated store, and fails as it is
//! told. Signatures are not looked at.

use std::collections::{HashMap, VecDeque};
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};

use onefold_objects::{Expect, ObjectError, Objects as _, SimObjects};

/// Objects on a page of a listing.
const PAGE: usize = 3;

/// What the server does to a request instead of answering it.
#[derive(Clone, Debug)]
#[allow(dead_code, reason = "each test program has those that it needs")]
pub enum Fault {
    /// Answers this status and code, and does nothing.
    Answer(u16, &'static str),
    /// Closes the connection, having done nothing.
    Close,
    /// Does it, and closes the connection.
    DoAndClose,
    /// Sends half of the body, and closes the connection.
    CutBody,
}

/// A running server. Its thread ends with the process.
pub struct Server {
    pub store: SimObjects,
    pub url: String,
    shared: Arc<Shared>,
}

struct Shared {
    store: SimObjects,
    /// What becomes of the next requests.
    faults: Mutex<VecDeque<Fault>>,
    /// What becomes of each, from now on.
    always: Mutex<Option<Fault>>,
    /// A put names tags without quotes, or it is refused, and what was sent in parts is answered
    /// without a tag.
    is_as_ceph: AtomicBool,
    /// Requests that were answered.
    answered: AtomicU64,
}

struct Request {
    method: String,
    path: String,
    query: HashMap<String, String>,
    headers: HashMap<String, String>,
    body: Vec<u8>,
}

struct Answer {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

impl Answer {
    fn of(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self { status, headers: Vec::new(), body: body.into() }
    }

    fn error(status: u16, code: &str) -> Self {
        // Real servers repeat what must not get into a log.
        let body = format!(
            "<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>no</Message>\
             <AWSAccessKeyId>KEYNAME</AWSAccessKeyId></Error>"
        );
        Self::of(status, body)
    }

    fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }
}

impl Server {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let store = SimObjects::new();
        let shared = Arc::new(Shared {
            store: store.clone(),
            faults: Mutex::default(),
            always: Mutex::default(),
            is_as_ceph: AtomicBool::default(),
            answered: AtomicU64::default(),
        });
        let of_thread = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let shared = Arc::clone(&of_thread);
                std::thread::spawn(move || serve(&shared, stream.unwrap()));
            }
        });
        Self { store, url, shared }
    }

    /// Let these become of the next requests.
    #[allow(dead_code, reason = "each test program has what it needs")]
    pub fn fail(&self, faults: impl IntoIterator<Item = Fault>) {
        self.shared.faults.lock().unwrap().extend(faults);
    }

    /// Take and tell tags as Ceph's gateway does.
    #[allow(dead_code, reason = "each test program has what it needs")]
    pub fn be_as_ceph(&self) {
        self.shared.is_as_ceph.store(true, Relaxed);
    }

    /// Requests that were answered so far.
    #[allow(dead_code, reason = "each test program has what it needs")]
    pub fn answered(&self) -> u64 {
        self.shared.answered.load(Relaxed)
    }

    /// Let this become of every request, or no more.
    pub fn fail_always(&self, fault: Option<Fault>) {
        *self.shared.always.lock().unwrap() = fault;
    }
}

fn serve(shared: &Shared, stream: TcpStream) {
    let mut writer = stream.try_clone().unwrap();
    let mut reader = BufReader::new(stream);
    while let Some(request) = read_request(&mut reader) {
        let fault = shared.faults.lock().unwrap().pop_front();
        let fault = fault.or_else(|| shared.always.lock().unwrap().clone());
        let answer = match fault {
            Some(Fault::Answer(status, code)) => Answer::error(status, code),
            Some(Fault::Close) => return,
            Some(Fault::DoAndClose) => {
                answer(shared, &request);
                return;
            }
            _ => answer(shared, &request),
        };
        let mut head = format!("HTTP/1.1 {} X\r\nContent-Length: ", answer.status);
        head += &answer.body.len().to_string();
        for (name, value) in &answer.headers {
            write!(head, "\r\n{name}: {value}").unwrap();
        }
        head += "\r\nLast-Modified: Thu, 01 Jan 1970 00:00:00 GMT\r\n\r\n";
        let mut body = answer.body;
        if request.method == "HEAD" {
            body.clear();
        }
        let cut = matches!(fault, Some(Fault::CutBody));
        if cut {
            body.truncate(body.len() / 2);
        }
        if writer.write_all(&[head.as_bytes(), &body].concat()).is_err() || cut {
            return;
        }
    }
}

fn read_request(reader: &mut BufReader<TcpStream>) -> Option<Request> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|&len| len > 0)?;
    let mut words = line.split(' ');
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = HashMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let len = headers.get("content-length").map_or(0, |len| len.parse().unwrap());
    let mut body = vec![0; len];
    reader.read_exact(&mut body).ok()?;
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let query = query.split('&').map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (name.to_owned(), value.replace("%2F", "/"))
    });
    Some(Request { method, path: path.to_owned(), query: query.collect(), headers, body })
}

fn answer(shared: &Shared, request: &Request) -> Answer {
    shared.answered.fetch_add(1, Relaxed);
    let path = request.path.trim_start_matches('/');
    let (bucket, key) = path.split_once('/').unwrap_or((path, ""));
    if bucket != "bucket" {
        return Answer::error(404, "NoSuchBucket");
    }
    let store = &shared.store;
    let upload = request.query.get("uploadId");
    match (request.method.as_str(), upload) {
        ("GET", _) if request.query.contains_key("list-type") => list(store, &request.query),
        ("GET" | "HEAD", _) => get(store, key, request),
        ("POST", None) => {
            let id = store.begin(key).unwrap();
            Answer::of(
                200,
                format!(
                    "<InitiateMultipartUploadResult><UploadId>{id}</UploadId>\
                     </InitiateMultipartUploadResult>"
                ),
            )
        }
        ("PUT", Some(id)) => {
            let part: usize = request.query["partNumber"].parse().unwrap();
            match store.part(key, id, part - 1, &request.body) {
                Ok(tag) => Answer::of(200, "").with("ETag", format!("\"{tag}\"")),
                Err(_) => Answer::error(404, "NoSuchUpload"),
            }
        }
        ("POST", Some(id)) => {
            let body = String::from_utf8_lossy(&request.body).replace("&quot;", "\"");
            let tags = body
                .split("<ETag>")
                .skip(1)
                .map(|part| part.split("</ETag>").next().unwrap().trim_matches('"').to_owned());
            match store.complete(key, id, &tags.collect::<Vec<_>>()) {
                Ok(tag) => {
                    let is_told = !shared.is_as_ceph.load(Relaxed);
                    let tag = if is_told { format!("\"{tag}\"") } else { String::new() };
                    let xml = format!(
                        "<CompleteMultipartUploadResult><ETag>{tag}</ETag>\
                         </CompleteMultipartUploadResult>"
                    );
                    Answer::of(200, xml)
                }
                Err(_) => Answer::error(404, "NoSuchUpload"),
            }
        }
        ("DELETE", Some(id)) => match store.abort(key, id) {
            Ok(()) => Answer::of(204, ""),
            Err(_) => Answer::error(404, "NoSuchUpload"),
        },
        ("PUT", None) => {
            let matches = request.headers.get("if-match");
            let expect = match (request.headers.get("if-none-match"), matches) {
                (Some(_), _) => Expect::Nothing,
                (None, Some(tag)) if shared.is_as_ceph.load(Relaxed) => Expect::Tag(tag.clone()),
                (None, Some(tag)) => Expect::Tag(tag.trim_matches('"').to_owned()),
                (None, None) => Expect::Anything,
            };
            match store.put(key, &request.body, &expect) {
                Ok(tag) => Answer::of(200, "").with("ETag", format!("\"{tag}\"")),
                Err(ObjectError::Conflict) => Answer::error(412, "PreconditionFailed"),
                Err(error) => panic!("{error}"),
            }
        }
        ("DELETE", None) => {
            store.remove(key).unwrap();
            Answer::of(204, "")
        }
        (method, _) => panic!("no {method} in this server"),
    }
}

fn get(store: &SimObjects, key: &str, request: &Request) -> Answer {
    let Ok(found) = store.tail(key, u64::MAX) else { return Answer::error(404, "NoSuchKey") };
    let tag = format!("\"{}\"", found.stored.tag);
    if request.headers.get("if-match").is_some_and(|wanted| *wanted != tag) {
        return Answer::error(412, "PreconditionFailed");
    }
    let len = found.bytes.len();
    let Some(range) = request.headers.get("range").and_then(|r| r.strip_prefix("bytes=")) else {
        return Answer::of(200, found.bytes).with("ETag", tag);
    };
    let (from, to) = range.split_once('-').unwrap();
    let (start, end) = match (from.parse::<usize>(), to.parse::<usize>()) {
        (Err(_), Ok(last)) => (len.saturating_sub(last), len),
        (Ok(start), Ok(last)) => (start, len.min(last + 1)),
        _ => panic!("no range {range} in this server"),
    };
    if start >= end && key.ends_with("whole") {
        return Answer::of(200, "").with("ETag", tag);
    }
    if start >= end {
        return Answer::error(416, "InvalidRange");
    }
    Answer::of(206, &found.bytes[start..end])
        .with("ETag", tag)
        .with("Content-Range", format!("bytes {start}-{}/{len}", end - 1))
}

fn list(store: &SimObjects, query: &HashMap<String, String>) -> Answer {
    let prefix = query.get("prefix").map_or("", String::as_str);
    let mut listed = store.list(prefix).unwrap();
    listed.sort_by(|a, b| a.name.cmp(&b.name));
    let after = query.get("continuation-token").map_or(0, |token| token.parse().unwrap());
    let mut xml = String::from("<ListBucketResult>");
    for object in listed.iter().skip(after).take(PAGE) {
        let s = object.modified_s;
        write!(
            xml,
            "<Contents><Key>{prefix}{}</Key><Size>{}</Size><ETag>&quot;{}&quot;</ETag>\
             <LastModified>1970-01-01T{:02}:{:02}:{:02}.000Z</LastModified></Contents>",
            object.name,
            object.stored.bytes,
            object.stored.tag,
            s / 3600,
            s / 60 % 60,
            s % 60
        )
        .unwrap();
    }
    if after + PAGE < listed.len() {
        let next = after + PAGE;
        write!(xml, "<NextContinuationToken>{next}</NextContinuationToken>").unwrap();
    }
    xml += "</ListBucketResult>";
    Answer::of(200, xml)
}
