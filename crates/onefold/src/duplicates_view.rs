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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_pool;

    #[test]
    fn what_was_found_and_what_is_left_is_told_row_by_row() {
        let pool = test_pool::pool();
        let empty = pool.status().unwrap();
        assert!(duplicates_table(&empty).is_none());
        let rows = |change: &dyn Fn(&mut PoolStatus)| {
            let mut status = empty.clone();
            change(&mut status);
            let table = duplicates_table(&status).map(|table| table.lines(0)).unwrap_or_default();
            table.into_iter().skip(1).collect::<Vec<_>>()
        };
        let at_once = "found at once       1  when they were written, since the pool was opened";
        assert_eq!(rows(&|status| status.activity.duplicate = 1), [at_once]);
        let later = "found later       1  in the background, since the pool was opened";
        assert_eq!(rows(&|status| status.deduplication.found = 1), [later]);
        let new = "to compare: new       1  not sorted into any run yet";
        assert_eq!(rows(&|status| status.deduplication.new = 1), [new]);
        let apart = "to compare: apart       1  compared with a part of the rest";
        assert_eq!(rows(&|status| status.deduplication.apart = 1), [apart]);
        let asked = |asked, right, passed| {
            rows(&|status| {
                let told = &mut status.deduplication.predictions;
                (told.asked, told.right, told.passed) = (asked, right, passed);
            })
        };
        let all = "looked up on disk       8  25.0 % in vain; 2 blocks were taken for new unasked";
        assert_eq!(asked(8, 6, 2), [all]);
        let none = "looked up on disk       0  0.0 % in vain; 1 block was taken for new unasked";
        assert_eq!(asked(0, 0, 1), [none]);
        let one = "looked up on disk       1  100.0 % in vain; 0 blocks were taken for new unasked";
        assert_eq!(asked(1, 0, 0), [one]);
        let merging = rows(&|status| {
            (status.activity.duplicate, status.deduplication.merging) = (1, Some((1, 1)));
        });
        assert!(merging[1].ends_with("; the merge under way is 100.0 % done"), "{merging:?}");
    }
}
