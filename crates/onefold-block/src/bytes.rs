//! Little-endian fields in and out of byte slices, without indexing and without panics.
//! Room: onefold-block.

/// Appends fields to a buffer.
#[derive(Default)]
pub struct Writer(pub Vec<u8>);

impl Writer {
    /// One byte.
    pub fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    /// Two bytes.
    pub fn u16(&mut self, value: u16) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// Four bytes.
    pub fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// Eight bytes.
    pub fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// Sixteen bytes.
    pub fn u128(&mut self, value: u128) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// Bytes as they are.
    pub fn bytes(&mut self, value: &[u8]) {
        self.0.extend_from_slice(value);
    }

    /// A length in four bytes, then the bytes.
    pub fn sized(&mut self, value: &[u8]) {
        self.u32(value.len() as u32);
        self.bytes(value);
    }

    /// A text, sized.
    pub fn text(&mut self, value: &str) {
        self.sized(value.as_bytes());
    }
}

/// Takes fields off a buffer; `None` once it does not reach.
#[derive(Clone, Copy)]
pub struct Reader<'a> {
    rest: &'a [u8],
    position: usize,
}

impl<'a> Reader<'a> {
    /// A reader at the start of `bytes`.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, position: 0 }
    }

    /// Bytes taken so far.
    pub const fn position(&self) -> usize {
        self.position
    }

    /// Bytes left.
    pub const fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// The next `len` bytes.
    pub fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        self.position += len;
        Some(taken)
    }

    /// The next `N` bytes as an array.
    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    /// One byte.
    pub fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// Two bytes.
    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    /// Four bytes.
    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// Eight bytes.
    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Sixteen bytes.
    pub fn u128(&mut self) -> Option<u128> {
        self.array().map(u128::from_le_bytes)
    }

    /// Bytes written by [`Writer::sized`].
    pub fn sized(&mut self) -> Option<&'a [u8]> {
        let len = self.u32()? as usize;
        self.bytes(len)
    }

    /// A text written by [`Writer::text`].
    pub fn text(&mut self) -> Option<String> {
        String::from_utf8(self.sized()?.to_vec()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back_and_not_a_byte_more() {
        let mut writer = Writer::default();
        writer.u8(1);
        writer.u16(0x0203);
        writer.u32(0x0405_0607);
        writer.u64(0x0809_0a0b_0c0d_0e0f);
        writer.u128(0x1011_1213_1415_1617_1819_1a1b_1c1d_1e1f);
        writer.text("name");
        let mut reader = Reader::new(&writer.0);
        assert_eq!(reader.u8(), Some(1));
        assert_eq!(reader.u16(), Some(0x0203));
        assert_eq!(reader.u32(), Some(0x0405_0607));
        assert_eq!(reader.u64(), Some(0x0809_0a0b_0c0d_0e0f));
        assert_eq!(reader.u128(), Some(0x1011_1213_1415_1617_1819_1a1b_1c1d_1e1f));
        assert_eq!(reader.position(), 31);
        assert_eq!(reader.text().as_deref(), Some("name"));
        assert_eq!((reader.remaining(), reader.u8()), (0, None));
        assert_eq!(Reader::new(&[255, 255, 255, 255]).text(), None);
    }
}
