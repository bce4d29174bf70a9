//! Where the page and the metrics are, and for whom.
//! Room: onefold.
//! Invariant: what other machines may reach is encrypted and asks for a certificate, or asks for a
//! token.

use std::net::{SocketAddr, TcpListener, ToSocketAddrs as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;

use onefold_control::{Access, TlsSettings, Token};
use onefold_nbd::TlsFiles;

use crate::args::MetricsArgs;
use crate::failure::{Failure, Result};
use crate::serve::handed::Sockets;
use crate::text_file;

/// A token and a line's end.
const TOKEN_FILE_BYTES_MAX: u64 = 4096;
const OTHERS: u32 = 0o007;

/// An address that is listened to, before anything is answered.
pub struct Prepared {
    pub(super) listener: TcpListener,
    pub(super) tls: Option<Arc<TlsSettings>>,
    pub(super) access: Access,
    /// What its connections are encrypted with, and whether clients show a certificate.
    pub(super) files: Option<(TlsFiles, bool)>,
    at: SocketAddr,
}

impl Prepared {
    /// Listen, if that is asked for.
    pub fn new(
        args: &MetricsArgs,
        handed: &mut Sockets,
        tls: Option<&TlsFiles>,
    ) -> Result<Option<Self>> {
        let said = args.metrics.as_deref().unwrap_or("handed over");
        let refused = |why: &str| Failure::nothing_done(format!("--metrics {said}: {why}"));
        let find = |address: &String| {
            let found = address.to_socket_addrs().ok().and_then(|mut found| found.next());
            found.ok_or_else(|| {
                refused("write an address and a port, such as 127.0.0.1:9469 or [::1]:9469")
            })
        };
        let found = args.metrics.as_ref().map(find).transpose()?;
        let handed = handed.metrics_at(found)?;
        let at = |listener: &TcpListener| {
            listener.local_addr().map_err(|error| refused(&error.to_string()))
        };
        let Some(found) = handed.as_ref().map(at).transpose()?.or(found) else {
            if args.metrics_token_file.is_some() {
                let said = "--metrics-token-file is for an address, and none is given";
                return Err(Failure::nothing_done(said).hint("name one: --metrics 127.0.0.1:9469"));
            }
            return Ok(None);
        };
        let token = args.metrics_token_file.as_deref().map(token).transpose()?;
        let local = found.ip().is_loopback();
        if !local && tls.is_none() && token.is_none() {
            return Err(refused("other machines may reach this, and everybody there could look")
                .hint("with --metrics-token-file FILE only who knows the word in it is answered")
                .hint("or turn TLS on: --tls-cert FILE --tls-key FILE --tls-ca FILE (docs/tls.md)")
                .hint("or listen on 127.0.0.1:9469, and let people come over SSH"));
        }
        // On this machine there is nothing to encrypt.
        let files = tls.filter(|_| !local).map(|files| (files.clone(), token.is_none()));
        let load = |(files, certified): &(TlsFiles, bool)| files.load(*certified);
        let tls = files.as_ref().map(load).transpose();
        let tls = tls.map_err(|error| refused(&error.to_string()))?;
        let access = match (token, &tls) {
            (Some(token), _) => Access::Token(token),
            (None, Some(_)) => Access::Certified,
            (None, None) => Access::Local,
        };
        let listener = handed.map_or_else(|| TcpListener::bind(found), Ok);
        let listener = listener.map_err(|error| refused(&error.to_string()))?;
        let at = at(&listener)?;
        Ok(Some(Self { listener, tls, access, files, at }))
    }

    /// Where it is, for a browser.
    pub fn address(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}/", self.at)
    }
}

/// The word in a token file, which nobody else may read.
pub fn token(path: &Path) -> Result<Token> {
    let read = text_file::read(path, "token file", TOKEN_FILE_BYTES_MAX)?;
    let found = std::fs::metadata(path);
    let found = found.map_err(|error| Failure::unusable("look at token file", path, error))?;
    if found.mode() & OTHERS != 0 {
        let message = format!("every user can use token file '{}'", path.display());
        let hint = format!("close it: chmod o= {}", path.display());
        return Err(Failure::nothing_done(message).hint(hint));
    }
    Token::new(&read).ok_or_else(|| {
        let message = format!(
            "token file '{}' must hold one word of 16 to 1024 letters, digits and signs",
            path.display()
        );
        Failure::nothing_done(message).hint("make one: openssl rand -hex 24")
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn prepared(metrics: Option<&str>, token: Option<&Path>) -> Result<Option<Prepared>> {
        let args = MetricsArgs {
            metrics: metrics.map(str::to_owned),
            metrics_token_file: token.map(Path::to_owned),
        };
        Prepared::new(&args, &mut Sockets::default(), None)
    }

    #[test]
    fn who_may_look_follows_from_where_it_is_and_from_the_token() {
        let folder = tempfile::tempdir().unwrap();
        let token = folder.path().join("token");
        std::fs::write(&token, "0123456789abcdef\n").unwrap();
        let close = |mode| {
            std::fs::set_permissions(&token, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        close(0o640);
        assert!(prepared(None, None).unwrap().is_none());
        let local = prepared(Some("127.0.0.1:0"), None).unwrap().unwrap();
        assert!(matches!(local.access, Access::Local) && local.tls.is_none());
        let address = local.address();
        assert!(address.starts_with("http://127.0.0.1:") && address.ends_with('/'), "{address}");
        let everywhere = prepared(Some("0.0.0.0:0"), Some(&token)).unwrap().unwrap();
        assert!(matches!(everywhere.access, Access::Token(_)) && everywhere.files.is_none());
        let refused = |metrics, token| prepared(metrics, token).err().unwrap().message;
        assert!(refused(Some("0.0.0.0:0"), None).contains("everybody there could look"));
        assert!(refused(Some("nowhere"), None).contains("write an address and a port"));
        assert!(refused(None, Some(&token)).contains("none is given"));
        for mode in [0o604, 0o602, 0o601] {
            close(mode);
            let refused = refused(Some("127.0.0.1:0"), Some(&token));
            assert!(refused.starts_with("every user can use token file"), "{mode:o}: {refused}");
        }
        close(0o600);
        std::fs::write(&token, "short").unwrap();
        assert!(refused(Some("127.0.0.1:0"), Some(&token)).contains("one word of 16 to 1024"));
    }
}
