//! What was found to be stored already, at once or later, and what is still to be compared.
//! Room: onefold.

use onefold_pool::PoolStatus;

use crate::table::{Align, Table, count, percent, plural};

/// A table with a head; none if nothing was found, looked for or left to compare.
pub fn duplicates_table(status: &PoolStatus) -> Option<Table> {
    let later = &status.deduplication;
    let at_once = status.activity.duplicate;
    let asked = later.predictions;
    if at_once + later.found + asked.asked + asked.passed + later.undetermined() == 0 {
        return None;
    }
    let mut table = Table::new(&[Align::Left, Align::Right, Align::Left]);
    table.row(["DUPLICATES", "BLOCKS", ""]);
    if at_once > 0 {
        let about = "when they were written, since the pool was opened";
        table.row(["found at once", &count(at_once), about]);
    }
    if later.found > 0 {
        let about = "in the background, since the pool was opened";
        table.row(["found later", &count(later.found), about]);
    }
    if asked.asked + asked.passed > 0 {
        let in_vain = (asked.asked - asked.right) as f64 / asked.asked.max(1) as f64;
        let passed = plural(asked.passed, "block was", "blocks were");
        let about = format!("{} in vain; {passed} taken for new unasked", percent(in_vain));
        table.row(["looked up on disk", &count(asked.asked), &about]);
    }
    if later.new > 0 {
        table.row(["to compare: new", &count(later.new), "not sorted into any run yet"]);
    }
    if later.apart > 0 || later.merging.is_some() {
        let about = match later.merging {
            Some((done, all)) => {
                let done = percent(done as f64 / all.max(1) as f64);
                format!("compared with a part of the rest; the merge under way is {done} done")
            }
            None => "compared with a part of the rest".to_owned(),
        };
        table.row(["to compare: apart", &count(later.apart), &about]);
    }
    Some(table)
}
