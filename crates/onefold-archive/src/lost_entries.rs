//! Entries of a version that cannot be read, told once for all that are lost by the same damage: a
//! page that is damaged takes along each entry in it.
//! Room: onefold-archive.

use crate::error::ArchiveError;

/// What is lost so far and was not told of yet.
#[derive(Default)]
pub struct LostEntries {
    why: String,
    count: u64,
}

impl LostEntries {
    /// One more is lost, and the next one that comes lies behind it. What there is to tell of those
    /// before it, if something else has taken them.
    pub fn add(&mut self, error: &ArchiveError) -> Option<String> {
        let why = error.to_string();
        let told = if why == self.why { None } else { self.tell() };
        self.why = why;
        self.count += 1;
        told
    }

    /// What there is to tell of the last ones.
    pub fn tell(&mut self) -> Option<String> {
        let why = std::mem::take(&mut self.why);
        match std::mem::take(&mut self.count) {
            0 => None,
            1 => Some(why),
            count => Some(format!("{why}, and with it {count} paths")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_damage_takes_along_is_told_once_and_counted() {
        let mut lost = LostEntries::default();
        let page = |at| ArchiveError::corrupt("1.version", at, "a page of it is damaged");
        let mut told = Vec::new();
        for at in [110, 110, 110, 9000, 110] {
            told.extend(lost.add(&page(at)));
        }
        told.extend(lost.tell());
        let at = |at| page(at).to_string();
        assert_eq!(told, [format!("{}, and with it 3 paths", at(110)), at(9000), at(110)]);
        assert_eq!(lost.tell(), None);
    }
}
