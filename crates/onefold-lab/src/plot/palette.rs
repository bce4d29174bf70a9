//! Which colour and which mark belong to whom, in every chart.
//! Room: onefold-lab.
//! Colours differ in lightness as well as in hue and neighbours in their marks, so that neither
//! colour blindness nor grey paper hides which is which; all are seen on white and on black.

/// The shape of a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// A disc.
    Disc,
    /// A square.
    Square,
    /// A square on its corner.
    Diamond,
    /// A triangle.
    Triangle,
}

/// How someone is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// The colour, as SVG writes it.
    pub colour: &'static str,
    /// The mark.
    pub mark: Mark,
}

const fn look(colour: &'static str, mark: Mark) -> Look {
    Look { colour, mark }
}

use Mark::{Diamond, Disc, Square, Triangle};

/// Everyone who is drawn.
const LOOKS: &[(&str, Look)] = &[
    // Policies in a drive.
    ("none", look("#8c8c8c", Disc)),
    ("caftl-online", look("#e6760a", Square)),
    ("caftl-online, prehash", look("#f2b46b", Triangle)),
    ("caftl-offline", look("#0072b2", Disc)),
    ("block-separation", look("#56b4e9", Diamond)),
    ("crc-compare", look("#009e73", Triangle)),
    ("ses-host", look("#cc79a7", Diamond)),
    ("ses-device", look("#7a5195", Triangle)),
    ("gleaner", look("#b5202a", Disc)),
    ("codeword", look("#009e73", Diamond)),
    // Where plain pages go.
    ("in turn", look("#8c8c8c", Disc)),
    ("spread", look("#b5202a", Square)),
    // Fingerprints of SES-Dedup.
    ("parity", look("#7a5195", Triangle)),
    ("SHA-256", look("#e6760a", Square)),
    // Policies of a cache.
    ("FIFO", look("#8c8c8c", Diamond)),
    ("LRU", look("#0072b2", Disc)),
    ("LFU", look("#009e73", Triangle)),
    ("PLC", look("#d55e00", Square)),
    ("PLC literal", look("#f2a36b", Triangle)),
    ("PLC, long delay", look("#8c3b00", Diamond)),
    ("HDD-only", look("#777777", Square)),
    ("toll", look("#b5202a", Disc)),
    ("toll, untold", look("#e08a90", Disc)),
    ("lazy-lfu", look("#7a5195", Triangle)),
    ("w-tinylfu", look("#56b4e9", Diamond)),
    ("flashield", look("#009e73", Square)),
    ("larc", look("#e6760a", Diamond)),
    ("s3-fifo", look("#cc79a7", Triangle)),
    ("arc", look("#8c8c8c", Square)),
    ("plc", look("#d55e00", Square)),
    ("lru", look("#0072b2", Disc)),
    ("the lower bound", look("#333333", Triangle)),
    // Caches above a drive.
    ("CacheLib", look("#0072b2", Disc)),
    ("CacheLib, placed", look("#56b4e9", Diamond)),
    ("LMCache", look("#e6760a", Triangle)),
    ("onefold", look("#b5202a", Square)),
    // Budgets of a cache.
    ("2 fills", look("#8c8c8c", Disc)),
    ("5 fills", look("#0072b2", Square)),
    ("20 fills", look("#e6760a", Triangle)),
    // Servers.
    ("software", look("#8c8c8c", Disc)),
    ("software-today", look("#009e73", Square)),
    ("dedicated", look("#cc79a7", Triangle)),
    ("+ prediction", look("#56b4e9", Diamond)),
    ("+ scheduling", look("#f2b46b", Triangle)),
    ("+ reconfiguration", look("#009e73", Disc)),
    ("cidr", look("#0072b2", Square)),
    ("cidr+", look("#e6760a", Diamond)),
    ("fidr", look("#b5202a", Disc)),
    ("fidr, fewer reads", look("#b5202a", Square)),
    ("hooks", look("#0072b2", Triangle)),
    // Where duplicates are found.
    ("in the cache", look("#56b4e9", Diamond)),
    ("in the drives", look("#e6760a", Square)),
    ("in the server", look("#b5202a", Disc)),
    ("in the server, hooks", look("#0072b2", Triangle)),
    // Kinds of flash.
    ("SLC", look("#0072b2", Disc)),
    ("MLC-1", look("#e6760a", Square)),
    ("MLC-2", look("#009e73", Diamond)),
    ("TLC", look("#cc79a7", Triangle)),
    // Data.
    ("generated", look("#0072b2", Disc)),
    ("laptop1", look("#0072b2", Disc)),
    ("laptop2", look("#d55e00", Square)),
    ("desktop1", look("#009e73", Diamond)),
    ("desktop2", look("#cc79a7", Triangle)),
    ("desktop3", look("#56b4e9", Square)),
    ("desktop4", look("#b5202a", Disc)),
    // Shortened fingerprints.
    ("whole 32 bytes", look("#8c8c8c", Disc)),
    ("crc64", look("#0072b2", Square)),
    ("byte8", look("#e6760a", Diamond)),
    ("cw2", look("#009e73", Triangle)),
    ("exclusive-or fold", look("#b5202a", Disc)),
    // Space of a pool.
    ("uniform, none", look("#8c8c8c", Square)),
    ("uniform, kept at 1.5", look("#0072b2", Diamond)),
    ("Zipf 1.1, none", look("#e6760a", Triangle)),
    ("Zipf 1.1, kept at 1.5", look("#009e73", Square)),
];

/// What is drawn that nobody knew of: data of the user.
const OTHERS: [Look; 3] =
    [look("#8c8c8c", Square), look("#b79ac8", Diamond), look("#f2b46b", Triangle)];

/// How someone is drawn, if it is in the table.
pub fn known(of: &str) -> Option<Look> {
    LOOKS.iter().find(|(name, _)| *name == of).map(|(_, look)| *look)
}

/// How someone is drawn who may not be in the table: the `number`th of a chart.
pub fn of(of: &str, number: usize) -> Look {
    known(of).unwrap_or(OTHERS[number % OTHERS.len()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_there_twice() {
        for (at, (name, _)) in LOOKS.iter().enumerate() {
            assert!(LOOKS[at + 1..].iter().all(|(other, _)| other != name), "{name}");
        }
        assert_eq!(known("gleaner"), Some(of("gleaner", 7)));
        assert_eq!(known("/srv/data"), None);
    }
}
