//! What of a sample a person wants to see: without threads that wait for work, without the frames
//! that are under everything, and with a wait in the method that waits.

use model::{EndReason, FrameKind, ThreadClass, ThreadState};
use profile::{FrameIndex, Function, Profile, Sample, Values};

use crate::plumbing;

/// How much of a profile is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// What the program did and waited for.
    Work,
    /// Every frame and every wait, as in the files.
    All,
}

/// What a frame is to somebody who looks for where time goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// A method, of the program or of a library.
    Method,
    /// A method that passes work on.
    Plumbing,
    /// A method that waits for work, when it waits.
    WaitsForWork,
    /// A method that does nothing else.
    OnlyWaits,
    /// Native code, or the runtime's.
    Native,
    /// Native code of which only the module is known, or that only begins a thread.
    Module,
    /// Threads of a kind, such as the garbage collector's.
    Root,
    /// Why a walk ended before the thread's first frame.
    End,
}

impl Role {
    fn is_method(self) -> bool {
        matches!(self, Self::Method | Self::Plumbing | Self::WaitsForWork | Self::OnlyWaits)
    }
}

/// Looks at samples of one profile.
#[derive(Debug)]
pub struct Focus<'a> {
    profile: &'a Profile,
    scope: Scope,
    roles: Vec<Role>,
    frames: Vec<FrameIndex>,
}

/// What there is to see of a sample.
#[derive(Debug)]
pub struct Seen<'f> {
    /// The frame whose own time it is.
    pub own: Option<FrameIndex>,
    /// The frames in whose total it counts, the leaf first.
    pub frames: &'f [FrameIndex],
    /// What counts.
    pub values: Values,
}

impl<'a> Focus<'a> {
    /// For that profile.
    pub fn new(profile: &'a Profile, scope: Scope) -> Self {
        let functions =
            profile.frames.iter().map(|frame| profile.functions.get(frame.function.get()));
        let roles = functions.map(|function| function.map_or(Role::Method, |f| role(profile, f)));
        let roles = roles.collect();
        Self { profile, scope, roles, frames: Vec::new() }
    }

    /// What there is to see of a sample.
    pub fn see(&mut self, sample: &Sample) -> Seen<'_> {
        self.frames.clear();
        self.frames.extend(self.profile.stack(sample.stack));
        let leaf = self.frames.first().copied();
        // A pause is the whole program's: it is in no row, but has a line of its own.
        let mut values = Values { gc_ns: 0, ..sample.values };
        if self.scope == Scope::All {
            return Seen { own: leaf, frames: &self.frames, values };
        }
        if self.waits_for_work(sample.state) {
            values.wall_ns = 0;
        }
        let Self { roles, frames, .. } = self;
        let role = |frame: &FrameIndex| roles.get(frame.get()).copied().unwrap_or(Role::Method);
        let is_method = |frame: &FrameIndex| role(frame).is_method();
        let Some(first) = frames.iter().position(is_method) else {
            // A thread of the runtime's own: its first function, what it called by name, and what
            // it is there for.
            let is_shown = |frame: &FrameIndex| matches!(role(frame), Role::Native | Role::Root);
            frames.retain(|frame| Some(*frame) == leaf || is_shown(frame));
            return Seen { own: leaf, frames, values };
        };
        let last = frames.iter().rposition(is_method).unwrap_or(first);
        // Under the first method is how every thread begins; above a method that waits are the
        // ways into the kernel.
        let root = frames.last().copied().filter(|frame| role(frame) == Role::Root);
        frames.truncate(last + 1);
        frames.extend(root);
        if is_blocked(sample.state) {
            frames.drain(..first);
        }
        let own = frames.first().copied();
        frames.retain(|frame| role(frame) != Role::Plumbing);
        Seen { own, frames, values }
    }

    /// Whether the thread whose stack was put in `frames` waits for work.
    fn waits_for_work(&self, state: Option<ThreadState>) -> bool {
        // A lock is never idleness, whoever wants it; and CPU samples have no state.
        if matches!(state, None | Some(ThreadState::Lock)) {
            return false;
        }
        let mut roles = self.frames.iter().filter_map(|frame| self.roles.get(frame.get()));
        if roles.clone().any(|role| *role == Role::OnlyWaits) {
            return true;
        }
        // A thread that the runtime has stopped did not wait for work, whatever it did before.
        let is_stopped = matches!(state, Some(ThreadState::GcPause | ThreadState::Suspended));
        if is_stopped || !is_blocked(state) {
            return false;
        }
        // Without a method it is a thread of the runtime's own: finalizer, JIT, signals. Of a stack
        // that was not walked to its end nobody knows, but what the thread is there for.
        let has_root = roles.clone().any(|role| *role == Role::Root);
        let is_native = |role: &Role| {
            matches!(role, Role::Native | Role::Module | Role::Root)
                || has_root && *role == Role::End
        };
        roles.clone().all(is_native) || roles.any(|role| *role == Role::WaitsForWork)
    }
}

/// Wall time of threads that waited for work, in these samples.
pub fn left_out_ns<'a>(profile: &Profile, samples: impl Iterator<Item = &'a Sample>) -> u64 {
    let mut focus = Focus::new(profile, Scope::Work);
    let left_out = |sample: &Sample| sample.values.wall_ns - focus.see(sample).values.wall_ns;
    samples.map(left_out).fold(0, u64::saturating_add)
}

fn is_blocked(state: Option<ThreadState>) -> bool {
    !matches!(state, None | Some(ThreadState::Running | ThreadState::Runnable))
}

fn role(profile: &Profile, function: &Function) -> Role {
    let name = profile.text(function.name);
    match function.kind {
        _ if plumbing::only_waits(name) => Role::OnlyWaits,
        _ if plumbing::waits_for_work(name) => Role::WaitsForWork,
        Some(FrameKind::Native | FrameKind::Runtime)
            if name.starts_with('[') || plumbing::begins_a_thread(name) =>
        {
            Role::Module
        }
        Some(FrameKind::Native | FrameKind::Runtime) => Role::Native,
        Some(FrameKind::Synthetic) if EndReason::ALL.iter().any(|end| end.frame() == name) => {
            Role::End
        }
        Some(FrameKind::Synthetic) if ThreadClass::of_root(name).is_some() => Role::Root,
        _ if plumbing::passes_on(name) => Role::Plumbing,
        _ => Role::Method,
    }
}
