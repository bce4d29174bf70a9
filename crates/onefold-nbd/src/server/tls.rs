//! TLS settings from files, with client certificates required.
//! Room: onefold-nbd.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use thiserror::Error;

/// Whether clients must use TLS.
#[derive(Clone, Debug, Default)]
pub enum TlsMode {
    /// TLS is not offered.
    #[default]
    Off,
    /// Every client must use TLS and show a certificate signed by the given authority.
    Required(TlsFiles),
}

/// Where keys and certificates are, all in PEM.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The server's certificate, followed by those that lead to its authority.
    pub certificate: PathBuf,
    /// The server's private key.
    pub key: PathBuf,
    /// The authorities whose client certificates are accepted.
    pub client_ca: PathBuf,
}

/// Why TLS cannot be set up.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read or holds no PEM of the kind wanted.
    #[error("{path}: {source} (expected {expected} in PEM)", path = .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What it should hold.
        expected: &'static str,
        /// What went wrong.
        source: PemError,
    },
    /// A certificate of the authority is not usable as one.
    #[error("{path}: {source}", path = .path.display())]
    Authority {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        source: rustls::Error,
    },
    /// Key, certificates and authorities do not work together.
    #[error("the server's certificate, key and client authority do not fit together: {0}")]
    Mismatch(String),
}

impl TlsMode {
    /// What TLS connections are made with; `None` where TLS is off.
    pub(super) fn load(&self) -> Result<Option<Arc<rustls::ServerConfig>>, TlsError> {
        match self {
            Self::Off => Ok(None),
            Self::Required(files) => files.load(true).map(Some),
        }
    }
}

impl TlsFiles {
    /// What connections are made with. Without `certified`, clients need not show a certificate:
    /// whoever accepts them asks for something else.
    ///
    /// # Errors
    /// [`TlsError`], where a file is not what it should be.
    pub fn load(&self, certified: bool) -> Result<Arc<rustls::ServerConfig>, TlsError> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates(&self.client_ca)? {
            roots
                .add(certificate)
                .map_err(|source| TlsError::Authority { path: self.client_ca.clone(), source })?;
        }
        let key = PrivateKeyDer::from_pem_file(&self.key)
            .map_err(|source| in_file(&self.key, "a private key", source))?;
        let chain = certificates(&self.certificate)?;
        let provider = Arc::new(default_provider());
        let mismatch = |error: String| TlsError::Mismatch(error);
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
        let verifier = if certified { verifier } else { verifier.allow_unauthenticated() };
        let verifier = verifier.build().map_err(|error| mismatch(error.to_string()))?;
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| mismatch(error.to_string()))?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, key)
            .map_err(|error| mismatch(error.to_string()))?;
        Ok(Arc::new(config))
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let failed = |source| in_file(path, "certificates", source);
    let found: Vec<_> = CertificateDer::pem_file_iter(path)
        .map_err(failed)?
        .collect::<Result<_, _>>()
        .map_err(failed)?;
    if found.is_empty() { Err(failed(PemError::NoItemsFound)) } else { Ok(found) }
}

fn in_file(path: &Path, expected: &'static str, source: PemError) -> TlsError {
    TlsError::File { path: path.to_owned(), expected, source }
}
