//! Reads a blocked thread's stack without disturbing it: where it stands from `/proc`, its stack's
//! memory through the kernel, then its CPU clock once more, which tells whether it has moved.

use model::{EndReason, Loss};
use signal::arch::Registers;
use signal::context::SpanContext;
use signal::frames::Frames;
use signal::handler::Shared;
use signal::record::ThreadRef;
use signal::sample::StackCopy;
use signal::walk::{Bounds, Start, walk};
use sys::clock;
use sys::memory::{StackWindow, copy_own};
use sys::proc::Blocked;
use sys::thread_files::ThreadFiles;
use unwind::prologue;

use crate::event::BlockedStack;
use crate::gc_waits::InPause;

/// What was found.
#[derive(Debug)]
pub enum Looked {
    /// The thread has, or wants, a processor.
    Running,
    /// It is blocked, with this stack.
    Blocked(BlockedStack),
    /// It moved while it was read, or has just been found.
    Moved,
    /// The kernel says nothing about it: it has ended, or `/proc` is closed.
    Unreadable,
}

/// Reads blocked threads; keeps its buffers.
pub struct BlockedReader {
    shared: &'static Shared,
    window: StackWindow,
    frames: Frames,
}

impl BlockedReader {
    /// A reader over the handlers' tables.
    #[must_use]
    pub fn new(shared: &'static Shared) -> Self {
        Self { shared, window: StackWindow::default(), frames: Frames::default() }
    }

    /// Looks at a thread whose CPU clock has just been read as `cpu_ns`.
    pub fn look(
        &mut self,
        files: &mut ThreadFiles,
        thread: ThreadRef,
        tid: u32,
        cpu_ns: u64,
    ) -> Looked {
        let Some(record) = self.shared.records.get(thread.index as usize) else {
            return Looked::Unreadable;
        };
        let (start, end) = record.stack();
        let mut context = None;
        // It stands still, so what it says of itself does; unless it stands in a write.
        let note = || context = record.context().read();
        let (call, sp, ip, bp) = match self.window.look(files, tid, end, note) {
            None => return Looked::Unreadable,
            Some(Blocked::Running) => return Looked::Running,
            Some(Blocked::At { call, sp, ip, bp }) => (call, sp, ip, bp),
        };
        let bounds = Bounds::of_leaf(sp, start, end);
        self.frames.clear();
        // The gate can only be shut when the profiler stops.
        let Some(_inside) = self.shared.gate.enter() else { return Looked::Unreadable };
        // SAFETY: inside the gate until the walk is done.
        let tables = unsafe { self.shared.tables() };
        // The call has left managed code through native code, so the address is as good as exact.
        let start = Start { registers: Registers { ip, sp, bp }, exact: true };
        let window = &mut self.window;
        let mut unreadable = false;
        let read = |place| {
            let word = window.read(place);
            unreadable |= word.is_none();
            word
        };
        let prologue = |set_at| prologue::read(set_at, copy_own);
        let walked = walk(&tables, bounds, start, &[], read, prologue, &mut self.frames);
        // The walker asks only for what lies in the stack: what can't be had is not outside it.
        let end = match walked.end {
            EndReason::OutsideStack if unreadable => EndReason::Unreadable,
            end => end,
        };
        let context = context.unwrap_or_else(|| {
            self.shared.count(Loss::ContextBusy);
            SpanContext::default()
        });
        // A thread that has not used a nanosecond since before its place was read has not moved.
        if !StackWindow::STOOD_STILL && clock::thread_cpu_ns(tid) != Some(cpu_ns) {
            return Looked::Moved;
        }
        let frames: Box<[u64]> = self.frames.iter().collect();
        let copy = walked.guess.map(|guess| {
            let mut copy = Box::<StackCopy>::default();
            copy.take(guess, bounds, |place| self.window.read(place));
            copy
        });
        let gap = self.frames.gap();
        Looked::Blocked(BlockedStack {
            frames,
            gap,
            end,
            context,
            call,
            // Who asks knows.
            in_pause: InPause::default(),
            copy,
            #[cfg(feature = "oracle")]
            cpu_clock_ns: cpu_ns,
        })
    }
}
