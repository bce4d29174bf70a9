//! S3, and whatever speaks its protocol.
//! Room: onefold-objects.
//! The client is `object_store`'s, and waits in an async runtime of its own: one thread, which
//! nobody else sees. Where the store is and what opens it comes from the environment, by the names
//! that Amazon's tools use. No error has a text that came from a server but for its code: some
//! servers repeat the name of the key.

use std::error::Error as _;
use std::fmt;
use std::ops::Range;
use std::path::Path as FilePath;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::multipart::{MultipartStore as _, PartId};
use object_store::path::Path;
use object_store::{
    BackoffConfig, ClientConfigKey, Error, GetOptions, GetRange, GetResult, ListResult,
    ObjectStore, ObjectStoreExt as _, PutMode, PutOptions, PutPayload, PutResult, RetryConfig,
    UpdateVersion,
};
use tokio::runtime::Runtime;

use crate::lease::{self, Lease, LeaseChange, LeaseError, Owner, Use};
use crate::objects::{Expect, Listed, ObjectError, Objects, Stored, Tail};

/// How long a request may take, in seconds, and how long a failed one is tried again.
const REQUEST_S: u64 = 60;
const RETRY: Duration = Duration::from_secs(30);
const RETRIES: usize = 6;
/// How long is waited before what was cut short is asked for again; then twice as long each time.
const FIRST_WAIT: Duration = Duration::from_millis(100);
/// Longest text of an error from below.
const PROBLEM_LETTERS: usize = 160;

/// What a place in S3 begins with.
pub const SCHEME: &str = "s3://";

/// A place in S3: a bucket, and what the names of its objects begin with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct S3Place {
    bucket: String,
    prefix: String,
}

impl S3Place {
    /// The place that a text such as `s3://bucket/some/where` names.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &FilePath) -> Result<Self, String> {
        let expected = "expected s3://BUCKET or s3://BUCKET/FOLDER";
        let refuse = |why: &str| Err(format!("'{}': {why}; {expected}", text.display()));
        let Some(rest) = text.to_str().and_then(|text| text.strip_prefix(SCHEME)) else {
            return refuse("it is no name in S3");
        };
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-._".contains(letter);
        if bucket.is_empty() || !bucket.chars().all(is_plain) {
            return refuse("that is no name of a bucket");
        }
        let prefix = prefix.trim_end_matches('/');
        if !prefix.is_empty() && Path::parse(prefix).is_err() {
            return refuse("its folder has an empty part, or letters that names there do not have");
        }
        Ok(Self { bucket: bucket.to_owned(), prefix: prefix.to_owned() })
    }

    fn path(&self, name: &str) -> Result<Path, ObjectError> {
        let full = match &self.prefix {
            prefix if prefix.is_empty() => name.to_owned(),
            prefix => format!("{prefix}/{name}"),
        };
        Path::parse(full.trim_end_matches('/'))
            .map_err(|_| ObjectError::Failed("its name is none of an object".to_owned()))
    }
}

impl fmt::Display for S3Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}", self.bucket)?;
        if self.prefix.is_empty() { Ok(()) } else { write!(f, "/{}", self.prefix) }
    }
}

/// A place in S3, open.
pub struct S3Objects {
    place: S3Place,
    store: AmazonS3,
    runtime: Runtime,
    /// The store was found to take tags without their quotes alone.
    takes_bare_tags: AtomicBool,
}

impl S3Objects {
    /// Open a place as these variables of an environment say; others than those of Amazon's tools
    /// say nothing. Nothing is asked of the store yet.
    ///
    /// # Errors
    /// What they lack, or say that cannot be.
    pub fn open(
        place: &S3Place,
        variables: impl Iterator<Item = (String, String)>,
    ) -> Result<Self, String> {
        // Another provider is as good, if one is there already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = AmazonS3Builder::new();
        for (name, value) in variables {
            let name = name.to_ascii_lowercase();
            let is_ours = name.starts_with("aws_") && !value.is_empty();
            if let (true, Ok(key)) = (is_ours, name.parse::<AmazonS3ConfigKey>()) {
                builder = builder.with_config(key, value);
            }
        }
        let said = |key: AmazonS3ConfigKey| builder.get_config_value(&key);
        let has_secret = [
            AmazonS3ConfigKey::AccessKeyId,
            AmazonS3ConfigKey::WebIdentityTokenFile,
            AmazonS3ConfigKey::ContainerCredentialsRelativeUri,
            AmazonS3ConfigKey::ContainerCredentialsFullUri,
            AmazonS3ConfigKey::MetadataEndpoint,
        ];
        let is_open = said(AmazonS3ConfigKey::SkipSignature).is_some_and(|value| value == "true");
        if !is_open && !has_secret.into_iter().any(|key| said(key).is_some()) {
            return Err("there are no credentials: set AWS_ACCESS_KEY_ID and \
                        AWS_SECRET_ACCESS_KEY"
                .to_owned());
        }
        let endpoint = said(AmazonS3ConfigKey::Endpoint).unwrap_or_default();
        let allows_http = said(AmazonS3ConfigKey::Client(ClientConfigKey::AllowHttp));
        if endpoint.starts_with("http://") && allows_http.is_none_or(|value| value != "true") {
            return Err(format!(
                "{endpoint} is not encrypted on its way: set AWS_ALLOW_HTTP=true to allow that"
            ));
        }
        let retry = RetryConfig {
            backoff: BackoffConfig::default(),
            max_retries: RETRIES,
            retry_timeout: RETRY,
        };
        let client = |key, seconds: u64| (AmazonS3ConfigKey::Client(key), format!("{seconds} s"));
        let (timeout, limit) = client(ClientConfigKey::Timeout, REQUEST_S);
        let (connect, connect_limit) = client(ClientConfigKey::ConnectTimeout, 10);
        let store = builder
            .with_bucket_name(&place.bucket)
            .with_config(timeout, limit)
            .with_config(connect, connect_limit)
            .with_retry(retry)
            .with_disable_bulk_delete(true)
            .build()
            .map_err(|error| innermost(&error))?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("s3")
            .enable_all()
            .build()
            .map_err(|error| format!("cannot start a thread: {error}"))?;
        let takes_bare_tags = AtomicBool::new(false);
        Ok(Self { place: place.clone(), store, runtime, takes_bare_tags })
    }

    /// Open a place for a use, locked against what would disturb it, with the lock renewed as long
    /// as it is held.
    ///
    /// # Errors
    /// Those of [`Lease::take`].
    pub fn lock(
        objects: &Arc<dyn Objects>,
        usage: Use,
        owner: &Owner,
        tell: impl FnMut(LeaseChange) + Send + 'static,
    ) -> Result<Lease, LeaseError> {
        let mut wait = |ms| std::thread::sleep(Duration::from_millis(ms));
        let mut lease = Lease::take(objects, usage, owner, lease::boot_clock, &mut wait)?;
        lease.keep_renewing(tell).map_err(|error| LeaseError::Store {
            address: objects.address(lease::LOCKS),
            source: ObjectError::Failed(format!("cannot start a thread: {error}")),
        })?;
        Ok(lease)
    }

    /// What an error means. A listing's does not come as what it is, so the status counts.
    fn refused(&self, error: &Error) -> ObjectError {
        let code = code(error);
        let status = status(error);
        match (code.as_deref(), error) {
            (Some("NoSuchBucket"), _) => {
                ObjectError::Failed(format!("there is no bucket '{}'", self.place.bucket))
            }
            (Some(code @ ("XMinioStorageFull" | "QuotaExceeded" | "InsufficientStorage")), _) => {
                ObjectError::NoSpace(code.to_owned())
            }
            (Some(code @ ("InvalidAccessKeyId" | "SignatureDoesNotMatch" | "ExpiredToken")), _) => {
                ObjectError::Refused(format!("the credentials are not accepted ({code})"))
            }
            (_, Error::NotFound { .. }) => ObjectError::NotFound,
            (_, Error::AlreadyExists { .. } | Error::Precondition { .. }) => ObjectError::Conflict,
            (code, _) if matches!(status, Some(401 | 403)) => {
                ObjectError::Refused(format!("access denied ({})", code.unwrap_or("no reason")))
            }
            (Some(code), _) => ObjectError::Failed(format!("the store refused it ({code})")),
            (None, error) => ObjectError::Failed(innermost(error)),
        }
    }

    fn run<T>(&self, request: impl Future<Output = Result<T, Error>>) -> Result<T, ObjectError> {
        self.runtime.block_on(request).map_err(|error| self.refused(&error))
    }

    /// List a folder. The client asks again where no answer comes, and where what it reads of an
    /// object ends early, but not where a listing does.
    fn list_again(&self, prefix: Option<&Path>) -> Result<ListResult, Error> {
        let (started, mut wait) = (Instant::now(), FIRST_WAIT);
        loop {
            match self.runtime.block_on(self.store.list_with_delimiter(prefix)) {
                Err(error) if is_half_a_listing(&error) && started.elapsed() < RETRY => {
                    std::thread::sleep(wait);
                    wait *= 2;
                }
                listed => return listed,
            }
        }
    }

    fn put_if(&self, path: &Path, payload: &PutPayload, mode: PutMode) -> Result<PutResult, Error> {
        let options = PutOptions { mode, ..PutOptions::default() };
        self.runtime.block_on(self.store.put_opts(path, payload.clone(), options))
    }

    /// Put what replaces the object that has this tag. The gateway of Ceph says tags in quotes as
    /// all stores do, but compares what a put names with the tag alone: where the store refuses a
    /// tag that the object has, it is asked without the quotes.
    fn replace(&self, path: &Path, payload: &PutPayload, tag: &str) -> Result<PutResult, Error> {
        let ask = |tag: &str| {
            let version = UpdateVersion { e_tag: Some(tag.to_owned()), version: None };
            self.put_if(path, payload, PutMode::Update(version))
        };
        let bare = tag.trim_matches('"');
        if self.takes_bare_tags.load(Ordering::Relaxed) {
            return ask(bare);
        }
        let put = ask(tag);
        if bare == tag || !matches!(put, Err(Error::Precondition { .. })) {
            return put;
        }
        match self.runtime.block_on(self.store.head(path)) {
            Ok(now) if now.e_tag.as_deref() == Some(tag) => {
                let put = ask(bare);
                self.takes_bare_tags.store(put.is_ok(), Ordering::Relaxed);
                put
            }
            Ok(_) | Err(Error::NotFound { .. }) => put,
            Err(error) => Err(error),
        }
    }

    /// Read of an object. The client reads on where it knows from where; of the end of an object it
    /// does not.
    fn read(&self, path: &Path, options: &GetOptions) -> Result<(Stored, Vec<u8>), Error> {
        let (started, mut wait) = (Instant::now(), FIRST_WAIT);
        loop {
            let asked = self.store.get_opts(path, options.clone());
            let found: GetResult = self.runtime.block_on(asked)?;
            let stored = stored(found.meta.size, found.meta.e_tag.clone());
            match self.runtime.block_on(found.bytes()) {
                Err(_) if started.elapsed() < RETRY => {
                    std::thread::sleep(wait);
                    wait *= 2;
                }
                bytes => return Ok((stored, bytes?.to_vec())),
            }
        }
    }
}

fn stored(bytes: u64, tag: Option<String>) -> Stored {
    Stored { bytes, tag: tag.unwrap_or_default() }
}

/// The code of an error as S3 says it: a word, from the answer's body.
fn code(error: &Error) -> Option<String> {
    let text = error.to_string();
    let (_, rest) = text.split_once("<Code>")?;
    let (code, _) = rest.split_once("</Code>")?;
    let is_word = (1..=60).contains(&code.len()) && code.bytes().all(|b| b.is_ascii_alphanumeric());
    is_word.then(|| code.to_owned())
}

/// The status of an answer that was an error.
fn status(error: &Error) -> Option<u16> {
    let text = error.to_string();
    let (_, status) = text.split_once("status code: ")?;
    status.get(..3)?.parse().ok()
}

/// Whether a listing came, but not all of it, or not as one can be read.
fn is_half_a_listing(error: &Error) -> bool {
    status(error).is_none() && error.to_string().contains("list response")
}

/// Whether an answer came, but not of the range that was asked for.
fn lacks_range(error: &Error) -> bool {
    status(error) == Some(416) || error.to_string().contains("when range requested")
}

/// What an error says at its root, without what a server wrote.
fn innermost(error: &Error) -> String {
    let mut source = error.source();
    let mut text = error.to_string();
    while let Some(inner) = source {
        text = inner.to_string();
        source = inner.source();
    }
    // A status is followed by the answer's body.
    let words = match text.split_once("status code: ") {
        Some((_, status)) => {
            let end = status.find([':', '<', '\n']).unwrap_or(status.len());
            format!("the store answered: {}", status[..end].trim_end())
        }
        None => text[..text.find(['<', '\n']).unwrap_or(text.len())].to_owned(),
    };
    words.chars().take(PROBLEM_LETTERS).collect()
}

/// What is not there is an upload, and not the object.
fn of_upload(error: ObjectError) -> ObjectError {
    match error {
        ObjectError::NotFound => {
            ObjectError::Failed("the store has no parts of it any more".to_owned())
        }
        error => error,
    }
}

impl Objects for S3Objects {
    fn tail(&self, name: &str, at_most: u64) -> Result<Tail, ObjectError> {
        let path = self.place.path(name)?;
        let range = Some(GetRange::Suffix(at_most.max(1)));
        match self.read(&path, &GetOptions { range, ..GetOptions::default() }) {
            Ok((stored, bytes)) => Ok(Tail { stored, bytes }),
            // An object without bytes has no last ones.
            Err(error) if lacks_range(&error) => {
                let meta = self.run(self.store.head(&path))?;
                if meta.size > 0 {
                    return Err(self.refused(&error));
                }
                Ok(Tail { stored: stored(0, meta.e_tag), bytes: Vec::new() })
            }
            Err(error) => Err(self.refused(&error)),
        }
    }

    fn get(&self, name: &str, range: Range<u64>, tag: &str) -> Result<Vec<u8>, ObjectError> {
        if range.is_empty() {
            return Ok(Vec::new());
        }
        let path = self.place.path(name)?;
        let if_match = (!tag.is_empty()).then(|| tag.to_owned());
        let range = Some(GetRange::Bounded(range));
        let found = self.read(&path, &GetOptions { range, if_match, ..GetOptions::default() });
        found.map(|(_, bytes)| bytes).map_err(|error| self.refused(&error))
    }

    fn put(&self, name: &str, bytes: &[u8], expect: &Expect) -> Result<String, ObjectError> {
        let path = self.place.path(name)?;
        let payload = PutPayload::from(bytes.to_vec());
        let put = match expect {
            Expect::Nothing => self.put_if(&path, &payload, PutMode::Create),
            Expect::Tag(tag) => self.replace(&path, &payload, tag),
            Expect::Anything => self.put_if(&path, &payload, PutMode::Overwrite),
        };
        let put = match put {
            // AWS_CONDITIONAL_PUT=disabled says that the store knows no conditions.
            Err(Error::NotImplemented { .. }) => self.run(self.store.put(&path, payload)),
            put => put.map_err(|error| self.refused(&error)),
        };
        put.map(|put| put.e_tag.unwrap_or_default())
    }

    fn begin(&self, name: &str) -> Result<String, ObjectError> {
        let path = self.place.path(name)?;
        self.run(self.store.create_multipart(&path))
    }

    fn part(
        &self,
        name: &str,
        upload: &str,
        number: usize,
        bytes: &[u8],
    ) -> Result<String, ObjectError> {
        let (path, id) = (self.place.path(name)?, upload.to_owned());
        let payload = PutPayload::from(bytes.to_vec());
        let sent = self.run(self.store.put_part(&path, &id, number, payload));
        sent.map(|part| part.content_id).map_err(of_upload)
    }

    fn complete(&self, name: &str, upload: &str, tags: &[String]) -> Result<String, ObjectError> {
        let (path, id) = (self.place.path(name)?, upload.to_owned());
        let parts = tags.iter().map(|tag| PartId { content_id: tag.clone() }).collect();
        let put = self.run(self.store.complete_multipart(&path, &id, parts)).map_err(of_upload)?;
        match put.e_tag.filter(|tag| !tag.is_empty()) {
            Some(tag) => Ok(tag),
            // The gateway of Ceph answers without it.
            None => Ok(self.run(self.store.head(&path))?.e_tag.unwrap_or_default()),
        }
    }

    fn abort(&self, name: &str, upload: &str) -> Result<(), ObjectError> {
        let (path, id) = (self.place.path(name)?, upload.to_owned());
        self.run(self.store.abort_multipart(&path, &id)).map_err(of_upload)
    }

    fn remove(&self, name: &str) -> Result<(), ObjectError> {
        let path = self.place.path(name)?;
        match self.run(self.store.delete(&path)) {
            Err(ObjectError::NotFound) => Ok(()),
            removed => removed,
        }
    }

    fn list(&self, folder: &str) -> Result<Vec<Listed>, ObjectError> {
        let path = self.place.path(folder)?;
        let prefix = (!path.as_ref().is_empty()).then_some(&path);
        let found = self.list_again(prefix).map_err(|error| self.refused(&error))?;
        let listed = found.objects.into_iter().filter_map(|object| {
            Some(Listed {
                name: object.location.filename()?.to_owned(),
                stored: stored(object.size, object.e_tag),
                modified_s: object.last_modified.timestamp(),
            })
        });
        Ok(listed.collect())
    }

    fn address(&self, name: &str) -> String {
        format!("{}/{name}", self.place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_buckets_and_folders() {
        let parse = |text: &str| S3Place::parse(FilePath::new(text));
        for (text, shown) in [
            ("s3://bucket", "s3://bucket"),
            ("s3://bucket/", "s3://bucket"),
            ("s3://my.bucket-1/a/b%20c/", "s3://my.bucket-1/a/b%20c"),
        ] {
            assert_eq!(parse(text).unwrap().to_string(), shown);
        }
        for bad in [
            "s3:/bucket",
            "s3://",
            "s3:///a",
            "s3://bu cket",
            "s3://b/a//b",
            "s3://b/../a",
            "s3://user@b",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        assert_eq!(parse("s3://b").unwrap().path("locks/").unwrap().as_ref(), "locks");
        assert_eq!(parse("s3://b/a").unwrap().path("log.0").unwrap().as_ref(), "a/log.0");
        assert_eq!(parse("s3://b/a").unwrap().path("").unwrap().as_ref(), "a");
    }

    #[test]
    fn errors_say_the_code_and_nothing_else_of_an_answer() {
        let body = "Server returned non-2xx status code: 403 Forbidden: <Error><Code>Signature\
            DoesNotMatch</Code><AWSAccessKeyId>KEYNAME</AWSAccessKeyId></Error>";
        let error = Error::Generic { store: "S3", source: body.into() };
        assert_eq!(code(&error).unwrap(), "SignatureDoesNotMatch");
        assert_eq!(innermost(&error), "the store answered: 403 Forbidden");
        let plain = Error::Generic { store: "S3", source: "no route\nKEYNAME".into() };
        assert_eq!((code(&plain), innermost(&plain)), (None, "no route".to_owned()));
        let of = |text: String| Error::Generic { store: "S3", source: text.into() };
        let odd = of("<Code>no word</Code>KEYNAME".to_owned());
        assert_eq!((code(&odd), innermost(&odd)), (None, String::new()));
        for (letters, is_code) in [(0, false), (1, true), (60, true), (61, false)] {
            let word = "a".repeat(letters);
            let expected = is_code.then(|| word.clone());
            assert_eq!(code(&of(format!("<Code>{word}</Code>"))), expected, "{letters} letters");
        }
        let long = of("x".repeat(PROBLEM_LETTERS + 1));
        assert_eq!(innermost(&long).len(), 160);
        let short = of("status code: 41".to_owned());
        assert_eq!((status(&short), innermost(&short)), (None, "the store answered: 41".into()));
    }
}
