//! Who has a store open, in words that processes of other machines can compare with themselves.
//! Room: onefold-block.

use std::fmt;
use std::fs;
use std::io;

/// Which run of the machine this is.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// Which machine this is, where it was told: machine-id(5).
const MACHINE_ID: &str = "/etc/machine-id";
/// The numbers of processes are those of this namespace: `pid_namespaces`(7).
const NAMESPACE: &str = "/proc/self/ns/pid";

/// A process, and where it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Party {
    /// The run of the machine.
    pub boot: u128,
    /// A sum of the machine's name and number, where it has a number.
    pub machine: Option<u32>,
    /// The namespace of the processes' numbers.
    pub namespace: u64,
    /// The process.
    pub process: u32,
    /// When it was started, in ticks since the machine was: numbers come again.
    pub started: u64,
    /// The mount through which it has the store.
    pub device: u64,
}

impl Party {
    /// This process, which has the store through `device`.
    ///
    /// # Errors
    /// `/proc` is not there, or not as it should be.
    pub fn here(device: u64) -> io::Result<Self> {
        let boot: String =
            fs::read_to_string(BOOT_ID)?.chars().filter(char::is_ascii_hexdigit).collect();
        let unreadable = |what: &str| io::Error::other(format!("cannot understand {what}"));
        #[expect(clippy::disallowed_methods, reason = "others are to see that it is this process")]
        let process = std::process::id();
        let namespace = fs::read_link(NAMESPACE)?.to_string_lossy().into_owned();
        let digits = namespace.split(['[', ']']).nth(1).and_then(|digits| digits.parse().ok());
        Ok(Self {
            boot: u128::from_str_radix(&boot, 16).map_err(|_| unreadable(BOOT_ID))?,
            machine: machine(&fs::read(MACHINE_ID).unwrap_or_default()),
            namespace: digits.ok_or_else(|| unreadable(NAMESPACE))?,
            process,
            started: started(process).ok_or_else(|| unreadable("/proc/self/stat"))?,
            device,
        })
    }

    /// The party that a text of [`Party`]'s `Display` tells of.
    pub fn parse(text: &str) -> Option<Self> {
        let fields: Vec<&str> = text.split('-').collect();
        let [boot, machine, namespace, process, started, device] = fields[..] else { return None };
        let hex = |text: &str| u64::from_str_radix(text, 16).ok();
        Some(Self {
            boot: u128::from_str_radix(boot, 16).ok()?,
            machine: match machine {
                "" => None,
                machine => Some(u32::from_str_radix(machine, 16).ok()?),
            },
            namespace: hex(namespace)?,
            process: process.parse().ok()?,
            started: started.parse().ok()?,
            device: hex(device)?,
        })
    }

    /// Whether it has certainly ended, for `me` who has locks which it would have, too, if it lived
    /// and had the store through the same mount (`has_locks`). `started_of` tells when a process of
    /// this machine was started, if it is there.
    pub fn has_ended(
        &self,
        me: &Self,
        has_locks: bool,
        started_of: impl Fn(u32) -> Option<u64>,
    ) -> bool {
        if self.boot != me.boot {
            // This machine has been started again, or it is another one.
            return self.machine.is_some() && self.machine == me.machine;
        }
        let is_in_sight = self.namespace == me.namespace;
        has_locks && self.device == me.device
            || is_in_sight && started_of(self.process) != Some(self.started)
    }
}

impl fmt::Display for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}-", self.boot)?;
        if let Some(machine) = self.machine {
            write!(f, "{machine:08x}")?;
        }
        let Self { namespace, process, started, device, .. } = self;
        write!(f, "-{namespace:x}-{process}-{started}-{device:x}")
    }
}

/// A sum of what this machine is called and of its number, which is not to be told to others.
/// Copies of a virtual machine have one number, and mostly names of their own.
fn machine(number: &[u8]) -> Option<u32> {
    let number = number.trim_ascii();
    // Without one, or before it gets one.
    if number.len() < 32 {
        return None;
    }
    let name = host();
    Some(crc32fast::hash(&[number, b"\0", name.as_bytes()].concat()))
}

/// What this machine is called.
pub fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// When a process that this one sees was started, in ticks since the machine was.
pub fn started(process: u32) -> Option<u64> {
    let text = fs::read(format!("/proc/{process}/stat")).ok()?;
    // The name of the program is in brackets, and may have anything in it.
    let text = String::from_utf8_lossy(&text);
    let (_, fields) = text.rsplit_once(") ")?;
    fields.split(' ').nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_party_is_told_as_it_is() {
        let here = Party::here(0x2f).unwrap();
        assert_eq!(Party::parse(&here.to_string()), Some(here.clone()));
        assert_eq!(here.started, started(here.process).unwrap());
        for machine in [None, Some(7)] {
            let other = Party { machine, ..here.clone() };
            assert_eq!(Party::parse(&other.to_string()), Some(other));
        }
        let text = here.to_string();
        for wrong in ["", "x", &text[1..].replacen('-', "", 1), &format!("{text}-1")] {
            assert_eq!(Party::parse(wrong), None, "{wrong}");
        }
        assert!(text.len() < 120, "the name of a file is this long at most: {text}");
    }

    #[test]
    fn a_machine_without_a_number_is_none_that_could_be_known_again() {
        assert_eq!(machine(b""), None);
        assert_eq!(machine(b"uninitialized\n"), None);
        let number = b"4e1c5d6f7a8b9c0d1e2f3a4b5c6d7e8f\n";
        assert!(machine(number).is_some());
        assert_eq!(machine(number), machine(number.trim_ascii()));
    }

    #[test]
    fn who_may_still_be_there_has_not_ended() {
        let me =
            Party { boot: 1, machine: Some(2), namespace: 3, process: 40, started: 50, device: 6 };
        let there = |process| (process == 7).then_some(70);
        let other = Party { process: 7, started: 70, device: 9, ..me.clone() };
        assert!(!other.has_ended(&me, true, there), "it runs");
        let gone = Party { started: 69, ..other.clone() };
        assert!(gone.has_ended(&me, true, there), "another process has its number");
        let gone = Party { process: 8, ..other.clone() };
        assert!(gone.has_ended(&me, false, there), "nobody has");
        let container = Party { namespace: 4, process: 8, ..other.clone() };
        assert!(!container.has_ended(&me, true, there), "we do not see its processes");
        let container = Party { device: me.device, ..container };
        assert!(container.has_ended(&me, true, there), "it would have the locks");
        assert!(!container.has_ended(&me, false, there), "which nobody tried");

        let before = Party { boot: 0, ..other.clone() };
        assert!(before.has_ended(&me, true, there), "the machine has been started since");
        let elsewhere = Party { machine: Some(3), ..before.clone() };
        assert!(!elsewhere.has_ended(&me, true, there), "another machine");
        let unknown = Party { machine: None, ..before };
        assert!(!unknown.has_ended(&me, true, there), "some machine");
        let unknown_me = Party { machine: None, ..me };
        assert!(!unknown.has_ended(&unknown_me, true, there), "two without a number");
    }
}
