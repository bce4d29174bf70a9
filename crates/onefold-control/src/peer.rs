//! Who asks, and who may.
//! Room: onefold-control.
//! Invariant: over a Unix socket the system says who a client is; nothing that a client sends does.

use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd as _};

use nix::unistd::{Gid, Uid, User, getgrouplist};
use onefold_block::Group;
use rustix::net::sockopt::socket_peercred;

/// A client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// A user of this machine, and the group that its process had when it connected.
    User {
        /// The user's number.
        user: u32,
        /// The group's number.
        group: u32,
    },
    /// Somebody at an address.
    Address(SocketAddr),
}

/// Who may ask.
#[derive(Clone, Copy, Debug)]
pub enum Admission {
    /// The owner of what is served, root, and whoever is in the group.
    Users {
        /// The owner's number.
        owner: u32,
        /// The group, if there is one.
        group: Option<Group>,
    },
    /// Everybody who can connect: what is answered harms nobody, or is guarded otherwise.
    All,
}

impl Admission {
    /// Whether this client may ask, with these groups beside its own.
    pub fn admits(&self, peer: Peer, groups: &[u32]) -> bool {
        match (self, peer) {
            (Self::All, _) => true,
            (Self::Users { owner, group }, Peer::User { user, group: own }) => {
                let member = |wanted: &Group| {
                    own == wanted.0 || groups.contains(&wanted.0) || is_member(user, *wanted)
                };
                user == 0 || user == *owner || group.as_ref().is_some_and(member)
            }
            (Self::Users { .. }, Peer::Address(_)) => false,
        }
    }
}

/// Whether the system counts a user to a group.
fn is_member(user: u32, group: Group) -> bool {
    let Ok(Some(user)) = User::from_uid(Uid::from_raw(user)) else { return false };
    let Ok(name) = std::ffi::CString::new(user.name) else { return false };
    let groups = getgrouplist(&name, user.gid).unwrap_or_default();
    groups.contains(&Gid::from_raw(group.0))
}

/// The user at the other end of a Unix socket.
pub fn user_of(socket: &impl AsFd) -> std::io::Result<Peer> {
    let found = socket_peercred(socket)?;
    Ok(Peer::User { user: found.uid.as_raw(), group: found.gid.as_raw() })
}

/// The further groups of the user at the other end of a Unix socket, as the process had them when
/// it connected. They are known where the user is not, as to a service that has users of its own
/// (`PrivateUsers=`) or to a program that finds no directory of users. None where the system does
/// not tell.
pub fn groups_of(socket: &impl AsFd) -> Vec<u32> {
    let mut groups: Vec<u32> = vec![0; 64];
    loop {
        let mut bytes = size_of_val(groups.as_slice()) as libc::socklen_t;
        // SAFETY: the system writes at most `bytes` bytes, and as many are there; a group is a
        // number of 32 bits.
        let status = unsafe {
            libc::getsockopt(
                socket.as_fd().as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERGROUPS,
                groups.as_mut_ptr().cast(),
                &raw mut bytes,
            )
        };
        let count = bytes as usize / size_of::<u32>();
        match status {
            0 => {
                groups.truncate(count);
                return groups;
            }
            // There are so many.
            _ if count > groups.len() => groups.resize(count, 0),
            _ => return Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_root_and_the_group_may_ask_and_nobody_else() {
        let user = |user, group| Peer::User { user, group };
        let alone = Admission::Users { owner: 4_000_001, group: None };
        let shared = Admission::Users { owner: 4_000_001, group: Some(Group(4_000_009)) };
        for (peer, alone_admits, shared_admits) in [
            (user(4_000_001, 4_000_001), true, true),
            (user(0, 0), true, true),
            (user(4_000_002, 4_000_009), false, true),
            (user(4_000_002, 4_000_002), false, false),
            (Peer::Address("127.0.0.1:1".parse().unwrap()), false, false),
        ] {
            assert_eq!(alone.admits(peer, &[]), alone_admits, "{peer:?}");
            assert_eq!(shared.admits(peer, &[]), shared_admits, "{peer:?}");
            // A group that is one of several.
            let groups = [4_000_008, 4_000_009];
            assert_eq!(alone.admits(peer, &groups), alone_admits, "{peer:?}");
            let is_user = matches!(peer, Peer::User { .. });
            assert_eq!(shared.admits(peer, &groups), is_user, "{peer:?}");
        }
        assert!(is_member(0, Group(0)), "root is in its own group");
    }

    #[test]
    fn all_groups_of_the_other_end_are_told() {
        let (ours, _theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let mut own: Vec<u32> =
            nix::unistd::getgroups().unwrap().into_iter().map(Gid::as_raw).collect();
        let mut told = groups_of(&ours);
        own.sort_unstable();
        told.sort_unstable();
        assert_eq!(told, own);
        let (reader, _writer) = std::io::pipe().unwrap();
        assert_eq!(groups_of(&reader), [] as [u32; 0], "it is no socket");
    }
}
