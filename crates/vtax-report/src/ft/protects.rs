//! What each way to protect a guest keeps, by design. What a run measured stands beside it.

/// How a guest is protected, as far as the report tells ways apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mode {
    /// No virtual machine that could be.
    Native,
    /// A virtual machine on its own.
    None,
    /// Booted again elsewhere.
    Restart,
    /// Restored from the last snapshot elsewhere.
    Snapshot,
    /// A checkpoint at every output.
    Kemari,
    /// A checkpoint at intervals.
    Remus,
    /// Both sides run and are compared.
    Colo,
}

impl Mode {
    /// As in plans.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::None => "none",
            Self::Restart => "restart",
            Self::Snapshot => "snapshot",
            Self::Kemari => "kemari",
            Self::Remus => "remus",
            Self::Colo => "colo",
        }
    }

    /// What it does, in half a sentence.
    pub(crate) fn meaning(self) -> &'static str {
        match self {
            Self::Native => "the service runs on the host itself",
            Self::None => "a virtual machine on its own",
            Self::Restart => "when its host fails it is booted again on another",
            Self::Snapshot => {
                "its state is stored now and then; when its host fails the last one is restored on another"
            }
            Self::Kemari => {
                "what changed is copied to a second host whenever the guest is about to say something"
            }
            Self::Remus => {
                "what changed is copied to a second host at intervals; what the guest says waits for the copy"
            }
            Self::Colo => {
                "two guests run; what changed is copied only where they would say different things (experimental)"
            }
        }
    }
}

/// What may be kept or lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Aspect {
    /// Whether there is a service after the failure of a host.
    Availability,
    /// Memory of the service and its kernel.
    Memory,
    /// Open TCP connections.
    Connections,
    /// What was written to the protected disk.
    Disk,
    /// Whether two of them may answer at the same time.
    SplitBrain,
}

impl Aspect {
    pub(crate) const ALL: [Self; 5] =
        [Self::Availability, Self::Memory, Self::Connections, Self::Disk, Self::SplitBrain];

    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Availability => "Service goes on",
            Self::Memory => "Memory",
            Self::Connections => "Connections",
            Self::Disk => "Disk",
            Self::SplitBrain => "Never two at once",
        }
    }
}

/// What a mode promises for the failure of one host; `has_disk` is whether there is a replicated disk.
pub(crate) fn by_design(mode: Mode, aspect: Aspect, has_disk: bool) -> &'static str {
    use Aspect::{Availability, Connections, Disk, Memory, SplitBrain};
    match (aspect, mode) {
        (Disk, _) if mode > Mode::Restart && !has_disk => "this plan gives it none",
        (Availability, Mode::Native | Mode::None) => "no: it ends with its host",
        (Availability, Mode::Restart) => "after a boot",
        (Availability, Mode::Snapshot) => "after loading the snapshot",
        (Availability, _) => "yes",
        (Memory | Connections, Mode::Native | Mode::None | Mode::Restart) => "lost",
        (Memory | Disk, Mode::Snapshot) => "as of the last snapshot",
        (Memory | Disk, Mode::Kemari | Mode::Colo) => "up to the last thing it said",
        (Memory | Disk, Mode::Remus) => "up to the last checkpoint; it said nothing since",
        (Connections, Mode::Snapshot) => "lost: the peers are further than the snapshot",
        (Connections, Mode::Kemari | Mode::Remus) => "kept",
        (Connections, Mode::Colo) => "kept, nearly always",
        (Disk, Mode::Native | Mode::None | Mode::Restart) => "lost with its host: not replicated",
        (SplitBrain, Mode::Native | Mode::None) => "yes: there is only one",
        (SplitBrain, _) => "yes: fenced, and its end confirmed, before another one answers",
    }
}
