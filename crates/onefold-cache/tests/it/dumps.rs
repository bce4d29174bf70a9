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
    check("w-tinylfu", &[1, 1, 2, 3, 4], &[&[1, 2], &[4], &[]]);
    check("w-tinylfu", &[1, 2, 3, 3, 3, 4], &[&[2, 3], &[4], &[]]);
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
fn toll_writes_what_will_be_asked_for_more_often_by_the_price() {
    // Nothing fades, and a forecast is the count of all over the requests so far: 4 is asked for
    // twice in 5 requests, which is 0.8 times in the next 2, and the others half as often.
    let rules = "memory=0,slow=100000,fast=100000,horizon=0.667,floor=0.001,believe=0,look=3";
    let toll = |more: &str| format!("toll:{rules},{more}");
    check(&toll("hits=0.3"), &[1, 2, 3, 4, 4], &[&[2, 3, 4], &[], &[]]);
    check(&toll("hits=0.5"), &[1, 2, 3, 4, 4], &[&[1, 2, 3], &[], &[]]);
    // A purse for two writes, and none for a third.
    let poor = "hits=0,fills=0.8,purse=0.7,period=10000";
    check(&toll(poor), &[1, 2, 3, 4, 4], &[&[1, 2], &[], &[]]);
    // The price doubles four times until the purse is empty.
    // After three writes of 4.5 that is 2.7 times: 0.13 and 0.5.
    let dear = "fills=1000,purse=1.5,period=1000000000,steep=4";
    check(&toll(&format!("hits=0.02,{dear}")), &[1, 2, 3, 4, 4], &[&[2, 3, 4], &[], &[]]);
    check(&toll(&format!("hits=0.08,{dear}")), &[1, 2, 3, 4, 4], &[&[1, 2, 3], &[], &[]]);
}

#[test]
fn toll_keeps_newcomers_in_memory_until_they_are_judged() {
    let rules = "memory=0.4,slow=100000,fast=100000,horizon=0.667,floor=0.001,believe=0,look=3";
    // One waits in memory; whoever leaves goes where there is room, and for its price.
    check(&format!("toll:{rules},hits=0"), &[1, 2, 3], &[&[1, 2], &[3], &[]]);
    check(&format!("toll:{rules},hits=9"), &[1, 2, 3], &[&[], &[3], &[]]);
    // Asked for again in time, it is served from memory and judged later.
    check(&format!("toll:{rules},hits=0.3"), &[1, 2, 3, 3, 4], &[&[2, 3], &[4], &[]]);
}

#[test]
fn toll_keeps_in_memory_who_comes_back_and_is_not_worth_a_write() {
    // Room for one on flash and two in memory, of which newcomers get one.
    let rules = "memory=0.7,slow=100000,fast=100000,horizon=0.667,floor=0.001,believe=0,look=3";
    // Nothing is worth a write. Who leaves the window stays as long as nobody is worth more.
    check(&format!("toll:{rules},hits=9"), &[1, 2], &[&[], &[2], &[1]]);
    check(&format!("toll:{rules},hits=9"), &[1, 1, 2, 3], &[&[], &[3], &[1]]);
    check(&format!("toll:{rules},hits=9"), &[1, 2, 2, 3], &[&[], &[3], &[2]]);
    // One that came back in memory is worth a write by then: four of six requests are 1.33 in two.
    check(&format!("toll:{rules},hits=1.2"), &[1, 2, 1, 1, 1, 3], &[&[1], &[3], &[2]]);
    check(&format!("toll:{rules},hits=1.4"), &[1, 2, 1, 1, 1, 3], &[&[], &[3], &[1]]);
    // Newcomers may have all of it.
    check(&format!("toll:{rules},hits=9,window=1"), &[1, 1, 2, 3], &[&[], &[2, 3], &[]]);
}

#[test]
fn faded_counts_let_the_newcomer_win_who_is_asked_for_now() {
    // Without fading 1 has five requests and stays; with it they are a quarter of one.
    let still = "lazy-lfu:m=1,d=0";
    let faded = "lazy-lfu:m=1,d=0,half_life=1";
    let requests = [1, 1, 1, 1, 1, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 4, 4];
    check(still, &requests, &[&[1], &[2, 3]]);
    check(faded, &requests, &[&[2], &[3], &[4]]);
}

#[test]
fn flashield_writes_what_was_read_often_enough_in_memory() {
    let text = "flashield:memory=0.4,reads=1";
    check(text, &[1, 2, 3], &[&[], &[3]]);
    // Read again in memory and moved at once; on flash they stay.
    check(text, &[1, 1, 2, 2, 3], &[&[1, 2], &[3]]);
    // The flash is full: a third one moves on when it leaves, and CLOCK lets the oldest unread go.
    check(text, &[1, 1, 2, 2, 1, 3, 3, 4], &[&[1, 3], &[4]]);
}
