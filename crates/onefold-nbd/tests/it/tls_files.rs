//! Makes authorities and certificates, laid out as libnbd's tools want them.
//! Room: onefold-nbd.

use std::fs;
use std::path::{Path, PathBuf};

use onefold_nbd::TlsFiles;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};

/// An authority and its folder.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: PathBuf,
}

impl Authority {
    pub fn new(folder: &Path, name: &str) -> Self {
        let folder = folder.join(name);
        fs::create_dir(&folder).unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.distinguished_name.push(DnType::CommonName, name);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        fs::write(folder.join("ca-cert.pem"), issuer.pem()).unwrap();
        Self { issuer, folder }
    }

    /// A certificate for `kind` ("server" or "client") beside the authority's own.
    pub fn certify(&self, kind: &str) {
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::CommonName, kind);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        fs::write(self.folder.join(format!("{kind}-cert.pem")), certificate.pem()).unwrap();
        fs::write(self.folder.join(format!("{kind}-key.pem")), key.serialize_pem()).unwrap();
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What a server of this authority uses.
    pub fn server_files(&self) -> TlsFiles {
        TlsFiles {
            certificate: self.folder.join("server-cert.pem"),
            key: self.folder.join("server-key.pem"),
            client_ca: self.folder.join("ca-cert.pem"),
        }
    }
}
