//! The simulator's settings: a TOML file whose every key has a unit, a range and a default.
//! Room: onefold-cache.   In: TOML, `KEY=VALUE`.   Out: [`Spec`], or an error that names the key.
//! Invariant: the commented file that [`Spec::commented`] prints is read as the defaults.

use onefold_block::nearest;
use thiserror::Error;

use crate::options::{OptionError, OptionInfo, Settings, did_you_mean, settings};
use crate::registry::Choice;
use crate::simulate::{Devices, HddModel, Plan, QuadrantRules, SsdModel};
use crate::trace::Units;
use crate::workload::WorkloadSpec;

settings! {
    /// How a trace of blocks becomes reads of containers.
    pub struct TraceSettings {
        /// KiB of a container; 0 makes an object of every address, of size 1
        container_kib: u32 = 2_048, 0 => 1_048_576;
        /// 1: writes count as reads; 0: only reads do
        writes: u8 = 0, 0 => 1;
    }
}

settings! {
    /// How the run is done.
    pub struct RunSettings {
        /// root of the random numbers of policies
        seed: u64 = 1, 0 => u64::MAX;
        /// threads; 0 is one per core; results do not depend on it
        threads: usize = 0, 0 => 4_096;
        /// one of so many containers is simulated (SHARDS); 1 is all
        sample_one_in: u64 = 1, 1 => 1_000_000;
    }
}

/// Everything that can be set.
#[derive(Clone, Debug, Default)]
pub struct Spec {
    /// The policies, as they are written.
    pub policies: Vec<String>,
    /// Sizes of the cache, as shares of the data.
    pub sizes: Vec<f64>,
    /// What is read, if no trace is.
    pub workload: WorkloadSpec,
    /// How a trace is read.
    pub trace: TraceSettings,
    /// The slow device.
    pub hdd: HddModel,
    /// The fast device.
    pub ssd: SsdModel,
    /// Where quadrants meet.
    pub quadrants: QuadrantRules,
    /// How the run is done.
    pub run: RunSettings,
}

/// A specification that cannot be used.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum SpecError {
    /// No TOML.
    #[error("line {line}: {message}")]
    Toml {
        /// Where.
        line: usize,
        /// What is wrong.
        message: String,
    },
    /// No such key.
    #[error("unknown key `{got}`{}: accepted are {accepted}", did_you_mean(nearest.as_ref()))]
    Key {
        /// The key given, with its section.
        got: String,
        /// The key nearest to it, if one is near.
        nearest: Option<String>,
        /// All keys of the section, or all sections.
        accepted: String,
    },
    /// A value that is not accepted.
    #[error("`{key}` = `{got}`: accepted is {accepted}")]
    Value {
        /// Which key.
        key: String,
        /// The value given.
        got: String,
        /// What is accepted.
        accepted: String,
    },
    /// A key that several sections have.
    #[error("key `{got}` is in several sections: write one of {sections} and a dot before it")]
    Ambiguous {
        /// The key given.
        got: String,
        /// The sections that have it.
        sections: String,
    },
    /// Not KEY=VALUE.
    #[error("`{got}`: expected KEY=VALUE, as in workload.seed=7")]
    Form {
        /// The text given.
        got: String,
    },
    /// A policy that does not exist, or a setting of one.
    #[error(transparent)]
    Policy(#[from] OptionError),
}

const SECTIONS: [&str; 7] = ["cache", "workload", "trace", "hdd", "ssd", "quadrants", "run"];
const CACHE_KEYS: [&str; 2] = ["policies", "sizes"];
const POLICIES_DEFAULT: [&str; 6] = ["lru", "s3-fifo", "larc", "lazy-lfu", "plc", "toll"];
const SIZES_DEFAULT: [f64; 2] = [0.1, 0.2];
const SIZES_ACCEPTED: &str = "a share of the data above 0 and up to 1, such as 0.2";

impl Spec {
    /// The defaults: a few policies at two sizes.
    pub fn new() -> Self {
        Self {
            policies: POLICIES_DEFAULT.map(ToOwned::to_owned).to_vec(),
            sizes: SIZES_DEFAULT.to_vec(),
            ..Self::default()
        }
    }

    /// Reads TOML over the defaults.
    pub fn from_toml(text: &str) -> Result<Self, SpecError> {
        let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
            let at = error.span().map_or(0, |span| span.start);
            let line = text.get(..at).unwrap_or("").matches('\n').count() + 1;
            SpecError::Toml { line, message: error.message().to_owned() }
        })?;
        let mut spec = Self::new();
        for (section, value) in &table {
            let toml::Value::Table(keys) = value else {
                return Err(unknown(section, section, &SECTIONS));
            };
            for (key, value) in keys {
                spec.set_value(section, key, value)?;
            }
        }
        Ok(spec)
    }

    /// Sets one key: `SECTION.KEY=VALUE`, lists with commas between.
    pub fn set(&mut self, assignment: &str) -> Result<(), SpecError> {
        let form = || SpecError::Form { got: assignment.to_owned() };
        let (key, value) = assignment.split_once('=').ok_or_else(form)?;
        let (section, key) = match key.trim().split_once('.') {
            Some((section, key)) => (section, key),
            None => (section_of(key.trim())?, key.trim()),
        };
        if section == "cache" {
            // Settings of policies have commas of their own: policies are parted by blanks.
            let parts = if key == "sizes" { value.split(',') } else { value.split(' ') };
            let parts = parts.map(str::trim).filter(|part| !part.is_empty());
            return self.set_list(key, parts.map(ToOwned::to_owned).collect());
        }
        self.set_text(section, key, value.trim())
    }

    fn set_value(
        &mut self,
        section: &str,
        key: &str,
        value: &toml::Value,
    ) -> Result<(), SpecError> {
        let text = |value: &toml::Value| match value {
            toml::Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        match (section, value) {
            ("cache", toml::Value::Array(values)) => {
                self.set_list(key, values.iter().map(text).collect())
            }
            ("cache", value) => self.set_list(key, vec![text(value)]),
            _ => self.set_text(section, key, &text(value)),
        }
    }

    fn set_list(&mut self, key: &str, values: Vec<String>) -> Result<(), SpecError> {
        let value = |got: &str, accepted: &str| SpecError::Value {
            key: format!("cache.{key}"),
            got: got.to_owned(),
            accepted: accepted.to_owned(),
        };
        match key {
            "policies" if values.is_empty() => Err(value("", "at least one policy")),
            "policies" => {
                for text in &values {
                    Choice::parse(text)?;
                }
                self.policies = values;
                Ok(())
            }
            "sizes" if values.is_empty() => Err(value("", SIZES_ACCEPTED)),
            "sizes" => {
                let size = |text: &String| {
                    let size = text.parse().ok().filter(|size| *size > 0.0 && *size <= 1.0);
                    size.ok_or_else(|| value(text, SIZES_ACCEPTED))
                };
                self.sizes = values.iter().map(size).collect::<Result<_, _>>()?;
                Ok(())
            }
            _ => Err(unknown(&format!("cache.{key}"), key, &CACHE_KEYS)),
        }
    }

    fn set_text(&mut self, section: &str, key: &str, value: &str) -> Result<(), SpecError> {
        let name = format!("{section}.{key}");
        let (set, infos) = match section {
            "workload" => (self.workload.set(key, value), WorkloadSpec::infos()),
            "trace" => (self.trace.set(key, value), TraceSettings::infos()),
            "hdd" => (self.hdd.set(key, value), HddModel::infos()),
            "ssd" => (self.ssd.set(key, value), SsdModel::infos()),
            "quadrants" => (self.quadrants.set(key, value), QuadrantRules::infos()),
            "run" => (self.run.set(key, value), RunSettings::infos()),
            _ => return Err(unknown(&name, section, &SECTIONS)),
        };
        match set {
            Some(Ok(())) => Ok(()),
            Some(Err(accepted)) => Err(SpecError::Value { key: name, got: value.into(), accepted }),
            None => {
                let names: Vec<&str> = infos.iter().map(|info| info.name).collect();
                Err(unknown(&name, key, &names))
            }
        }
    }

    /// A file with every key, its meaning, what is accepted and its default.
    pub fn commented() -> String {
        let mut lines = vec![
            "# Simulation of a read cache: `onefold cache run FILE`.".to_owned(),
            "# Every key is shown with its default.\n".to_owned(),
            "[cache]".to_owned(),
            "# policies, with settings after a colon, such as \"plc:threshold=8\";".to_owned(),
            "# `onefold cache policies` lists them".to_owned(),
            format!("policies = {POLICIES_DEFAULT:?}"),
            format!("# sizes of the cache: {SIZES_ACCEPTED}"),
            format!("sizes = {SIZES_DEFAULT:?}"),
        ];
        let quadrants = "popular or not, written once or again and again";
        let sections: [(&str, &str, Vec<OptionInfo>); 6] = [
            ("workload", "what is stored and read, unless a trace is given", WorkloadSpec::infos()),
            ("trace", "how a trace of blocks becomes reads of containers", TraceSettings::infos()),
            ("hdd", "the slow device", HddModel::infos()),
            ("ssd", "the fast device", SsdModel::infos()),
            ("quadrants", quadrants, QuadrantRules::infos()),
            ("run", "how it is done", RunSettings::infos()),
        ];
        for (name, doc, infos) in sections {
            lines.push(format!("\n# {doc}\n[{name}]"));
            for OptionInfo { name, doc, default, accepted } in infos {
                lines.push(format!("# {doc}; {accepted}\n{name} = {default}"));
            }
        }
        lines.join("\n") + "\n"
    }

    /// What the simulator is to do.
    pub fn plan(&self) -> Result<Plan, SpecError> {
        let policies = self.policies.iter().map(|text| Choice::parse(text));
        Ok(Plan {
            policies: policies.collect::<Result<_, _>>()?,
            sizes: self.sizes.clone(),
            devices: Devices { hdd: self.hdd, ssd: self.ssd },
            quadrants: self.quadrants,
            seed: self.run.seed,
            threads: self.run.threads,
        })
    }

    /// How traces are read.
    pub const fn units(&self) -> Units {
        let container_bytes = self.trace.container_kib * 1024;
        Units { container_bytes, writes: self.trace.writes == 1 }
    }
}

/// The keys of a section.
fn keys_of(section: &str) -> Vec<&'static str> {
    let infos = match section {
        "cache" => return CACHE_KEYS.to_vec(),
        "workload" => WorkloadSpec::infos(),
        "trace" => TraceSettings::infos(),
        "hdd" => HddModel::infos(),
        "ssd" => SsdModel::infos(),
        "quadrants" => QuadrantRules::infos(),
        _ => RunSettings::infos(),
    };
    infos.into_iter().map(|info| info.name).collect()
}

/// Every key with its section, in the order of [`Spec::commented`].
pub fn spec_keys() -> Vec<String> {
    let keys = |section: &str| -> Vec<String> {
        keys_of(section).into_iter().map(|key| format!("{section}.{key}")).collect()
    };
    SECTIONS.into_iter().flat_map(keys).collect()
}

/// The one section that has this key.
fn section_of(key: &str) -> Result<&'static str, SpecError> {
    let has = |section: &&str| keys_of(section).contains(&key);
    let sections: Vec<&str> = SECTIONS.into_iter().filter(has).collect();
    match sections[..] {
        [section] => Ok(section),
        [] => {
            let all = spec_keys();
            let last = |full: &'_ String| full.rsplit('.').next().unwrap_or_default().to_owned();
            let names: Vec<String> = all.iter().map(last).collect();
            let near = nearest(key, names.iter().map(String::as_str));
            let near = near.and_then(|near| names.iter().position(|name| name == near));
            Err(SpecError::Key {
                got: key.to_owned(),
                nearest: near.map(|at| all[at].clone()),
                accepted: "those that `onefold cache spec` prints".to_owned(),
            })
        }
        _ => Err(SpecError::Ambiguous { got: key.to_owned(), sections: sections.join(", ") }),
    }
}

fn unknown(got: &str, word: &str, known: &[&str]) -> SpecError {
    SpecError::Key {
        got: got.to_owned(),
        nearest: nearest(word, known.iter().copied()).map(str::to_owned),
        accepted: known.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commented_file_holds_the_defaults() {
        let read = Spec::from_toml(&Spec::commented()).unwrap();
        assert_eq!(format!("{read:?}"), format!("{:?}", Spec::new()));
    }

    #[test]
    fn a_key_needs_its_section_where_several_have_it() {
        let mut spec = Spec::new();
        spec.set("threads=3").unwrap();
        spec.set("sizes=0.5").unwrap();
        spec.set("workload.seed=9").unwrap();
        assert_eq!((spec.run.threads, spec.sizes.len(), spec.workload.seed), (3, 1, 9));
        let error = |text| Spec::new().set(text).unwrap_err().to_string();
        assert!(error("seed=7").contains("write one of workload, run"), "{}", error("seed=7"));
        let told = error("thread=7");
        assert!(told.contains("unknown key `thread`") && told.contains("run.threads"), "{told}");
        // Each of them is a key.
        for key in spec_keys() {
            let refused = spec.set(&format!("{key}=?")).unwrap_err();
            assert!(!matches!(refused, SpecError::Key { .. } | SpecError::Form { .. }), "{key}");
        }
    }

    #[test]
    fn mistakes_are_told_with_the_nearest_key() {
        let error = |text| Spec::from_toml(text).unwrap_err().to_string();
        for (text, expected) in [
            ("[workload]\nsed = 1", "unknown key `workload.sed`, did you mean `seed`?"),
            ("[worklod]\nseed = 1", "unknown key `worklod.seed`, did you mean `workload`?"),
            ("[cache]\nsize = [0.1]", "unknown key `cache.size`, did you mean `sizes`?"),
            ("[cache]\nsizes = [1.5]", "`cache.sizes` = `1.5`: accepted is a share"),
            ("[cache]\npolicies = [\"lri\"]", "unknown policy `lri`, did you mean `lru`?"),
            ("[ssd]\nread_share = 100", "`ssd.read_share` = `100`: accepted is 1 to 99"),
            ("[run]\nseed = -1", "`run.seed` = `-1`: accepted is 0 to"),
            ("[run]\nseed = ", "line 2: "),
            ("seed = 1", "unknown key `seed`"),
        ] {
            assert!(error(text).starts_with(expected), "{text}: {}", error(text));
        }
    }

    #[test]
    fn single_keys_are_set() {
        let mut spec = Spec::new();
        spec.set("workload.seed=7").unwrap();
        spec.set("cache.sizes=0.1,0.5").unwrap();
        spec.set("cache.policies=plc:threshold=8,delay=3 lru").unwrap();
        assert_eq!((spec.workload.seed, &spec.sizes), (7, &vec![0.1, 0.5]));
        assert_eq!(spec.policies, ["plc:threshold=8,delay=3", "lru"]);
        // A name that one section has needs no section; one that two have is asked back about.
        spec.set("sizes=0.2").unwrap();
        assert_eq!(spec.sizes, [0.2]);
        assert!(spec.set("seed=8").unwrap_err().to_string().contains("workload"));
        assert!(Spec::new().set("seed").unwrap_err().to_string().contains("KEY=VALUE"));
    }
}
