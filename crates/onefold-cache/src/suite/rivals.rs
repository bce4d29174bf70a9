//! Who is compared on the suite, each with the settings among which it may be picked.
//! Room: onefold-cache.
//! Rivals keep to no budget of their own: of a grid of settings the best that happens to keep to it
//! counts. Toll is told the budget, with a grid of its own. The grids were chosen on the families
//! for tuning.

/// A policy and its settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contender {
    /// For tables.
    pub name: &'static str,
    /// Policies as they are written.
    pub settings: Vec<String>,
}

/// Everybody but Toll.
pub fn rivals() -> Vec<Contender> {
    let mut lazy = Vec::new();
    for half_life in [0, 8, 32] {
        for (m, d) in [(1.0, 1), (1.0, 2), (1.0, 4), (1.5, 4), (1.0, 8), (1.5, 8)] {
            lazy.push(format!("lazy-lfu:m={m},d={d},half_life={half_life}"));
        }
    }
    let mut tiny = vec!["w-tinylfu".to_owned()];
    let narrow = [(10, 1), (40, 1), (40, 2), (40, 4), (160, 2), (160, 4), (160, 8), (160, 16)];
    let wide = [(10, 1), (10, 2), (10, 4), (40, 2), (40, 8), (160, 4), (160, 16)];
    let narrow = narrow.iter().map(|of| (0.01, of));
    for (window, (sample, margin)) in narrow.chain(wide.iter().map(|of| (0.1, of))) {
        tiny.push(format!(
            "w-tinylfu:memory=1,counter=255,window={window},sample={sample},margin={margin}"
        ));
    }
    let mut shield = Vec::new();
    for memory in [0.02, 0.1] {
        for reads in [1, 2, 3, 4, 6, 8, 12, 16] {
            shield.push(format!("flashield:memory={memory},reads={reads}"));
        }
    }
    let plc = ["plc", "plc:rules=literal", "plc:f=const2"];
    let contender = |name, settings| Contender { name, settings };
    let alone = |name: &'static str| contender(name, vec![name.to_owned()]);
    vec![
        contender("lazy-lfu", lazy),
        contender("w-tinylfu", tiny),
        contender("flashield", shield),
        alone("larc"),
        alone("s3-fifo"),
        alone("arc"),
        alone("lru"),
        contender("plc", plc.map(str::to_owned).to_vec()),
    ]
}

/// Toll, told to write at most `fills` times the cache in a run of `per_object` requests per object
/// that fits; 0 is no budget. Memory is what the wider of the rivals have.
pub fn toll(fills: f64, per_object: f64) -> Contender {
    let mut settings = Vec::new();
    for memory in [0.02, 0.1] {
        for hits in [0.05, 0.2, 0.5, 1.0] {
            settings.push(format!(
                "toll:memory_mib=1048576,memory={memory},hits={hits},fills={},period={per_object}",
                fills * TOLD
            ));
        }
    }
    Contender { name: "toll", settings }
}

/// Toll as it is when nobody tells it anything, but for the memory of small caches.
pub fn untold() -> Contender {
    Contender { name: "toll, untold", settings: vec!["toll:memory_mib=1048576".to_owned()] }
}

/// Of the objects that fit, how many anybody above may have in memory: a tenth, but at least one.
pub const fn memory_of(objects: u64) -> u64 {
    if objects < 10 { 1 } else { objects / 10 }
}

/// Of the budget, what Toll is told: the rest is the last object of a fill.
const TOLD: f64 = 0.995;
