//! The simulated disk behind all handles: the tree of names, its files, its faults.
//! Room: onefold-block.
//! Invariants: (1) a file exists as long as a name or a pending version of a name leads to it, or a
//! handle is open, a folder for ever; (2) used space is that of files with a visible name, or with
//! an open handle.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use rustix::io::Errno;

use super::fault::{FaultKind, FaultPlan, OpKind, OpLog, Outcome};
use super::file::{SimFile, Version};
use super::space::PAGE_BYTES;
use crate::file_media::check_name;
use crate::media::MediaError;

/// The node of the outermost folder.
pub(super) const ROOT: u64 = 0;

#[derive(Debug, Default)]
pub(super) struct NameState {
    pub(super) durable: Option<u64>,
    pub(super) pending: Vec<Version<Option<u64>>>,
}

impl NameState {
    fn visible(&self) -> Option<u64> {
        self.pending.last().map_or(self.durable, |v| v.state)
    }

    fn leads_to(&self, node: u64) -> bool {
        self.durable == Some(node) || self.pending.iter().any(|v| v.state == Some(node))
    }
}

#[derive(Debug, Default)]
pub(super) struct Dir {
    pub(super) names: BTreeMap<String, NameState>,
}

impl Dir {
    /// Whether no name of it shows anything.
    pub(super) fn is_empty(&self) -> bool {
        self.names.values().all(|state| state.visible().is_none())
    }
}

#[derive(Debug)]
pub(super) enum NodeKind {
    File(SimFile),
    Dir(Dir),
}

#[derive(Debug)]
pub(super) struct Node {
    parent: u64,
    /// Every name that it has or had, the latest last; some may lead elsewhere by now.
    names: Vec<String>,
    /// The name from the root, for messages.
    pub(super) path: Arc<str>,
    pub(super) handles: usize,
    pub(super) kind: NodeKind,
}

impl Node {
    /// What its folder says of each of its names.
    fn states<'a>(&'a self, dir: &'a Dir) -> impl Iterator<Item = &'a NameState> {
        self.names.iter().filter_map(|name| dir.names.get(name))
    }
}

/// Everything that handles share.
#[derive(Debug)]
pub(super) struct World {
    pub(super) nodes: BTreeMap<u64, Node>,
    next_node: u64,
    pub(super) log: OpLog,
    pub(super) faults: FaultPlan,
    crash_at: Option<u64>,
    pub(super) crashed: bool,
    pub(super) capacity_bytes: Option<u64>,
    /// Punching gives no single page back.
    pub(super) keeps_pages: bool,
}

/// What an admitted operation is to do, with its number.
pub(super) enum Admitted {
    /// Take effect and succeed.
    Whole(u64),
    /// Take effect as something pending, then report the error.
    Partial(u64, MediaError),
}

impl Admitted {
    pub(super) fn number(&self) -> u64 {
        match self {
            Self::Whole(number) | Self::Partial(number, _) => *number,
        }
    }

    pub(super) fn finish(self) -> Result<(), MediaError> {
        match self {
            Self::Whole(_) => Ok(()),
            Self::Partial(_, error) => Err(error),
        }
    }
}

impl World {
    pub(super) fn new(capacity_bytes: Option<u64>) -> Self {
        let root = Node {
            parent: ROOT,
            names: Vec::new(),
            path: "the folder".into(),
            handles: 0,
            kind: NodeKind::Dir(Dir::default()),
        };
        Self {
            nodes: BTreeMap::from([(ROOT, root)]),
            next_node: ROOT + 1,
            log: OpLog::default(),
            faults: FaultPlan::default(),
            crash_at: None,
            crashed: false,
            capacity_bytes,
            keeps_pages: false,
        }
    }

    pub(super) fn crash_at(&mut self, op: u64) {
        self.crash_at = Some(op);
        self.crashed |= op <= self.log.count();
    }

    /// Let an operation that changes nothing pass, or say why not.
    pub(super) fn pass(&mut self, kind: OpKind, path: &str) -> Result<(), MediaError> {
        self.alive(kind, path)?;
        match self.faults.next(kind) {
            None => Ok(()),
            Some(fault) => Err(fault_error(kind, path, fault)),
        }
    }

    /// Fail if the power is gone.
    pub(super) fn alive(&self, kind: OpKind, path: &str) -> Result<(), MediaError> {
        if self.crashed { Err(power_lost(kind, path)) } else { Ok(()) }
    }

    /// Count an operation and say what it is to do; `Err` when it is to do nothing.
    /// A failed write is to store a part, a failed sync leaves doubt: both are `Partial`.
    pub(super) fn admit(
        &mut self,
        kind: OpKind,
        path: &Arc<str>,
        range: (u64, u64),
    ) -> Result<Admitted, MediaError> {
        self.alive(kind, path)?;
        self.log.push(kind, path, range, Outcome::Done);
        let number = self.log.count();
        if self.crash_at == Some(number) {
            self.crashed = true;
            self.log.amend(Outcome::PowerLost);
            return Ok(Admitted::Partial(number, power_lost(kind, path)));
        }
        let Some(fault) = self.faults.next(kind) else { return Ok(Admitted::Whole(number)) };
        self.log.amend(Outcome::Failed(fault));
        let error = fault_error(kind, path, fault);
        match kind {
            OpKind::Write | OpKind::Sync | OpKind::SyncNames => {
                Ok(Admitted::Partial(number, error))
            }
            _ => Err(error),
        }
    }

    pub(super) fn full(&mut self, path: &str) -> MediaError {
        self.log.amend(Outcome::Failed(FaultKind::Enospc));
        MediaError::NoSpace { name: path.to_owned() }
    }

    /// Pages that may still be taken; `None` without a limit.
    pub(super) fn free_pages(&self) -> Option<u64> {
        let capacity = self.capacity_bytes?;
        Some(capacity.saturating_sub(self.used_bytes()) / PAGE_BYTES)
    }

    pub(super) fn used_bytes(&self) -> u64 {
        let taken = self.nodes.iter().map(|(&id, node)| match &node.kind {
            NodeKind::File(file) if node.handles > 0 || self.is_visible(id, node) => {
                file.space.count()
            }
            _ => 0,
        });
        taken.sum::<u64>() * PAGE_BYTES
    }

    fn is_visible(&self, id: u64, node: &Node) -> bool {
        match self.nodes.get(&node.parent).map(|parent| &parent.kind) {
            Some(NodeKind::Dir(dir)) => node.states(dir).any(|state| state.visible() == Some(id)),
            _ => false,
        }
    }

    pub(super) fn dir(&self, id: u64) -> &Dir {
        match &self.nodes[&id].kind {
            NodeKind::Dir(dir) => dir,
            NodeKind::File(_) => unreachable!("folder handles are only made for folders"),
        }
    }

    pub(super) fn dir_mut(&mut self, id: u64) -> &mut Dir {
        match self.nodes.get_mut(&id).map(|node| &mut node.kind) {
            Some(NodeKind::Dir(dir)) => dir,
            _ => unreachable!("folder handles are only made for folders, which are kept"),
        }
    }

    pub(super) fn file(&self, id: u64) -> &SimFile {
        match &self.nodes[&id].kind {
            NodeKind::File(file) => file,
            NodeKind::Dir(_) => unreachable!("media handles are only made for files"),
        }
    }

    pub(super) fn file_mut(&mut self, id: u64) -> &mut SimFile {
        match self.nodes.get_mut(&id).map(|node| &mut node.kind) {
            Some(NodeKind::File(file)) => file,
            _ => unreachable!("a file exists as long as a handle of it is open"),
        }
    }

    pub(super) fn path(&self, id: u64) -> Arc<str> {
        Arc::clone(&self.nodes[&id].path)
    }

    /// The path of a name in a folder, once the name is one.
    pub(super) fn child_path(
        &self,
        kind: OpKind,
        folder: u64,
        name: &str,
    ) -> Result<Arc<str>, MediaError> {
        let path: Arc<str> = if folder == ROOT {
            name.into()
        } else {
            format!("{}/{name}", self.nodes[&folder].path).into()
        };
        check_name(name).map_err(|source| io_error(kind, &path, source))?;
        self.must_be_there(folder)?;
        Ok(path)
    }

    /// Refuse a folder that was removed.
    pub(super) fn must_be_there(&self, folder: u64) -> Result<(), MediaError> {
        let node = &self.nodes[&folder];
        if folder == ROOT || self.is_visible(folder, node) {
            return Ok(());
        }
        Err(MediaError::NotFound { name: node.path.to_string() })
    }

    /// The node that a name shows now.
    pub(super) fn lookup(&self, folder: u64, name: &str) -> Option<u64> {
        self.dir(folder).names.get(name).and_then(NameState::visible)
    }

    /// Make a node whose name is not durable yet.
    pub(super) fn link(&mut self, op: u64, folder: u64, name: &str, kind: NodeKind) -> u64 {
        let id = self.new_node(folder, name, kind);
        self.set_name(op, folder, name, Some(id));
        id
    }

    /// Make a node whose name is durable.
    pub(super) fn adopt(&mut self, folder: u64, name: &str, kind: NodeKind) -> u64 {
        let id = self.new_node(folder, name, kind);
        self.dir_mut(folder).names.entry(name.to_owned()).or_default().durable = Some(id);
        id
    }

    pub(super) fn set_name(&mut self, op: u64, folder: u64, name: &str, node: Option<u64>) {
        let state = self.dir_mut(folder).names.entry(name.to_owned()).or_default();
        state.pending.push(Version { at: op, doubtful: false, state: node });
    }

    /// Give a node of a folder another name, which is not durable yet; `path` is that name from
    /// the root.
    pub(super) fn rename(&mut self, op: u64, folder: u64, from: &str, to: &str, path: Arc<str>) {
        let Some(id) = self.lookup(folder, from) else { return };
        let Some(node) = self.nodes.get_mut(&id) else { return };
        node.path = path;
        node.names.retain(|name| name != to);
        node.names.push(to.to_owned());
        self.set_name(op, folder, from, None);
        self.set_name(op, folder, to, Some(id));
    }

    pub(super) fn sync_names(&mut self, folder: u64) {
        self.dir_mut(folder).names.retain(|_, state| {
            if let Some(Version { doubtful: false, state: node, .. }) = state.pending.last() {
                state.durable = *node;
                state.pending.clear();
            }
            state.durable.is_some() || !state.pending.is_empty()
        });
        let inside = |node: &Node| node.parent == folder;
        let orphans: Vec<u64> =
            self.nodes.iter().filter(|(_, node)| inside(node)).map(|(&id, _)| id).collect();
        for id in orphans {
            self.forget_if_unreachable(id);
        }
    }

    pub(super) fn fail_sync_names(&mut self, folder: u64) {
        for version in self.dir_mut(folder).names.values_mut().flat_map(|s| &mut s.pending) {
            version.doubtful = true;
        }
    }

    pub(super) fn forget_if_unreachable(&mut self, id: u64) {
        let Some(node) = self.nodes.get(&id) else { return };
        let named = match self.nodes.get(&node.parent).map(|parent| &parent.kind) {
            Some(NodeKind::Dir(dir)) => node.states(dir).any(|state| state.leads_to(id)),
            _ => false,
        };
        // Handles of folders are not counted.
        let is_file = matches!(node.kind, NodeKind::File(_));
        if is_file && node.handles == 0 && !named {
            self.nodes.remove(&id);
        }
    }

    fn new_node(&mut self, folder: u64, name: &str, kind: NodeKind) -> u64 {
        let id = self.next_node;
        self.next_node += 1;
        let path = if folder == ROOT {
            name.into()
        } else {
            format!("{}/{name}", self.nodes[&folder].path).into()
        };
        let names = vec![name.to_owned()];
        let node = Node { parent: folder, names, path, handles: 0, kind };
        self.nodes.insert(id, node);
        id
    }
}

pub(super) fn io_error(kind: OpKind, path: &str, source: io::Error) -> MediaError {
    MediaError::Io { action: kind.action(), name: path.to_owned(), source }
}

fn power_lost(kind: OpKind, path: &str) -> MediaError {
    io_error(kind, path, io::Error::other("power lost"))
}

fn fault_error(kind: OpKind, path: &str, fault: FaultKind) -> MediaError {
    let syncs_or_reads =
        matches!(kind, OpKind::Open | OpKind::Read | OpKind::Sync | OpKind::SyncNames);
    match fault {
        FaultKind::Eio => io_error(kind, path, Errno::IO.into()),
        FaultKind::Enospc if syncs_or_reads => io_error(kind, path, Errno::NOSPC.into()),
        FaultKind::Enospc => MediaError::NoSpace { name: path.to_owned() },
    }
}
