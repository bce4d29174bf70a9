//! Whole queues after known requests: a cache bug is a slightly wrong order.

use onefold_cache::{Capacity, make_online};

/// Lists of a policy that holds three objects, the oldest first, after these requests.
fn check(policy: &str, requests: &[u64], lists: &[&[u64]]) {
    let mut cache = make_online(policy, Capacity::of_equal(3, 1), 0).unwrap();
    for &key in requests {
        cache.access(key, 1);
    }
    assert_eq!(cache.dump(), lists, "{policy} after {requests:?}");
}

#[test]
fn fifo_keeps_the_order_of_arrival() {
    check("fifo", &[1, 2, 3, 1, 4], &[&[2, 3, 4]]);
}

#[test]
fn lru_keeps_the_order_of_requests() {
    check("lru", &[1, 2, 3, 1, 4], &[&[3, 1, 4]]);
}

#[test]
fn lfu_has_a_list_for_each_frequency() {
    check("lfu", &[1, 2, 3, 1, 4], &[&[3, 4], &[1]]);
    check("lfu", &[1, 1, 1, 2, 3, 3, 4], &[&[4], &[3], &[1]]);
}

#[test]
fn clock_gives_another_round() {
    check("clock", &[1, 2, 3, 1, 4], &[&[3, 1, 4]]);
    // Asked for twice, still one round: 1 goes with the second sweep.
    check("clock", &[1, 2, 3, 1, 1, 4, 5, 6], &[&[4, 5, 6]]);
    check("clock:rounds=2", &[1, 2, 3, 1, 1, 4, 5, 6], &[&[5, 1, 6]]);
}

#[test]
fn sieve_leaves_survivors_where_they_are() {
    check("sieve", &[1, 2, 3, 1, 4], &[&[1, 3, 4]]);
    // The hand goes on from where it stood, not from the front.
    check("sieve", &[1, 2, 3, 1, 4, 5], &[&[1, 4, 5]]);
}

#[test]
fn two_q_takes_back_what_it_let_go() {
    // Kin is 0 of three objects, Kout 1.
    check("2q", &[1, 2, 3, 4], &[&[2, 3, 4], &[]]);
    check("2q", &[1, 2, 3, 4, 1], &[&[3, 4], &[1]]);
}

#[test]
fn arc_moves_what_comes_again_to_the_frequent() {
    check("arc", &[1, 2, 3, 1, 4], &[&[3, 4], &[1]]);
    // 2 comes back as a ghost; the target of the recent grows to 1.
    check("arc", &[1, 2, 3, 1, 4, 2], &[&[4], &[1, 2]]);
}

#[test]
fn lirs_keeps_short_distances() {
    // Two short, one long; 4 pushes the long 3 out, and 3 comes back as short.
    check("lirs", &[1, 2, 3, 4], &[&[1, 2], &[4]]);
    check("lirs", &[1, 2, 3, 4, 3], &[&[2, 3], &[1]]);
}

#[test]
fn s3_fifo_promotes_after_two_more_requests() {
    check("s3-fifo:small=0.4", &[1, 2, 3, 4], &[&[2, 3, 4], &[]]);
    check("s3-fifo:small=0.4", &[1, 2, 3, 1, 1, 4], &[&[3, 4], &[1]]);
    // A ghost comes back into the main queue.
    check("s3-fifo:small=0.4", &[1, 2, 3, 4, 1], &[&[3, 4], &[1]]);
}

#[test]
fn w_tinylfu_lets_the_more_frequent_pass() {
    // Window of one, main of two. 3 is rarer than 1, so it does not pass the window's end.
    check("w-tinylfu", &[1, 1, 2, 3, 4], &[&[4], &[1, 2], &[]]);
    check("w-tinylfu", &[1, 2, 3, 3, 3, 4], &[&[4], &[2, 3], &[]]);
}

#[test]
fn larc_and_reject_first_write_at_the_second_miss() {
    check("larc", &[1, 2, 2], &[&[2]]);
    check("reject-first", &[1, 2, 3, 1, 2], &[&[1, 2]]);
}

#[test]
fn lazy_lfu_replaces_only_the_clearly_rarer() {
    check("lazy-lfu:m=1,d=1", &[1, 2, 3, 4, 4], &[&[1, 2, 3]]);
    check("lazy-lfu:m=1,d=1", &[1, 2, 3, 4, 4, 4], &[&[2, 3], &[4]]);
}

#[test]
fn toll_replaces_what_is_surely_rarer_while_it_can_pay() {
    let rich = "toll:half_life=0,fills=100,purse=50,period=10,price=10,steep=0";
    // The price is 10 x sqrt(10 / 100) / 10 = 0.32 deviations; (2 - 1) exceeds 0.32 x sqrt(3).
    check(rich, &[1, 2, 3, 4, 4], &[&[2, 3], &[4]]);
    let dear = "toll:half_life=0,fills=100,purse=50,period=10,price=40,steep=0";
    check(dear, &[1, 2, 3, 4, 4], &[&[1, 2, 3]]);
    let poor = "toll:half_life=0,fills=1,purse=1,period=10000,price=0";
    check(poor, &[1, 2, 3, 4, 4], &[&[1, 2]]);
}
