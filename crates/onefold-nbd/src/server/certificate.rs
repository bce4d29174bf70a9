//! The common name in a certificate that was verified before.
//! Room: onefold-nbd.
//! Source: RFC 5280, 4.1, in the encoding of X.690 (DER); nothing else of a certificate is read.
//! Invariant: a name is told only if there is exactly one, in a type whose bytes are UTF-8: what
//! could be read in two ways names nobody.

/// Tags of DER.
const INTEGER: u8 = 0x02;
const OBJECT_ID: u8 = 0x06;
const UTF8_STRING: u8 = 0x0c;
const PRINTABLE_STRING: u8 = 0x13;
const IA5_STRING: u8 = 0x16;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const VERSION: u8 = 0xa0;
/// `id-at-commonName`, 2.5.4.3.
const COMMON_NAME: [u8; 3] = [0x55, 0x04, 0x03];
/// Longest name that is told, in bytes; the standard ends at 64 letters.
const NAME_BYTES_MAX: usize = 256;

/// Values one after another.
struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    /// The next value, whatever it is: its tag and its contents.
    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (&tag, rest) = self.0.split_first()?;
        let (&first, mut rest) = rest.split_first()?;
        let len = if first < 0x80 {
            usize::from(first)
        } else {
            // Certificates are shorter than what three bytes can count.
            let (bytes, after) = rest.split_at_checked(usize::from(first & 0x7f))?;
            rest = after;
            let shortest = bytes.first().is_some_and(|&byte| byte != 0) && bytes.len() <= 3;
            let len = bytes.iter().fold(0, |len, &byte| len << 8 | usize::from(byte));
            (shortest && len >= 0x80).then_some(len)?
        };
        let (value, after) = rest.split_at_checked(len)?;
        self.0 = after;
        Some((tag, value))
    }

    /// The contents of the next value, which must be of this tag.
    fn expect(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.next().filter(|(found, _)| *found == tag).map(|(_, value)| value)
    }
}

/// The common name of a certificate's subject, if it has exactly one.
pub(super) fn common_name(certificate: &[u8]) -> Option<String> {
    let mut whole = Der(Der(certificate).expect(SEQUENCE)?);
    let mut body = Der(whole.expect(SEQUENCE)?);
    if body.0.first() == Some(&VERSION) {
        body.next()?;
    }
    body.expect(INTEGER)?;
    // How it is signed, by whom, and for how long.
    for _ in 0..3 {
        body.expect(SEQUENCE)?;
    }
    let mut subject = Der(body.expect(SEQUENCE)?);
    let mut name = None;
    while !subject.0.is_empty() {
        let mut parts = Der(subject.expect(SET)?);
        while !parts.0.is_empty() {
            let mut part = Der(parts.expect(SEQUENCE)?);
            if part.expect(OBJECT_ID)? != COMMON_NAME {
                continue;
            }
            let (tag, value) = part.next()?;
            let is_text = [UTF8_STRING, PRINTABLE_STRING, IA5_STRING].contains(&tag);
            let fits = is_text && (1..=NAME_BYTES_MAX).contains(&value.len());
            let text = std::str::from_utf8(value).ok().filter(|_| fits)?;
            if name.replace(text).is_some() {
                return None;
            }
        }
    }
    name.map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DistinguishedName, DnType, DnValue, KeyPair};

    use super::*;

    fn certificate(names: &[(DnType, DnValue)]) -> Vec<u8> {
        let mut params = CertificateParams::new(vec!["host".to_owned()]).unwrap();
        params.distinguished_name = DistinguishedName::new();
        for (kind, name) in names {
            params.distinguished_name.push(kind.clone(), name.clone());
        }
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    fn text(text: &str) -> DnValue {
        DnValue::Utf8String(text.to_owned())
    }

    #[test]
    fn the_common_name_is_found_among_others() {
        let organisation = (DnType::OrganizationName, text("CN=admin"));
        let printable = DnValue::PrintableString("web 2".try_into().unwrap());
        for (value, name) in
            [(text("web1"), "web1"), (printable, "web 2"), (text("\u{e4}"), "\u{e4}")]
        {
            let names = [organisation.clone(), (DnType::CommonName, value)];
            assert_eq!(common_name(&certificate(&names)).as_deref(), Some(name));
        }
        assert_eq!(common_name(&certificate(&[organisation])), None);
        assert_eq!(common_name(&certificate(&[])), None);
    }

    #[test]
    fn what_could_be_read_in_two_ways_names_nobody() {
        let wide = DnValue::BmpString("web1".try_into().unwrap());
        assert_eq!(common_name(&certificate(&[(DnType::CommonName, wide)])), None);
        let other = DnType::CustomDnType(vec![2, 5, 4, 3]);
        let twice = [(DnType::CommonName, text("web1")), (other, text("admin"))];
        assert_eq!(common_name(&certificate(&twice)), None);
        let long = text(&"x".repeat(257));
        assert_eq!(common_name(&certificate(&[(DnType::CommonName, long)])), None);
    }

    #[test]
    fn damage_is_no_panic_and_no_end_is_read_past() {
        let whole = certificate(&[(DnType::CommonName, text("web1"))]);
        for len in 0..whole.len() {
            assert_eq!(common_name(&whole[..len]), None, "cut to {len}");
        }
        for at in 0..whole.len() {
            for wrong in [0, 0x7f, 0x80, 0x84, 0xff] {
                let mut damaged = whole.clone();
                damaged[at] = wrong;
                let _ = common_name(&damaged);
            }
        }
    }
}
