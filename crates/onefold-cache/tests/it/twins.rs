//! Slow twins: the policies once more, from their papers, with nothing but vectors and maps.

use std::collections::{BTreeMap, VecDeque};

use onefold_block::SplitMix64;
use onefold_cache::Access;

/// Misses of requests for these keys in a cache of this many objects.
pub type Twin = fn(&[u64], usize) -> usize;

/// By name.
pub const ALL: [(&str, Twin); 11] = [
    ("fifo", fifo),
    ("lru", lru),
    ("lfu", lfu),
    ("clock", clock),
    ("sieve", sieve),
    ("2q", two_q),
    ("arc", arc),
    ("s3-fifo", s3_fifo),
    ("lirs", lirs),
    ("belady:bypass=0", belady),
    ("plc", plc),
];

/// Popular keys, drifting, and a scan now and then.
pub fn zipf_with_scans(seed: u64, count: usize) -> Vec<Access> {
    let mut random = SplitMix64::new(seed);
    let mut requests = Vec::new();
    while requests.len() < count {
        let drift = (requests.len() / 10_000) as u64 * 100;
        for _ in 0..1_000 {
            let bound = 1 + random.below(50).pow(2);
            requests.push(drift + random.below(bound));
        }
        let start = 5_000 + random.below(2_000);
        requests.extend(start..start + 120);
    }
    requests.truncate(count);
    requests.into_iter().map(|key| Access { key, size: 1 }).collect()
}

fn fifo(keys: &[u64], size: usize) -> usize {
    let (mut queue, mut misses) = (VecDeque::new(), 0);
    for &key in keys {
        if !queue.contains(&key) {
            misses += 1;
            queue.push_back(key);
            if queue.len() > size {
                queue.pop_front();
            }
        }
    }
    misses
}

/// Takes a key out; says whether it was there.
fn take(queue: &mut VecDeque<u64>, key: u64) -> bool {
    match queue.iter().position(|&other| other == key) {
        Some(at) => queue.remove(at).is_some(),
        None => false,
    }
}

pub fn lru(keys: &[u64], size: usize) -> usize {
    let (mut queue, mut misses) = (VecDeque::new(), 0);
    for &key in keys {
        misses += usize::from(!take(&mut queue, key));
        queue.push_back(key);
        if queue.len() > size {
            queue.pop_front();
        }
    }
    misses
}

/// Least often used since its arrival; among equals the one that has had its count for longest.
fn lfu(keys: &[u64], size: usize) -> usize {
    let mut cached: BTreeMap<u64, (u32, usize)> = BTreeMap::new();
    let mut misses = 0;
    for (time, &key) in keys.iter().enumerate() {
        if let Some((count, since)) = cached.get_mut(&key) {
            (*count, *since) = (*count + 1, time);
            continue;
        }
        misses += 1;
        if cached.len() == size {
            let (&victim, _) = cached.iter().min_by_key(|&(_, state)| *state).unwrap();
            cached.remove(&victim);
        }
        cached.insert(key, (1, time));
    }
    misses
}

/// The ring with a hand of the textbooks.
fn clock(keys: &[u64], size: usize) -> usize {
    let (mut ring, mut hand, mut misses): (Vec<(u64, bool)>, _, _) = (Vec::new(), 0, 0);
    for &key in keys {
        if let Some(entry) = ring.iter_mut().find(|entry| entry.0 == key) {
            entry.1 = true;
            continue;
        }
        misses += 1;
        if ring.len() < size {
            ring.push((key, false));
            continue;
        }
        while ring[hand].1 {
            ring[hand].1 = false;
            hand = (hand + 1) % size;
        }
        ring[hand] = (key, false);
        hand = (hand + 1) % size;
    }
    misses
}

/// [sieve-24] Algorithm 1: the head of the queue is the newest; here the last of the vector.
fn sieve(keys: &[u64], size: usize) -> usize {
    let (mut queue, mut hand, mut misses): (Vec<(u64, bool)>, Option<u64>, _) =
        (Vec::new(), None, 0);
    for &key in keys {
        if let Some(entry) = queue.iter_mut().find(|entry| entry.0 == key) {
            entry.1 = true;
            continue;
        }
        misses += 1;
        if queue.len() == size {
            let mut at = hand.map_or(0, |h| queue.iter().position(|e| e.0 == h).unwrap());
            while queue[at].1 {
                queue[at].1 = false;
                at = (at + 1) % queue.len();
            }
            hand = queue.get(at + 1).map(|entry| entry.0);
            queue.remove(at);
        }
        queue.push((key, false));
    }
    misses
}

fn two_q(keys: &[u64], size: usize) -> usize {
    let (kin, kout) = (size / 4, size / 2);
    let [mut a1in, mut a1out, mut am] = [(); 3].map(|()| VecDeque::new());
    let mut misses = 0;
    for &key in keys {
        if am.contains(&key) {
            take(&mut am, key);
            am.push_back(key);
            continue;
        }
        if a1in.contains(&key) {
            continue;
        }
        misses += 1;
        let again = take(&mut a1out, key);
        if a1in.len() + am.len() == size {
            if a1in.len() > kin || am.is_empty() {
                a1out.push_back(a1in.pop_front().unwrap());
                if a1out.len() > kout {
                    a1out.pop_front();
                }
            } else {
                am.pop_front();
            }
        }
        if again { am.push_back(key) } else { a1in.push_back(key) }
    }
    misses
}

/// [arc-03] Fig. 4, case by case.
fn arc(keys: &[u64], c: usize) -> usize {
    let [mut t1, mut t2, mut b1, mut b2] = [(); 4].map(|()| VecDeque::new());
    let (mut p, mut misses) = (0.0_f64, 0);
    for &x in keys {
        if take(&mut t1, x) || take(&mut t2, x) {
            t2.push_back(x);
            continue;
        }
        misses += 1;
        let replace = |p: f64,
                       in_b2: bool,
                       t1: &mut VecDeque<u64>,
                       t2: &mut VecDeque<u64>,
                       b1: &mut VecDeque<u64>,
                       b2: &mut VecDeque<u64>| {
            let length = t1.len() as f64;
            let over = if in_b2 { length >= p } else { length > p };
            if !t1.is_empty() && over || t2.is_empty() {
                b1.push_back(t1.pop_front().unwrap());
            } else {
                b2.push_back(t2.pop_front().unwrap());
            }
        };
        if b1.contains(&x) {
            p = (p + (b2.len() as f64 / b1.len() as f64).max(1.0)).min(c as f64);
            replace(p, false, &mut t1, &mut t2, &mut b1, &mut b2);
            take(&mut b1, x);
            t2.push_back(x);
        } else if b2.contains(&x) {
            p = (p - (b1.len() as f64 / b2.len() as f64).max(1.0)).max(0.0);
            replace(p, true, &mut t1, &mut t2, &mut b1, &mut b2);
            take(&mut b2, x);
            t2.push_back(x);
        } else {
            if t1.len() + b1.len() == c {
                if t1.len() < c {
                    b1.pop_front();
                    replace(p, false, &mut t1, &mut t2, &mut b1, &mut b2);
                } else {
                    t1.pop_front();
                }
            } else if t1.len() + t2.len() + b1.len() + b2.len() >= c {
                if t1.len() + t2.len() + b1.len() + b2.len() == 2 * c {
                    b2.pop_front();
                }
                replace(p, false, &mut t1, &mut t2, &mut b1, &mut b2);
            }
            t1.push_back(x);
        }
    }
    misses
}

fn s3_fifo(keys: &[u64], size: usize) -> usize {
    let small_max = size / 10;
    let (main_max, ghosts_max) = (size - small_max, size * 9 / 10);
    let mut small: VecDeque<(u64, u32)> = VecDeque::new();
    let mut main: VecDeque<(u64, u32)> = VecDeque::new();
    let (mut ghosts, mut misses) = (VecDeque::new(), 0);
    for &key in keys {
        let found = small.iter_mut().chain(main.iter_mut()).find(|entry| entry.0 == key);
        if let Some(entry) = found {
            entry.1 += 1;
            continue;
        }
        misses += 1;
        let again = take(&mut ghosts, key);
        while small.len() + main.len() >= size {
            if main.len() <= main_max && !small.is_empty() {
                while let Some((oldest, count)) = small.pop_front() {
                    if count >= 2 {
                        main.push_back((oldest, 0));
                        continue;
                    }
                    ghosts.push_back(oldest);
                    if ghosts.len() > ghosts_max {
                        ghosts.pop_front();
                    }
                    break;
                }
            } else {
                while let Some((oldest, count)) = main.pop_front() {
                    if count == 0 {
                        break;
                    }
                    main.push_back((oldest, count.min(3) - 1));
                }
            }
        }
        if again { main.push_back((key, 0)) } else { small.push_back((key, 0)) }
    }
    misses
}

/// [lirs-02] with a stack of at most twice the cache; states by key: L, H (cached), N.
fn lirs(keys: &[u64], size: usize) -> usize {
    let hirs = (size / 100).max(1);
    let lirs = size - hirs;
    let mut stack: VecDeque<(u64, char)> = VecDeque::new();
    let (mut queue, mut absent, mut misses) = (VecDeque::new(), VecDeque::new(), 0);
    let prune = |stack: &mut VecDeque<(u64, char)>, absent: &mut VecDeque<u64>| {
        while stack.front().is_some_and(|entry| entry.1 != 'L') {
            let (key, _) = stack.pop_front().unwrap();
            take(absent, key);
        }
    };
    for &key in keys {
        let at = stack.iter().position(|entry| entry.0 == key);
        let state = at.and_then(|at| stack.remove(at)).map(|entry| entry.1);
        let resident = state == Some('L') || queue.contains(&key);
        take(&mut absent, key);
        if !resident {
            misses += 1;
            let shorts = stack.iter().filter(|entry| entry.1 == 'L').count();
            if shorts + queue.len() == size {
                let victim = queue.pop_front().unwrap();
                if let Some(entry) = stack.iter_mut().find(|entry| entry.0 == victim) {
                    entry.1 = 'N';
                    absent.push_back(victim);
                }
            }
            if state.is_none() && shorts < lirs {
                stack.push_back((key, 'L'));
                continue;
            }
        }
        match state {
            Some('L') => stack.push_back((key, 'L')),
            Some(_) => {
                take(&mut queue, key);
                stack.push_back((key, 'L'));
                prune(&mut stack, &mut absent);
                if stack.iter().filter(|entry| entry.1 == 'L').count() > lirs {
                    stack[0].1 = 'H';
                    queue.push_back(stack[0].0);
                }
            }
            None => {
                take(&mut queue, key);
                queue.push_back(key);
                stack.push_back((key, 'H'));
            }
        }
        prune(&mut stack, &mut absent);
        while stack.len() > 2 * size && !absent.is_empty() {
            let longest = absent.pop_front().unwrap();
            stack.retain(|entry| entry.0 != longest);
        }
    }
    misses
}

/// Looks ahead through all that is to come.
pub fn belady(keys: &[u64], size: usize) -> usize {
    let mut later: BTreeMap<u64, VecDeque<usize>> = BTreeMap::new();
    for (at, &key) in keys.iter().enumerate() {
        later.entry(key).or_default().push_back(at);
    }
    let (mut cached, mut misses) = (Vec::new(), 0);
    for &key in keys {
        later.get_mut(&key).unwrap().pop_front();
        if cached.contains(&key) {
            continue;
        }
        misses += 1;
        if cached.len() == size {
            let next = |key: &u64| later[key].front().copied().unwrap_or(usize::MAX);
            let at = (0..size).max_by_key(|&at| next(&cached[at])).unwrap();
            cached.swap_remove(at);
        }
        cached.push(key);
    }
    misses
}

/// [plc-cache] lines 0 to 24 of the pseudo code, with a ring and a hand; a failed comparison arms
/// the delay again and moves on, f(x) = x / 4 from 1 to 2.
fn plc(keys: &[u64], size: usize) -> usize {
    struct Cached {
        key: u64,
        inner_priority: u32,
        delay_count: u32,
    }
    let fresh = |key| Cached { key, inner_priority: 1, delay_count: 2 };
    let mut access_count: BTreeMap<u64, u32> = BTreeMap::new();
    let (mut ring, mut pointer, mut misses): (Vec<Cached>, _, _) = (Vec::new(), 0, 0);
    for &b in keys {
        *access_count.entry(b).or_default() += 1;
        if let Some(c) = ring.iter_mut().find(|c| c.key == b) {
            c.inner_priority += 1;
            continue;
        }
        misses += 1;
        if access_count[&b] <= 4 {
            continue;
        }
        if ring.len() < size {
            ring.push(fresh(b));
            continue;
        }
        while ring[pointer].inner_priority > 0 {
            ring[pointer].inner_priority -= 1;
            pointer = (pointer + 1) % size;
        }
        let a = &mut ring[pointer];
        a.delay_count -= 1;
        if a.delay_count > 0 {
            continue;
        }
        let f = (f64::from(access_count[&a.key]) / 4.0).clamp(1.0, 2.0);
        if f64::from(access_count[&b]) > f * 4.0 {
            access_count.insert(a.key, 0);
            *a = fresh(b);
        } else {
            a.delay_count = 2;
        }
        pointer = (pointer + 1) % size;
    }
    misses
}
