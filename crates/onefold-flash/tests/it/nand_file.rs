//! An array in two simulated files, which are damaged, cut short and refused by the byte.
//! Room: onefold-flash.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use onefold_block::{Folder as _, Media, MediaError, SimFolder, SplitMix64};
use onefold_code::preset;
use onefold_flash::Geometry;
use onefold_flash::nand::bytes::{
    BCH_NAME, ChannelSpec, CopyFile, Description, FileStore, PageBytes,
};
use onefold_flash::nand::{ByteNand, Nand, NandError, Oob, PageKey, Payload, WearModel};

use crate::validation::plane::plane;

pub const PAGE: u64 = 1024;
pub const PAGES: u32 = 4;
pub const BLOCKS: u32 = 5;
pub const OOB: u64 = 32 + 64;
pub const TABLE: u64 = 65_536;
pub const DATA: u64 = TABLE + 4096;
pub const OOBS: u64 = DATA + 20 * PAGE;
pub const RECORDS: u64 = TABLE + 4096;
pub const OWN: u64 = RECORDS + 4096;

pub fn geometry() -> Geometry {
    Geometry { page_bytes: PAGE as u32, oob_bytes: OOB as u32, ..plane(BLOCKS, PAGES) }
}

pub fn channel() -> ChannelSpec {
    ChannelSpec { code: BCH_NAME.into(), scrambler: preset("lba-prbs31").ok() }
}

pub fn description() -> Description {
    Description::new(geometry(), &channel(), "")
}

/// Which bytes of a file cannot be read, and the how-manieth read of any of them is refused; 0 is
/// every one.
pub type Refused = Arc<Mutex<(Range<u64>, u32)>>;

/// Media that know their holes to the byte, and of which no byte can be read if they are told so.
pub struct Exact {
    pub media: Arc<dyn Media>,
    pub refused: Refused,
}

impl Media for Exact {
    fn len(&self) -> Result<u64, MediaError> {
        self.media.len()
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<(), MediaError> {
        let mut refused = self.refused.lock().expect("nobody panicked");
        let (range, left) = &mut *refused;
        if offset < range.end && range.start < offset + buf.len() as u64 {
            match *left {
                0 => return self.media.read(u64::MAX / 2, buf),
                1 => {
                    *range = 0..0;
                    return self.media.read(u64::MAX / 2, buf);
                }
                _ => *left -= 1,
            }
        }
        self.media.read(offset, buf)
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), MediaError> {
        self.media.write(offset, data)
    }

    fn set_len(&self, len: u64) -> Result<(), MediaError> {
        self.media.set_len(len)
    }

    fn sync(&self) -> Result<(), MediaError> {
        self.media.sync()
    }

    fn punch(&self, offset: u64, len: u64) -> Result<(), MediaError> {
        self.media.punch(offset, len)
    }

    fn next_data(&self, offset: u64) -> Result<Option<u64>, MediaError> {
        let mut rest = vec![0; (self.media.len()? - offset) as usize];
        self.media.read(offset, &mut rest)?;
        Ok(rest.iter().position(|&byte| byte != 0).map(|at| offset + at as u64))
    }
}

pub fn exact(folder: &SimFolder, name: &str) -> Arc<dyn Media> {
    let refused = Arc::new(Mutex::new((0..0, 1)));
    Arc::new(Exact { media: folder.open(name).expect("there"), refused })
}

pub fn opened_on(
    nand: Arc<dyn Media>,
    copies: Option<Arc<dyn Media>>,
    wear: WearModel,
) -> ByteNand<FileStore> {
    let store = FileStore::open(nand, &description()).expect("opened");
    let store = match copies {
        Some(copies) => store.with_copies(CopyFile::open(copies, &description()).expect("opened")),
        None => store,
    };
    ByteNand::open(store, geometry(), &channel(), wear).expect("opened")
}

pub fn opened(folder: &SimFolder) -> ByteNand<FileStore> {
    let copies = Some(exact(folder, "copies"));
    opened_on(exact(folder, "nand"), copies, WearModel::none())
}

pub fn made(folder: &SimFolder) -> ByteNand<FileStore> {
    let copies = CopyFile::create(folder.create("copies").expect("made"), &description());
    let store = FileStore::create(folder.create("nand").expect("made"), &description());
    drop(store.expect("made").with_copies(copies.expect("made")));
    opened(folder)
}

pub fn content(seed: u64) -> PageBytes {
    PageBytes::from(SplitMix64::new(seed).bytes(PAGE as usize))
}

pub const fn oob(key: PageKey, seq: u64) -> Oob {
    Oob { key, seq, seed: seq + 1, tag: seq * 3 }
}

pub fn program(nand: &mut ByteNand<FileStore>, ppn: u32) {
    let oob = oob(PageKey::Data(ppn), u64::from(ppn) + 10);
    nand.program(ppn, Payload::Data(&content(ppn.into())), &oob).expect("programmed");
}

pub fn own(nand: &mut ByteNand<FileStore>, ppn: u32) {
    let oob = oob(PageKey::Map(ppn), u64::from(ppn) + 10);
    nand.program(ppn, Payload::Meta(b"a mapping"), &oob).expect("programmed");
}

pub fn wipe(folder: &SimFolder, name: &str, at: u64, len: u64) {
    let media = folder.open(name).expect("there");
    media.write(at, &vec![0; len as usize]).expect("wiped");
}

pub fn wipe_data(folder: &SimFolder, ppn: u32) {
    wipe(folder, "nand", DATA + u64::from(ppn) * PAGE, PAGE);
}

/// All that a page says of itself beside its bytes; the parity of those with it.
pub fn wipe_oob(folder: &SimFolder, ppn: u32) {
    wipe(folder, "nand", OOBS + u64::from(ppn) * OOB, OOB);
}

pub fn wipe_copy(folder: &SimFolder, ppn: u32) {
    wipe(folder, "copies", RECORDS + u64::from(ppn) * 64, 64);
}

pub fn told<T>(result: Result<T, NandError>) -> Result<T, String> {
    result.map_err(|error| error.to_string())
}

pub fn uncorrectable<T>(ppn: u32) -> Result<T, String> {
    Err(format!("page {ppn} cannot be corrected after 0 read retries"))
}
