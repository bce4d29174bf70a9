//! Encoding of option replies and decoding of option data.
//! Room: onefold-nbd.

use super::constants::{
    MAX_REQUEST_BYTES, MAX_STRING_BYTES, OPTION_REPLY_MAGIC, info, option_reply,
};
use super::export_info::ExportInfo;
use super::request::Session;
use super::wire::Fields;

/// Append one reply to `option`.
pub fn put_reply(out: &mut Vec<u8>, option: u32, kind: u32, data: &[u8]) {
    out.extend_from_slice(&OPTION_REPLY_MAGIC.to_be_bytes());
    out.extend_from_slice(&option.to_be_bytes());
    out.extend_from_slice(&kind.to_be_bytes());
    out.extend_from_slice(&(data.len() as u32).to_be_bytes());
    out.extend_from_slice(data);
}

/// Append one export of a list.
pub fn put_server(out: &mut Vec<u8>, option: u32, name: &str, description: &str) {
    let mut data = (name.len() as u32).to_be_bytes().to_vec();
    data.extend_from_slice(name.as_bytes());
    data.extend_from_slice(cut(description, MAX_STRING_BYTES).as_bytes());
    put_reply(out, option, option_reply::SERVER, &data);
}

/// Append size and flags of an export.
pub fn put_info_export(out: &mut Vec<u8>, option: u32, session: &Session) {
    let mut data = info::EXPORT.to_be_bytes().to_vec();
    data.extend_from_slice(&session.info.size_bytes.to_be_bytes());
    data.extend_from_slice(&session.transmission_flags().to_be_bytes());
    put_reply(out, option, option_reply::INFO, &data);
}

/// Append the block sizes of an export: any alignment is accepted, the preferred one is cheapest.
pub fn put_info_block_size(out: &mut Vec<u8>, option: u32, export: &ExportInfo) {
    let mut data = info::BLOCK_SIZE.to_be_bytes().to_vec();
    for bytes in [1, export.preferred_block_bytes, MAX_REQUEST_BYTES] {
        data.extend_from_slice(&bytes.to_be_bytes());
    }
    put_reply(out, option, option_reply::INFO, &data);
}

/// Append a name or a description.
pub fn put_info_text(out: &mut Vec<u8>, option: u32, kind: u16, text: &str) {
    let mut data = kind.to_be_bytes().to_vec();
    data.extend_from_slice(cut(text, MAX_STRING_BYTES).as_bytes());
    put_reply(out, option, option_reply::INFO, &data);
}

/// Append a metadata context under the number `id`.
pub fn put_meta_context(out: &mut Vec<u8>, option: u32, id: u32, name: &str) {
    let mut data = id.to_be_bytes().to_vec();
    data.extend_from_slice(name.as_bytes());
    put_reply(out, option, option_reply::META_CONTEXT, &data);
}

/// The longest beginning of `text` of at most `max_bytes`, cut between characters.
pub fn cut(text: &str, max_bytes: usize) -> &str {
    let end = text.floor_char_boundary(max_bytes);
    text.get(..end).unwrap_or_default()
}

/// What INFO and GO ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InfoQuery<'a> {
    /// The export asked about.
    pub name: &'a str,
    /// The kinds of information asked for.
    pub kinds: Vec<u16>,
}

/// Read the data of INFO or GO; `None` if they make no sense.
pub fn parse_info(data: &[u8]) -> Option<InfoQuery<'_>> {
    let mut fields = Fields::new(data);
    let name = name_of(&mut fields)?;
    let count = fields.u16()?;
    let kinds = (0..count).map(|_| fields.u16()).collect::<Option<Vec<u16>>>()?;
    fields.is_empty().then_some(InfoQuery { name, kinds })
}

/// What `LIST_META_CONTEXT` and `SET_META_CONTEXT` ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetaQuery<'a> {
    /// The export asked about.
    pub name: &'a str,
    /// The queries.
    pub queries: Vec<&'a str>,
}

/// Read the data of a metadata context option; `None` if they make no sense.
pub fn parse_meta(data: &[u8]) -> Option<MetaQuery<'_>> {
    let mut fields = Fields::new(data);
    let name = name_of(&mut fields)?;
    let count = fields.u32()?;
    let mut queries = Vec::new();
    for _ in 0..count {
        queries.push(fields.text()?);
    }
    fields.is_empty().then_some(MetaQuery { name, queries })
}

fn name_of<'a>(fields: &mut Fields<'a>) -> Option<&'a str> {
    fields.text().filter(|name| name.len() <= MAX_STRING_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_between_characters() {
        assert_eq!(cut("plain", 512), "plain");
        assert_eq!(cut("plain", 2), "pl");
        assert_eq!(cut("a\u{e9}b", 2), "a");
    }

    #[test]
    fn counts_that_promise_more_than_there_is_are_refused() {
        let mut data = 0u32.to_be_bytes().to_vec();
        data.extend_from_slice(&u32::MAX.to_be_bytes());
        assert_eq!(parse_meta(&data), None);
        let mut data = u32::MAX.to_be_bytes().to_vec();
        data.extend_from_slice(b"name");
        assert_eq!(parse_info(&data), None);
    }
}
